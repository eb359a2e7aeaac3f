"""Scores on held-out mazes while a model is trained: decoded left to right, as in the paper.

    evaluate = held_out_evaluator(config, world)
    scores = evaluate(model)      # {"exact": ..., "token": ...}, and "exact-5", ... where there are several sizes

"exact" is the share of mazes whose predicted path is the stored one, as in clew.evaluation.scores: the response must
end, and of a response with a search trace only the plan is compared. "token" is the share of the stored responses'
tokens that stand at the same position of the predicted response. Every process decodes a part of the mazes. A stop
signal ends the decoding after the step it is at; there are no scores then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from clew.data.config import CELL_LABELS
from clew.data.loader import held_out_tasks, rank_part
from clew.decoding.codec import Codec
from clew.decoding.decode import decoder_named
from clew.decoding.state import Decoder
from clew.evaluation.evaluate import evaluate_tasks
from clew.mazes.maze import TaskBatch
from clew.training.config import TrainConfig
from clew.training.distributed import World
from clew.training.signals import Stopped, check_stop


def held_out_evaluator(config: TrainConfig, world: World) -> Callable[[nn.Module], dict[str, float]] | None:
    """Return a function that scores a model on the config's held-out mazes; None if it holds out none."""
    if config.held_out == 0:
        return None
    return evaluator_on(held_out_tasks(config.data, config.held_out), "test", config, world)


def evaluator_on(
    sets: Sequence[TaskBatch], split: str, config: TrainConfig, world: World
) -> Callable[[nn.Module], dict[str, float]]:
    """Return a function that scores a model on these mazes, a batch for each shape, in the texts of this split."""
    decoder = training_decoder(config)
    codecs = [Codec.of(config.data.format, tasks.height, tasks.width) for tasks in sets]

    def evaluate(model: nn.Module) -> dict[str, float]:
        sums = torch.zeros(len(sets), 4, dtype=torch.float64)  # exact paths, mazes, right tokens, tokens
        try:
            for number, (tasks, codec) in enumerate(zip(sets, codecs, strict=True)):
                index_N = np.arange(len(tasks))[rank_part(len(tasks), world.rank, world.size)]
                outcomes = evaluate_tasks(
                    model,
                    codec,
                    tasks.select(index_N),
                    decoder,
                    seed=config.data.seed,
                    split=split,
                    number_N=index_N,
                    on_step=lambda step: check_stop(),
                ).outcomes
                counts = [(o.exact, 1, o.tokens_right, o.true_tokens) for o in outcomes]
                sums[number] = torch.tensor(counts, dtype=torch.float64).reshape(-1, 4).sum(0)
        except Stopped:
            pass  # the other processes wait for the sum
        sums = world.sum(sums).cpu()
        exact, mazes, token, tokens = sums.sum(0).tolist()
        if mazes < sum(map(len, sets)):
            return {}
        scores = {"exact": exact / mazes, "token": token / tokens}
        if len(sets) > 1:
            scores |= {f"exact-{t.height}": float(row[0] / row[1]) for t, row in zip(sets, sums, strict=True)}
        return scores

    return evaluate


def training_decoder(config: TrainConfig) -> Decoder:
    """Return the decoder that scores a run: left to right, or one pass for masked objectives on cells."""
    if config.data.format != CELL_LABELS:
        return decoder_named("left-to-right")
    # At most the config's loops: labels of a young model do not settle, and more loops would only take time.
    name, ask = ("walk", {"ask": "cell"}) if config.objective.name == "next-token" else ("one-pass", {})
    return decoder_named(name, loops=1, **ask)
