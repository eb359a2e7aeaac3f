"""Whether mazes and their paths are what they must be, for all mazes of a batch at the speed of compiled code.

Shape suffixes: N mazes, H rows, W columns, C = H * W cells by index.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from clew.mazes.bfs import search_breadth_first
from clew.mazes.maze import EAST, NORTH, SOUTH, WALL, WEST, Cells, TaskBatch

# What can be wrong with a maze, and the array that holds what is wrong.
_FINE, _CELLS, _START, _GOAL, _PATH, _LONG = range(6)
PROBLEMS = {
    _CELLS: ("cells", "has cells that do not fit together"),
    _START: ("start", "has a start that is not a free cell or not where its path begins"),
    _GOAL: ("goal", "has a goal that is not a free cell or not where its path ends"),
    _PATH: ("path", "has a path that goes through walls"),
    _LONG: ("path", "has a path that is not a shortest one"),
}


def first_problem(tasks: TaskBatch) -> tuple[int, str, str] | None:
    """The first bad maze of the batch, the array that is to blame, and what is wrong; None if all is well."""
    maze, problem = _first_problem(tasks.cells_NHW, tasks.start_N, tasks.goal_N, tasks.path, tasks.offset_N1)
    return None if problem == _FINE else (int(maze), *PROBLEMS[problem])


@njit(cache=True)
def _first_problem(
    cells_NHW: npt.NDArray[np.uint8],
    start_N: npt.NDArray[np.int32],
    goal_N: npt.NDArray[np.int32],
    path: npt.NDArray[np.int32],
    offset_N1: npt.NDArray[np.int64],
) -> tuple[int, int]:
    for i in range(len(start_N)):
        problem = _problem(cells_NHW[i], start_N[i], goal_N[i], path[offset_N1[i] : offset_N1[i + 1]])
        if problem != _FINE:
            return i, problem
    return -1, _FINE


@njit(cache=True)
def _problem(cells_HW: Cells, start: int, goal: int, path: npt.NDArray[np.int32]) -> int:
    height, width = cells_HW.shape
    for row in range(height):
        for col in range(width):
            sides = cells_HW[row, col]
            south = row + 1 < height and (cells_HW[row + 1, col] & NORTH) != 0
            east = col + 1 < width and (cells_HW[row, col + 1] & WEST) != 0
            outside = (row == 0 and (sides & NORTH) != 0) or (col == 0 and (sides & WEST) != 0)
            if sides > WALL or outside or south != ((sides & SOUTH) != 0) or east != ((sides & EAST) != 0):
                return _CELLS
    flat_C = cells_HW.ravel()
    if len(path) == 0:
        return _PATH
    if start >= flat_C.size or flat_C[start] & WALL or path[0] != start:
        return _START
    if goal >= flat_C.size or flat_C[goal] & WALL or path[-1] != goal:
        return _GOAL
    for i in range(len(path) - 1):
        here, there = path[i], path[i + 1]
        sides = flat_C[here]
        if not (
            (there == here - width and sides & NORTH)
            or (there == here + width and sides & SOUTH)
            or (there == here - 1 and sides & WEST)
            or (there == here + 1 and sides & EAST)
        ):
            return _PATH
    came_from_C, _, _ = search_breadth_first(cells_HW, start, goal)
    steps, cell = 0, goal
    while cell != start:
        cell = came_from_C[cell]
        steps += 1
    return _LONG if len(path) != steps + 1 else _FINE
