"""Start and goal for mazes in which not all cells are connected: pairs whose A* path is long enough.

`draw_astar_task` takes the first good pair of some draws, `draw_all_astar_tasks` every good pair of 100 draws, as
Searchformer does.

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

MAX_PAIRS = 100  # draws of start and goal in one layout


class Desk(NamedTuple):
    """What the functions below work on; it may serve many mazes of one shape, one after the other."""

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
        np.empty(MAX_PAIRS + 1, dtype=np.int32),
        astar_scratch(height, width),
    )


@lean
def _list_free_cells(cell_C: Cells, desk: Desk) -> int:
    """Write the free cells into `free_C`, clear the marks, and return how many cells are free."""
    free_C = desk.free_C
    free = 0
    for cell in range(cell_C.size):
        free_C[free] = cell  # stays only if counted: a branch would mostly be guessed wrong
        free += cell_C[cell] != WALL
    desk.mark_P[:] = 0
    return free


@lean
def _may_be_connected(
    cell_C: Cells, width: int, start: int, goal: int, min_length: int, parts: int, desk: Desk
) -> tuple[bool, int]:
    """Whether both cells are in one part of the maze that has at least `min_length` cells, and the parts known now.

    Most pairs have no way between them, and A* would look at a whole part of the maze to find that out again and
    again. So the part of a start is marked with a number, and its size kept.
    """
    _, mark_P, queue_C, size_K, _ = desk
    if mark_P[start + width] == 0:
        parts += 1
        size_K[parts] = mark_part(cell_C, width, start, parts, mark_P, queue_C)
    part = mark_P[start + width]
    return mark_P[goal + width] == part and size_K[part] >= min_length, parts


@lean
def draw_astar_task(
    cell_C: Cells,
    width: int,
    state: Stream,
    min_length: int,
    draws: int,
    desk: Desk,
    path: Indices,
    trace_E4: Events,
) -> tuple[int, int]:
    """Draw pairs of free cells until A* finds a path of at least `min_length` cells; (its length, number of events).

    (0, 0) if none of `draws` pairs, at most MAX_PAIRS, has such a path.
    """
    free_C, search = desk.free_C, desk.search
    free = _list_free_cells(cell_C, desk)
    parts = 0
    for _ in range(draws):
        start, goal = free_C[below(state, free)], free_C[below(state, free)]
        possible, parts = _may_be_connected(cell_C, width, start, goal, min_length, parts, desk)
        if not possible:
            continue
        length, events = search_astar(cell_C, width, start, goal, search, trace_E4)
        if length >= min_length:
            write_path(search.came_from_C, start, goal, path)
            return length, events
    return 0, 0


@lean
def draw_all_astar_tasks(
    cell_C: Cells, width: int, state: Stream, min_length: int, desk: Desk, path: Indices, end_K: Indices, trace: Events
) -> int:
    """Draw MAX_PAIRS pairs of two free cells and write the path of each new one that has at least `min_length` cells.

    Returns how many paths were written. They stand in `path` one after the other, the k-th up to `end_K[k]`; `trace`
    is overwritten by every search.
    """
    free_C, search = desk.free_C, desk.search
    free = _list_free_cells(cell_C, desk)
    parts, found, used = 0, 0, 0
    for _ in range(MAX_PAIRS):
        first, second = below(state, free), below(state, free - 1)
        start, goal = free_C[first], free_C[second + (second >= first)]  # any free cell but the start
        possible, parts = _may_be_connected(cell_C, width, start, goal, min_length, parts, desk)
        if not possible:
            continue
        new, begin = True, 0
        for k in range(found):
            new &= path[begin] != start or path[end_K[k] - 1] != goal
            begin = end_K[k]
        if not new:
            continue
        length, _ = search_astar(cell_C, width, start, goal, search, trace)
        if length >= min_length:
            write_path(search.came_from_C, start, goal, path[used:])
            used += length
            end_K[found] = used
            found += 1
    return found
