"""How many mazes a model solves exactly from left to right, without decoding what is wrong already.

    evaluate = exact_evaluator(config)      # for the training loop
    evaluate(model)                         # {"exact": 0.93}

Shape suffixes: B mazes, N some of them, R places of the response, F filled places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from clew.data.batches import text_seeds
from clew.decoding.answers import Answers, Step
from clew.decoding.decode import decode
from clew.decoding.left_to_right import LeftToRight
from clew.decoding.script import Script
from clew.mazes.maze import TaskBatch
from clew.models.interface import Model
from clew.training.config import TrainConfig
from clew.training.sources import held_out_tasks

AT_ONCE = 100  # mazes decoded at once


@dataclass(frozen=True)
class UntilWrong:
    """Left to right, but a maze is given up at its first wrong token.

    Its answer cannot be the exact path any more, so the score is that of left to right, and a model that has learnt
    little is scored in a few passes.
    """

    truth_BR: Tensor

    any_order = False

    def steps(self, model: Model, answers: Answers, row_N: Tensor) -> Iterator[Step]:
        for step in LeftToRight().steps(model, answers, row_N):
            yield step
            wrong_F = self.truth_BR[step.row_F.cpu(), step.place_F.cpu()] != step.token_F.cpu()
            answers.limit_B[step.row_F[wrong_F.to(step.row_F.device)]] = 0


def exact_solved(model: nn.Module, script: Script, tasks: TaskBatch, text_seed: int = 0) -> int:
    """How many of the tasks the model answers with exactly their path."""
    solved = 0
    for first in range(0, len(tasks), AT_ONCE):
        index_N = np.arange(first, min(first + AT_ONCE, len(tasks)))
        some = tasks.select(index_N)
        canvas = script.canvas(some, text_seeds(text_seed, "test", index_N))
        truth_BR = torch.full((len(some), canvas.room), -1)
        told_BR, _ = script.truth(some)
        truth_BR[:, : told_BR.shape[1]] = told_BR
        answer_BR = decode(model, canvas, UntilWrong(truth_BR)).token_BR
        solved += int((answer_BR == truth_BR).all(1).sum())
    return solved


def exact_evaluator(config: TrainConfig) -> Callable[[nn.Module], dict[str, float]]:
    """What the training loop calls: the score on the largest size."""
    (tasks,) = held_out_tasks(replace(config.data, sizes=config.data.sizes[-1:]), config.held_out)
    script = Script.of(config.data.format, tasks.height, tasks.width)

    def evaluate(model: nn.Module) -> dict[str, float]:
        return {"exact": exact_solved(model, script, tasks, config.data.seed) / len(tasks)}

    return evaluate
