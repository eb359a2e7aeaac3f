"""Which cells of a maze are connected, by union-find.

Shape suffixes: H rows, W columns, C = H * W cells by index.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from clew.mazes.maze import NORTH, WEST, Cells

Indices = npt.NDArray[np.int32]


@njit(cache=True)
def root_of(parent_C: Indices, cell: int) -> int:
    """The cell that stands for all cells joined with this one; halves the way there for the next asker."""
    while parent_C[cell] != cell:
        parent_C[cell] = parent_C[parent_C[cell]]
        cell = parent_C[cell]
    return cell


@njit(cache=True)
def connected_parts(cells_HW: Cells) -> tuple[Indices, Indices]:
    """(part_C, size_C): each cell's part, named by its first cell, and the size of each part at that cell.

    A wall cell is a part of its own.
    """
    width = cells_HW.shape[1]
    flat_C = cells_HW.ravel()
    # First the cells of a row that hang together, then these with the row above.
    part_C = np.empty(flat_C.size, dtype=np.int32)
    first = 0
    for cell in range(flat_C.size):
        first = first if flat_C[cell] & WEST else cell
        part_C[cell] = first
    for cell in range(width, flat_C.size):
        # Around a square of four open sides the cell to the left has joined the rows already.
        square = flat_C[cell] & flat_C[cell - width] & WEST and flat_C[cell - 1] & NORTH
        if flat_C[cell] & NORTH and not square:
            north, here = root_of(part_C, cell - width), root_of(part_C, cell)
            # The smaller index stands for both, so that one pass from the first cell on is enough below.
            part_C[max(north, here)] = min(north, here)
    size_C = np.zeros(flat_C.size, dtype=np.int32)
    for cell in range(flat_C.size):
        part_C[cell] = part_C[part_C[cell]]
        size_C[part_C[cell]] += 1
    return part_C, size_C
