"""Who watches a run: the loop tells each callback what happens, and knows nothing of files, terminals or services.

    class Bell:
        def on_start(self, start: RunStart) -> None: ...
        def on_step(self, report: StepReport) -> None: ...
        def on_evaluate(self, report: EvaluationReport) -> None: ...
        def on_checkpoint(self, step: int, path: Path) -> None: ...
        def on_end(self, end: RunEnd) -> None: ...

    train(config, "runs/x", callbacks=[LinePrinter(), Bell()])

Only the main process has callbacks. `on_step` comes every `log_every` steps and tells of all steps since the last
one. metrics.jsonl is written by MetricsFile, which the loop always adds.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, Protocol

from clew.training.config import TrainConfig


@dataclass(frozen=True)
class RunStart:
    """What is known before the first step."""

    config: TrainConfig
    run: Path
    parameters: int
    first_step: int  # steps that were done before, by the run that is resumed
    total_steps: int | None  # None with a budget in minutes
    elapsed: float  # seconds of training before
    device: str
    processes: int


@dataclass(frozen=True)
class StepReport:
    """The steps since the last report."""

    step: int  # steps done
    progress: float  # the share of the budget that is used
    loss: float  # per asked token, by weight
    accuracy: float  # the share of the asked tokens whose highest logit was right
    gradient_norm: float  # of the last step, before clipping
    lr: float  # the first group's, in the last step
    mazes: int  # seen since the run began
    elapsed: float  # seconds of training since the run began
    mazes_per_second: float
    tokens_per_second: float
    flops_per_second: float  # what the targets need, forward and backward: see clew.models.build.training_flops
    skipped: int  # steps left out because float16 gradients overflowed


@dataclass(frozen=True)
class EvaluationReport:
    """Scores on held-out mazes."""

    step: int
    elapsed: float
    scores: dict[str, float]  # "exact" among them
    best: bool  # whether "exact" is the highest so far
    seconds: float  # that the evaluation took, outside of the budget


@dataclass(frozen=True)
class RunEnd:
    """How a run ended."""

    step: int
    elapsed: float
    reason: Literal["done", "signal", "failed", "unfinished"]  # unfinished: of a run that was looked at later
    checkpoint: Path | None  # the last one
    signal: int = 0  # which one asked it to leave
    scores: dict[str, float] = field(default_factory=dict)  # of the last evaluation


class Callback(Protocol):
    """See the module's docstring."""

    def on_start(self, start: RunStart) -> None: ...

    def on_step(self, report: StepReport) -> None: ...

    def on_evaluate(self, report: EvaluationReport) -> None: ...

    def on_checkpoint(self, step: int, path: Path) -> None: ...

    def on_end(self, end: RunEnd) -> None: ...


class MetricsFile:
    """metrics.jsonl: a line for each report, safe on the disk whenever a checkpoint is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def on_start(self, start: RunStart) -> None:
        self._file = open(self._path, "a", encoding="utf-8", newline="\n")  # noqa: SIM115  (closed in on_end)

    def on_step(self, report: StepReport) -> None:
        self._write({"kind": "step", **_rounded(dataclasses.asdict(report))})

    def on_evaluate(self, report: EvaluationReport) -> None:
        self._write({"kind": "evaluation", **_rounded(dataclasses.asdict(report))})

    def on_checkpoint(self, step: int, path: Path) -> None:
        pass

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        if self._file is not None:
            with _naming(self._path):
                os.fsync(self._file.fileno())

    def on_end(self, end: RunEnd) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, line: dict[str, Any]) -> None:
        assert self._file is not None, "on_start comes first"
        with _naming(self._path):
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Within, an OSError of a write that names no file, as a full disk gives, names this one."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _rounded(value: Any) -> Any:
    """Numbers with seven digits: as many as float32 has."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    return {name: _rounded(item) for name, item in value.items()} if isinstance(value, dict) else value


class LinePrinter:
    """A plain line on stderr every few seconds of training, and for each evaluation."""

    def __init__(self, every: float = 10.0, out: IO[str] | None = None) -> None:
        self._every, self._out, self._printed = every, out, -every

    def on_start(self, start: RunStart) -> None:
        begun = f"goes on after step {start.first_step:,}" if start.first_step else "begins"
        where = start.device if start.processes == 1 else f"{start.processes} x {start.device}"
        self._print(f"{start.run} {begun}: {start.parameters:,} parameters on {where}")

    def on_step(self, report: StepReport) -> None:
        if report.elapsed - self._printed < self._every and report.progress < 1:
            return
        self._printed = report.elapsed
        self._print(self.line(report))

    def line(self, report: StepReport) -> str:
        """What is told of the steps since the last report."""
        return (
            f"step {report.step:>7,} {report.progress:>6.1%}  loss {report.loss:.4f}  "
            f"token accuracy {report.accuracy:.3f}  {report.mazes_per_second:,.0f} mazes/s  "
            f"{report.flops_per_second / 1e9:,.1f} GFLOP/s  {report.elapsed / 60:.1f} min"
        )

    def on_evaluate(self, report: EvaluationReport) -> None:
        scores = "  ".join(f"{name} {value:.4f}" for name, value in report.scores.items())
        self._print(f"step {report.step:>7,} held out:  {scores}{'  (best)' if report.best else ''}")

    def on_checkpoint(self, step: int, path: Path) -> None:
        pass

    def on_end(self, end: RunEnd) -> None:
        if end.reason == "done":
            self._print(f"done after {end.step:,} steps and {end.elapsed / 60:.1f} minutes of training")

    def _print(self, line: str) -> None:
        print(line, file=self._out or sys.stderr, flush=True)
