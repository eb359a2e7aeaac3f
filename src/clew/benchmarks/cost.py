"""What a grid-pointer costs, against the size of the maze: time and memory, to train and to solve (`clew bench cost`).

- a training step (forward, backward, optimizer) and solving with the default decoder and in one pass, in seconds a
  maze, with batches that have about as many cells whatever the size;
- peak memory of each, a maze, from a fresh process for each size (cost_memory.py);
- the exponent k of cost = c * cells^k, fitted to all sizes;
- the share of the machine's peak at 10x10, and where the rest goes (cost_peak.py).

With one thread the time is that of the CPU, which does not run while other programs do; with more it is that of the
wall clock. Of several runs the fastest counts: what is slower was held up by something else.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

import numpy as np
import torch

from clew.benchmarks import cost_peak
from clew.benchmarks.cost_memory import memory_mb
from clew.benchmarks.cost_peak import Width, share_of_peak
from clew.benchmarks.cost_work import SEED, TrainingStep, load_pointer, mazes_a_batch, one_pass, solve, tasks_of
from clew.decoding.registry import default_decoder
from clew.loading import Trained
from clew.models.grid_pointer import GridPointerConfig
from clew.report.provenance import provenance

SIDES = (5, 8, 10, 15, 20, 25, 30)
FEWEST_RUNS = 2
# What is fitted, and in which unit it is told.
QUANTITIES = {
    "training_seconds": "training, s a maze",
    "pass_seconds": "one pass, s a maze",
    "solving_seconds": "solving, s a maze",
    "training_mb": "training, MB a maze",
    "solving_mb": "solving, MB a maze",
}


@dataclass(frozen=True)
class SizeCost:
    """Costs a maze of one size."""

    side: int
    cells: int
    loops: int
    mazes: int  # in the batch
    training_seconds: float
    pass_seconds: float
    solving_seconds: float
    passes: float  # of solving, a maze
    training_mb: float
    solving_mb: float


@dataclass(frozen=True)
class Fit:
    """cost = c * cells^exponent."""

    exponent: float
    r_squared: float  # of the straight line through the logarithms


@dataclass(frozen=True)
class Report:
    """All that one run measured."""

    provenance: dict[str, Any]
    load_before: float  # processes that wanted a core in the minute before; much above 0, the machine was busy
    threads: int
    clock: str  # "cpu" or "wall"
    weights: str
    family: str
    parameters: int
    decoder: str
    sizes: list[SizeCost]
    fits: dict[str, Fit]
    widths: list[Width]  # at 10x10
    target: float  # the share of the peak

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


def measure(
    weights: str, sides: Sequence[int], seconds: float, threads: int, command: str, say: Callable[[str], None]
) -> Report:
    """Measure everything; each piece of work is repeated for about `seconds`."""
    load_before = os.getloadavg()[0]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        trained = load_pointer(weights)
        config = cast(GridPointerConfig, trained.model.config)
        sizes = []
        for side in sides:
            say(f"{side}x{side}, {mazes_a_batch(side)} mazes a batch")
            sizes.append(size_cost(trained, config, weights, side, seconds, threads))
        widths = []
        for width in cost_peak.WIDTHS:
            say(f"share of the peak at {cost_peak.SIDE}x{cost_peak.SIDE}, width {width}")
            widths.append(
                share_of_peak(config, trained.family, width, lambda work: fastest(work, seconds, clock_for(threads)))
            )
    finally:
        torch.set_num_threads(before)
    return Report(
        provenance(command, [SEED]),
        load_before,
        threads,
        "cpu" if threads == 1 else "wall",
        trained.name,
        trained.family,
        trained.parameters,
        default_decoder(trained.model, trained.script),
        sizes,
        {name: fit([each.cells for each in sizes], [getattr(each, name) for each in sizes]) for name in QUANTITIES},
        widths,
        cost_peak.TARGET,
    )


def size_cost(
    trained: Trained, config: GridPointerConfig, weights: str, side: int, seconds: float, threads: int
) -> SizeCost:
    """All costs of one size."""
    mazes, clock = mazes_a_batch(side), clock_for(threads)
    tasks = tasks_of(trained, side, mazes)
    step = TrainingStep(config, trained.family, side, mazes)
    decoded = solve(trained, tasks)  # also readies the libraries
    return SizeCost(
        side,
        side**2,
        config.loops(side, side),
        mazes,
        fastest(step.whole, seconds, clock) / mazes,
        fastest(lambda: one_pass(trained, tasks), seconds, clock) / mazes,
        fastest(lambda: solve(trained, tasks), seconds, clock) / mazes,
        float(decoded.passes_B.double().mean()),
        memory_mb("train", weights, side, threads) / mazes,
        memory_mb("solve", weights, side, threads) / mazes,
    )


def clock_for(threads: int) -> Callable[[], float]:
    return time.process_time if threads == 1 else time.perf_counter


def fastest(work: Callable[[], object], seconds: float, clock: Callable[[], float]) -> float:
    """The time of the fastest of several runs, which together take about `seconds`."""
    took: list[float] = []
    begin = time.perf_counter()
    while len(took) < FEWEST_RUNS or time.perf_counter() - begin < seconds:
        began = clock()
        work()
        took.append(clock() - began)
    return min(took)


def fit(cells: Sequence[int], costs: Sequence[float]) -> Fit:
    """The straight line through the logarithms."""
    x, y = np.log(np.array(cells, dtype=float)), np.log(np.array(costs))
    slope, at_zero = np.polyfit(x, y, 1)
    rest = y - (slope * x + at_zero)
    return Fit(float(slope), 1 - float(rest @ rest) / max(float(np.var(y)) * len(y), 1e-12))
