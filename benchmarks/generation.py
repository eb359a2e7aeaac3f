"""Speed of maze generation beside other implementations, measured in turns in one run.

    python benchmarks/generation.py --plot docs/generation-cost.png      # results/generation.json; about 90 seconds

- perfect mazes with their path, against maze-dataset (left out if it is not installed);
- A* tasks with their traces, against plain Python (plain_astar.py);
- peak memory of 100,000 mazes of 30x30, generated in chunks;
- CPU time a maze against its number of cells, with a straight line through it.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plain_astar
import tyro
from work import SEED, announce, command_line, own_peak_memory_mb, peak_memory_of, save

from clew.errors import UserError, guarded
from clew.mazes.generate import generate
from clew.mazes.solvers import trace_batch
from clew.provenance import provenance

ROUNDS = 3  # ours and theirs take turns, so that a busy moment of the machine falls on both
SIDE = 30
JOB_CELLS = 4_000_000  # made at one call: enough that waiting for the last core does not weigh
MEMORY_MAZES = 100_000
MEMORY_CHUNK = 4_000
COST_SIDES = (5, 10, 15, 20, 25, 30, 40, 50, 60)
COST_FAMILIES = ("dfs", "astar")

DFS_TARGET, ASTAR_TARGET, MEMORY_TARGET_MB = 500, 200, 1000

Job = Callable[[], int]  # makes some mazes and says how many


class Run(NamedTuple):
    """How many mazes were made, and what it took."""

    made: int
    seconds: float
    processor_seconds: float


@dataclass(frozen=True)
class Comparison:
    """Mazes a second of two implementations, measured in turns, each with all the cores it can use."""

    what: str
    against: str
    ours_per_second: float
    theirs_per_second: float
    ratio: float
    # The same by processor time, so for one core against one core; other work on the machine hardly changes it.
    ratio_one_core: float
    target: float


@dataclass(frozen=True)
class Cost:
    """Microseconds of processor time a maze for several sizes, and the straight line through them."""

    family: str
    cells: list[int]
    microseconds: list[float]
    microseconds_per_cell: float
    microseconds_at_zero: float
    r_squared: float


def main(seconds: float = 8.0, plot: Path | None = None, out: Path = Path("results/generation.json")) -> None:
    """Measure everything, print a table and write the numbers.

    Args:
        seconds: how long each side of each comparison works.
        plot: draw the time a maze against its cells to this PNG or SVG file.
        out: the JSON file.
    """
    if not 0 < seconds <= 3600:
        raise UserError(f"{seconds} seconds cannot be used; give --seconds a number above 0 and up to 3600.")
    report = measure(seconds)
    save(out, report)
    if plot is not None:
        plot_costs(report["costs"], plot)
    for each in report["comparisons"]:
        print(
            f"{each['what']}: {each['ours_per_second']:,.0f} a second, {each['against']} "
            f"{each['theirs_per_second']:,.1f}: {each['ratio']:,.0f} times as fast (target {each['target']:g}), "
            f"{each['ratio_one_core']:,.0f} times on one core"
        )
    for sentence in report["left_out"]:
        print(f"left out: {sentence}")
    print(
        f"peak memory of {report['memory_mazes']:,} mazes of 30x30: {report['peak_memory_mb']:,.0f} MB "
        f"(target under {report['memory_target_mb']:,.0f})"
    )
    for each in report["costs"]:
        print(
            f"{each['family']}: {each['microseconds_per_cell'] * 1000:.1f} ns a cell, R² of the straight line "
            f"{each['r_squared']:.4f}, {min(each['cells'])} to {max(each['cells']):,} cells"
        )


def measure(seconds: float) -> dict[str, Any]:
    """Run everything; each side of each comparison gets about `seconds`."""
    load_before = os.getloadavg()[0]  # processes that wanted a core in the minute before; near 0 on an idle machine
    comparisons, left_out = [], []
    announce(f"dfs {SIDE}x{SIDE} against maze-dataset")
    try:
        theirs = maze_dataset_jobs(SIDE)
    except ImportError as error:
        left_out.append(
            f"maze-dataset cannot be imported ({error}); install it with: pip install 'clew[maze-dataset]'."
        )
    else:
        what = f"dfs {SIDE}x{SIDE} mazes with their path"
        comparisons.append(compare(what, "maze-dataset", our_job("dfs", SIDE), theirs, seconds, DFS_TARGET))
    for side in (10, SIDE):
        announce(f"A* {side}x{side} against plain Python")
        what = f"A* {side}x{side} tasks with their trace"
        ours, plain = our_job("astar", side, traces=True), plain_astar_job(side)
        comparisons.append(compare(what, "plain Python", ours, [plain], seconds, ASTAR_TARGET))
    announce(f"memory of {MEMORY_MAZES:,} mazes")
    memory = peak_memory_of([__file__, "memory", str(MEMORY_MAZES)])
    announce("time a maze against its cells")
    costs = [cost(family, COST_SIDES, seconds / len(COST_SIDES)) for family in COST_FAMILIES]
    return {
        "provenance": provenance(command_line(), [SEED]),
        "load_before": load_before,
        "comparisons": [asdict(each) for each in comparisons],
        "left_out": left_out,
        "peak_memory_mb": memory,
        "memory_mazes": MEMORY_MAZES,
        "memory_target_mb": MEMORY_TARGET_MB,
        "costs": [asdict(each) for each in costs],
    }


def compare(what: str, against: str, ours: Job, theirs: list[Job], seconds: float, target: float) -> Comparison:
    """Let ours and theirs take turns; of several ways to run theirs, the fastest counts."""
    ours()  # compiles
    runs: list[list[Run]] = [[] for _ in [ours, *theirs]]
    for _ in range(ROUNDS):
        for job, its_runs in zip([ours, *theirs], runs, strict=True):
            its_runs.append(_work(job, seconds / ROUNDS))
    rates = [sum(run.made for run in each) / sum(run.seconds for run in each) for each in runs]
    processor_rates = [sum(run.made for run in each) / sum(run.processor_seconds for run in each) for each in runs]
    best, processor_best = max(rates[1:]), max(processor_rates[1:])
    return Comparison(what, against, rates[0], best, rates[0] / best, processor_rates[0] / processor_best, target)


def _work(job: Job, seconds: float) -> Run:
    """Do the job again and again for about `seconds`, once at least."""
    made, begin, processor_begin = 0, time.perf_counter(), _processor_seconds()
    while made == 0 or time.perf_counter() - begin < seconds:
        made += job()
    return Run(made, time.perf_counter() - begin, _processor_seconds() - processor_begin)


def _processor_seconds() -> float:
    """Of all threads of this process and of the processes it has started and seen end."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system  # the first is finer than in `times`


