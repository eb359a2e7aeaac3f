"""Walks over memory that torch would make several times, or slowly: by numba, shared out over threads.

    over_rows(mix, cells_BHW, both_M2F, mixed_MF)

The norm: torch's is made for wider vectors, and takes five times as long. The sums over open neighbours: in plain torch
they are a dozen walks. Each has a plain twin, for GPUs and the tests, in grid_layers.py and passages.py.

The kernels look into flat arrays, the norms with indices that cannot be negative. Views of rows would read better, but
making one for every cell took about as long as the arithmetic (docs/experiments-log.md, no. 21).

Shape suffixes: R rows, B mazes, M cells of all mazes, D width, F hidden width.
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
from clew.models.vectors import load, relu, store, zeros

NORM_EPS = 1e-5


def over_rows(kernel: Callable[..., None], *arrays: Tensor) -> None:
    """Run a kernel on all mazes, or all rows, shared out over as many threads as torch uses.

    Rows of the other arrays go with those of the first, however many there are to each. All must be contiguous.
    """
    parts = [array.numpy() for array in arrays]
    count, threads = len(arrays[0]), torch.get_num_threads()
    if threads == 1 or count <= 1:
        kernel(*parts)
        return
    bounds = [count * i // threads for i in range(threads + 1)]
    each = [len(part) // count for part in parts]
    pieces = [[part[a * n : b * n] for part, n in zip(parts, each, strict=True)] for a, b in pairwise(bounds)]
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


def mix(cells_BHW: np.ndarray, both_M2F: np.ndarray, mixed_MF: np.ndarray) -> None:
    """The sum over open neighbours of relu(own + hear)^2."""
    _mix(_lanes(mixed_MF))(cells_BHW, both_M2F, mixed_MF)


def mix_back(
    cells_BHW: np.ndarray,
    both_M2F: np.ndarray,
    grad_MF: np.ndarray,
    mixed_MF: np.ndarray,
    grad_both_M2F: np.ndarray,
) -> None:
    """The sum again, and the gradient of `own` and `hear`."""
    _mix_back(_lanes(mixed_MF))(cells_BHW, both_M2F, grad_MF, mixed_MF, grad_both_M2F)


def _lanes(x_MF: np.ndarray) -> int:
    """How many numbers at once: as many as the widest registers hold, or fewer that divide the width."""
    return next(lanes for lanes in (16, 4, 1) if x_MF.shape[1] % lanes == 0)


@cache
def _mix(lanes: int) -> Callable[..., None]:
    @numba.njit(cache=True, nogil=True, error_model="numpy")
    def kernel(cells_BHW: np.ndarray, both_M2F: np.ndarray, mixed_MF: np.ndarray) -> None:
        _, _, width = cells_BHW.shape
        count, half = mixed_MF.shape
        cells, both, mixed = (
            cells_BHW.reshape(count),
            both_M2F.reshape(2 * count * half),
            mixed_MF.reshape(count * half),
        )
        for i in range(count):
            open_sides, here = cells[i], i * half
            for f in range(0, half, lanes):
                own, total = load(both, 2 * here + f, lanes), zeros(both, lanes)
                for side, move in ((NORTH, -width), (SOUTH, width), (WEST, -1), (EAST, 1)):
                    if open_sides & side:
                        heard = relu(own + load(both, 2 * (here + move * half) + half + f, lanes))
                        total = total + heard * heard
                store(mixed, here + f, total)

    return kernel


@cache
def _mix_back(lanes: int) -> Callable[..., None]:
    @numba.njit(cache=True, nogil=True, error_model="numpy")
    def kernel(
        cells_BHW: np.ndarray,
        both_M2F: np.ndarray,
        grad_MF: np.ndarray,
        mixed_MF: np.ndarray,
        grad_both_M2F: np.ndarray,
    ) -> None:
        _, _, width = cells_BHW.shape
        count, half = mixed_MF.shape
        cells, both, mixed = (
            cells_BHW.reshape(count),
            both_M2F.reshape(2 * count * half),
            mixed_MF.reshape(count * half),
        )
        grad, grad_both = grad_MF.reshape(count * half), grad_both_M2F.reshape(2 * count * half)
        for i in range(count):
            open_sides, here = cells[i], i * half
            for f in range(0, half, lanes):
                own, hear = load(both, 2 * here + f, lanes), load(both, 2 * here + half + f, lanes)
                grad_here = load(grad, here + f, lanes)
                total, grad_own, grad_hear = zeros(both, lanes), zeros(both, lanes), zeros(both, lanes)
                for side, move in ((NORTH, -width), (SOUTH, width), (WEST, -1), (EAST, 1)):
                    if open_sides & side:
                        there = here + move * half
                        heard = relu(own + load(both, 2 * there + half + f, lanes))
                        total = total + heard * heard
                        grad_own = grad_own + heard * grad_here
                        told = relu(load(both, 2 * there + f, lanes) + hear)
                        grad_hear = grad_hear + told * load(grad, there + f, lanes)
                store(mixed, here + f, total)
                store(grad_both, 2 * here + f, grad_own + grad_own)
                store(grad_both, 2 * here + half + f, grad_hear + grad_hear)

    return kernel
