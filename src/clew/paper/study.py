"""Studies, and the training runs that they need.

    STUDIES["accuracy-by-size"].runs("laptop")                # the RunSpecs of one seed
    STUDIES["accuracy-by-size"].findings(result)              # from the numbers of results/NAME/SCALE.json alone
    text_run("laptop", {"objective": MLMU}, "mlm-u", size=4)  # a RunSpec: 4x4 DFS mazes, the laptop's recipe

A run has a fixed set of training mazes and a budget in steps that is meant to last until its curve is flat, so that a
verdict can rest on it. Both objectives have the same set, steps and, to within 2 %, parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, get_args

import torch

from clew.data.config import PAPER_MAZES as PAPER_SET
from clew.data.config import DataConfig
from clew.evaluation.tasks import Embedding
from clew.models.build import build_model, count_parameters
from clew.models.config import ModelConfig
from clew.objectives.config import ObjectiveConfig, ObjectiveName
from clew.paper.configs import PaperFamily, paper
from clew.paper.named_configs import text_config
from clew.paper.results import HELD_OUT, MLMU, NEXT, Report, Result
from clew.paper.verdict import Finding
from clew.training.config import Budget, TrainConfig, with_vocabulary

RunScale = Literal["laptop", "paper"]
Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
OBJECTIVES: dict[str, ObjectiveName] = {NEXT: "next-token", MLMU: "mlm-u"}  # in the order of the paper's tables

# Text models on DFS or A* mazes of a side: mazes of the training set, and steps.
LAPTOP_SET = {4: 20_000, 5: 50_000, 6: 100_000}
LAPTOP_STEPS = {4: 6_000, 5: 10_000, 6: 10_000}
MAZES = {"laptop": 1000, "paper": 2000}  # of an evaluation
# Training mazes that are evaluated with the held-out ones. All runs have them, so that studies can share runs.
TRAIN_MAZES = {"laptop": 200, "paper": 500}
# Evaluations during a laptop run, ten of them in the last quarter; and held-out mazes of each.
EVALUATIONS, HELD_OUT_MAZES = 40, 1000
SMOKE_MAZES = 3  # of an evaluation


@dataclass(frozen=True)
class EvaluationSpec:
    """Mazes that a trained model solves, and the decoder."""

    name: str = HELD_OUT
    mazes: int = 1000
    size: int | None = None  # rows and columns; None for those of the training
    embedded_in: int | None = None  # put into the corner of a random maze of this size
    embedding: Embedding = "joined"
    decoder: str = "left-to-right"
    split: Literal["test", "train"] = "test"  # train: the first mazes of the training set, in their own texts
    failures: int = 0  # wrong answers that are kept for drawing


@dataclass(frozen=True)
class RunSpec:
    """A training and its evaluations; the labels describe it in the words of the tables."""

    labels: dict[str, str]
    config: TrainConfig
    evaluations: tuple[EvaluationSpec, ...] = (EvaluationSpec(),)
    train_mazes: int = 0  # training mazes that are evaluated beside the held-out ones during training
    seeds: int | None = None  # at most so many of the user's --seeds, for a run that takes long

    @property
    def name(self) -> str:
        return ", ".join([*self.labels.values(), f"seed {self.config.seed}"])

    def seeded(self, seed: int) -> RunSpec:
        """Return the run with another seed; a stream has other mazes too, a dataset's come in another order."""
        data = self.config.data
        data = replace(data, seed=seed) if data.source == "stream" else data
        return replace(self, config=replace(self.config, data=data, seed=seed))

    def smoke(self) -> RunSpec:
        """Return the run so small that it takes a moment; its scores mean nothing."""
        evaluations = tuple(replace(evaluation, mazes=SMOKE_MAZES) for evaluation in self.evaluations)
        trained = min(self.train_mazes, SMOKE_MAZES)
        return replace(self, config=smoke_config(self.config), evaluations=evaluations, train_mazes=trained)


