"""How many floating-point operations a second this machine can do at best, measured by multiplying large matrices.

    peak = measure_matmul_peak("cpu", torch.float32, threads=2)    # FLOP/s; half a second, then remembered
    share = report.flops_per_second / peak

The measured peak is what a training loop can hope for: vendors' numbers ignore clock limits and busy neighbours.
"""

from __future__ import annotations

import time
from functools import cache

import torch

SECONDS = 0.5
SMALLEST, LARGEST = 256, 8192  # sides of the matrices
# A product that takes longer than this is not doubled in size again: the best of many short ones is less likely to
# have been interrupted.
LONG_ENOUGH = 0.02


def measure_matmul_peak(device: str, dtype: torch.dtype, threads: int | None = None) -> float:
    """The best rate of several large products, in FLOP/s; `threads` of a CPU, by default as many as torch uses now."""
    return _measure(device, dtype, threads if threads is not None else torch.get_num_threads())


@cache
def _measure(device: str, dtype: torch.dtype, threads: int) -> float:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return best_rate(torch.device(device), dtype)
    finally:
        torch.set_num_threads(before)


def best_rate(device: torch.device, dtype: torch.dtype) -> float:
    """One measurement, with torch's threads as they are, that is not remembered."""
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
    # Ones keep the values finite in every precision, and no random state is touched.
    return torch.ones(side, side, device=device, dtype=dtype), torch.ones(side, side, device=device, dtype=dtype)


def _seconds_of_product(a: torch.Tensor, b: torch.Tensor) -> float:
    _wait_for(a.device)
    begin = time.perf_counter()
    torch.mm(a, b)
    _wait_for(a.device)
    return max(time.perf_counter() - begin, 1e-9)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
