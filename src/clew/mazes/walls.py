"""Family `walls`: an open field in which 30 to 50 % of the cells, chosen at random, are solid (the A* set)."""

from __future__ import annotations

import numpy as np
from numba import njit

from clew.mazes.maze import EAST, NORTH, SOUTH, WALL, WEST, Cells
from clew.mazes.random import Stream, below, shuffle_first


@njit(cache=True)
def place_walls(cells_HW: Cells, state: Stream) -> None:
    """Overwrite `cells_HW` with a fresh maze: the number of walls is uniform from 3 * (N // 10) to 5 * (N // 10)."""
    height, width = cells_HW.shape
    tenth = height * width // 10
    walls = 3 * tenth + below(state, 2 * tenth + 1)
    order = np.arange(height * width).astype(np.int32)
    shuffle_first(state, order, walls)
    cells_HW[:] = 0
    for cell in order[:walls]:
        cells_HW[cell // width, cell % width] = WALL
    for row in range(height):
        for col in range(width):
            if cells_HW[row, col] == WALL:
                continue
            if col + 1 < width and cells_HW[row, col + 1] != WALL:
                cells_HW[row, col] |= EAST
                cells_HW[row, col + 1] |= WEST
            if row + 1 < height and cells_HW[row + 1, col] != WALL:
                cells_HW[row, col] |= SOUTH
                cells_HW[row + 1, col] |= NORTH
