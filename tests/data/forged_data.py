"""Change an array of a dataset so that only a check of the mazes can find it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from clew.data.dataset import ARRAY_DTYPES, DATASET_FILE, file_record, npy_head
from clew.files import read_json, write_json


def forge(directory: Path, name: str, value: np.ndarray) -> None:
    """Replace an array and make every checksum fit."""
    array = name.split(".")[1]
    (directory / name).write_bytes(npy_head(array, value.shape) + value.astype(ARRAY_DTYPES[array]).tobytes())
    description = read_json(directory / DATASET_FILE)
    description["files"][name] = file_record(directory / name)
    write_json(directory / DATASET_FILE, description, checksum=True)
