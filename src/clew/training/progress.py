"""Progress of a run: its clock, the share of the budget that is used, sums for reports, and the terminal display.

    train(config, "runs/x", callbacks=[ProgressDisplay()])

The display goes to stderr: one line that is redrawn on a terminal, a line every few seconds anywhere else.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import IO, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from clew.data.loader import Loader
from clew.errors import UserError, printable
from clew.training.callbacks import Callback, EvaluationReport, RunEnd, RunStart, StepReport
from clew.training.config import Budget
from clew.training.step import StepSums

# Seconds of a run are read from this clock; a benchmark replaces it by the CPU time of the process.
now = time.perf_counter


class Clock:
    """Seconds of training: paused during evaluation and saving."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._before = seconds
        self._since: float | None = None

    @property
    def seconds(self) -> float:
        return self._before + (now() - self._since if self._since is not None else 0.0)

    @property
    def running(self) -> bool:
        return self._since is not None

    def run(self) -> None:
        if self._since is None:
            self._since = now()

    def pause(self) -> None:
        self._before, self._since = self.seconds, None


@dataclass
class Window:
    """Sums over the steps since the last report; part of a checkpoint, so that a resumed run reports the same."""

    loss: float = 0.0
    weight: float = 0.0
    count: float = 0.0
    correct: float = 0.0
    mazes: int = 0
    tokens: float = 0.0
    flops: float = 0.0
    skipped: int = 0
    begun: float = 0.0  # seconds of training when it was opened

    def add(self, sums: StepSums, mazes: int, tokens: float, flops: float) -> None:
        """Add a step."""
        self.loss, self.weight = self.loss + sums.loss, self.weight + sums.weight
        self.count, self.correct = self.count + sums.count, self.correct + sums.correct
        self.mazes, self.tokens, self.flops = self.mazes + mazes, self.tokens + tokens, self.flops + flops

    def report(self, seconds: float) -> dict[str, Any]:
        """Return the fields of a StepReport that are sums over its steps, `seconds` of training after the start."""
        took = max(seconds - self.begun, 1e-9)
        return {
            "loss": self.loss / (self.weight or 1.0),
            "accuracy": self.correct / (self.count or 1.0),
            "mazes_per_second": self.mazes / took,
            "tokens_per_second": self.tokens / took,
            "flops_per_second": self.flops / took,
            "skipped": self.skipped,
        }

    def state(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def total_steps(budget: Budget, loader: Loader) -> int | None:
    """Return the number of steps of the run; None with a budget in minutes."""
    if budget.epochs is None:
        return budget.steps
    if loader.steps_per_epoch is None:
        raise UserError("a stream of fresh mazes has no epochs; give the budget in steps or minutes.")
    return budget.epochs * loader.steps_per_epoch


def budget_progress(budget: Budget, total: int | None, step: int, seconds: float) -> tuple[float, float]:
    """Return the share of the budget that is used, and the share that one step uses (0 with a budget in minutes)."""
    if total is not None:
        return step / total, 1 / total
    assert budget.minutes is not None
    return seconds / (60 * budget.minutes), 0.0


class ProgressDisplay(Callback):
    """Loss, speed, remaining time and held-out scores, on stderr or `out`."""

    def __init__(self, out: IO[str] | None = None, every: float = 10.0) -> None:
        self._console = Console(file=out, stderr=out is None, highlight=False, soft_wrap=True)
        self._every = every
        self._live: Live | None = None

    def on_start(self, start: RunStart) -> None:
        self._start, self._printed, self._first = start, -self._every, (0.0, 0.0)
        begun = f"resumes after step {start.first_step:,}" if start.first_step else "begins"
        where = start.device if start.processes == 1 else f"{start.processes} x {start.device}"
        self._print(f"{printable(str(start.run))} {begun}: {start.parameters:,} parameters on {where}")
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(console=self._console, refresh_per_second=4)
            self._live.start()

    def on_step(self, report: StepReport) -> None:
        if self._first == (0.0, 0.0):
            self._first = report.progress, time.monotonic()
        if self._live is not None:
            self._live.update(Text(self._line(report), no_wrap=True, overflow="ellipsis"))
        elif report.elapsed - self._printed >= self._every or report.progress >= 1:
            self._printed = report.elapsed
            self._print(self._line(report))

    def on_evaluate(self, report: EvaluationReport) -> None:
        scores = "  ".join(f"{name} {value:.4f}" for name, value in report.scores.items())
        self._print(f"step {report.step:>7,} held out:  {scores}{'  (best)' if report.best else ''}")

    def on_end(self, end: RunEnd) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if end.reason == "done":
            self._print(f"done after {end.step:,} steps and {format_duration(end.elapsed)} of training")

    def _line(self, report: StepReport) -> str:
        total = self._start.total_steps
        parts = [
            f"step {report.step:>7,}{f' of {total:,}' if total else ''} {report.progress:>6.1%}",
            f"loss {report.loss:.4f}",
            f"token accuracy {report.accuracy:.3f}",
            f"lr {report.lr:.2e}",
            f"{report.mazes_per_second:,.0f} mazes/s",
            f"{report.flops_per_second / 1e9:,.1f} GFLOP/s",
        ]
        progress, begun = self._first
        if report.progress > progress:  # by the clock on the wall, so that evaluations count
            left = (time.monotonic() - begun) * (1 - report.progress) / (report.progress - progress)
            parts.append(f"{format_duration(max(left, 0.0))} left")
        return "  ".join(parts)

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False)


def format_duration(seconds: float) -> str:
    """Return a duration in words.

    Example:
        >>> [format_duration(s) for s in (12, 185, 7620, 273_600)]
        ['12 s', '3 min 05 s', '2 h 07 min', '3 d 04 h']
    """
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02} s"
    if total < 86400:
        return f"{total // 3600} h {total % 3600 // 60:02} min"
    return f"{total // 86400} d {total % 86400 // 3600:02} h"
