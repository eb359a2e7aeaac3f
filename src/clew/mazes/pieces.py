"""Shares work on many mazes among threads.

The work is compiled code that has released the interpreter's lock. numba's own parallel loops would abort the process
when two threads enter them at once, or when it forks, as data loaders do.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from clew.errors import UserError

T = TypeVar("T")

# About how many cells a thread takes at a time: enough to hide the cost of the call, few enough to stay in cache.
_PIECE_CELLS = 100_000


def in_pieces(work: Callable[[slice], T], mazes: int, cells: int, workers: int | None) -> list[T]:
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
