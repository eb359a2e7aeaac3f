"""Family `dfs`: a perfect maze carved by a randomized depth-first search.

From a uniform first cell: go on to a uniform unvisited neighbour; where there is none, go back the way you came.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from clew.mazes.maze import EAST, NORTH, SOUTH, WEST, Cells
from clew.mazes.random import Stream, below

_SEEN = 32  # a bit that no side uses


@njit(cache=True)
def carve_dfs(cells_HW: Cells, state: Stream) -> None:
    """Overwrite `cells_HW` with a fresh maze."""
    height, width = cells_HW.shape
    # A rim of seen cells around the maze stands in for every check of the border.
    pitch = width + 2
    grid = np.zeros((height + 2) * pitch, dtype=np.uint8)
    grid[:pitch] = _SEEN
    grid[-pitch:] = _SEEN
    for row in range(1, height + 1):
        grid[row * pitch] = _SEEN
        grid[row * pitch + width + 1] = _SEEN

    stack = np.empty(height * width, dtype=np.int32)
    depth = 0
    first = below(state, height * width)
    here = (first // width + 1) * pitch + first % width + 1
    grid[here] = _SEEN
    step_4 = np.empty(4, dtype=np.int64)
    while True:
        # Write every side and advance over the unseen ones only: no branch to guess wrong.
        choices = 0
        step_4[choices] = -pitch
        choices += grid[here - pitch] == 0
        step_4[choices] = pitch
        choices += grid[here + pitch] == 0
        step_4[choices] = -1
        choices += grid[here - 1] == 0
        if grid[here + 1] == 0:
            step_4[choices] = 1
            choices += 1
        if choices == 0:
            if depth == 0:
                break
            depth -= 1
            here = stack[depth]
            continue
        step = step_4[0] if choices == 1 else step_4[below(state, choices)]
        there = here + step
        if step == -pitch:
            out, back = NORTH, SOUTH
        elif step == pitch:
            out, back = SOUTH, NORTH
        elif step == -1:
            out, back = WEST, EAST
        else:
            out, back = EAST, WEST
        grid[here] |= out
        grid[there] = back | _SEEN
        stack[depth] = here
        depth += 1
        here = there

    for row in range(height):
        for col in range(width):
            cells_HW[row, col] = grid[(row + 1) * pitch + col + 1] & ~_SEEN
