"""Checks of paths: whether a path solves a task, whether it is a shortest one, and what is wrong with it.

A valid path is a walk from the start to the goal through open sides; it may visit a cell twice. Paths come from models
too, so any list of cells is allowed, also one that leaves the maze.

    path_problem(task, path)   # "step 3 goes from (0, 1) to (0, 2) through a wall.", or None
    valid_N, shortest_N = check_batch(batch)

Shape suffixes: N tasks, H rows, W columns.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from clew.jit import njit
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST, Path, Task, TaskBatch
from clew.mazes.solvers import Indices, bfs_path, search_breadth_first, write_path


def path_problem(task: Task, path: Path) -> str | None:
    """Return the first thing that is wrong with the path, in one sentence; None if it is valid."""
    name = task.maze.name
    if not path:
        return "the path is empty."
    if path[0] != task.start:
        return f"the path begins at {name(path[0])}, not at the start {name(task.start)}."
    for step, (here, there) in enumerate(pairwise(path), start=1):
        if problem := task.maze.step_problem(here, there):
            return f"step {step} goes from {name(here)} to {name(there)}{problem}"
    if path[-1] != task.goal:
        return f"the path ends at {name(path[-1])}, not at the goal {name(task.goal)}."
    return None


def is_valid(task: Task, path: Path) -> bool:
    """Return whether `path` walks from the start to the goal through open sides."""
    return path_problem(task, path) is None


def is_shortest(task: Task, path: Path) -> bool:
    """Return whether `path` is valid and no valid path is shorter."""
    if not is_valid(task, path):
        return False
    best = bfs_path(task)
    assert best is not None, "a valid path exists"
    return len(path) == len(best)


def check_batch(batch: TaskBatch) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return (valid_N, shortest_N) of a batch's own paths, which may be empty or leave the maze."""
    if batch.height == 1:  # path-star graphs are small
        checked = [(is_valid(*pair), is_shortest(*pair)) for pair in batch]
        return np.array([valid for valid, _ in checked], bool), np.array([shortest for _, shortest in checked], bool)
    valid_N, shortest_N = np.zeros(len(batch), np.bool_), np.zeros(len(batch), np.bool_)
    _check(batch.cells_NHW, batch.start_N, batch.goal_N, batch.path, batch.offset_N1, valid_N, shortest_N)
    return valid_N, shortest_N


@njit(nogil=True)
def _check(
    cells_NHW: npt.NDArray[np.uint8],
    start_N: Indices,
    goal_N: Indices,
    path: Indices,
    offset_N1: npt.NDArray[np.int64],
    valid_N: npt.NDArray[np.bool_],
    shortest_N: npt.NDArray[np.bool_],
) -> None:
    _, height, width = cells_NHW.shape
    best = np.empty(height * width, dtype=np.int32)
    for i in range(len(cells_NHW)):
        steps = path[offset_N1[i] : offset_N1[i + 1]]
        if len(steps) == 0 or steps[0] != start_N[i] or steps[-1] != goal_N[i]:
            continue
        flat = cells_NHW[i].ravel()
        valid_N[i] = True
        for step in range(len(steps) - 1):
            here, there = steps[step], steps[step + 1]
            # Every `here` lies in the maze: the start does, and so does what an open side leads to.
            sides = flat[here]
            if not (
                (there == here + width and sides & SOUTH)
                or (there == here - width and sides & NORTH)
                or (there == here - 1 and sides & WEST)
                or (there == here + 1 and sides & EAST)
            ):
                valid_N[i] = False
                break
        if valid_N[i]:
            came_from_C, _, _ = search_breadth_first(cells_NHW[i], start_N[i], goal_N[i])
            shortest_N[i] = len(steps) == write_path(came_from_C, start_N[i], goal_N[i], best)
