"""Which cells of a maze are connected: by union-find while it grows, by filling a part of one that is finished.

Shape suffixes: H rows, W columns, C = H * W cells by index, P = C + 2 * W, the cells with a row above and one below.

A stable 64-bit hash of a maze's layout, and the side, train or test, to which a layout belongs for ever.

Every passage and every wall cell has a random 64-bit key, and a layout's hash is the XOR of its keys (Zobrist
hashing), the smallest over all ways to turn and mirror the maze. So a maze and its mirror image are on one side, and
turning training mazes cannot make a held-out one. The side is a pure function of the hash: it depends on no seed, and
two sets that were made apart can never share a layout across the sides.

    held_out_N = is_held_out(layout_hashes(batch.cells_NHW))

A path-star graph has a key for every edge, and labels are names, so there is nothing to turn or mirror.

Shape suffixes: N mazes, H rows, W columns, C = H * W cells, K = 3 kinds of keys, M = K * C keys,
S = 8 symmetries.
"""

from __future__ import annotations

from functools import lru_cache
from typing import overload

import numpy as np
import numpy.typing as npt
from numba import njit

from clew.mazes.jit import njit_inline
from clew.mazes.maze import ABSENT, EAST, NORTH, SOUTH, WALL, WEST, Cells
from clew.mazes.random import mix

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


@njit_inline
def mark_component(cell_C: Cells, columns: int, start: int, mark: int, mark_P: Indices, queue_C: Indices) -> int:
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


# One layout in this many is held out for testing; `layout_is_held_out` looks at the 4 bits that decide this.
HELD_OUT_IN = 16
# Chosen so that both sides have layouts of even the smallest mazes (see the tests); to change it is to change which
# mazes are held out, and so what every dataset may contain.
_SALT = np.uint64(58)
_STEP = np.uint64(0x9E3779B97F4A7C15)  # mix(0) is 0, which the step avoids
_KIND_EAST, _KIND_SOUTH, _KIND_WALL = 0, 1, 2

Keys = npt.NDArray[np.uint64]


@lru_cache(maxsize=32)
def layout_keys(height: int, width: int) -> Keys:
    """keys_SM: under each symmetry the keys of all passages to the east, all passages to the south and all walls."""
    cell_HW = np.arange(height * width).reshape(height, width)
    turned = [np.rot90(view, turns) for view in (cell_HW, cell_HW.T) for turns in range(4)]
    # Only those that lay the maze wide: 8 for a square, 4 for another rectangle, whose transposed layout then has
    # the same hash. All 2x2 perfect mazes are turns of one another, so there no turning: else one side had none.
    views = [cell_HW] if height == width == 2 else [view for view in turned if view.shape[0] <= view.shape[1]]

    base_KC = _base_keys(min(height, width), max(height, width))
    keys_SKC = np.zeros((8, 3, height * width), dtype=np.uint64)
    for s in range(8):
        view = views[s % len(views)]  # fewer than 8 are repeated, which does not change the smallest
        place_C = np.empty(height * width, dtype=np.int64)
        place_C[view.ravel()] = np.arange(height * width)
        place_HW = place_C.reshape(height, width)
        keys_SKC[s, _KIND_WALL] = base_KC[_KIND_WALL, place_C]
        for kind, a, b in (
            (_KIND_EAST, place_HW[:, :-1], place_HW[:, 1:]),
            (_KIND_SOUTH, place_HW[:-1], place_HW[1:]),
        ):
            # Where the passage comes to lie, named by its upper or left cell. Neighbours in a row differ by 1,
            # neighbours in a column by more, since a wide maze has 2 columns or more.
            image_kind = np.where(np.abs(a - b) == 1, _KIND_EAST, _KIND_SOUTH)
            first = cell_HW[: a.shape[0], : a.shape[1]]
            keys_SKC[s, kind, first] = base_KC[image_kind, np.minimum(a, b)]
    keys_SM = keys_SKC.reshape(8, -1)
    keys_SM.flags.writeable = False
    return keys_SM


@njit(cache=True)
def _base_keys(height: int, width: int) -> Keys:
    """base_KC: the key of each kind at each cell of a wide maze as it lies."""
    base_KC = np.empty((3, height * width), dtype=np.uint64)
    for kind in range(3):
        for place in range(height * width):
            x = _SALT
            for part in (height, width, kind, place):
                x = mix((x ^ np.uint64(part)) + _STEP)
            base_KC[kind, place] = x
    return base_KC


