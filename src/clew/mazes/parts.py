"""Which cells of a maze are connected: by union-find while it grows, by filling a part of one that is finished.

Shape suffixes: H rows, W columns, C = H * W cells by index, P = C + 2 * W, the cells with a row above and one below.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from clew.mazes.lean import lean
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST, Cells

Indices = npt.NDArray[np.int32]

_ZERO, _ONE = np.uint64(0), np.uint64(1)  # uint64 objects because numba turns uint64 with int64 into float64
_NORTH, _SOUTH, _WEST, _EAST = (np.uint64(side.bit_length() - 1) for side in (NORTH, SOUTH, WEST, EAST))


@njit(cache=True)
def root_of(parent_C: Indices, cell: int) -> int:
    """The cell that stands for all cells joined with this one; halves the way there for the next asker."""
    while parent_C[cell] != cell:
        parent_C[cell] = parent_C[parent_C[cell]]
        cell = parent_C[cell]
    return cell


@lean
def mark_part(cell_C: Cells, columns: int, start: int, mark: int, mark_P: Indices, queue_C: Indices) -> int:
    """Set `mark_P`, 0 before, to `mark` at all cells connected with `start`, and return how many they are.

    The place of a cell in `mark_P` is its index + W. `queue_C` is scratch with one item more than there are cells.
    """
    width = np.uint64(columns)
    mark_P[np.uint64(start) + width] = mark
    queue_C[_ZERO] = start
    # A queue, and not a stack, whose next cell is the one just found: the processor would have to wait for it.
    head, tail = _ZERO, _ONE
    while head < tail:
        here = np.uint64(queue_C[head])
        head += _ONE
        sides = np.uint64(cell_C[here])
        for side, there in (
            (_SOUTH, here + width),
            (_NORTH, here - width),
            (_WEST, here - _ONE),
            (_EAST, here + _ONE),
        ):
            # Whether a cell is new is a coin's throw, so no branch, which would mostly be guessed wrong: it is
            # written in any case, with its old mark and to be overwritten in the queue if it is not new.
            old = mark_P[there + width]
            new = sides >> side & np.uint64(old == 0) & _ONE
            mark_P[there + width] = mark if new != _ZERO else old
            queue_C[tail] = there
            tail += new
    return np.int64(tail)  # type: ignore[return-value]
