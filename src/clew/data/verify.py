"""Reads a whole dataset again and says whether it is what was written, and what it claims to be.

    verify_dataset("data/dfs-10")  # UserError with the name of the file, if not

Every file is hashed, so one flipped byte is found; then every maze is checked (its cells fit together, its path is
valid and a shortest one), and that no layout is in both splits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from clew.data.checks import first_problem
from clew.data.checksums import hash_description, hash_file
from clew.data.dataset import DATASET_FILE, Dataset, damaged, file_name, open_dataset
from clew.data.disjoint import overlap
from clew.data.settings import SPLITS
from clew.files import read_json

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
    if (np.diff(mazes.offset_N1) < 1).any():
        raise damaged(dataset.directory / file_name(split, "offset"), "has paths without a cell")
    block = max(1, BLOCK_CELLS // (mazes.height * mazes.width))
    for first in range(0, len(mazes), block):
        if found := first_problem(mazes.slice(first, first + block)):
            place, array, problem = found
            path = dataset.directory / file_name(split, array)
            raise damaged(path, f"is wrong: maze {first + place} {problem}")
