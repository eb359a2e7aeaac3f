"""Datasets on disk, memory-mapped; docs/data.md describes the files.

    dataset = open_dataset("data/dfs-10")
    tasks = dataset.split("train").select(np.arange(128))  # a TaskBatch; reads only these mazes

Texts are not stored: see clew.data.batch.text_seeds. The .npy header is a fixed 128 bytes that follow from the array's
name and shape. It is compared, not parsed, so a damaged one is refused.

Shape suffixes: N mazes, H rows, W columns, M any number of cells.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clew.data.config import IMPORTED, SPLITS, DatasetSettings
from clew.errors import UserError
from clew.files import json_text, read_json
from clew.mazes.layouts import is_held_out, layout_hashes
from clew.mazes.maze import ABSENT, WALL, TaskBatch, layout_problems
from clew.mazes.solvers import check_batch, one_shortest

BLOCK_CELLS = 4_000_000  # cells of mazes that are read at a time
DATASET_FILE = "dataset.json"
UNFINISHED_FILE = ".unfinished.json"  # present while a dataset is being made
HEAD_BYTES = 128  # numpy requires a multiple of 64
ARRAY_DTYPES: dict[str, str] = {"cells": "|u1", "start": "<u2", "goal": "<u2", "path": "<u2", "offset": "<i8"}


def file_name(split: str, array: str) -> str:
    return f"{split}.{array}.npy"


FILE_NAMES = tuple(file_name(split, array) for split in SPLITS for array in ARRAY_DTYPES)


def file_record(path: Path) -> dict[str, Any]:
    """Return the size and checksum of a file, as dataset.json has them."""
    with open(path, "rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def npy_head(array: str, shape: tuple[int, ...]) -> bytes:
    """Return the header of an array's file: magic, version 1.0, length of the text, text."""
    text = repr({"descr": ARRAY_DTYPES[array], "fortran_order": False, "shape": shape}).encode()
    length = HEAD_BYTES - 10
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.ljust(length - 1) + b"\n"


