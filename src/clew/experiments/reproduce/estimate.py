"""What a study needs before anybody runs it: trainings, parameters and hours.

    needs([STUDIES["astar"]], "paper")       # Needs(runs=9, parameters=(8e6, 25e6), hours=...)

The hours of a training that goes by steps or epochs are its floating-point operations over a speed. Scoring is not
counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from clew.experiments.reproduce.recipes import parameters_of
from clew.experiments.reproduce.runner import Options, runs_of
from clew.experiments.reproduce.study import Scale, Study
from clew.models.build import training_flops
from clew.objectives.config import build_objective
from clew.training.config import TrainConfig
from clew.training.distributed import World
from clew.training.sources import PAPER_MAZES, build_source
from clew.training.step import draw_part

# Floating-point operations a second. Laptop: one core of a shared server, with the small models of these studies.
# Paper: the paper trained next token on 5x5 mazes, 2,000 epochs of 100,000, in 13.7 hours on 8 V100.
SPEED = {"smoke": 2e9, "laptop": 2e10, "paper": 1.25e13}
MACHINE = {"smoke": "one core", "laptop": "one core", "paper": "8 V100"}
SAMPLE = 8  # mazes whose operations are counted


@dataclass(frozen=True)
class Needs:
    """What studies need at a scale, with as many seeds as they want."""

    runs: int
    parameters: tuple[int, int]  # of the smallest and the largest model
    hours: float


def needs(studies: Sequence[Study], scale: Scale) -> Needs:
    """An estimate, without training anything; a training that several studies share is done once."""
    options = Options(scale)
    runs = list({options.place.run(run): run for study in studies for run in runs_of(study, options)}.values())
    counts = [parameters_of(run.config.model) for run in runs] or [0]
    return Needs(len(runs), (min(counts), max(counts)), sum(hours(run.config, scale) for run in runs))


def hours(config: TrainConfig, scale: Scale) -> float:
    """Of one training, on the machine that MACHINE names; minutes on two cores are twice as many of one."""
    budget = config.budget
    if budget.minutes is not None:
        cores = (config.threads or 1) if scale == "laptop" else 1
        return cores * budget.minutes / 60
    mazes = (budget.epochs or 0) * (config.data.mazes or PAPER_MAZES) or (budget.steps or 0) * config.batch_size
    return mazes * _flops_a_maze(replace(config, seed=0)) / SPEED[scale] / 3600


@cache
def _flops_a_maze(config: TrainConfig) -> float:
    """Operations of a training step for one maze, on average over a few."""
    data = replace(config.data, source="stream", folder="", mazes=None, seed=0)
    small = replace(
        config,
        data=data,
        batch_size=SAMPLE,
        micro_batch=None,
        budget=replace(config.budget, steps=1, epochs=None, minutes=None),
    )
    part = draw_part(build_source(small).batch(0), build_objective(config.objective), 0, 0, SAMPLE, World())
    return training_flops(config.model, part.batch, part.question.rank_BT, part.question.ask_BT) / SAMPLE
