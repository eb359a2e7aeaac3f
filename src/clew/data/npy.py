"""Our own .npy files: any numpy can read them, and we read no others.

The head is a fixed 128 bytes that follow from the array's name and shape. So it is compared, not parsed, which leaves
nothing to a damaged or hostile one, and it keeps its length when the number of rows is known only at the end.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HEAD_BYTES = 128  # numpy wants a multiple of 64
ARRAY_DTYPES: dict[str, str] = {"cells": "|u1", "start": "<u2", "goal": "<u2", "path": "<u2", "offset": "<i8"}


def npy_head(array: str, shape: tuple[int, ...]) -> bytes:
    """The first bytes of the file of an array: magic, version 1.0, the length of the text, and the text."""
    text = repr({"descr": ARRAY_DTYPES[array], "fortran_order": False, "shape": shape}).encode()
    room = HEAD_BYTES - 10
    return b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + text.ljust(room - 1) + b"\n"


def map_npy(path: Path, array: str, shape: tuple[int, ...]) -> npt.NDArray[Any] | str:
    """The file's array, mapped into memory and read-only; or what is wrong with the file."""
    dtype = np.dtype(ARRAY_DTYPES[array])
    expected, size = HEAD_BYTES + math.prod(shape) * dtype.itemsize, path.stat().st_size
    if size != expected:
        return f"has {size} bytes instead of {expected}"
    with open(path, "rb") as file:
        if file.read(HEAD_BYTES) != npy_head(array, shape):
            return f"does not begin as an array of {dtype} in the shape {shape} does"
    # A plain array over the same mapping: np.memmap's own indexing is several times slower for small batches.
    return np.asarray(np.memmap(path, dtype, "r", HEAD_BYTES, shape))