def array_shapes(settings: DatasetSettings, mazes: int, path_cells: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of a split."""
    cells = (mazes, settings.height, settings.width)
    return {"cells": cells, "start": (mazes,), "goal": (mazes,), "path": (path_cells,), "offset": (mazes + 1,)}


@dataclass(frozen=True, repr=False)
class Split(TaskBatch):
    """The mazes of one split as memory-mapped arrays."""

    directory: Path
    name: str

    def blocks(self) -> Iterator[TaskBatch]:
        """Yield the mazes in order, some at a time: a split need not fit into memory."""
        block = max(1, BLOCK_CELLS // (self.height * self.width))
        return (self[first : first + block] for first in range(0, len(self), block))

    def layout_hashes(self) -> npt.NDArray[np.uint64]:
        """Return the layout hash of each maze."""
        return np.concatenate([np.empty(0, np.uint64), *(layout_hashes(tasks.cells_NHW) for tasks in self.blocks())])

    def select(self, index_N: npt.NDArray[np.integer]) -> TaskBatch:
        """Return the mazes with these numbers, in this order, after checking cells that are used as indices."""
        some = super().select(index_N)
        cells = {"start": some.start_N, "goal": some.goal_N, "path": some.path}
        for array, cell_M in cells.items():
            if cell_M.size and int(cell_M.max()) >= self.height * self.width:
                raise damaged(self.directory / file_name(self.name, array), "names a cell outside the maze")
        start_N, goal_N, path = (cell_M.astype(np.int32) for cell_M in cells.values())
        return TaskBatch(np.asarray(some.cells_NHW), start_N, goal_N, path, some.offset_N1)


@dataclass(frozen=True)
class Dataset:
    """An opened dataset."""

    directory: Path
    settings: DatasetSettings
    files: dict[str, dict[str, Any]]  # bytes and sha256 of each

    def split(self, name: str) -> Split:
        """Return a split; nothing is read before it is used."""
        if name not in SPLITS:
            raise UserError(f"a dataset has no split {name!r}; choose one of {', '.join(SPLITS)}.")
        cells, start, goal, path, offset = (self._map(name, array) for array in ARRAY_DTYPES)
        split = Split(cells, start, goal, path, offset, self.directory, name)
        ends = (split.offset_N1[0], split.offset_N1[-1])
        if ends != (0, len(split.path)) or (split.length_N < 1).any():
            raise damaged(self.directory / file_name(name, "offset"), "does not match the paths")
        return split

    def check_files(self, progress: Callable[[int], None] = lambda size: None) -> None:
        """Compare the files with their checksums; `progress` is called with the bytes of each."""
        for name, record in self.files.items():
            if file_record(self.directory / name) != record:
                raise damaged(self.directory / name, "is not as it was written (its SHA-256 differs)")
            progress(record["bytes"])

    def _map(self, split: str, array: str) -> npt.NDArray[Any]:
        """Return a file's array, memory-mapped and read-only."""
        path, dtype = self.directory / file_name(split, array), np.dtype(ARRAY_DTYPES[array])
        size = path.stat().st_size
        path_cells = max(0, size - HEAD_BYTES) // dtype.itemsize  # follow from the size of their file
        shape = array_shapes(self.settings, self.settings.counts[split], path_cells)[array]
        if size != (expected := HEAD_BYTES + math.prod(shape) * dtype.itemsize):
            raise damaged(path, f"has {size} bytes instead of {expected}")
        with open(path, "rb") as file:
            if file.read(HEAD_BYTES) != npy_head(array, shape):
                raise damaged(path, f"does not begin as an array of {dtype} in the shape {shape} does")
        # A plain array over the same mapping: np.memmap's own indexing is several times slower for small batches.
        return np.asarray(np.memmap(path, dtype, "r", HEAD_BYTES, shape))


def damaged(path: Path, problem: str) -> UserError:
    """Return the error for a damaged file."""
    return UserError(f"{path} {problem}: the dataset is damaged; remove it and make it again with `clew generate`.")


def open_dataset(directory: str | Path) -> Dataset:
    """Open a dataset and check its description and the sizes of its files; `verify_dataset` checks the mazes too."""
    directory = Path(directory)
    description = directory / DATASET_FILE
    if not description.is_file():
        raise _absent(directory)
    value = read_json(description)
    dataset = Dataset(directory, DatasetSettings.from_json(value, str(description)), value.get("files"))
    for name in FILE_NAMES:
        record = dataset.files.get(name) if isinstance(dataset.files, dict) else None
        if not isinstance(record, dict) or set(record) != {"bytes", "sha256"}:
            raise damaged(description, f"says nothing of {name}")
        if not (directory / name).is_file():
            raise damaged(directory / name, "is missing")
        if (size := (directory / name).stat().st_size) != record["bytes"]:
            raise damaged(directory / name, f"has {size} bytes instead of {record['bytes']}")
    for split in SPLITS:
        dataset.split(split)  # reads the headers
    return dataset


def _absent(directory: Path) -> UserError:
    """Return the error for a folder without a dataset."""
    if (directory / UNFINISHED_FILE).exists():
        return UserError(f"the dataset in {directory} is only half made; run the same `clew generate` command again.")
    problem = f"holds no dataset ({DATASET_FILE} is missing)" if directory.is_dir() else "does not exist or is a file"
    return UserError(f"{directory} {problem}; make a dataset with `clew generate ... --out {directory}`.")


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
    walls = unique = 0
    layouts, count = set[bytes](), max(1, len(split))
    for tasks in split.blocks():
        walls += int((tasks.cells_NHW == WALL).sum())
        unique += int(one_shortest(tasks).sum())
        layouts.update(cells_HW.tobytes() for cells_HW in tasks.cells_NHW)
    shares = walls / (count * split.height * split.width), len(split.path) / count, unique / count
    return SplitFacts(len(split), len(layouts), *shares)


def split_problem(dataset: Dataset) -> str | None:
    """Return how the splits of a dataset overlap, in words, or None."""
    train_N, test_N = (dataset.split(name).layout_hashes() for name in SPLITS)
    if shared := len(np.intersect1d(train_N, test_N)):
        return f"{shared} layouts are both in train and in test"
    wrong_train, wrong_test = int(is_held_out(train_N).sum()), int((~is_held_out(test_N)).sum())
    # The user may have chosen the test mazes of an imported dataset, so their layouts need not be those of the split.
    if dataset.settings.family != IMPORTED and (wrong_train or wrong_test):
        return f"{wrong_train} mazes in train and {wrong_test} in test have a layout of the other split"
    return None


def verify_dataset(directory: str | Path, progress: Callable[[int], None] = lambda size: None) -> Dataset:
    """Check a dataset and return it; `progress` is called with the bytes of each file."""
    dataset = open_dataset(directory)
    description = dataset.directory / DATASET_FILE
    # The text as well: a changed byte may leave the JSON value as it was.
    if description.read_bytes() != json_text(read_json(description), checksum=True).encode():
        raise damaged(description, "is not as it was written (its SHA-256 differs)")
    dataset.check_files(progress)
    for split in SPLITS:
        checked = 0
        for tasks in dataset.split(split).blocks():
            for array, problem, bad_N in task_problems(tasks):
                if bad_N.any():
                    path = dataset.directory / file_name(split, array)
                    raise damaged(path, f"is wrong: maze {checked + int(bad_N.argmax())} {problem}")
            checked += len(tasks)
    if problems := split_problem(dataset):
        raise damaged(dataset.directory / file_name("test", "cells"), f"fails the test: {problems}")
    return dataset


def task_problems(tasks: TaskBatch) -> Iterator[tuple[str, str, npt.NDArray[np.bool_]]]:
    """Yield each check: the array, what would be wrong with it, and the mazes where it is; stop at the first wrong."""
    rows_N, cells_NC = np.arange(len(tasks)), tasks.cells_NHW.reshape(len(tasks), -1)
    yield "cells", "has cells that do not fit together", layout_problems(tasks.cells_NHW)
    solid, where = (ABSENT, "at no node") if tasks.height == 1 else (WALL, "in a wall cell")
    yield "start", f"has its start {where}", cells_NC[rows_N, tasks.start_N] == solid
    yield "goal", f"has its goal {where}", cells_NC[rows_N, tasks.goal_N] == solid
    valid_N, shortest_N = check_batch(tasks)
    yield "path", "has a path that does not lead from its start to its goal", ~valid_N
    yield "path", "has a path that is not a shortest one", ~shortest_N
