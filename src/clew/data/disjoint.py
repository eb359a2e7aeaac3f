"""The proof that no layout is both trained and tested on.

Two checks that do not trust each other: no layout hash occurs in both splits, and every hash is on its split's side
(see clew.mazes.layout), so that two datasets which were made apart cannot overlap either.

Shape suffixes: N mazes, H rows, W columns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clew.mazes.layout import is_held_out, layout_hashes

BLOCK_CELLS = 16_000_000  # cells that are read at a time


def overlap(train_NHW: npt.NDArray[np.uint8], test_NHW: npt.NDArray[np.uint8]) -> str | None:
    """What is wrong with the two splits, as the end of a sentence, or None."""
    train_N, test_N = _hashes(train_NHW), _hashes(test_NHW)
    shared = np.intersect1d(train_N, test_N)
    if len(shared):
        return f"{len(shared)} layouts are both in train and in test"
    wrong_train, wrong_test = int(is_held_out(train_N).sum()), int((~is_held_out(test_N)).sum())
    if wrong_train or wrong_test:
        return f"{wrong_train} mazes in train and {wrong_test} in test have a layout of the other side"
    return None


def _hashes(cells_NHW: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """The hashes of mazes that need not fit into memory."""
    block = max(1, BLOCK_CELLS // (cells_NHW.shape[1] * cells_NHW.shape[2]))
    starts = range(0, len(cells_NHW), block)
    return np.concatenate([np.empty(0, np.uint64), *(layout_hashes(cells_NHW[i : i + block]) for i in starts)])
