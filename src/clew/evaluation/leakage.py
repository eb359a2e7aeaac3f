"""Whether mazes that a model is evaluated on may have been trained on.

    check = check_leakage([tasks])                               # by the lasting side of each layout
    check = check_leakage([tasks], training_layouts(dataset))    # against the layouts that were in training

Every layout is for ever on the train side or on the test side (clew.mazes.layout), and training takes mazes of its
own side alone, so a layout of the test side was never trained on. One of the train side may have been; where the
training set is at hand, its own layouts say so exactly. Turned and mirrored mazes count as one layout.

Shape suffixes: N mazes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clew.data.dataset import Dataset
from clew.mazes.layout import is_held_out, layout_hashes
from clew.mazes.maze import TaskBatch

_PIECE = 4096  # mazes whose cells are read at once


@dataclass(frozen=True)
class Leakage:
    """How many mazes were looked at, and how many of their layouts may be known from training."""

    mazes: int
    perhaps_trained: int
    exact: bool  # counted against the training set itself

    def __str__(self) -> str:
        """One sentence."""
        if not self.perhaps_trained:
            return f"none of the {self.mazes:,} mazes has a layout that was trained on."
        was = "was in the training set" if self.exact else "belongs to the side that training takes its mazes from"
        return (
            f"the layout of {self.perhaps_trained:,} of the {self.mazes:,} mazes {was}: their scores may be too good."
        )


def check_leakage(groups: Sequence[TaskBatch], training: npt.NDArray[np.uint64] | None = None) -> Leakage:
    """Compare the tasks' layouts with the training side, or with the layouts of a training set."""
    found = 0
    for tasks in groups:
        layout_N = layout_hashes(tasks.cells_NHW)
        trained_N = ~is_held_out(layout_N) if training is None else np.isin(layout_N, training)
        found += int(trained_N.sum())
    return Leakage(sum(len(tasks) for tasks in groups), found, exact=training is not None)


def training_layouts(dataset: Dataset) -> npt.NDArray[np.uint64]:
    """The layouts of a dataset's training mazes."""
    cells_NHW = dataset.split("train").cells_NHW
    pieces = [layout_hashes(cells_NHW[i : i + _PIECE]) for i in range(0, len(cells_NHW), _PIECE)]
    return np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *pieces]))
