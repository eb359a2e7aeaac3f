"""The trainings that studies ask for, at both scales, in one protocol.

    laptop_text(MLMU, size=4)                              # a TrainConfig with the laptop's recipe and budget
    paper_run({"objective": MLMU}, "paper-dfs-10-mlmu-8m")    # a Run with exactly the paper's settings

A budget is in steps, so that a result does not depend on how busy the machine was, except where a study asks what the
same minutes give. Most studies take five minutes to half an hour of one core with one seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import torch

from clew.experiments.laptop import text_config
from clew.experiments.presets import preset
from clew.experiments.reproduce.study import Exam, Run
from clew.models.build import ModelConfig, build_model, count_parameters
from clew.objectives.config import ObjectiveName
from clew.training.config import Budget, DataConfig, FormatName, TrainConfig

RunScale = Literal["laptop", "paper"]
NEXT, MLMU, TRACE = "next token", "MLM-U", "next token with A* traces"
OBJECTIVES: dict[str, ObjectiveName] = {NEXT: "next-token", MLMU: "mlm-u"}  # in the order of the paper's tables
SHORT = {NEXT: "next", MLMU: "mlmu", TRACE: "trace"}  # in the names of presets

# Steps of a text model on DFS mazes of a side: two to ten minutes of one core each.
LAPTOP_STEPS = {3: 300, 4: 300, 5: 400}
LAPTOP_MAZES, PAPER_MAZES = 500, 2000  # of an exam
EVALUATIONS = 10  # in a run whose budget is in steps, about
# Training mazes that are scored with every evaluation of a paper-scale run. All have them, so that all share runs.
PAPER_TRAIN_MAZES = 500


def square(size: int) -> str:
    """A size in words."""
    return f"{size}x{size}"


@cache
def parameters_of(model: ModelConfig) -> int:
    """How many parameters a model has, without making it."""
    with torch.device("meta"):
        return count_parameters(build_model(model, 0))


def scheduled(config: TrainConfig, steps: int | None = None, minutes: float | None = None) -> TrainConfig:
    """A laptop's run: one thread, some evaluations on the way if it goes by steps, else one in the end."""
    every = max(1, steps // EVALUATIONS) if steps else 1_000_000
    return replace(
        config,
        budget=Budget(steps=steps, minutes=minutes),
        evaluate_every=every,
        held_out=200 if steps else 20,  # the exam says more than one point of a curve
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
    """The laptop's recipe on DFS text: fresh mazes, or the first `mazes` again and again."""
    data = DataConfig("stream" if mazes is None else "dataset", sizes=(size,), mazes=mazes)
    config = text_config(OBJECTIVES[objective], data, Budget(steps=1), **changes)
    return scheduled(config, None if minutes else steps or LAPTOP_STEPS[size], minutes)


def laptop_walls(
    objective: ObjectiveName, size: int, *, steps: int | None = None, minutes: float | None = None
) -> TrainConfig:
    """The laptop's recipe on the text of A* mazes."""
    form: FormatName = "wall-list-trace" if objective == "trace" else "wall-list"
    data = DataConfig(family="walls", sizes=(size,), format=form)
    return scheduled(text_config(objective, data, Budget(steps=1)), steps, minutes)


def laptop_run(labels: dict[str, str], config: TrainConfig, exams: Sequence[Exam] = ()) -> Run:
    """A run with the laptop's exam, unless others are given."""
    return Run(labels, config, tuple(exams) or (Exam(mazes=LAPTOP_MAZES),))


def paper_run(labels: dict[str, str], name: str, exams: Sequence[Exam] = (), **changes: Any) -> Run:
    """A run of a preset, with the paper's exam unless others are given; `changes` are for questions of our own."""
    config = replace(preset(name), **changes)
    return Run(labels, config, tuple(exams) or (Exam(mazes=PAPER_MAZES),), train_mazes=PAPER_TRAIN_MAZES)


def dfs_run(scale: RunScale, objective: str, size: int, exams: Sequence[Exam] = (), **labels: str) -> Run:
    """One objective on DFS mazes of one size: the trainings that many studies share."""
    named = {"objective": objective, "size": square(size), **labels}
    if scale == "paper":
        return paper_run(named, f"paper-dfs-{size}-{SHORT[objective]}-8m", exams)
    return laptop_run(named, laptop_text(objective, size), exams)
