"""Let a model solve tasks and compare its paths with the true ones.

    evaluation = evaluate_model(model, script, tasks, decoder_named("left-to-right"), batch_size=128)
    scores_of(evaluation)      # clew.evaluation.scores

Shape suffixes: B mazes, R places of the response.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from clew.data.batches import text_seeds
from clew.decoding.decode import DecodedBatch, Decoder, check_order, decode
from clew.decoding.script import Script
from clew.errors import UserError
from clew.evaluation.outcome import Evaluation, Outcome, Token, outcome_of
from clew.mazes.maze import Path, TaskBatch
from clew.models.interface import Model


def evaluate_model(
    model: Model,
    script: Script,
    tasks: TaskBatch | Sequence[TaskBatch],
    decoder: Decoder,
    batch_size: int = 128,
    *,
    name: str = "model",
    decoder_name: str = "",
    seed: int = 0,
    split: str = "test",
    progress: Callable[[int], None] = lambda mazes: None,
) -> Evaluation:
    """Solve all tasks, of one shape or of several; `progress` is told how many are done.

    `seed` and `split` order the texts: the first mazes of a dataset's split are put in the words of that dataset.
    """
    if batch_size < 1:
        raise UserError(f"a batch size of {batch_size} is impossible; use 1 or more.")
    check_order(model, decoder)
    outcomes: list[Outcome] = []
    seconds = 0.0
    for group in [tasks] if isinstance(tasks, TaskBatch) else tasks:
        for first in range(0, len(group), batch_size):
            index = np.arange(first, min(first + batch_size, len(group)))
            some = group.select(index)
            decoded = decode(model, script.canvas(some, text_seeds(seed, split, index)), decoder)
            outcomes += outcomes_of(script, some, decoded)
            seconds += decoded.seconds
            progress(len(outcomes))
    return Evaluation(name, decoder_name or type(decoder).__name__, tuple(outcomes), seconds)


def outcomes_of(script: Script, tasks: TaskBatch, decoded: DecodedBatch) -> list[Outcome]:
    """What became of each maze of a decoded batch."""
    truth_BR, truth_length_B = script.truth(tasks)
    room = min(decoded.token_BR.shape[1], truth_BR.shape[1])
    right_BR = torch.zeros_like(decoded.token_BR, dtype=torch.bool)
    right_BR[:, :room] = (decoded.token_BR[:, :room] == truth_BR[:, :room]) & (truth_BR[:, :room] >= 0)
    outcomes = []
    for i in range(len(tasks)):
        task, path = tasks[i]
        predicted, problem = predicted_path(script, tasks, decoded, i)
        length = int(decoded.length_B[i])
        said = [
            Token(confidence, right)
            for confidence, right in zip(
                decoded.confidence_BR[i, :length].tolist(), right_BR[i, :length].tolist(), strict=True
            )
        ]
        tokens, passes = int(truth_length_B[i]), int(decoded.passes_B[i])
        outcomes.append(outcome_of(task, path, predicted, problem, said, tokens, passes))
    return outcomes


def predicted_path(
    script: Script, tasks: TaskBatch, decoded: DecodedBatch, row: int
) -> tuple[Path, None] | tuple[None, str]:
    """Return the path of one response, or None and why it has none; of a response with a search trace, its plan."""
    try:
        return script.read(decoded.response(row), tasks.height, tasks.width), None
    except UserError as error:
        return None, str(error)
