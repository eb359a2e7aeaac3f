"""Reads a whole dataset again and says whether it is what was written, and what it claims to be.

    verify_dataset("data/dfs-10")  # UserError with the name of the file, if not

Every file is hashed, so one flipped byte is found; then every maze is checked (its cells fit together, its path is
valid and a shortest one), and that no layout is in both splits.

Shape suffixes: N mazes, H rows, W columns, C = H * W cells by index.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from clew.data.checksums import hash_description, hash_file
from clew.data.dataset import DATASET_FILE, Dataset, damaged, file_name, open_dataset
from clew.data.disjoint import overlap
from clew.data.settings import SPLITS
from clew.files import read_json
from clew.mazes.checks import check_batch
from clew.mazes.maze import ABSENT, EAST, NORTH, SOUTH, WALL, WEST, TaskBatch, graph_problems

BLOCK_CELLS = 4_000_000  # cells of mazes that are read at a time


def verify_dataset(directory: str | Path, progress: Callable[[int], None] = lambda size: None) -> Dataset:
    """Check everything and return the opened dataset; `progress` is told how many bytes were read since last time."""
    dataset = open_dataset(directory)
    _check_description(dataset.directory / DATASET_FILE)
    for name, record in dataset.files.items():
        path = dataset.directory / name
        if hash_file(path, progress) != record:
            raise damaged(path, "is not as it was written (its SHA-256 differs)")
    for split in SPLITS:
        _check_mazes(dataset, split)
    if problem := overlap(*(dataset.split(split).cells_NHW for split in SPLITS)):
        raise damaged(dataset.directory / file_name("test", "cells"), f"fails the test: {problem}")
    return dataset


def _check_description(path: Path) -> None:
    value = read_json(path)
    # The text as well: a byte may change in a way that JSON does not mind.
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    if value.get("sha256") != hash_description(value) or path.read_bytes() != text.encode():
        raise damaged(path, "is not as it was written (its SHA-256 differs)")


def _check_mazes(dataset: Dataset, split: str) -> None:
    mazes = dataset.split(split)
    block = max(1, BLOCK_CELLS // (mazes.height * mazes.width))
    for first in range(0, len(mazes), block):
        if found := _first_problem(mazes.slice(first, first + block)):
            place, array, problem = found
            raise damaged(dataset.directory / file_name(split, array), f"is wrong: maze {first + place} {problem}")


def _first_problem(tasks: TaskBatch) -> tuple[int, str, str] | None:
    """The first bad maze of the batch, the array that is to blame, and what is wrong; None if all is well."""
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
    """Which mazes have an impossible cell, a passage that is open on one side only, or one that leads outside."""
    if cells_NHW.shape[1] == 1:
        return graph_problems(cells_NHW)
    # With a rim of closed cells, a passage to the outside is one that is open on one side only.
    rim_NHW = np.pad(cells_NHW, ((0, 0), (1, 1), (1, 1)))
    down = ((rim_NHW[:, :-1] & SOUTH) != 0) != ((rim_NHW[:, 1:] & NORTH) != 0)
    right = ((rim_NHW[:, :, :-1] & EAST) != 0) != ((rim_NHW[:, :, 1:] & WEST) != 0)
    bad_N: npt.NDArray[np.bool_] = (cells_NHW > WALL).any((1, 2)) | down.any((1, 2)) | right.any((1, 2))
    return bad_N
