"""Checks and statistics of whole datasets.

    verify_dataset("data/dfs-10")  # UserError with the name of the file, if it is damaged
    facts = describe_split(open_dataset("data/astar-10").split("train"))
    facts.tasks / facts.layouts, facts.wall_share, facts.path_cells, facts.one_shortest

Verifying compares the checksum of every file, then checks every maze (its cells are consistent, its path is valid and
shortest), and that no layout is in both splits: no layout hash occurs in both, and every hash is on its split's side
(clew.mazes.layouts), so that datasets made separately cannot overlap either.

Shape suffixes: N mazes, H rows, W columns, C = H * W cells by index.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from clew.data.config import IMPORTED, SPLITS
from clew.data.dataset import (
    DATASET_FILE,
    Dataset,
    Split,
    damaged,
    file_name,
    open_dataset,
)
from clew.files import json_text, read_json
from clew.mazes.checks import check_batch
from clew.mazes.layouts import is_held_out, layout_hashes
from clew.mazes.maze import ABSENT, EAST, NORTH, SOUTH, WALL, WEST, TaskBatch, graph_problems
from clew.mazes.solvers import one_shortest

BLOCK_CELLS = 4_000_000  # cells of mazes that are read at a time


@dataclass(frozen=True)
class SplitFacts:
    """Statistics of a split, over tasks."""

    tasks: int
    layouts: int
    wall_share: float  # of the cells
    path_cells: float  # mean number of cells of a path, both ends counted
    one_shortest: float  # share of the tasks with exactly one shortest path


def describe_split(split: Split) -> SplitFacts:
    """Return the statistics of a split, read in blocks."""
    if not len(split):
        return SplitFacts(0, 0, 0.0, 0.0, 0.0)
    block = max(1, BLOCK_CELLS // (split.height * split.width))
    walls, unique, layouts = 0, 0, set[bytes]()
    for first in range(0, len(split), block):
        tasks = split.slice(first, first + block)
        walls += int((tasks.cells_NHW == WALL).sum())
        unique += int(one_shortest(tasks).sum())
        layouts.update(cells_HW.tobytes() for cells_HW in tasks.cells_NHW)
    return SplitFacts(
        tasks=len(split),
        layouts=len(layouts),
        wall_share=walls / (len(split) * split.height * split.width),
        path_cells=len(split.path) / len(split),
        one_shortest=unique / len(split),
    )


def split_problem(dataset: Dataset) -> str | None:
    """Return how the splits of a dataset overlap, in words, or None."""
    # The user may have chosen the test mazes of an imported dataset, so they need not lie on a side.
    by_side = dataset.settings.family != IMPORTED
    return overlap(dataset.split("train").cells_NHW, dataset.split("test").cells_NHW, by_side)


def overlap(train_NHW: npt.NDArray[np.uint8], test_NHW: npt.NDArray[np.uint8], by_side: bool = True) -> str | None:
    """Return how two splits overlap, in words, or None."""
    train_N, test_N = _hashes(train_NHW), _hashes(test_NHW)
    shared = np.intersect1d(train_N, test_N)
    if len(shared):
        return f"{len(shared)} layouts are both in train and in test"
    wrong_train, wrong_test = int(is_held_out(train_N).sum()), int((~is_held_out(test_N)).sum())
    if by_side and (wrong_train or wrong_test):
        return f"{wrong_train} mazes in train and {wrong_test} in test have a layout of the other side"
    return None


def _hashes(cells_NHW: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return the layout hashes of mazes that need not fit into memory."""
    block = max(1, BLOCK_CELLS // (cells_NHW.shape[1] * cells_NHW.shape[2]))
    starts = range(0, len(cells_NHW), block)
    return np.concatenate([np.empty(0, np.uint64), *(layout_hashes(cells_NHW[i : i + block]) for i in starts)])


def verify_dataset(directory: str | Path, progress: Callable[[int], None] = lambda size: None) -> Dataset:
    """Check a dataset and return it; `progress` is called with the bytes of each block read."""
    dataset = open_dataset(directory)
    _check_description(dataset.directory / DATASET_FILE)
    dataset.check_files(progress)
    for split in SPLITS:
        _check_mazes(dataset, split)
    if problem := split_problem(dataset):
        raise damaged(dataset.directory / file_name("test", "cells"), f"fails the test: {problem}")
    return dataset


def _check_description(path: Path) -> None:
    # The text as well: a byte may change in a way that JSON does not mind.
    if path.read_bytes() != json_text(read_json(path), checksum=True).encode():
        raise damaged(path, "is not as it was written (its SHA-256 differs)")


def _check_mazes(dataset: Dataset, split: str) -> None:
    mazes = dataset.split(split)
    block = max(1, BLOCK_CELLS // (mazes.height * mazes.width))
    for first in range(0, len(mazes), block):
        if found := _first_problem(mazes.slice(first, first + block)):
            place, array, problem = found
            raise damaged(dataset.directory / file_name(split, array), f"is wrong: maze {first + place} {problem}")


def _first_problem(tasks: TaskBatch) -> tuple[int, str, str] | None:
    """Return the index of the first bad maze, the array and what is wrong with it, or None."""
    rows_N, cells_NC = np.arange(len(tasks)), tasks.cells_NHW.reshape(len(tasks), -1)
    if (bad_N := _ill_fitting(tasks.cells_NHW)).any():
        return int(bad_N.argmax()), "cells", "has cells that do not fit together"
    solid, where = (ABSENT, "at no node") if tasks.height == 1 else (WALL, "in a wall cell")
    for array, cell_N in (("start", tasks.start_N), ("goal", tasks.goal_N)):
        if (bad_N := cells_NC[rows_N, cell_N] == solid).any():
            return int(bad_N.argmax()), array, f"has its {array} {where}"
    valid_N, shortest_N = check_batch(tasks)
    if not valid_N.all():
        return int(valid_N.argmin()), "path", "has a path that does not lead from its start to its goal"
    if not shortest_N.all():
        return int(shortest_N.argmin()), "path", "has a path that is not a shortest one"
    return None


def _ill_fitting(cells_NHW: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return which mazes have an impossible cell or a passage that is open on one side only or leads outside."""
    if cells_NHW.shape[1] == 1:
        return graph_problems(cells_NHW)
    # With a rim of closed cells, a passage to the outside is one that is open on one side only.
    rim_NHW = np.pad(cells_NHW, ((0, 0), (1, 1), (1, 1)))
    down = ((rim_NHW[:, :-1] & SOUTH) != 0) != ((rim_NHW[:, 1:] & NORTH) != 0)
    right = ((rim_NHW[:, :, :-1] & EAST) != 0) != ((rim_NHW[:, :, 1:] & WEST) != 0)
    bad_N: npt.NDArray[np.bool_] = (cells_NHW > WALL).any((1, 2)) | down.any((1, 2)) | right.any((1, 2))
    return bad_N
