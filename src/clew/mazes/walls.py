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
    pitch = width + 2  # with a rim around the maze
    order = np.empty(height * width, dtype=np.int32)
    for row in range(height):
        for col in range(width):
            order[row * width + col] = (row + 1) * pitch + col + 1
    shuffle_first(state, order, walls)
    # 1 where a cell is free, 0 where it is solid and in the rim. Whether a cell is solid is a coin's
    # throw, so sums and products instead of branches, which would mostly be guessed wrong.
    free_flat = np.zeros((height + 2) * pitch, dtype=np.uint8)
    for place in order[walls:]:
        free_flat[place] = 1
    free = free_flat.reshape(height + 2, pitch)
    for row in range(height):
        for col in range(width):
            sides = (
                NORTH * free[row, col + 1]
                + SOUTH * free[row + 2, col + 1]
                + WEST * free[row + 1, col]
                + EAST * free[row + 1, col + 2]
            )
            here = free[row + 1, col + 1]
            cells_HW[row, col] = here * sides + (1 - here) * WALL
