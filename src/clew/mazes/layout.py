"""A stable 64-bit hash of a maze's layout, and the side, train or test, to which a layout belongs for ever.

Every passage and every wall cell has a random 64-bit key, and a layout's hash is the XOR of its keys (Zobrist
hashing), the smallest over all ways to turn and mirror the maze. So a maze and its mirror image are on one side, and
turning training mazes cannot make a held-out one. The side is a pure function of the hash: it depends on no seed, and
two sets that were made apart can never share a layout across the sides.

    held_out_N = is_held_out(layout_hashes(batch.cells_NHW))

Shape suffixes: N mazes, H rows, W columns, C = H * W cells, K = 3 kinds of keys, S = 8 symmetries.
"""

from __future__ import annotations

from functools import lru_cache
from typing import overload

import numpy as np
import numpy.typing as npt
from numba import njit

from clew.mazes.maze import EAST, SOUTH, WALL, Cells
from clew.mazes.random import mix

# One layout in this many is held out for testing.
HELD_OUT_IN = 16
# Chosen so that both sides have layouts of even the smallest mazes (see the tests); to change it is to change which
# mazes are held out, and so what every dataset may contain.
_SALT = np.uint64(58)
_STEP = np.uint64(0x9E3779B97F4A7C15)  # mix(0) is 0, which the step avoids
_KIND_EAST, _KIND_SOUTH, _KIND_WALL = 0, 1, 2

Keys = npt.NDArray[np.uint64]


@lru_cache(maxsize=32)
def layout_keys(height: int, width: int) -> Keys:
    """keys_CKS: for each cell its east passage's, its south passage's and its wall's key under each symmetry."""
    cell_HW = np.arange(height * width).reshape(height, width)
    turned = [np.rot90(view, turns) for view in (cell_HW, cell_HW.T) for turns in range(4)]
    # Only those that lay the maze wide: 8 for a square, 4 for another rectangle, whose transposed layout then has
    # the same hash. All 2x2 perfect mazes are turns of one another, so there no turning: else one side had none.
    views = [cell_HW] if height == width == 2 else [view for view in turned if view.shape[0] <= view.shape[1]]

    base_KC = _base_keys(min(height, width), max(height, width))
    keys_CKS = np.zeros((height * width, 3, 8), dtype=np.uint64)
    for s in range(8):
        view = views[s % len(views)]  # fewer than 8 are repeated, which does not change the smallest
        place_C = np.empty(height * width, dtype=np.int64)
        place_C[view.ravel()] = np.arange(height * width)
        place_HW = place_C.reshape(height, width)
        keys_CKS[:, _KIND_WALL, s] = base_KC[_KIND_WALL, place_C]
        for kind, a, b in (
            (_KIND_EAST, place_HW[:, :-1], place_HW[:, 1:]),
            (_KIND_SOUTH, place_HW[:-1], place_HW[1:]),
        ):
            # Where the passage comes to lie, named by its upper or left cell. Neighbours in a row differ by 1,
            # neighbours in a column by more, since a wide maze has 2 columns or more.
            image_kind = np.where(np.abs(a - b) == 1, _KIND_EAST, _KIND_SOUTH)
            first = cell_HW[: a.shape[0], : a.shape[1]]
            keys_CKS[first, kind, s] = base_KC[image_kind, np.minimum(a, b)]
    keys_CKS.flags.writeable = False
    return keys_CKS


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
def layout_hash(cells_HW: Cells, keys_CKS: Keys) -> np.uint64:
    """The hash of one layout; the compiled part of `layout_hashes`."""
    sum_S = np.zeros(8, dtype=np.uint64)
    cell = 0
    for row in range(cells_HW.shape[0]):
        for col in range(cells_HW.shape[1]):
            sides = cells_HW[row, col]
            # A mask of all ones or all zeros instead of `if`: the bits are random, a branch would mostly be guessed
            # wrong.
            east = np.uint64(0) - np.uint64((sides & EAST) != 0)
            south = np.uint64(0) - np.uint64((sides & SOUTH) != 0)
            wall = np.uint64(0) - np.uint64((sides & WALL) != 0)
            for s in range(8):
                sum_S[s] ^= (
                    (keys_CKS[cell, 0, s] & east) ^ (keys_CKS[cell, 1, s] & south) ^ (keys_CKS[cell, 2, s] & wall)
                )
            cell += 1
    smallest: np.uint64 = sum_S[0]
    for s in range(1, 8):
        smallest = min(smallest, sum_S[s])
    return smallest


@njit(cache=True, nogil=True)
def _layout_hashes(cells_NHW: npt.NDArray[np.uint8], keys_CKS: Keys) -> Keys:
    hash_N = np.empty(len(cells_NHW), dtype=np.uint64)
    for i in range(len(cells_NHW)):
        hash_N[i] = layout_hash(cells_NHW[i], keys_CKS)
    return hash_N


def layout_hashes(cells_NHW: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """The layout hash of each maze; equal for mazes that are turned or mirrored into each other."""
    cells_NHW = np.ascontiguousarray(cells_NHW, dtype=np.uint8)
    hash_N: npt.NDArray[np.uint64] = _layout_hashes(cells_NHW, layout_keys(*cells_NHW.shape[1:]))
    return hash_N


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
