"""How near a training step at 10x10 comes to the machine's float32 peak, and where the rest of its time goes.

    share_of_peak(config, "dfs", width=64, measure=lambda work: fastest(work, 4, time.perf_counter))

The peak is that of large matrix products in the same run. The parts of a step come from torch's profiler: an operator
counts with its own time, without what it calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch.profiler import ProfilerActivity, profile

from clew.benchmarks.cost_work import TrainingStep, mazes_a_batch
from clew.models.grid_pointer import GridPointerConfig
from clew.training.peak import best_rate

SIDE = 10
WIDTHS = (64, 128, 256)
TARGET = 0.6
TURNS = 6
# Which part an operator belongs to, by the beginning of its name; whatever is not named here is the rest. The loops'
# own time is that of their numba kernels, norms among them, which torch does not know, and of the Python around them.
PARTS = {
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_dot_product"),
    "passage kernels": ("PassageLoops",),
    "norms": ("NormFunction",),
}


@dataclass(frozen=True)
class Width:
    """A training step of a model of one width."""

    width: int
    mazes: int
    seconds: float  # of a step
    gigaflops: float  # useful operations a second
    peak_gigaflops: float
    share_of_peak: float
    products_share_of_peak: float  # of the time of the matrix products alone
    shares: dict[str, float]  # of the step's time


def share_of_peak(
    model: GridPointerConfig, family: str, width: int, measure: Callable[[Callable[[], None]], float]
) -> Width:
    """`measure` gives the seconds of a piece of work."""
    mazes = mazes_a_batch(SIDE)
    step = TrainingStep(replace(model, width=width), family, SIDE, mazes)
    cpu = torch.device("cpu")
    # By turns, the best of each: what else the machine does slows both down, and not for the whole time.
    peaks, times = zip(*((best_rate(cpu, torch.float32), measure(step.whole)) for _ in range(TURNS)), strict=True)
    peak, seconds, shares = max(peaks), min(times), parts_of(step)
    rate = step.flops / seconds
    return Width(
        width,
        mazes,
        seconds,
        rate / 1e9,
        peak / 1e9,
        rate / peak,
        rate / max(shares["matrix products"], 1e-9) / peak,
        shares,
    )


def parts_of(step: TrainingStep) -> dict[str, float]:
    """The shares of a step's time: products, kernels and norms of forward and backward, the optimizer, the rest."""
    step.whole()
    began = time.perf_counter()
    step.optimize()
    optimizer = time.perf_counter() - began
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        began = time.perf_counter()
        step.forward_backward()
        rest = time.perf_counter() - began
    total = rest + optimizer
    shares = {}
    for part, names in PARTS.items():
        events = (event for event in profiler.key_averages() if event.key.startswith(names))
        seconds = sum(event.self_cpu_time_total for event in events) / 1e6
        shares[part] = seconds / total
        rest -= seconds
    return {**shares, "optimizer": optimizer / total, "rest": max(rest, 0.0) / total}
