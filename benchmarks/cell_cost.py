"""Cost of a cell network against the size of the maze, to train and to solve, and its share of the machine's peak.

    python benchmarks/cell_cost.py                       # about fifteen minutes of one core; results/cell-cost.json
    python benchmarks/cell_cost.py --sides 5 10 --seconds 1 --out /tmp/cost.json

- Seconds a maze of a training step (forward, backward, optimizer) and of solving (one pass and a walk), both families.
- Peak memory a maze of each, from a fresh process for each size, above that of a process with one 5x5 maze.
- The exponent k of cost = c * cells^k, fitted to all sizes.
- At 10x10, the time beside two lower bounds measured in the same run: its matrix products at the rate of large
  products, and the arrays that the backward pass needs, written and read once, at the rate of a large copy. Where the
  rest goes comes from torch's profiler.

With one thread the clock is the CPU time of the process, which other programs hardly change; with more, the wall clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from peak import best_rate
from torch import nn
from torch.profiler import ProfilerActivity, profile
from work import FAMILIES, SEED, announce, command_line, fastest, own_peak_memory_mb, peak_memory_of, save

from clew.data.batch import cell_batch
from clew.data.loader import build_loader
from clew.decoding.codec import Codec
from clew.decoding.decode import decode, decoder_named
from clew.errors import guarded
from clew.mazes.generate import generate
from clew.mazes.maze import TaskBatch
from clew.models.build import build_model, training_flops
from clew.models.config import CellNetworkConfig
from clew.paper.named_configs import CELLS_A_STEP, REACHABLE, cell_model, cells
from clew.provenance import provenance
from clew.training.distributed import World
from clew.training.train import Trainer, local_batch

SIDES = (5, 8, 10, 15, 20, 25, 30)
PEAK_SIDE = 10
TURNS = 3
QUANTITIES = {
    "training_seconds": "training, s a maze",
    "solving_seconds": "solving, s a maze",
    "training_mb": "training, MB a maze",
    "solving_mb": "solving, MB a maze",
}
PRODUCTS = ("aten::mm", "aten::addmm")


def main(
    sides: tuple[int, ...] = SIDES, seconds: float = 4.0, threads: int = 1, out: Path = Path("results/cell-cost.json")
) -> None:
    """Measure all sizes of both families; each piece of work is repeated for about `seconds`."""
    torch.set_num_threads(threads)
    report: dict[str, Any] = {
        "provenance": provenance(command_line(), [SEED]),
        "threads": threads,
        "clock": "cpu" if threads == 1 else "wall",
        "families": {},
    }
    for family in FAMILIES:
        sizes = []
        for side in sides:
            announce(f"{family} {side}x{side}")
            sizes.append(size_cost(family, side, seconds, threads))
        cells = [each["cells"] for each in sizes]
        report["families"][family] = {
            "sizes": sizes,
            "exponents": {name: exponent(cells, [each[name] for each in sizes]) for name in QUANTITIES},
            "peak": share_of_peak(family, seconds, threads),
        }
    save(out, report)


def clock_for(threads: int) -> Callable[[], float]:
    return time.process_time if threads == 1 else time.perf_counter


def size_cost(family: str, side: int, seconds: float, threads: int) -> dict[str, Any]:
    """All costs of one size, a maze."""
    clock, step, tasks = clock_for(threads), TrainingStep(family, side), held_out_tasks(family, side)
    model = fresh_model(family)
    solve(model, tasks)  # compiles
    return {
        "side": side,
        "cells": side**2,
        "mazes": step.mazes,
        "loops": cell_model(family).loops(side, side),
        "training_seconds": step.fastest(seconds, clock) / step.mazes,
        "solving_seconds": fastest(lambda: solve(model, tasks), seconds, clock) / len(tasks),
        "training_mb": memory_mb("train", family, side, threads) / step.mazes,
        "solving_mb": memory_mb("solve", family, side, threads) / len(tasks),
    }


def exponent(cells: Sequence[int], costs: Sequence[float]) -> float:
    """The slope of the straight line through the logarithms."""
    slope, _ = np.polyfit(np.log(np.array(cells, dtype=float)), np.log(np.array(costs)), 1)
    return float(slope)


def memory_mb(kind: str, family: str, side: int, threads: int) -> float:
    """Peak memory of one batch, above that of a process that has done the same with one small maze."""
    whole = _in_fresh_process(kind, family, side, mazes_a_batch(family, side), threads)
    return max(whole - _in_fresh_process(kind, family, 5, 1, threads), 0.1)  # smaller differences mean nothing


@cache
def _in_fresh_process(kind: str, family: str, side: int, mazes: int, threads: int) -> float:
    return peak_memory_of([__file__, "memory", kind, family, str(side), str(mazes), str(threads)])


def _print_memory(kind: str, family: str, side: int, mazes: int, threads: int) -> None:
    """What the fresh process does."""
    torch.set_num_threads(threads)
    if kind == "train":
        TrainingStep(family, side, mazes).whole()
    else:
        solve(fresh_model(family), held_out_tasks(family, side, mazes))
    print(own_peak_memory_mb())


def share_of_peak(family: str, seconds: float, threads: int) -> dict[str, Any]:
    """A training step and a pass at 10x10 beside their lower bounds."""
    clock, config = clock_for(threads), cell_model(family)
    step, model, tasks = TrainingStep(family, PEAK_SIDE), fresh_model(family), held_out_tasks(family, PEAK_SIDE)
    # In turns, the best of each: other programs slow all of them down, but not all the time.
    turns = [
        (
            best_rate(torch.device("cpu"), torch.float32),
            copy_rate(clock),
            step.fastest(seconds / TURNS, clock),
            fastest(lambda: solve(model, tasks), seconds / TURNS, clock),
        )
        for _ in range(TURNS)
    ]
    peak, bandwidth = max(turn[0] for turn in turns), max(turn[1] for turn in turns)
    training, solving = min(turn[2] for turn in turns), min(turn[3] for turn in turns)
    parts = parts_of(step)
    return {
        "side": PEAK_SIDE,
        "peak_gigaflops": peak / 1e9,
        "copy_gigabytes_a_second": bandwidth / 1e9,
        "training": {
            "seconds": training,
            "products_bound_seconds": step.flops / peak,
            "memory_bound_seconds": kept_bytes(config, step) * 2 / bandwidth,
            "share_of_peak": step.flops / peak / training,
            "parts": parts,
        },
        "solving": {
            "seconds": solving,
            "products_bound_seconds": solving_flops(family, tasks) / peak,
            "share_of_peak": solving_flops(family, tasks) / peak / solving,
        },
    }


def copy_rate(clock: Callable[[], float]) -> float:
    """Bytes read and written in a second by a copy that is larger than the caches."""
    source = torch.ones(32 << 20)
    target = torch.empty_like(source)
    return 2 * 4 * source.numel() / fastest(lambda: target.copy_(source), 0.3, clock)


def kept_bytes(config: CellNetworkConfig, step: TrainingStep) -> float:
    """Bytes that the loops with gradients keep for the backward pass: norms, their scales, and products."""
    batch = step.part.batch
    _, loops_B = config.training_loops(batch)  # type: ignore[arg-type]
    a_loop = config.width + 1 + config.steps * (config.width + 1 + 2 * config.hidden)
    return float((loops_B * batch.valid_BT.sum(1)).sum()) * a_loop * 4


def parts_of(step: TrainingStep) -> dict[str, float]:
    """The shares of a step's time: matrix products, kernels and all else of the loops, and the optimizer."""
    step.whole()
    began = time.perf_counter()
    step.optimize()
    optimizer = time.perf_counter() - began
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        began = time.perf_counter()
        step.forward_backward()
        loops = time.perf_counter() - began
    events = (event for event in profiler.key_averages() if event.key.startswith(PRODUCTS))
    products = sum(event.self_cpu_time_total for event in events) / 1e6
    total = loops + optimizer
    return {
        "matrix products": products / total,
        "kernels and the rest": max(loops - products, 0.0) / total,
        "optimizer": optimizer / total,
    }


