"""Family `kruskal`: a perfect maze that opens passages in random order, each unless it would close a loop."""

from __future__ import annotations

import numpy as np
from numba import njit

from clew.mazes.maze import EAST, NORTH, SOUTH, WEST, Cells
from clew.mazes.parts import root_of
from clew.mazes.random import Stream, shuffle_first


@njit(cache=True)
def carve_kruskal(cells_HW: Cells, state: Stream) -> None:
    """Overwrite `cells_HW` with a fresh maze."""
    height, width = cells_HW.shape
    cells_HW[:] = 0
    # Passage 2 * cell leads east from the cell, 2 * cell + 1 leads south.
    passage = np.empty(2 * height * width - height - width, dtype=np.int32)
    count = 0
    for cell in range(height * width):
        if cell % width + 1 < width:
            passage[count] = 2 * cell
            count += 1
        if cell // width + 1 < height:
            passage[count] = 2 * cell + 1
            count += 1
    shuffle_first(state, passage, count)

    parent_C = np.arange(height * width, dtype=np.int32)
    missing = height * width - 1
    for p in passage:
        here = p // 2
        there = here + (width if p % 2 else 1)
        root, other = root_of(parent_C, here), root_of(parent_C, there)
        if root == other:
            continue
        parent_C[root] = other
        if p % 2:
            cells_HW[here // width, here % width] |= SOUTH
            cells_HW[there // width, there % width] |= NORTH
        else:
            cells_HW[here // width, here % width] |= EAST
            cells_HW[there // width, there % width] |= WEST
        missing -= 1
        if missing == 0:
            break
