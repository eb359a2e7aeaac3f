"""Walks over memory that torch would make several times, or slowly: by numba, shared out over threads.

    over_rows(mix, cells_BHW, both_BN2F, mixed_BNF)

The norm: torch's is made for wider vectors, and takes five times as long. The sums over open neighbours: in plain torch
they are a dozen walks. Each has a plain twin, for GPUs and the tests, in grid_layers.py and passages.py.

The kernels look into flat arrays with indices that cannot be negative. Views of rows would read better, but making one
for every cell took about as long as the arithmetic (docs/experiments-log.md, no. 21).

Shape suffixes: R rows, B mazes, N cells, D width, F hidden width.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import numba
import numpy as np
import torch
from numpy import uint64
from torch import Tensor

from clew.mazes.maze import EAST, NORTH, SOUTH, WEST

NORM_EPS = 1e-5


def over_rows(kernel: Callable[..., None], *arrays: Tensor) -> None:
    """Run a kernel on all mazes, or all rows, shared out over as many threads as torch uses.

    What it writes to must be contiguous: of anything else it gets a copy.
    """
    parts = [array.detach().contiguous().numpy() for array in arrays]
    count, threads = len(arrays[0]), torch.get_num_threads()
    if threads == 1 or count == 1:
        kernel(*parts)
        return
    bounds = [count * i // threads for i in range(threads + 1)]
    pieces = [[part[a:b] for part in parts] for a, b in pairwise(bounds)]
    # The kernels let go of the interpreter's lock; numba's own threads would not live beside torch's.
    others = [_pool(threads - 1).submit(kernel, *piece) for piece in pieces[1:]]
    kernel(*pieces[0])
    for other in others:
        other.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="clew-kernels")


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def norm_rows(x_RD: np.ndarray, normed_RD: np.ndarray, scale_R: np.ndarray) -> None:
    """Layer norm without weights; `scale` is what a row, less its mean, is multiplied with."""
    rows, width = x_RD.shape
    number = x_RD.dtype.type
    x, normed = x_RD.reshape(rows * width), normed_RD.reshape(rows * width)
    for r in range(rows):
        begin = uint64(r * width)
        total, squares = number(0), number(0)
        for d in range(uint64(width)):
            total += x[begin + d]
        mean = total / number(width)
        for d in range(uint64(width)):
            squares += (x[begin + d] - mean) * (x[begin + d] - mean)
        scale = number(1) / np.sqrt(squares / number(width) + number(NORM_EPS))
        for d in range(uint64(width)):
            normed[begin + d] = (x[begin + d] - mean) * scale
        scale_R[r] = scale


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def norm_rows_back(normed_RD: np.ndarray, scale_R: np.ndarray, grad_RD: np.ndarray, grad_x_RD: np.ndarray) -> None:
    """Adds the gradient that comes back through the norm to what stands in grad_x."""
    rows, width = normed_RD.shape
    number = normed_RD.dtype.type
    normed, grad, grad_x = (
        normed_RD.reshape(rows * width),
        grad_RD.reshape(rows * width),
        grad_x_RD.reshape(rows * width),
    )
    for r in range(rows):
        begin = uint64(r * width)
        total, along = number(0), number(0)
        for d in range(uint64(width)):
            total += grad[begin + d]
            along += grad[begin + d] * normed[begin + d]
        total /= number(width)
        along /= number(width)
        scale = scale_R[r]
        for d in range(uint64(width)):
            grad_x[begin + d] += scale * (grad[begin + d] - total - along * normed[begin + d])


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def mix(cells_BHW: np.ndarray, both_BN2F: np.ndarray, mixed_BNF: np.ndarray) -> None:
    """The sum over open neighbours of relu(own + hear)^2."""
    mazes, height, width = cells_BHW.shape
    count, half = mazes * height * width, mixed_BNF.shape[2]
    cells, both, mixed = cells_BHW.reshape(count), both_BN2F.reshape(count * 2 * half), mixed_BNF.reshape(count * half)
    zero = both_BN2F.dtype.type(0)
    for i in range(count):
        here, own = uint64(i * half), uint64(2 * i * half)
        for f in range(uint64(half)):
            mixed[here + f] = zero
        for side, move in ((NORTH, -width), (SOUTH, width), (WEST, -1), (EAST, 1)):
            if cells[i] & side:
                hear = uint64((2 * (i + move) + 1) * half)
                for f in range(uint64(half)):
                    s = max(both[own + f] + both[hear + f], zero)
                    mixed[here + f] += s * s


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def mix_back(
    cells_BHW: np.ndarray,
    both_BN2F: np.ndarray,
    grad_BNF: np.ndarray,
    mixed_BNF: np.ndarray,
    grad_both_BN2F: np.ndarray,
) -> None:
    """The sum again, and the gradient of `own` and `hear`.

    A cell takes what its neighbours have for its `hear`, instead of giving to theirs, and in a loop of its own: only
    so the compiler knows that no number is read after it was written, and does eight at once.
    """
    mazes, height, width = cells_BHW.shape
    count, half = mazes * height * width, mixed_BNF.shape[2]
    cells, both, mixed = cells_BHW.reshape(count), both_BN2F.reshape(count * 2 * half), mixed_BNF.reshape(count * half)
    grad, grad_both = grad_BNF.reshape(count * half), grad_both_BN2F.reshape(count * 2 * half)
    zero = both_BN2F.dtype.type(0)
    for i in range(count):
        here, own, hear = uint64(i * half), uint64(2 * i * half), uint64((2 * i + 1) * half)
        for f in range(uint64(half)):
            mixed[here + f] = zero
        for f in range(uint64(2 * half)):
            grad_both[own + f] = zero
        for side, move in ((NORTH, -width), (SOUTH, width), (WEST, -1), (EAST, 1)):
            if cells[i] & side:
                j = i + move
                there, their_own, their_hear = uint64(j * half), uint64(2 * j * half), uint64((2 * j + 1) * half)
                for f in range(uint64(half)):
                    s = max(both[own + f] + both[their_hear + f], zero)
                    mixed[here + f] += s * s
                    grad_both[own + f] += (s + s) * grad[here + f]
                for f in range(uint64(half)):
                    s = max(both[their_own + f] + both[hear + f], zero)
                    grad_both[hear + f] += (s + s) * grad[there + f]
