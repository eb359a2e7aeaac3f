"""What it saves to go on from pass to pass with what the cells know, and what it costs in solved mazes.

    clew bench going-on [--json]

A grid-pointer is asked several times for a maze, each time with more of the path visible. It may think from nothing
in each pass, or go on from its last state for a few loops (clew.models.grid_pointer.GridPointer.go_on). Both solve the
same held-out mazes, a few at a time in turn, so that other work on the machine slows down both alike.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from clew.benchmarks.cost_work import load_pointer
from clew.benchmarks.pages import Section
from clew.decoding.decode import decode
from clew.decoding.registry import parse_decoder
from clew.loading import Trained
from clew.mazes.generate import generate
from clew.mazes.maze import TaskBatch
from clew.report.provenance import provenance

AT_ONCE = 10  # mazes decoded at once


@dataclass
class Form:
    """One of the two ways, on some mazes."""

    solved: int = 0  # exactly
    passes: int = 0  # of all mazes together
    processor_seconds: float = 0.0
    missed: list[int] = field(default_factory=list)  # the numbers of the mazes


@dataclass(frozen=True)
class SizeOfMaze:
    """Both ways, on mazes of one size."""

    side: int
    mazes: int
    fresh: Form
    going_on: Form

    @property
    def ratio(self) -> float:
        """How many times as fast it is to go on."""
        return self.fresh.processor_seconds / self.going_on.processor_seconds


@dataclass(frozen=True)
class Report:
    """All that one run measured."""

    provenance: dict[str, Any]
    weights: str
    decoder: str
    threads: int
    sizes: list[SizeOfMaze]

    def as_json(self) -> str:
        sizes = [asdict(each) | {"ratio": each.ratio} for each in self.sizes]
        return json.dumps(asdict(self) | {"sizes": sizes}, indent=2)


def measure(
    weights: str, decoder: str, sizes: Sequence[tuple[int, int]], seed: int, command: str, say: Callable[[str], None]
) -> Report:
    """Solve so many mazes of each of these sizes in both ways."""
    trained = load_pointer(weights)
    found = []
    for side, mazes in sizes:
        say(f"{mazes} mazes of {side}x{side}")
        found.append(measure_size(trained, decoder, side, mazes, seed))
    return Report(provenance(command, [seed]), trained.name, decoder, torch.get_num_threads(), found)


def measure_size(trained: Trained, decoder: str, side: int, mazes: int, seed: int) -> SizeOfMaze:
    """Both ways in turn, a few mazes at a time."""
    tasks = generate(trained.family, side, side, seed=seed, first=0, count=mazes, side="test")
    # One maze first, so that neither way pays for what is only done once.
    solve_some(trained, decoder, tasks.select(np.arange(1)), [0], fresh=False, form=Form())
    forms = {False: Form(), True: Form()}
    for first in range(0, mazes, AT_ONCE):
        numbers = np.arange(first, min(first + AT_ONCE, mazes))
        for fresh, form in forms.items():
            solve_some(trained, decoder, tasks.select(numbers), numbers.tolist(), fresh, form)
    return SizeOfMaze(side, mazes, fresh=forms[True], going_on=forms[False])


def solve_some(
    trained: Trained, decoder: str, tasks: TaskBatch, numbers: Sequence[int], fresh: bool, form: Form
) -> None:
    """Solve these mazes in one way, and add what came of it to the form."""
    canvas = trained.script.canvas(tasks)
    truth_BR, length_B = trained.script.truth(tasks)
    began = time.process_time()
    decoded = decode(trained.model, canvas, parse_decoder(decoder), fresh=fresh)
    form.processor_seconds += time.process_time() - began
    form.passes += int(decoded.passes_B.sum())
    for row, number in enumerate(numbers):
        right = decoded.response(row) == truth_BR[row, : int(length_B[row])].tolist()
        form.solved += right
        form.missed += [] if right else [number]


def table(sizes: Sequence[dict[str, Any]]) -> list[str]:
    """Rows of a Markdown table."""
    lines = [
        "| mazes | solved, fresh | solved, going on | passes | s a maze, fresh | s a maze, going on | times as fast |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in sizes:
        fresh, on, mazes = each["fresh"], each["going_on"], each["mazes"]
        before, after = fresh["processor_seconds"] / mazes, on["processor_seconds"] / mazes
        lines.append(
            f"| {each['side']}x{each['side']} | {fresh['solved']} of {mazes} | {on['solved']} of {mazes} | "
            f"{fresh['passes'] / mazes:.1f} and {on['passes'] / mazes:.1f} | {before:.3f} | {after:.3f} | "
            f"{before / after:.1f} |"
        )
    return lines


def tables(report: dict[str, Any]) -> str:
    """Who solved what, and a row for each size."""
    how = f"`{report['weights']}` with `{report['decoder']}`, {report['threads']} thread(s)"
    return "\n".join([f"{how}, processor time, held-out mazes:", "", *table(report["sizes"])]) + "\n"


SECTION = Section("going-on", "going-on.json", "decoding.md", tables)
