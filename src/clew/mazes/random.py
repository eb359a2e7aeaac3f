"""Random numbers inside compiled code: splitmix64, one stream a maze.

A stream is a `uint64[1]` array that holds its state. Every (seed, index, attempt) begins its own stream, so a maze
does not depend on which mazes were drawn before it, nor on how many threads draw.

    state = np.empty(1, np.uint64)
    begin_stream(state, seed, index, attempt)
    below(state, 6)  # 0 to 5, each equally likely
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Stream = npt.NDArray[np.uint64]

# The constants of splitmix64. They are uint64 objects because numba turns uint64 with int64 into float64.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FACTOR_1 = np.uint64(0xBF58476D1CE4E5B9)
_FACTOR_2 = np.uint64(0x94D049BB133111EB)
_U11, _U27, _U30, _U31, _U32 = (np.uint64(n) for n in (11, 27, 30, 31, 32))
_LOW_32 = np.uint64(0xFFFFFFFF)
_TWO_32 = np.uint64(1 << 32)


@njit(cache=True)
def mix(x: np.uint64) -> np.uint64:
    """The output function of splitmix64: a fixed shuffling of all 64-bit numbers."""
    x = (x ^ (x >> _U30)) * _FACTOR_1
    x = (x ^ (x >> _U27)) * _FACTOR_2
    return x ^ (x >> _U31)


@njit(cache=True)
def begin_stream(state: Stream, seed: int, index: int, attempt: int) -> None:
    """Set `state` to the beginning of the stream of one attempt at one maze."""
    # Mixing between the three keeps neighbouring seeds and indices from sharing a piece of one sequence.
    x = mix(np.uint64(seed) + _STEP)
    x = mix((x ^ np.uint64(index)) + _STEP)
    state[0] = mix((x ^ np.uint64(attempt)) + _STEP)


@njit(cache=True)
def next_64(state: Stream) -> np.uint64:
    """The next 64 random bits."""
    state[0] += _STEP
    return mix(state[0])


@njit(cache=True)
def below(state: Stream, n: int) -> int:
    """A number from 0 to n - 1, without bias; n is at least 1 and under 2**32."""
    bound = np.uint64(n)
    product = (next_64(state) >> _U32) * bound
    if (product & _LOW_32) < bound:
        # Some results would have one chance in 2**32 more than others: draw again in that remainder.
        remainder = (_TWO_32 - bound) % bound
        while (product & _LOW_32) < remainder:
            product = (next_64(state) >> _U32) * bound
    return np.int64(product >> _U32)  # type: ignore[return-value]


@njit(cache=True)
def unit(state: Stream) -> float:
    """A float64 in [0, 1)."""
    return np.float64(next_64(state) >> _U11) * 2.0**-53


@njit(cache=True)
def shuffle_first(state: Stream, items: npt.NDArray[np.int32], count: int) -> None:
    """Put a random choice of `count` items, in random order, at the front (all of them: a full shuffle)."""
    for i in range(min(count, len(items) - 1)):
        j = i + below(state, len(items) - i)
        items[i], items[j] = items[j], items[i]
