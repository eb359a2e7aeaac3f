"""A stable 64-bit hash of a maze's layout, and the split, train or test, to which a layout belongs for ever.

    held_out_N = is_held_out(layout_hashes(batch.cells_NHW))

Every passage and every wall cell has a random 64-bit key, and a layout's hash is the XOR of its keys (Zobrist
hashing), the smallest over all rotations and reflections of the maze. The split is a function of the hash alone. A
path-star graph has a key for every edge, and no symmetries.

Shape suffixes: N mazes, H rows, W columns, C = H * W cells, K = 3 kinds of keys, M = K * C keys, S = 8 symmetries,
V labels.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from clew.jit import njit
from clew.mazes.compiled import STEP, mix
from clew.mazes.maze import ABSENT, EAST, SOUTH, WALL, Cells

# One layout in this many is held out for testing.
HELD_OUT_IN = 16
# Chosen so that both splits have layouts of even the smallest mazes (see the tests); to change it is to change which
# mazes are held out, and so what every dataset may contain.
_SALT = np.uint64(58)
_KIND_EAST, _KIND_SOUTH, _KIND_WALL = 0, 1, 2

Keys = npt.NDArray[np.uint64]


@lru_cache(maxsize=32)
def layout_keys(height: int, width: int) -> Keys:
    """Return keys_SM: under each symmetry the keys of all passages to the east, to the south, and of all wall cells."""
    cell_HW = np.arange(height * width).reshape(height, width)
    turned = [np.rot90(view, turns) for view in (cell_HW, cell_HW.T) for turns in range(4)]
    # Only those that lay the maze wide: 8 for a square, 4 for another rectangle, whose transposed layout then has
    # the same hash. All 2x2 perfect mazes are turns of one another, so none are turned there: else one split had none.
    views = [cell_HW] if height == width == 2 else [view for view in turned if view.shape[0] <= view.shape[1]]

    base_KC = np.full((3, height * width), _SALT)  # the key of each kind at each cell of a wide maze as it lies
    for part in (min(height, width), max(height, width), np.arange(3)[:, None], np.arange(height * width)):
        base_KC = mix((base_KC ^ np.asarray(part, dtype=np.uint64)) + STEP)
    keys_SKC = np.zeros((8, 3, height * width), dtype=np.uint64)
    for s in range(8):
        # Where each cell comes to lie. Fewer than 8 views are repeated, which does not change the smallest hash.
        place_C = views[s % len(views)].ravel().argsort()
        keys_SKC[s, _KIND_WALL] = base_KC[_KIND_WALL, place_C]
        for kind, first, step in ((_KIND_EAST, cell_HW[:, :-1], 1), (_KIND_SOUTH, cell_HW[:-1], width)):
            # Where the passage comes to lie, named by its upper or left cell. Neighbours in a row differ by 1,
            # neighbours in a column by more, since a wide maze has 2 columns or more.
            a, b = place_C[first], place_C[first + step]
            image_kind = np.where(np.abs(a - b) == 1, _KIND_EAST, _KIND_SOUTH)
            keys_SKC[s, kind, first] = base_KC[image_kind, np.minimum(a, b)]
    keys_SM = keys_SKC.reshape(8, -1)
    keys_SM.flags.writeable = False
    return keys_SM


@njit(nogil=True)
def layout_hash(cells_HW: Cells, keys_SM: Keys) -> np.uint64:
    """Return the hash of one layout."""
    total = np.uint64(0)
    if cells_HW.shape[0] == 1:  # a path-star graph; the number of its labels has no key
        for node, before in enumerate(cells_HW[0]):
            if before != ABSENT and before != node:
                total ^= mix((_SALT ^ (np.uint64(before) << np.uint64(8)) ^ np.uint64(node)) * STEP)
        return total
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


@njit(nogil=True)
def _layout_hashes(cells_NHW: npt.NDArray[np.uint8], keys_SM: Keys) -> Keys:
    hash_N = np.empty(len(cells_NHW), dtype=np.uint64)
    for i in range(len(cells_NHW)):
        hash_N[i] = layout_hash(cells_NHW[i], keys_SM)
    return hash_N


def layout_hashes(cells_NHW: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return the layout hash of each maze; equal for mazes that are rotations or reflections of each other."""
    cells_NHW = np.ascontiguousarray(cells_NHW, dtype=np.uint8)
    return np.asarray(_layout_hashes(cells_NHW, layout_keys(*cells_NHW.shape[1:])))


def is_held_out(hash_N: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Return whether layouts with these hashes belong to the test split."""
    return np.asarray(hash_N % np.uint64(HELD_OUT_IN) == 0)