def mazes_a_batch(family: str, side: int) -> int:
    """As many mazes as a training step of the recipe has."""
    return max(1, round(CELLS_A_STEP / REACHABLE[family] / side**2))


class TrainingStep:
    """One batch with its targets, again and again; the weights start at random and change."""

    def __init__(self, family: str, side: int, mazes: int | None = None) -> None:
        self.config = cells(family, (side,), steps=1000)
        self.state = Trainer(self.config, World())
        self.mazes = mazes or mazes_a_batch(family, side)
        loader = build_loader(self.config.data, self.config.batch_size, self.config.seed)
        tasks = loader.batch(0).rows(slice(0, self.mazes))
        self.mazes = len(tasks)
        self.part = local_batch(tasks, self.state.objective, SEED, 0, self.mazes, World())

    @property
    def flops(self) -> float:
        """Floating-point operations of the matrix products, forward and backward."""
        targets = self.part.targets
        return training_flops(self.config.model, self.part.batch, targets.order_BT, targets.query_BT)

    def forward_backward(self) -> None:
        self.state.model.train()
        torch.set_flush_denormal(True)
        self.state.compute_gradient(self.part)
        torch.set_flush_denormal(False)

    def optimize(self) -> None:
        """Clip, step, average the weights."""
        self.state.apply_gradient()

    def whole(self) -> None:
        self.forward_backward()
        self.optimize()

    def fastest(self, seconds: float, clock: Callable[[], float]) -> float:
        """Return the seconds of a step of a long run, which keeps its memory from step to step."""
        with self.state.model.threads():
            return fastest(self.whole, seconds, clock)


