"""Start and goal for mazes in which not all cells are connected: pairs are drawn until A* finds a path long enough.

Shape suffixes: H rows, W columns, C = H * W cells by index, P = C + 2 * W, E events, K = draws of a pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from clew.mazes.astar import Events, Indices, Scratch, astar_scratch, search_astar
from clew.mazes.bfs import write_path
from clew.mazes.lean import lean
from clew.mazes.maze import WALL, Cells
from clew.mazes.parts import mark_part
from clew.mazes.random import Stream, below

_MAX_PAIRS = 100  # draws of start and goal in one layout


class Desk(NamedTuple):
    """What `draw_astar_task` works on; it may serve many mazes of one shape, one after the other."""

    free_C: Indices  # the free cells
    mark_P: Indices
    queue_C: Indices
    size_K: Indices
    search: Scratch


@njit(cache=True)
def clear_desk(height: int, width: int) -> Desk:
    cells = height * width
    return Desk(
        np.empty(cells, dtype=np.int32),
        np.empty(cells + 2 * width, dtype=np.int32),
        np.empty(cells + 1, dtype=np.int32),
        np.empty(_MAX_PAIRS + 1, dtype=np.int32),
        astar_scratch(height, width),
    )


@lean
def draw_astar_task(
    cell_C: Cells, width: int, state: Stream, min_length: int, desk: Desk, path: Indices, trace_E4: Events
) -> tuple[int, int]:
    """Draw pairs of free cells until A* finds a path of at least `min_length` cells; (its length, number of events).

    (0, 0) if no pair has such a path.
    """
    free_C, mark_P, queue_C, size_K, search = desk
    free = 0
    for cell in range(cell_C.size):
        free_C[free] = cell  # stays only if counted: a branch would mostly be guessed wrong
        free += cell_C[cell] != WALL
    # Most pairs have no way between them, and A* would look at a whole part of the maze to find that out again and
    # again. So the part of a start is marked with a number, and its size kept.
    mark_P[:] = 0
    parts = 0
    for _ in range(_MAX_PAIRS):
        start, goal = free_C[below(state, free)], free_C[below(state, free)]
        if mark_P[start + width] == 0:
            parts += 1
            size_K[parts] = mark_part(cell_C, width, start, parts, mark_P, queue_C)
        part = mark_P[start + width]
        if mark_P[goal + width] != part or size_K[part] < min_length:
            continue
        length, events = search_astar(cell_C, width, start, goal, search, trace_E4)
        if length >= min_length:
            write_path(search.came_from_C, start, goal, path)
            return length, events
    return 0, 0
