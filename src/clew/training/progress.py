"""How far a run is: steps, seconds of training, and what happened since the last line of metrics.

clock = Clock(); clock.run(); ...; clock.pause(); clock.seconds
progress = budget_progress(budget, total_steps, step, seconds)

What a person sees of a run: a live view on a terminal, one plain line every few seconds anywhere else.

    train(config, "runs/x", callbacks=[terminal_view()])

Both go to stderr and are fed by the same Tally: loss (smoothed), held-out exact accuracy (last, best, and how it
went), mazes/s, the share of the machine's measured peak (see peak.py), the learning rate and the time that is left.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import torch
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from clew.data.loader import Loader
from clew.errors import UserError
from clew.training.callbacks import Callback, EvaluationReport, LinePrinter, RunEnd, RunStart, StepReport
from clew.training.config import Budget
from clew.training.peak import measure_matmul_peak
from clew.training.step import StepSums

# Seconds of a run are read from this clock; a benchmark replaces it by the CPU time of the process.
now = time.perf_counter


class Clock:
    """Seconds of training: it stands still during evaluation and saving."""

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
    """Sums over the steps since the last line of metrics."""

    loss: float = 0.0
    weight: float = 0.0
    count: float = 0.0
    correct: float = 0.0
    mazes: int = 0
    tokens: float = 0.0
    flops: float = 0.0
    skipped: int = 0
    begun: float = 0.0  # the clock's seconds when it was opened

    def add(self, sums: StepSums, mazes: int, tokens: float, flops: float) -> None:
        """Take in a step."""
        self.loss, self.weight = self.loss + sums.loss, self.weight + sums.weight
        self.count, self.correct = self.count + sums.count, self.correct + sums.correct
        self.mazes, self.tokens, self.flops = self.mazes + mazes, self.tokens + tokens, self.flops + flops

    def state(self) -> dict[str, Any]:
        """For a checkpoint's JSON, so that a resumed run writes the same lines."""
        return dataclasses.asdict(self)


def total_steps(budget: Budget, loader: Loader) -> int | None:
    """The number of steps of the whole run; None if it goes by minutes."""
    if budget.epochs is None:
        return budget.steps
    if loader.steps_per_epoch is None:
        raise UserError("a stream of fresh mazes has no epochs; give the budget in steps or minutes.")
    return budget.epochs * loader.steps_per_epoch


def budget_progress(budget: Budget, total: int | None, step: int, seconds: float) -> tuple[float, float]:
    """The share of the budget that is used, and the share that one step uses (0 where nobody knows)."""
    if total is not None:
        return step / total, 1 / total
    assert budget.minutes is not None
    return seconds / (60 * budget.minutes), 0.0


SMOOTHING = 0.8  # how much of the loss's average is kept at each report
SPARKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 24
PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def terminal_view(out: IO[str] | None = None) -> Callback:
    """The view that fits where stderr (or `out`) goes: live on a terminal, lines in a file or a pipe."""
    console = Console(file=out, stderr=out is None, highlight=False)
    return LiveView(console) if console.is_terminal and not console.is_dumb_terminal else PlainView(out=out)


@dataclass
class Tally:
    """What the reports so far add up to."""

    start: RunStart
    peak: float  # FLOP/s of all processes
    first_progress: float | None = None  # at the first report, from which the speed is taken
    first_time: float = 0.0
    report: StepReport | None = None
    loss: float = 0.0
    _loss_weight: float = 0.0
    exact: list[float] = field(default_factory=list)
    best_exact: float = float("-inf")
    best_step: int = 0

    @classmethod
    def of(cls, start: RunStart) -> Tally:
        """Measures the peak, which takes half a second the first time."""
        peak = measure_matmul_peak(start.device, PRECISIONS[start.config.precision], start.config.threads)
        return cls(start, peak * start.processes)

    def step(self, report: StepReport) -> None:
        self.report = report
        # The weight makes it a true average from the first report on, when there is nothing to remember yet.
        self._loss_weight = SMOOTHING * self._loss_weight + (1 - SMOOTHING)
        self.loss += (1 - SMOOTHING) / self._loss_weight * (report.loss - self.loss)
        if self.first_progress is None:
            self.first_progress, self.first_time = report.progress, time.monotonic()

    def evaluate(self, report: EvaluationReport) -> None:
        if "exact" not in report.scores:
            return
        self.exact.append(report.scores["exact"])
        if report.best:
            self.best_exact, self.best_step = report.scores["exact"], report.step

    @property
    def share_of_peak(self) -> float:
        return self.report.flops_per_second / self.peak if self.report else 0.0

    @property
    def seconds_left(self) -> float | None:
        """By the clock on the wall, so evaluations are counted in; None before a second report."""
        if self.report is None or self.first_progress is None or self.report.progress <= self.first_progress:
            return None
        gained = self.report.progress - self.first_progress
        return max((time.monotonic() - self.first_time) * (1 - self.report.progress) / gained, 0.0)