@njit(cache=True, nogil=True)
def layout_hash(cells_HW: Cells, keys_SM: Keys) -> np.uint64:
    """The hash of one layout; the compiled part of `layout_hashes`."""
    flat_C = cells_HW.ravel()
    cells = flat_C.size
    # All ones or all zeros instead of an `if` a passage: the sides are random, so a branch would mostly be guessed
    # wrong, and without one the loops run on whole vectors.
    mask_M = np.empty(3 * cells, dtype=np.uint64)
    for kind, bit in ((_KIND_EAST, EAST), (_KIND_SOUTH, SOUTH), (_KIND_WALL, WALL)):
        for cell in range(cells):
            mask_M[kind * cells + cell] = np.uint64(0) - np.uint64((flat_C[cell] & bit) != 0)
    smallest = ~np.uint64(0)
    for s in range(8):  # `for key_M in keys_SM` would not be made into vector instructions
        key_M = keys_SM[s]
        total = np.uint64(0)
        for m in range(3 * cells):
            total ^= key_M[m] & mask_M[m]
        smallest = min(smallest, total)
    return smallest


@lru_cache(maxsize=32)
def brief_keys(height: int, width: int) -> Keys:
    """brief_M: of each key the highest and the lowest 4 bits, under the 8 symmetries one byte each."""
    keys_SM = layout_keys(height, width)
    brief_SM = (keys_SM >> np.uint64(56) & np.uint64(0xF0)) | (keys_SM & np.uint64(0x0F))
    brief_M: Keys = np.bitwise_or.reduce(brief_SM << (np.uint64(8) * np.arange(8, dtype=np.uint64))[:, None], axis=0)
    brief_M.flags.writeable = False
    return brief_M


@njit(cache=True)
def layout_is_held_out(cells_HW: Cells, keys_SM: Keys, brief_M: Keys) -> bool:
    """The same as `is_held_out` of `layout_hash`, mostly with an eighth of the work."""
    may_be, may_not_be = _brief_sides(cells_HW.ravel(), brief_M)
    if may_be and may_not_be:
        may_be = layout_hash(cells_HW, keys_SM) % np.uint64(HELD_OUT_IN) == np.uint64(0)
    return may_be


@njit_inline
def _brief_sides(cell_C: Cells, brief_M: Keys) -> tuple[bool, bool]:
    """Whether the layout may be held out, and whether it may not, as far as the brief keys can say; one at least.

    XOR does not mix bits, so the brief keys give the ends of the 8 hashes. The high ends say which hashes may be the
    smallest, and the low ends of these whether it is a multiple of 16.
    """
    cells = cell_C.size
    total = np.uint64(0)
    for kind, bit in ((_KIND_EAST, EAST), (_KIND_SOUTH, SOUTH), (_KIND_WALL, WALL)):
        for cell in range(cells):
            total ^= brief_M[kind * cells + cell] & (np.uint64(0) - np.uint64((cell_C[cell] & bit) != 0))
    smallest, may_be, may_not_be = np.uint64(16), False, False
    for _ in range(8):
        high, low = total >> np.uint64(4) & np.uint64(15), total & np.uint64(15)
        total >>= np.uint64(8)
        if high < smallest:
            smallest, may_be, may_not_be = high, False, False
        may_be |= high == smallest and low == np.uint64(0)
        may_not_be |= high == smallest and low != np.uint64(0)
    return may_be, may_not_be


@njit(cache=True, nogil=True)
def _layout_hashes(cells_NHW: npt.NDArray[np.uint8], keys_SM: Keys) -> Keys:
    hash_N = np.empty(len(cells_NHW), dtype=np.uint64)
    for i in range(len(cells_NHW)):
        hash_N[i] = layout_hash(cells_NHW[i], keys_SM)
    return hash_N


def layout_hashes(cells_NHW: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """The layout hash of each maze; equal for mazes that are turned or mirrored into each other."""
    cells_NHW = np.ascontiguousarray(cells_NHW, dtype=np.uint8)
    if cells_NHW.shape[1] == 1:
        return np.array([graph_hash(before_V) for before_V in cells_NHW[:, 0]], dtype=np.uint64)
    hash_N: npt.NDArray[np.uint64] = _layout_hashes(cells_NHW, layout_keys(*cells_NHW.shape[1:]))
    return hash_N


@njit(cache=True, nogil=True)
def graph_hash(before_V: Cells) -> np.uint64:
    """The hash of a path-star graph: the XOR of its edges' keys, whatever the number of labels it draws from."""
    total = np.uint64(0)
    for node in range(before_V.size):
        if before_V[node] != ABSENT and before_V[node] != node:
            total ^= mix((_SALT ^ (np.uint64(before_V[node]) << np.uint64(8)) ^ np.uint64(node)) * _STEP)
    return total


@overload
def is_held_out(layout: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]: ...
@overload
def is_held_out(layout: int | np.uint64) -> bool: ...
def is_held_out(layout: int | np.uint64 | npt.NDArray[np.uint64]) -> bool | npt.NDArray[np.bool_]:
    """Whether layouts with this hash (or these hashes) belong to the test side."""
    if isinstance(layout, np.ndarray):
        held_out: npt.NDArray[np.bool_] = layout % np.uint64(HELD_OUT_IN) == 0
        return held_out
    return int(layout) % HELD_OUT_IN == 0