def fresh_model(family: str) -> nn.Module:
    """A network with random weights; one pass costs the same with any."""
    return build_model(cell_model(family), SEED).eval()


def held_out_tasks(family: str, side: int, mazes: int | None = None) -> TaskBatch:
    count = mazes or mazes_a_batch(family, side)
    return generate(family, side, side, seed=SEED, first=0, count=count, split="test")


def solve(model: nn.Module, tasks: TaskBatch) -> None:
    """Predict all labels in one pass and walk over them."""
    decoder = decoder_named("one-pass", loops=1, tolerance=0)  # an untrained model's labels do not settle
    decode(model, Codec.of("cell-labels", tasks.height, tasks.width).decoding_state(tasks), decoder)


def solving_flops(family: str, tasks: TaskBatch) -> float:
    """Floating-point operations of the matrix products of one pass."""
    config = cell_model(family)
    reachable = int(cell_batch(tasks, np.arange(len(tasks))).valid_BT.sum())
    loops = config.loops(tasks.height, tasks.width)
    return float(loops * reachable * config.steps * 2 * 3 * config.hidden * config.width)


def tables(report: dict[str, Any]) -> str:
    """Costs by size, and the shares of the peak, for docs/cells.md."""
    lines = [f"All a maze; {report['threads']} thread(s), {report['clock']} clock.", ""]
    lines += ["| mazes | loops | training, ms | solving, ms | training, MB | solving, MB |"]
    lines += ["|---|---|---|---|---|---|"]
    for family, found in report["families"].items():
        for each in found["sizes"]:
            lines.append(
                f"| {FAMILIES[family]} {each['side']}x{each['side']} | {each['loops']} | "
                f"{_number(1000 * each['training_seconds'])} | {_number(1000 * each['solving_seconds'])} | "
                f"{_number(each['training_mb'])} | {_number(each['solving_mb'])} |"
            )
        exponents = " | ".join(f"cells^{found['exponents'][name]:.2f}" for name in QUANTITIES)
        lines.append(f"| {FAMILIES[family]}, grows as | | {exponents} |")
    lines += ["", f"A batch of {PEAK_SIDE}x{PEAK_SIDE} mazes beside lower bounds measured in the same run:", ""]
    lines += [
        "| work | ms | its products at the peak, ms | arrays kept, written and read, ms | of the peak |",
        "|---|---|---|---|---|",
    ]
    for family, found in report["families"].items():
        for work in ("training", "solving"):
            each = found["peak"][work]
            memory = f"{1000 * each['memory_bound_seconds']:.0f}" if "memory_bound_seconds" in each else ""
            lines.append(
                f"| {FAMILIES[family]}, {work} | {1000 * each['seconds']:.0f} | "
                f"{1000 * each['products_bound_seconds']:.0f} | {memory} | {100 * each['share_of_peak']:.0f} % |"
            )
    parts = {family: found["peak"]["training"]["parts"] for family, found in report["families"].items()}
    shares = "; ".join(
        f"{FAMILIES[family]}: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in each.items())
        for family, each in parts.items()
    )
    peaks = [found["peak"] for found in report["families"].values()]
    lines += [
        "",
        f"Time of a training step: {shares}. Peak: {max(p['peak_gigaflops'] for p in peaks):.0f} GFLOP/s in float32 "
        f"products, {max(p['copy_gigabytes_a_second'] for p in peaks):.1f} GB/s in a copy.",
    ]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def plot(report: dict[str, Any], file: Path) -> None:
    """Time and memory a maze against its cells on logarithmic axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, (ending, label) in zip(
        figure.subplots(1, 2), (("seconds", "seconds a maze"), ("mb", "MB a maze")), strict=True
    ):
        for family, found in report["families"].items():
            cells = [each["cells"] for each in found["sizes"]]
            for name in (name for name in QUANTITIES if name.endswith(ending)):
                what = f"{FAMILIES[family]}, {QUANTITIES[name].split(',')[0]}"
                costs = [each[name] for each in found["sizes"]]
                axes.loglog(cells, costs, "o-", label=f"{what}: cells^{found['exponents'][name]:.2f}")
        axes.set(xlabel="cells of the maze", ylabel=label)
        axes.set_xticks(cells, [f"{each['side']}x{each['side']}" for each in found["sizes"]], fontsize=8)
        axes.minorticks_off()
        axes.grid(linewidth=0.4, alpha=0.6)
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        kind, family, *numbers = sys.argv[2:]
        _print_memory(kind, family, *map(int, numbers))
    else:
        sys.exit(guarded(lambda: tyro.cli(main)))