class LiveView:
    """A few lines on the terminal that are drawn anew with each report."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._tally: Tally | None = None

    def on_start(self, start: RunStart) -> None:
        self._tally = Tally.of(start)
        self._live = Live(self._picture(), console=self._console, refresh_per_second=4)
        self._live.start()

    def on_step(self, report: StepReport) -> None:
        if self._tally is not None:
            self._tally.step(report)
        self._draw()

    def on_evaluate(self, report: EvaluationReport) -> None:
        if self._tally is not None:
            self._tally.evaluate(report)
        self._draw()

    def on_checkpoint(self, step: int, path: Path) -> None:
        pass

    def on_end(self, end: RunEnd) -> None:
        if self._live is not None:
            self._draw()
            self._live.stop()
            self._live = None
            if end.reason == "done":
                took = f"done after {end.step:,} steps and {format_duration(end.elapsed)} of training"
                self._console.print(took, markup=False, highlight=False)

    def _draw(self) -> None:
        if self._live is not None:
            self._live.update(self._picture())

    def _picture(self) -> RenderableType:
        assert self._tally is not None
        return picture(self._tally)


def picture(tally: Tally) -> RenderableType:
    """The lines of the live view."""
    start, report = tally.start, tally.report
    where = start.device if start.processes == 1 else f"{start.processes} x {start.device}"
    title = Text(f"{start.run}: {start.parameters:,} parameters on {where}", style="bold")
    if report is None:
        return Group(title, Text("the first steps ...", style="dim"))
    of_all = f" of {start.total_steps:,}" if start.total_steps is not None else ""
    left = "" if tally.seconds_left is None else f"{format_duration(tally.seconds_left)} left"
    bar = Table.grid(padding=(0, 2))
    bar.add_row(
        # Plain colours: on a terminal of sixteen, rich's own for a full bar is that of an empty one.
        ProgressBar(
            1.0, min(report.progress, 1.0), width=30, style="dim", complete_style="green", finished_style="green"
        ),
        f"{report.progress:.1%}",
        f"step {report.step:,}{of_all}",
        left,
    )
    numbers = Table.grid(padding=(0, 2))
    numbers.add_row("loss", f"{tally.loss:.4f}", f"token accuracy {report.accuracy:.1%}", f"lr {report.lr:.2e}")
    if tally.exact:
        best = f"best {tally.best_exact:.1%} at step {tally.best_step:,}" if tally.best_step else ""
        numbers.add_row("held-out exact", f"{tally.exact[-1]:.1%}", best, sparkline(tally.exact))
    gigaflops = f"{report.flops_per_second / 1e9:,.1f} GFLOP/s"
    numbers.add_row("mazes/s", f"{report.mazes_per_second:,.0f}", gigaflops, f"{tally.share_of_peak:.0%} of peak")
    return Group(title, bar, numbers)


class PlainView(LinePrinter):
    """The same in lines, for logs."""

    def __init__(self, every: float = 10.0, out: IO[str] | None = None) -> None:
        super().__init__(every, out)
        self._tally: Tally | None = None

    def on_start(self, start: RunStart) -> None:
        super().on_start(start)
        self._tally = Tally.of(start)

    def on_step(self, report: StepReport) -> None:
        assert self._tally is not None, "on_start comes first"
        self._tally.step(report)
        super().on_step(report)

    def line(self, report: StepReport) -> str:
        assert self._tally is not None, "on_start comes first"
        tally = self._tally
        parts = [
            f"step {report.step:>7,} {report.progress:>6.1%}",
            f"loss {tally.loss:.4f}",
            f"token accuracy {report.accuracy:.3f}",
            f"lr {report.lr:.2e}",
            f"{report.mazes_per_second:,.0f} mazes/s",
            f"{tally.share_of_peak:.0%} of peak",
        ]
        if tally.seconds_left is not None:
            parts.append(f"{format_duration(tally.seconds_left)} left")
        return "  ".join(parts)


def sparkline(values: list[float], width: int = SPARK_WIDTH) -> str:
    """The last values as small bars, from 0 to 1, so that the height says how good it is."""
    return "".join(SPARKS[round(min(max(value, 0.0), 1.0) * (len(SPARKS) - 1))] for value in values[-width:])


def format_duration(seconds: float) -> str:
    """12 s, 3 min 05 s, 2 h 07 min or 3 d 04 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02} min"
    return f"{whole // 86400} d {whole % 86400 // 3600:02} h"
