"""Datasets on disk, memory-mapped.

    dataset = open_dataset("data/dfs-10")
    tasks = dataset.split("train").select(np.arange(128))  # a TaskBatch; reads only these mazes

A dataset is a folder with dataset.json and, for each split, five .npy files: cells uint8 [N, H, W], start and goal
uint16 [N], path uint16 (all paths one after the other) and offset int64 [N + 1] (the bounds of each path).
dataset.json is written last, so a folder without it is not a dataset. Texts are not stored: see
clew.data.batch.text_seeds.

The .npy header is a fixed 128 bytes that follow from the array's name and shape. It is compared, not parsed, so a
damaged one is refused, and its length does not depend on the number of rows.

Shape suffixes: N mazes, H rows, W columns, M any number of cells.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clew.data.config import SPLITS, DatasetSettings
from clew.errors import UserError
from clew.files import read_json
from clew.mazes.maze import TaskBatch

BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class FileRecord:
    """Size and checksum of a file."""

    bytes: int
    sha256: str


def hash_file(path: Path, progress: Callable[[int], None] = lambda size: None) -> FileRecord:
    """Return the size and checksum of a file; `progress` is called with the bytes of each block read."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
            size += len(block)
            progress(len(block))
    return FileRecord(size, digest.hexdigest())


HEAD_BYTES = 128  # numpy wants a multiple of 64
ARRAY_DTYPES: dict[str, str] = {"cells": "|u1", "start": "<u2", "goal": "<u2", "path": "<u2", "offset": "<i8"}


def npy_head(array: str, shape: tuple[int, ...]) -> bytes:
    """Return the header of an array's file: magic, version 1.0, length of the text, text."""
    text = repr({"descr": ARRAY_DTYPES[array], "fortran_order": False, "shape": shape}).encode()
    length = HEAD_BYTES - 10
    return b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little") + text.ljust(length - 1) + b"\n"


def map_npy(path: Path, array: str, shape: tuple[int, ...]) -> npt.NDArray[Any] | str:
    """Return the file's array, memory-mapped and read-only, or what is wrong with the file."""
    dtype = np.dtype(ARRAY_DTYPES[array])
    expected, size = HEAD_BYTES + math.prod(shape) * dtype.itemsize, path.stat().st_size
    if size != expected:
        return f"has {size} bytes instead of {expected}"
    with open(path, "rb") as file:
        if file.read(HEAD_BYTES) != npy_head(array, shape):
            return f"does not begin as an array of {dtype} in the shape {shape} does"
    # A plain array over the same mapping: np.memmap's own indexing is several times slower for small batches.
    return np.asarray(np.memmap(path, dtype, "r", HEAD_BYTES, shape))


DATASET_FILE = "dataset.json"
# Present while a dataset is being made: see clew.data.writer.
JOURNAL_FILE = ".unfinished.jsonl"


def file_name(split: str, array: str) -> str:
    return f"{split}.{array}.npy"


FILE_NAMES = tuple(file_name(split, array) for split in SPLITS for array in ARRAY_DTYPES)


@dataclass(frozen=True)
class Split:
    """The mazes of one split as memory-mapped arrays."""

    directory: Path
    name: str
    cells_NHW: npt.NDArray[np.uint8]
    start_N: npt.NDArray[np.uint16]
    goal_N: npt.NDArray[np.uint16]
    path: npt.NDArray[np.uint16]
    offset_N1: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start_N)

    @property
    def height(self) -> int:
        return int(self.cells_NHW.shape[1])

    @property
    def width(self) -> int:
        return int(self.cells_NHW.shape[2])

    @property
    def length_N(self) -> npt.NDArray[np.int64]:
        """The number of cells of each path."""
        return np.diff(self.offset_N1)

    def slice(self, first: int, last: int) -> TaskBatch:
        """Return the mazes from `first` up to, not including, `last`."""
        return self.select(np.arange(*slice(first, last).indices(len(self))))

    def select(self, index_N: npt.NDArray[np.integer]) -> TaskBatch:
        """Return the mazes with these numbers, in this order."""
        begin_N, length_N = self.offset_N1[index_N], self.offset_N1[index_N + 1] - self.offset_N1[index_N]
        offset_N1 = np.concatenate([[0], np.cumsum(length_N)]).astype(np.int64)
        take = np.repeat(begin_N - offset_N1[:-1], length_N) + np.arange(offset_N1[-1])
        return TaskBatch(
            np.asarray(self.cells_NHW[index_N]),
            self._cells_inside("start", self.start_N[index_N]),
            self._cells_inside("goal", self.goal_N[index_N]),
            self._cells_inside("path", self.path[take]),
            offset_N1,
        )

    def _cells_inside(self, array: str, cell_M: npt.NDArray[np.uint16]) -> npt.NDArray[np.int32]:
        """Check cells, which compiled code uses as indices, against the shape of the maze."""
        if cell_M.size and int(cell_M.max()) >= self.height * self.width:
            raise damaged(self.directory / file_name(self.name, array), "names a cell outside the maze")
        return cell_M.astype(np.int32)


