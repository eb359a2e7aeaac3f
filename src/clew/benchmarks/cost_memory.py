"""A fresh process that trains or solves once and prints its peak memory; `clew bench cost` starts it.

python -m clew.benchmarks.cost_memory train|solve WEIGHTS SIDE MAZES THREADS
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Literal, cast

import torch

from clew.benchmarks.cost_work import TrainingStep, load_pointer, mazes_a_batch, solve, tasks_of
from clew.benchmarks.memory import own_peak_memory_mb, peak_memory_of
from clew.models.grid_pointer import GridPointerConfig

Kind = Literal["train", "solve"]
# The process that all are compared with has imported and built everything, and done the same with one small maze, so
# that what the libraries take once, at their first use, is not counted.
SMALL_SIDE = 5


def memory_mb(kind: Kind, weights: str, side: int, threads: int) -> float:
    """What the mazes of one batch need at the peak, beyond a process with one small maze."""
    whole, small = (
        _in_fresh_process(kind, weights, *of, threads) for of in ((side, mazes_a_batch(side)), (SMALL_SIDE, 1))
    )
    return max(whole - small, 0.1)  # below that it cannot be told


@cache  # the small one is the same for all sizes
def _in_fresh_process(kind: Kind, weights: str, side: int, mazes: int, threads: int) -> float:
    arguments = [kind, weights, str(side), str(mazes), str(threads)]
    return peak_memory_of(["-m", "clew.benchmarks.cost_memory", *arguments])


def do_and_tell(kind: Kind, weights: str, side: int, mazes: int, threads: int) -> None:
    """What the fresh process does."""
    torch.set_num_threads(threads)
    trained = load_pointer(weights)
    if kind == "train":
        TrainingStep(cast(GridPointerConfig, trained.model.config), trained.family, side, mazes).whole()
    else:
        solve(trained, tasks_of(trained, side, mazes))
    print(own_peak_memory_mb())


if __name__ == "__main__":
    _, kind, weights, *numbers = sys.argv
    do_and_tell(cast(Kind, kind), weights, *map(int, numbers))