def our_job(family: str, side: int, traces: bool = False) -> Job:
    """Fresh training mazes on all cores, other ones at every call."""
    count = JOB_CELLS // side**2
    first = itertools.count(0, count)

    def job() -> int:
        made = generate(family, side, side, seed=SEED, first=next(first), count=count, split="train")
        if traces:
            trace_batch(made)
        return len(made)

    return job


def plain_astar_job(side: int) -> Job:
    rng = random.Random(SEED)

    def job() -> int:
        plain_astar.random_task(side, side, rng)
        return 1

    return job


def maze_dataset_jobs(side: int) -> list[Job]:
    """maze-dataset in one process and in one process a core; raises ImportError when it is not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from maze_dataset import MazeDataset, MazeDatasetConfig
        from maze_dataset.generation import LatticeMazeGenerators
    seed = itertools.count(SEED)

    def job(parallel: bool, count: int) -> int:
        config = MazeDatasetConfig(
            name="bench", grid_n=side, n_mazes=count, maze_ctor=LatticeMazeGenerators.gen_dfs, seed=next(seed)
        )
        return len(MazeDataset.generate(config, gen_parallel=parallel))

    # Many at once in parallel, so that starting the processes does not weigh.
    return [lambda: job(False, 20), lambda: job(True, 100 * (os.cpu_count() or 1))]


def print_memory(mazes: int) -> None:
    """Generate 30x30 mazes in chunks and print the peak memory of this process."""
    for first in range(0, mazes, MEMORY_CHUNK):
        generate("dfs", SIDE, SIDE, seed=SEED, first=first, count=min(MEMORY_CHUNK, mazes - first), split="train")
    print(own_peak_memory_mb())


def cost(family: str, sides: tuple[int, ...], seconds: float) -> Cost:
    """Measure the time a maze for each size."""
    microseconds = []
    for side in sides:
        job = our_job(family, side)
        runs: list[Run] = []
        begin = time.perf_counter()
        while len(runs) < 2 or time.perf_counter() - begin < seconds:
            runs.append(_work(job, 0))
        # The fastest run: what is slower was held up by something that has nothing to do with the size.
        microseconds.append(min(run.processor_seconds / run.made for run in runs) * 1e6)
    cells = [side**2 for side in sides]
    slope, at_zero = np.polyfit(cells, microseconds, 1)
    rest = np.array(microseconds) - (slope * np.array(cells) + at_zero)
    r_squared = 1 - float(rest @ rest) / float(np.var(microseconds) * len(cells))
    return Cost(family, cells, microseconds, float(slope), float(at_zero), r_squared)


def plot_costs(costs: list[dict[str, Any]], file: Path) -> None:
    """Draw the time a maze against its number of cells, with the straight lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for each in costs:
        cells = np.array(each["cells"])
        (points,) = axes.plot(cells, each["microseconds"], "o")
        label = f"{each['family']}: {each['microseconds_per_cell'] * 1000:.0f} ns a cell, R² = {each['r_squared']:.3f}"
        line = each["microseconds_per_cell"] * cells + each["microseconds_at_zero"]
        axes.plot(cells, line, color=points.get_color(), label=label)
    axes.set(xlabel="cells of the maze", ylabel="µs of CPU time a maze", xlim=0, ylim=0)
    axes.legend()
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        print_memory(int(sys.argv[2]))
    else:
        sys.exit(guarded(lambda: tyro.cli(main)))
