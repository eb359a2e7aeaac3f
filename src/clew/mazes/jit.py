"""`@njit_inline` compiles small functions that run millions of times a second and make no arrays of their own.

numba counts the references to every array at every call, in locked instructions, so as to free an array with its last
reference. For a search of a tenth of a microsecond that is a third of its time. A njit_inline function does not count:
its caller holds what it is given. It must not make, reshape or return arrays; numba refuses to compile that.

Shares work on many mazes among threads.

The work is compiled code that has released the interpreter's lock. numba's own parallel loops would abort the process
when two threads enter them at once, or when it forks, as data loaders do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from numba import njit

from clew.errors import UserError

Function = TypeVar("Function", bound=Callable[..., Any])


def njit_inline(function: Function) -> Function:
    compiled: Function = njit(cache=True, _nrt=False)(function)  # type: ignore[call-overload]
    return compiled


T = TypeVar("T")

# About how many cells a thread takes at a time: enough to hide the cost of the call, few enough to stay in cache.
_PIECE_CELLS = 100_000


def parallel_map(work: Callable[[slice], T], mazes: int, cells: int, workers: int | None) -> list[T]:
    """Call `work` on slices of the `mazes` mazes of `cells` cells each, and give its results in order.

    `workers` threads, all cores if None.
    """
    if workers is not None and workers < 1:
        raise UserError(f"{workers} workers cannot work; use 1 or more, or leave it out for all cores.")
    workers = workers or os.cpu_count() or 1
    # Small pieces also when there is little work, so that every worker has some.
    size = max(1, min(_PIECE_CELLS // cells, -(-mazes // workers)))
    pieces = [slice(i, min(i + size, mazes)) for i in range(0, mazes, size)]
    if workers == 1 or len(pieces) <= 1:
        return [work(piece) for piece in pieces]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, pieces))
