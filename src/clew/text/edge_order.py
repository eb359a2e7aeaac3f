"""In which order, and in which direction, the passages of a maze are written.

One seed fixes both, so a maze keeps its text as long as it keeps its seed. The compiled function serves the encoder
of whole batches; `edge_order` is the same for one maze.

Shape suffixes: E passages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from clew.mazes.random import begin_stream, next_64, shuffle_first

# Sets these streams apart from those that drew the maze itself, which may have had the same seed.
_STREAM_OF_TEXT = 0x7465787400000000
_LOWEST_BIT = np.uint64(1)


@njit(cache=True, nogil=True)
def draw_edge_order(
    state: npt.NDArray[np.uint64], seed: int, order_E: npt.NDArray[np.int32], turned_E: npt.NDArray[np.bool_]
) -> None:
    """Fill in a random order of the passages 0 to E - 1, and whether each place's passage is turned round."""
    begin_stream(state, seed, _STREAM_OF_TEXT, 0)
    for i in range(len(order_E)):
        order_E[i] = i
    shuffle_first(state, order_E, len(order_E))
    for i in range(len(order_E)):
        turned_E[i] = (next_64(state) & _LOWEST_BIT) == _LOWEST_BIT


def edge_order(seed: int, count: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """A random order of `count` passages and whether each is turned round, both fixed by the seed (64 bits)."""
    order_E = np.empty(count, dtype=np.int32)
    turned_E = np.empty(count, dtype=np.bool_)
    seed_64: Any = np.uint64(seed & 0xFFFFFFFFFFFFFFFF)  # as it comes from an array of seeds
    draw_edge_order(np.empty(1, dtype=np.uint64), seed_64, order_E, turned_E)
    return order_E, turned_E
