"""Scores on held-out mazes while a model is trained: decoded left to right, as in the paper.

    evaluate = held_out_evaluator(config, world)
    scores = evaluate(model)      # {"exact": ..., "token": ...}, and "exact-5", ... where there are several sizes

"exact" is the share of mazes whose whole path, end token included, is the stored one. "token" is the share of the
stored paths' tokens that stand at the same place of the answer, as in clew.evaluation.scores. Every process decodes a
part of the mazes. A signal stops the decoding after the step it is at; there are no scores then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from clew.data.batches import text_seeds
from clew.data.stream import rank_part
from clew.decoding.answers import Answers, Step
from clew.decoding.decode import decode
from clew.decoding.registry import decoder_named
from clew.decoding.script import Script
from clew.mazes.maze import TaskBatch
from clew.models.interface import Model
from clew.training.config import TrainConfig
from clew.training.distributed import World
from clew.training.signals import Stopped, check_stop
from clew.training.sources import held_out_tasks

# Mazes decoded at once; larger batches need more memory and are hardly faster.
AT_ONCE = 500


class StoppableLeftToRight:
    """Decoding from left to right that a signal stops after the step it is at."""

    any_order = False

    def steps(self, model: Model, answers: Answers, row_N: Tensor) -> Iterator[Step]:
        for step in decoder_named("left-to-right").steps(model, answers, row_N):
            check_stop()
            yield step


def held_out_evaluator(config: TrainConfig, world: World) -> Callable[[nn.Module], dict[str, float]] | None:
    """What scores a model on the config's held-out mazes; None if it holds out none."""
    if config.held_out == 0:
        return None
    return evaluator_on(held_out_tasks(config.data, config.held_out), "test", config, world)


def evaluator_on(
    sets: Sequence[TaskBatch], split: str, config: TrainConfig, world: World
) -> Callable[[nn.Module], dict[str, float]]:
    """What scores a model on these mazes, a batch for each shape, in the texts of this split."""
    scripts = [Script.of(config.data.format, tasks.height, tasks.width) for tasks in sets]

    def evaluate(model: nn.Module) -> dict[str, float]:
        sums = torch.zeros(len(sets), 4, dtype=torch.float64)
        try:
            for number, (tasks, script) in enumerate(zip(sets, scripts, strict=True)):
                part = rank_part(len(tasks), world.rank, world.size)
                for first in range(part.start, part.stop, AT_ONCE):
                    index_N = np.arange(first, min(first + AT_ONCE, part.stop))
                    texts_N = text_seeds(config.data.seed, split, index_N)
                    sums[number] += _score(model, script, tasks.select(index_N), texts_N)
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


def _score(model: nn.Module, script: Script, tasks: TaskBatch, text_seed_N: npt.NDArray[np.uint64]) -> Tensor:
    """(exact answers, mazes, right tokens, tokens)."""
    canvas = script.canvas(tasks, text_seed_N)
    answer_BR = decode(model, canvas, StoppableLeftToRight()).token_BR
    truth_BR, length_B = script.truth(tasks)
    # Both are -1 after their ends, so they can be compared place by place once they are equally wide.
    wide_BR = torch.full_like(answer_BR, -1)
    wide_BR[:, : truth_BR.shape[1]] = truth_BR
    exact_B = (answer_BR == wide_BR).all(1)
    right_B = ((answer_BR == wide_BR) & (wide_BR >= 0)).sum(1)
    return torch.tensor([float(x) for x in (exact_B.sum(), len(tasks), right_B.sum(), length_B.sum())]).double()
