"""Family `wilson`: a perfect maze, every one equally likely, by Wilson's loop-erased random walks."""

from __future__ import annotations

import numpy as np
from numba import njit

from clew.mazes.maze import EAST, NORTH, SOUTH, WEST, Cells
from clew.mazes.random import Stream, below


@njit(cache=True)
def carve_wilson(cells_HW: Cells, state: Stream) -> None:
    """Overwrite `cells_HW` with a fresh maze."""
    height, width = cells_HW.shape
    joined_HW = np.zeros((height, width), dtype=np.bool_)
    # The side by which the walk last left each cell. What a loop added is overwritten when the walk comes by again,
    # so that following it from the walk's first cell erases the loops.
    left_by_HW = np.zeros((height, width), dtype=np.uint8)
    cells_HW[:] = 0
    # Any root gives every tree the same chance; walks find the middle soonest.
    joined_HW[height // 2, width // 2] = True
    for first_row in range(height):
        for first_col in range(width):
            row, col = first_row, first_col
            while not joined_HW[row, col]:
                side = 1 << below(state, 4)
                next_row, next_col = _step(row, col, side)
                if 0 <= next_row < height and 0 <= next_col < width:  # else draw again: uniform over those inside
                    left_by_HW[row, col] = side
                    row, col = next_row, next_col
            row, col = first_row, first_col
            while not joined_HW[row, col]:
                joined_HW[row, col] = True
                side = left_by_HW[row, col]
                cells_HW[row, col] |= side
                row, col = _step(row, col, side)
                # NORTH, SOUTH, WEST, EAST are 1, 2, 4, 8: the opposite is the other of the pair.
                cells_HW[row, col] |= side << 1 if side in (NORTH, WEST) else side >> 1


@njit(cache=True)
def _step(row: int, col: int, side: int) -> tuple[int, int]:
    if side == NORTH:
        return row - 1, col
    if side == SOUTH:
        return row + 1, col
    if side == WEST:
        return row, col - 1
    assert side == EAST
    return row, col + 1
