"""Measure the floating-point rate of this machine by multiplying large matrices.

    best_rate(torch.device("cpu"), torch.float32)    # FLOP/s, after half a second

The measured peak is what a training loop can reach: vendors' numbers ignore clock limits and other load.
"""

from __future__ import annotations

import time

import torch

SECONDS = 0.5
SMALLEST, LARGEST = 256, 8192  # sides of the matrices
# A product that takes longer than this is not doubled in size again: the best of many short ones is less likely to
# have been interrupted.
LONG_ENOUGH = 0.02


def best_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Return the best rate of several large products, in FLOP/s, with torch's current number of threads."""
    begin, best, side = time.perf_counter(), 0.0, SMALLEST
    a, b = _two_matrices(side, device, dtype)
    _seconds_of_product(a, b)  # the first one also prepares the library
    while True:
        took = _seconds_of_product(a, b)
        best = max(best, 2 * side**3 / took)
        if time.perf_counter() - begin > SECONDS:
            return best
        if took < LONG_ENOUGH and side < LARGEST:
            side *= 2
            a, b = _two_matrices(side, device, dtype)


def _two_matrices(side: int, device: torch.device, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    # Ones keep the values finite in every precision, and no random state is used.
    return torch.ones(side, side, device=device, dtype=dtype), torch.ones(side, side, device=device, dtype=dtype)


def _seconds_of_product(a: torch.Tensor, b: torch.Tensor) -> float:
    _synchronize(a.device)
    begin = time.perf_counter()
    torch.mm(a, b)
    _synchronize(a.device)
    return max(time.perf_counter() - begin, 1e-9)


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