@dataclass(frozen=True)
class Study:
    """A table or figure of the paper, or a question of our own."""

    name: str
    title: str
    question: str
    paper: str  # where it is in the paper, and what the paper found
    tables: Sequence[Report | Callable[[Result], Report]]
    claims: Sequence[Callable[[Result], list[Finding]]]
    # The trainings of one seed; smoke runs are made from the laptop's.
    runs: Callable[[RunScale], list[RunSpec]] = lambda scale: []
    measure: Callable[[Scale], dict[str, Any]] | None = None  # measurements that need no training, as plain values
    seeds: Mapping[str, int] = field(default_factory=dict)  # by scale, unless the user gives --seeds; else one
    notes: Sequence[str] = ()  # differences from the paper, shown on the page

    def report(self, result: Result) -> Report:
        parts = [part if isinstance(part, Report) else part(result) for part in self.tables]
        return Report(
            [table for part in parts for table in part.tables],
            [panel for part in parts for panel in part.panels],
            [gallery for part in parts for gallery in part.galleries if gallery],
        )

    def findings(self, result: Result) -> list[Finding]:
        return [finding for claim in self.claims for finding in claim(result)]


def square(size: int) -> str:
    return f"{size}x{size}"


@cache
def parameters_of(model: ModelConfig) -> int:
    """Return how many parameters a model has, without allocating it."""
    with torch.device("meta"):
        return count_parameters(build_model(model, 0))


def text_run(
    scale: RunScale,
    labels: dict[str, str],
    objective: ObjectiveName | ObjectiveConfig,
    size: int,
    *,
    family: PaperFamily = "dfs",
    evaluations: Sequence[EvaluationSpec] = (),
    seeds: int | None = None,  # at laptop scale
    laptop: Mapping[str, Any] | None = None,
    paper_scale: Mapping[str, Any] | None = None,
    **settings: Any,
) -> RunSpec:
    """Return a run of a text model on mazes of one size, by default evaluated on held-out mazes.

    `laptop` and `paper_scale` are keywords of laptop_text and of clew.paper.configs.paper, `settings` of both.
    """
    name = objective.name if isinstance(objective, ObjectiveConfig) else objective
    if scale == "laptop":
        config = laptop_text(name, size, family=family, **settings, **(laptop or {}))
    else:
        config, seeds = paper(family, size, name, **settings, **(paper_scale or {})), None
        epochs = 20 if size <= 10 else 100  # larger mazes take long to decode, and the paper has no curves of them
        steps_per_epoch = math.ceil((config.data.mazes or PAPER_SET) / config.batch_size)
        config = replace(config, evaluate_every=epochs * steps_per_epoch)
    if isinstance(objective, ObjectiveConfig):
        config = replace(config, objective=objective)
    return RunSpec(
        labels, config, tuple(evaluations) or (EvaluationSpec(mazes=MAZES[scale]),), TRAIN_MAZES[scale], seeds
    )


def laptop_text(
    objective: ObjectiveName,
    size: int,
    *,
    family: str = "dfs",
    steps: int | None = None,
    mazes: int | None = None,
    **changes: Any,
) -> TrainConfig:
    """Return the laptop's recipe on a fixed set of `mazes`; `changes` are keywords of named_configs.text_config."""
    form = "edge-list" if family == "dfs" else "wall-list-trace" if objective == "trace" else "wall-list"
    data = DataConfig("dataset", family, (size,), format=form, mazes=mazes or LAPTOP_SET[size])
    steps = steps or LAPTOP_STEPS[size]
    every = max(1, steps // EVALUATIONS)
    return replace(
        text_config(objective, data, Budget(steps=steps), **changes),
        evaluate_every=every,
        held_out=HELD_OUT_MAZES,
        checkpoint_every=max(50, every),
        log_every=10,
        keep_last=1,
        threads=1,
    )


def smoke_config(config: TrainConfig) -> TrainConfig:
    """Return a run of two steps on a handful of mazes of at most 5x5, with a small model; all else stays.

    A dataset keeps its folder, which must be the small run's own.
    """
    data = config.data
    largest = min(data.sizes[-1], 5)
    data = replace(data, sizes=(largest - 1, largest) if len(data.sizes) > 1 else (largest,))
    if data.source == "dataset":
        data = replace(data, mazes=min(12, data.mazes or 12))
    model: Any = with_vocabulary(config.model, data)
    small = {"width": 16, "hidden": 16, "depth": 1, "encoder_depth": 1, "decoder_depth": 1}
    model = replace(model, **{name: value for name, value in small.items() if hasattr(model, name)})
    config = replace(config, data=data, model=model, budget=Budget(steps=2), batch_size=4)
    return replace(config, held_out=SMOKE_MAZES, evaluate_every=1, log_every=1)
