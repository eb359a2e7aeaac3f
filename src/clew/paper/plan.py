"""What studies need, before anybody runs them: the rows of `clew reproduce --list` and `--dry-run`.

    read_needs()                                     # of all studies, at once, from needs.json beside this file
    needs([STUDIES["astar"]], "paper")               # Needs(runs=9, parameters=(8e6, 25e6), hours=...)
    plan(runs, processes=8)                          # a row of words for each training

Making all studies takes seconds and needs torch, so what --list shows is kept in needs.json, which a test compares with
`all_needs()`. After a change of a study or of the estimate:

    python -m clew.paper.plan
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # so that --list imports no torch
    from clew.paper.study import Run, Scale, Study
    from clew.training.config import TrainConfig

NEEDS_FILE = Path(__file__).with_name("needs.json")
# Operations a second of one core of a shared server, with the small models of the studies.
CORE_SPEED = {"smoke": 2e9, "laptop": 2e10}
MACHINE = {"smoke": "one core", "laptop": "one core", "paper": "8 V100"}
PAPER_GPU, PAPER_GPUS = "V100", 8


@dataclass(frozen=True)
class Needs:
    """What studies need at a scale, with as many seeds as they want."""

    study: str
    scale: str
    runs: int
    parameters: tuple[int, int]  # of the smallest and the largest model
    hours: float


def read_needs() -> list[Needs]:
    """What each study and all of them need at each scale."""
    rows = json.loads(NEEDS_FILE.read_text(encoding="utf-8"))
    return [Needs(**{**row, "parameters": tuple(row["parameters"])}) for row in rows]


def all_needs() -> list[Needs]:
    """The same, computed."""
    from clew.paper.catalogue import ALL, STUDIES
    from clew.paper.study import SCALES

    named = {name: [study] for name, study in STUDIES.items()} | {ALL: [*STUDIES.values()]}
    return [needs(name, studies, scale) for name, studies in named.items() for scale in SCALES]


def needs(name: str, studies: Sequence[Study], scale: Scale) -> Needs:
    """An estimate, without training anything; a training that several studies share is done once."""
    from clew.paper.recipes import parameters_of
    from clew.paper.runner import Options, unique_runs

    runs = unique_runs(studies, Options(scale)).values()
    counts = [parameters_of(run.config.model) for run in runs] or [0]
    hours = sum(run_hours(run.config, scale) for run in runs)
    return Needs(name, scale, len(runs), (min(counts), max(counts)), float(f"{hours:.3g}"))


def run_hours(config: TrainConfig, scale: Scale) -> float:
    """Of one training, on the machine that MACHINE names; minutes on two cores are twice as many of one."""
    from clew.paper.estimate import GPUS, flops_per_maze, total_steps, training_hours

    if scale == "paper":
        return training_hours(config, PAPER_GPUS, GPUS[PAPER_GPU])
    if config.budget.minutes is not None:
        cores = (config.threads or 1) if scale == "laptop" else 1
        return cores * config.budget.minutes / 60
    mazes = (total_steps(config) or 0) * config.batch_size
    return mazes * flops_per_maze(config) / CORE_SPEED[scale] / 3600


def plan(runs: Sequence[Run], processes: int) -> list[list[str]]:
    """A head, and a row of words for each training on so many GPUs."""
    from clew.paper.estimate import GPUS

    sizes = ("weights", "optimizer", "activations", "evaluation", "in all")
    head = ["run", "parameters", "steps", "tokens", "mazes a pass", *(f"{size}, GB" for size in sizes)]
    return [[*head, *(f"hours, {processes} {gpu}" for gpu in GPUS)], *(plan_row(run, processes) for run in runs)]


def plan_row(run: Run, processes: int) -> list[str]:
    """What one training needs, in the order of the head."""
    from clew.paper.estimate import (
        GPUS,
        estimate_memory,
        lengths,
        micro_batch_for,
        total_steps,
        training_hours,
    )
    from clew.paper.recipes import parameters_of

    config = run.config
    steps, batch_per_gpu = total_steps(config), -(-config.batch_size // processes)
    micro_batch = micro_batch_for(config, processes)
    memory = estimate_memory(config.model, config.data, batch_per_gpu, micro_batch or 1, config.precision)
    parts = (
        [memory.weights, memory.optimizer, memory.activations + memory.batch, memory.cache, memory.total]
        if memory
        else [math.nan] * 5  # of a model that is not estimated
    )
    tokens = "" if steps is None else f"{steps * config.batch_size * lengths(config.data).mean:.1e}"
    return [
        ", ".join([*run.labels.values(), f"seed {config.seed}"]),
        f"{parameters_of(config.model):,}",
        f"{config.budget.minutes:g} minutes" if steps is None else f"{steps:,}",
        tokens,
        f"{micro_batch or 1} of {batch_per_gpu}",
        *(f"{part / 1e9:.2f}" for part in parts),
        *(f"{training_hours(config, processes, gpu):,.1f}" for gpu in GPUS.values()),
    ]


def main() -> None:
    """Write needs.json again."""
    from clew.files import atomic_write

    rows = ",\n".join(json.dumps(asdict(row)) for row in all_needs())
    with atomic_write(NEEDS_FILE) as file:
        file.write(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
