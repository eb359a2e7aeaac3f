"""Family `percolation`: every passage is open with the same chance, by itself: loops, and cells nobody can reach."""

from __future__ import annotations

from numba import njit

from clew.mazes.maze import EAST, NORTH, SOUTH, WEST, Cells
from clew.mazes.random import Stream, unit


@njit(cache=True)
def open_passages(cells_HW: Cells, state: Stream, open_share: float) -> None:
    """Overwrite `cells_HW` with a fresh maze."""
    height, width = cells_HW.shape
    cells_HW[:] = 0
    for row in range(height):
        for col in range(width):
            if col + 1 < width and unit(state) < open_share:
                cells_HW[row, col] |= EAST
                cells_HW[row, col + 1] |= WEST
            if row + 1 < height and unit(state) < open_share:
                cells_HW[row, col] |= SOUTH
                cells_HW[row + 1, col] |= NORTH
