"""Breadth-first search in any maze, and the path at the end of a search.

Shape suffixes: H rows, W columns, C = H * W cells by index.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from clew.mazes.lean import lean
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST, Cells

Indices = npt.NDArray[np.int32]


@njit(cache=True)
def search_breadth_first(cells_HW: Cells, start: int, goal: int) -> tuple[Indices, Indices, int]:
    """(came_from_C, queue_C, reached): the search's tree, and the cells reached in order of distance.

    A cell that was not reached has came_from -1; the start comes from itself. The search ends when it reaches
    `goal`; give -1 to reach all.
    """
    height, width = cells_HW.shape
    came_from_C = np.full(height * width, -1, dtype=np.int32)
    queue_C = np.empty(height * width, dtype=np.int32)
    came_from_C[start] = start
    queue_C[0] = start
    head, tail = 0, 1
    flat_C = cells_HW.ravel()
    while head < tail:
        here = queue_C[head]
        if here == goal:
            break
        head += 1
        sides = flat_C[here]
        for bit, there in ((SOUTH, here + width), (NORTH, here - width), (WEST, here - 1), (EAST, here + 1)):
            if sides & bit and came_from_C[there] < 0:
                came_from_C[there] = here
                queue_C[tail] = there
                tail += 1
    return came_from_C, queue_C, tail


@lean
def write_path(came_from_C: Indices, start: int, goal: int, path: Indices) -> int:
    """Follow `came_from_C` back from the goal, write the path from the start into `path`, and return its length."""
    length = 1
    cell = goal
    while cell != start:
        cell = came_from_C[cell]
        length += 1
    cell = goal
    for i in range(length - 1, -1, -1):
        path[i] = cell
        cell = came_from_C[cell]
    return length


@njit(cache=True, nogil=True)
def reachable(cells_NHW: npt.NDArray[np.uint8], start_N: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which cells of each maze its start can reach, [N, C]."""
    count, height, width = cells_NHW.shape
    reached_NC = np.zeros((count, height * width), dtype=np.bool_)
    for i in range(count):
        _, queue_C, reached = search_breadth_first(cells_NHW[i], start_N[i], -1)
        for k in range(reached):
            reached_NC[i, queue_C[k]] = True
    return reached_NC
