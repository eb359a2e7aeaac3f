"""Training and solving with one and with two threads, side by side by alternating runs.

    python benchmarks/two_cores.py                       # about ten minutes of two cores; results/two-cores.json
    python benchmarks/two_cores.py --sides 10 --rounds 2 --out /tmp/two.json

Each round times the same work with one thread and then with two, by the wall clock, several times in a row as in a run
of many steps; a round's ratio is the first time over the second. The median and the range of the rounds are reported.
Run it on a machine that does nothing else.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
import tyro
from cell_cost import TrainingStep, fresh_model, held_out_tasks, mazes_a_batch, solve
from work import FAMILIES, SEED, announce, command_line, save

from clew.errors import UserError, guarded
from clew.provenance import provenance

SECONDS = 1.0  # of a turn with one thread


def main(
    sides: tuple[int, ...] = (10, 20, 30),
    rounds: int = 9,
    threads: int = 2,
    out: Path = Path("results/two-cores.json"),
) -> None:
    """Measure both families; `threads` is what one thread is compared with."""
    if rounds < 1 or threads < 2:
        raise UserError("give --rounds 1 or more, and --threads 2 or more.")
    found = []
    for family in FAMILIES:
        for side in sides:
            step, model = TrainingStep(family, side), fresh_model(family)
            # Several batches' worth, as in an evaluation.
            tasks = held_out_tasks(family, side, 4 * mazes_a_batch(family, side))
            # The training loop distributes mazes and keeps their memory for the whole run, an evaluation for a pass.
            for work, run, context in (
                ("training", step.whole, step.state.model.threads),
                ("solving", lambda m=model, t=tasks: solve(m, t), nullcontext),
            ):
                announce(f"{family} {side}x{side}, {work}")
                found.append({"family": family, "side": side, "work": work} | compare(run, context, rounds, threads))
    report = {
        "provenance": provenance(command_line(), [SEED]),
        "load_before": os.getloadavg()[0],
        "threads": threads,
        "rounds": rounds,
        "measured": found,
    }
    save(out, report)


def compare(
    run: Callable[[], None], context: Callable[[], AbstractContextManager[None]], rounds: int, threads: int
) -> dict[str, Any]:
    """Return the seconds of a run with one thread and with several, and the ratios of the rounds.

    All runs of a turn are within one `context`, the first of which compiles, starts the threads and takes the memory.
    """
    times: dict[int, list[float]] = {1: [], threads: []}
    first = {}
    for number in times:
        torch.set_num_threads(number)
        with context():
            run()
            first[number] = seconds_of(run, 1)
    runs = max(1, round(SECONDS / first[1]))
    for _ in range(rounds):
        for number, took in times.items():
            torch.set_num_threads(number)
            with context():
                run()
                took.append(seconds_of(run, runs))
    torch.set_num_threads(1)
    ratios = [one / several for one, several in zip(times[1], times[threads], strict=True)]
    return {
        "one_seconds": statistics.median(times[1]),
        "several_seconds": statistics.median(times[threads]),
        "ratio": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
    }


def seconds_of(run: Callable[[], None], runs: int) -> float:
    """Return the seconds of one of several runs in a row."""
    began = time.perf_counter()
    for _ in range(runs):
        run()
    return (time.perf_counter() - began) / runs


def tables(report: dict[str, Any]) -> str:
    """One row for each size and work, for docs/cells.md."""
    rounds = f"lowest to highest of {report['rounds']}"
    lines = [
        f"| mazes | work | one thread, ms | {report['threads']} threads, ms | times as fast ({rounds}) |",
        "|---|---|---|---|---|",
    ]
    for each in report["measured"]:
        lines.append(
            f"| {FAMILIES[each['family']]} {each['side']}x{each['side']} | {each['work']} | "
            f"{1000 * each['one_seconds']:.0f} | {1000 * each['several_seconds']:.0f} | {each['ratio']:.2f} "
            f"({each['lowest']:.2f} to {each['highest']:.2f}) |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(guarded(lambda: tyro.cli(main)))
