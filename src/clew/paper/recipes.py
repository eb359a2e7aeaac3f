"""The trainings that studies ask for, at both scales, in one protocol.

    laptop_text(MLMU, size=4)                              # a TrainConfig with the laptop's recipe and budget
    paper_run({"objective": MLMU}, paper("dfs", 10, "mlm-u"))    # a Run by the paper's text

A run has a fixed set of training mazes and a budget in steps that is meant to last until its curve is flat, so that a
verdict can rest on it (clew.paper.verdict): about an hour of one core for 4x4 mazes as text, three or
four for 5x5. Both objectives have the same set, steps and, to within 2 %, parameters. Where a study asks what the same
minutes give, the budget is in minutes, the mazes are fresh, and there is no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import torch

from clew.data.config import PAPER_MAZES as PAPER_SET
from clew.data.config import DataConfig
from clew.models.build import ModelConfig, build_model, count_parameters
from clew.objectives.config import ObjectiveName
from clew.paper.configs import paper
from clew.paper.laptop import text_config
from clew.paper.result import Result
from clew.paper.study import Exam, Run
from clew.paper.verdict import Side
from clew.training.config import Budget, TrainConfig

RunScale = Literal["laptop", "paper"]
NEXT, MLMU, TRACE = "next token", "MLM-U", "next token with A* traces"
OBJECTIVES: dict[str, ObjectiveName] = {NEXT: "next-token", MLMU: "mlm-u"}  # in the order of the paper's tables

# A text model on DFS mazes of a side: mazes of the training set, and steps.
LAPTOP_SET = {4: 20_000, 5: 50_000, 6: 100_000}
LAPTOP_STEPS = {4: 8_000, 5: 15_000, 6: 20_000}
LAPTOP_MAZES, PAPER_MAZES = 1000, 2000  # of an exam
# Evaluations of a laptop run, spread evenly, so that ten are in the last quarter; each scores so many held-out mazes.
EVALUATIONS, HELD_OUT_MAZES = 40, 1000
# Training mazes that are scored with every evaluation. All runs have them, so that studies share runs.
LAPTOP_TRAIN_MAZES, PAPER_TRAIN_MAZES = 200, 500
# Epochs between two evaluations of a paper-scale run: the paper's curves are of 5x5 and 10x10 mazes, and larger ones
# take long to decode.
CURVE_EPOCHS, CURVE_SIDE, OTHER_EPOCHS = 20, 10, 100


def square(size: int) -> str:
    """A size in words."""
    return f"{size}x{size}"


@cache
def parameters_of(model: ModelConfig) -> int:
    """How many parameters a model has, without making it."""
    with torch.device("meta"):
        return count_parameters(build_model(model, 0))


def scheduled(config: TrainConfig, steps: int | None = None, minutes: float | None = None) -> TrainConfig:
    """A laptop's run: one thread, evaluations on the way if it goes by steps, else one in the end."""
    every = max(1, steps // EVALUATIONS) if steps else 1_000_000
    return replace(
        config,
        budget=Budget(steps=steps, minutes=minutes),
        evaluate_every=every,
        held_out=HELD_OUT_MAZES if steps else 20,
        checkpoint_every=max(50, every) if steps else 200,
        log_every=10,
        keep_last=1,
        threads=1,
    )


def laptop_text(
    objective: str,
    size: int,
    *,
    steps: int | None = None,
    minutes: float | None = None,
    mazes: int | None = None,
    **changes: Any,
) -> TrainConfig:
    """The laptop's recipe on DFS text: a fixed set of `mazes`, or fresh ones if the budget is in minutes."""
    if minutes:
        config = text_config(OBJECTIVES[objective], DataConfig(sizes=(size,)), Budget(steps=1), **changes)
        return scheduled(config, minutes=minutes)
    data = DataConfig("dataset", sizes=(size,), mazes=mazes or LAPTOP_SET[size])
    config = text_config(OBJECTIVES[objective], data, Budget(steps=1), **changes)
    return scheduled(config, steps or LAPTOP_STEPS[size])


def laptop_astar(objective: ObjectiveName, size: int) -> TrainConfig:
    """The laptop's recipe on the text of A* mazes, a fixed set of them."""
    form = "wall-list-trace" if objective == "trace" else "wall-list"
    data = DataConfig("dataset", "astar", (size,), format=form, mazes=LAPTOP_SET[size])
    return scheduled(text_config(objective, data, Budget(steps=1)), LAPTOP_STEPS[size])


def laptop_run(
    labels: dict[str, str], config: TrainConfig, exams: Sequence[Exam] = (), seeds: int | None = None
) -> Run:
    """A run on a fixed set with the laptop's exam, unless others are given."""
    exams = tuple(exams) or (Exam(mazes=LAPTOP_MAZES),)
    return Run(labels, config, exams, train_mazes=LAPTOP_TRAIN_MAZES, seeds=seeds)


def paper_run(labels: dict[str, str], config: TrainConfig, exams: Sequence[Exam] = ()) -> Run:
    """A run of a config of clew.paper.configs, with the paper's exam unless others are given."""
    epochs = CURVE_EPOCHS if config.data.sizes[0] <= CURVE_SIDE else OTHER_EPOCHS
    steps_per_epoch = math.ceil((config.data.mazes or PAPER_SET) / config.batch_size)
    config = replace(config, evaluate_every=epochs * steps_per_epoch)
    return Run(labels, config, tuple(exams) or (Exam(mazes=PAPER_MAZES),), train_mazes=PAPER_TRAIN_MAZES)


def dfs_run(
    scale: RunScale,
    objective: str,
    size: int,
    exams: Sequence[Exam] = (),
    *,
    seeds: int | None = None,
    **labels: str,
) -> Run:
    """One objective on DFS mazes of one size: the runs that many studies share."""
    named = {"objective": objective, "size": square(size), **labels}
    if scale == "laptop":
        return laptop_run(named, laptop_text(objective, size), exams, seeds)
    return paper_run(named, paper("dfs", size, OBJECTIVES[objective]), exams)


def side_of(result: Result, objective: str, **labels: str) -> Side:
    """One side of a comparison of the objectives."""
    return Side(objective, result.entries(objective=objective, **labels))