@dataclass(frozen=True)
class Dataset:
    """An opened dataset."""

    directory: Path
    settings: DatasetSettings
    vocabulary: tuple[str, ...]  # of the settings' format
    files: dict[str, FileRecord]

    def split(self, name: str) -> Split:
        """Return a split; nothing is read before it is used."""
        if name not in SPLITS:
            raise UserError(f"a dataset has no split {name!r}; choose one of {', '.join(SPLITS)}.")
        arrays = {array: self._map(name, array) for array in ARRAY_DTYPES}
        split = Split(self.directory, name, *(arrays[array] for array in ("cells", "start", "goal", "path", "offset")))
        ends = (split.offset_N1[0], split.offset_N1[-1])
        if ends != (0, len(split.path)) or (split.length_N < 1).any():
            raise damaged(self.directory / file_name(name, "offset"), "does not match the paths")
        return split

    def check_files(self, progress: Callable[[int], None] = lambda size: None) -> None:
        """Compare the files with their checksums; `progress` is called with the bytes of each block read."""
        for name, record in self.files.items():
            if hash_file(self.directory / name, progress) != record:
                raise damaged(self.directory / name, "is not as it was written (its SHA-256 differs)")

    def _map(self, split: str, array: str) -> npt.NDArray[Any]:
        path = self.directory / file_name(split, array)
        count = self.settings.counts[split]
        shapes = {
            "cells": (count, self.settings.height, self.settings.width),
            "start": (count,),
            "goal": (count,),
            "path": (max(0, path.stat().st_size - HEAD_BYTES) // 2,),  # only the file itself knows
            "offset": (count + 1,),
        }
        mapped = map_npy(path, array, shapes[array])
        if isinstance(mapped, str):
            raise damaged(path, mapped)
        return mapped


def damaged(path: Path, problem: str) -> UserError:
    """Return the error for a damaged file."""
    return UserError(
        f"{path} {problem}: the dataset is damaged; remove the folder and make it again with `clew generate`."
    )


def open_dataset(directory: str | Path) -> Dataset:
    """Open a dataset and check its description and the sizes of its files; `verify_dataset` checks the mazes too."""
    directory = Path(directory)
    description = directory / DATASET_FILE
    if not description.is_file():
        raise _absent(directory)
    value = read_json(description)
    settings = DatasetSettings.from_json(value, str(description))
    vocabulary, files = value.get("vocabulary"), value.get("files")
    if not isinstance(vocabulary, list) or not all(isinstance(token, str) for token in vocabulary):
        raise damaged(description, "has no vocabulary")
    records = {name: _record(files, name, description) for name in FILE_NAMES}
    for name, record in records.items():
        path = directory / name
        if not path.is_file():
            raise damaged(path, "is missing")
        if (size := path.stat().st_size) != record.bytes:
            raise damaged(path, f"has {size} bytes instead of {record.bytes}")
    dataset = Dataset(directory, settings, tuple(vocabulary), records)
    for split in SPLITS:
        dataset.split(split)  # reads the headers
    return dataset


def _record(files: Any, name: str, description: Path) -> FileRecord:
    entry = files.get(name) if isinstance(files, dict) else None
    if (
        not isinstance(entry, dict)
        or not isinstance(entry.get("bytes"), int)
        or not isinstance(entry.get("sha256"), str)
    ):
        raise damaged(description, f"says nothing of {name}")
    return FileRecord(entry["bytes"], entry["sha256"])


def _absent(directory: Path) -> UserError:
    """Return the error for a folder without a dataset."""
    if not directory.exists():
        return UserError(f"{directory} does not exist; make a dataset with `clew generate ... --out {directory}`.")
    if not directory.is_dir():
        return UserError(f"{directory} is a file; give the folder of a dataset.")
    if (directory / JOURNAL_FILE).exists():
        return UserError(
            f"the dataset in {directory} is only half made; run the same `clew generate` command again to finish it."
        )
    return UserError(f"{directory} holds no dataset ({DATASET_FILE} is missing); make one with `clew generate`.")
