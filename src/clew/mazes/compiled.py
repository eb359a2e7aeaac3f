"""Random streams of compiled code, and its threads.

    state = np.empty(1, np.uint64)
    begin_stream(state, seed, index, attempt)
    below(state, 6)                                      # 0 to 5, each equally likely
    parallel_map(fill, mazes=1000, cells=100, workers=2)  # calls fill(slice(0, 500)), fill(slice(500, 1000))

A random stream (splitmix64) is a `uint64[1]` array that holds its state. Every (seed, index, attempt) begins its own
stream, so a maze depends neither on the mazes drawn before it nor on the number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.jit import njit

T = TypeVar("T")
Stream = npt.NDArray[np.uint64]
Word = TypeVar("Word", np.uint64, npt.NDArray[np.uint64])

# The constants of splitmix64. They are uint64 objects because numba turns uint64 with int64 into float64.
STEP = np.uint64(0x9E3779B97F4A7C15)
_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2 = np.uint64(0x94D049BB133111EB)
_U11, _U27, _U30, _U31, _U32 = (np.uint64(n) for n in (11, 27, 30, 31, 32))
_LOW_32 = np.uint64(0xFFFFFFFF)
_TWO_32 = np.uint64(1 << 32)


@njit()
def mix(x: Word) -> Word:
    """Return the output function of splitmix64: a permutation of all 64-bit numbers; of a number or of an array."""
    x = (x ^ (x >> _U30)) * _FACTOR_1
    x = (x ^ (x >> _U27)) * _FACTOR_2
    return x ^ (x >> _U31)


@njit()
def begin_stream(state: Stream, seed: int, index: int, attempt: int) -> None:
    # Mixing between the three keeps neighbouring seeds and indices from sharing a piece of one sequence.
    x = mix(np.uint64(seed) + STEP)
    x = mix((x ^ np.uint64(index)) + STEP)
    state[0] = mix((x ^ np.uint64(attempt)) + STEP)


@njit()
def next_64(state: Stream) -> np.uint64:
    state[0] += STEP
    return mix(state[0])


@njit()
def below(state: Stream, n: int) -> int:
    """Return a number from 0 to n - 1, without bias; n is at least 1 and under 2**32."""
    bound = np.uint64(n)
    product = (next_64(state) >> _U32) * bound
    if (product & _LOW_32) < bound:
        # Some results would have one chance in 2**32 more than others: draw again in that remainder.
        remainder = (_TWO_32 - bound) % bound
        while (product & _LOW_32) < remainder:
            product = (next_64(state) >> _U32) * bound
    return np.int64(product >> _U32)  # type: ignore[return-value]


@njit()
def unit(state: Stream) -> float:
    """Return a float64 in [0, 1)."""
    return np.float64(next_64(state) >> _U11) * 2.0**-53


@njit()
def shuffle_first(state: Stream, items: npt.NDArray[np.signedinteger], count: int) -> None:
    """Put a random choice of `count` items, in random order, at the front (all of them: a full shuffle)."""
    for i in range(min(count, len(items) - 1)):
        j = i + below(state, len(items) - i)
        items[i], items[j] = items[j], items[i]


_CHUNK_CELLS = 100_000  # that a thread takes at a time: enough to hide the cost of the call, few enough for the cache


def parallel_map(work: Callable[[slice], T], mazes: int, cells: int, workers: int | None) -> list[T]:
    """Call `work` on slices of `mazes` mazes of `cells` cells in `workers` threads (None: all cores); results in order.

    `work` must be compiled code that releases the GIL. numba's own parallel loops would abort the process when two
    threads enter them at once, or when it forks.
    """
    if workers is not None and workers < 1:
        raise UserError(f"{workers} workers cannot work; use 1 or more, or leave it out for all cores.")
    workers = workers or os.cpu_count() or 1
    size = max(1, min(_CHUNK_CELLS // cells, -(-mazes // workers)))
    chunks = [slice(i, min(i + size, mazes)) for i in range(0, mazes, size)]
    if workers == 1 or len(chunks) <= 1:
        return [work(chunk) for chunk in chunks]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, chunks))
