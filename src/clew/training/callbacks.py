"""Callbacks: the reports that a run makes, and those who receive them: files, services and the terminal.

    class Bell(Callback):
        def on_evaluate(self, report: EvaluationReport) -> None:
            print("\a" if report.best else "")

    train(config, "runs/x", callbacks=[ProgressDisplay(), Bell()])

Callbacks run on the main process only; `on_step` every `log_every` steps.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from clew.errors import UserError, counted, printable, report_error
from clew.files import atomic_write, open_own, read_json

if TYPE_CHECKING:  # `clew train --help` needs LogOptions without torch
    from clew.training.config import TrainConfig

METRICS_FILE = "metrics.jsonl"


@dataclass(frozen=True)
class RunStart:
    """The run before its first step."""

    config: TrainConfig
    run: Path
    parameters: int
    first_step: int  # steps that were done before, by the run that is resumed
    total_steps: int | None  # None with a budget in minutes
    device: str
    processes: int


@dataclass(frozen=True)
class StepReport:
    """The steps since the last report."""

    step: int  # steps done
    progress: float  # the share of the budget that is used
    loss: float  # weighted mean over the predicted tokens
    accuracy: float  # the share of the predicted tokens whose highest logit was right
    gradient_norm: float  # of the last step, before clipping
    lr: float  # of the matrices with Muon, else of all parameters
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
    """The end of a run."""

    step: int
    elapsed: float
    reason: Literal["done", "signal", "failed"]
    checkpoint: Path | None  # the last one
    signal: int = 0  # that stopped it
    scores: dict[str, float] = field(default_factory=dict)  # of the last evaluation


class Callback:
    """Receives the reports of a run; a subclass overrides the methods it needs."""

    def on_start(self, start: RunStart) -> None: ...
    def on_step(self, report: StepReport) -> None: ...
    def on_evaluate(self, report: EvaluationReport) -> None: ...
    def on_checkpoint(self, step: int, path: Path) -> None: ...
    def on_end(self, end: RunEnd) -> None: ...


class MetricsFile(Callback):
    """metrics.jsonl: a line for each report, on the disk before a checkpoint is."""

    def __init__(self, run: Path) -> None:
        self._path = run / METRICS_FILE

    def on_step(self, report: StepReport | EvaluationReport) -> None:
        line = {"kind": "step" if isinstance(report, StepReport) else "evaluation", **asdict(report)}
        # Seven digits a number, as many as float32 has.
        line |= {name: float(f"{value:.7g}") for name, value in line.items() if isinstance(value, float)}
        with open_own(self._path) as file:
            file.write(json.dumps(line).encode() + b"\n")

    on_evaluate = on_step

    def checksum(self) -> dict[str, Any]:
        """Return the size and SHA-256 of the file, for the state of a checkpoint, when all lines are on the disk."""
        with open_own(self._path) as file:
            os.fsync(file.fileno())
            file.seek(0)
            data = file.read()
        return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _raw_metrics(run: Path) -> bytes:
    file = run / METRICS_FILE
    return file.read_bytes() if file.exists() else b""


def _parse_line(raw: bytes) -> dict[str, Any] | None:
    """Return a line of metrics.jsonl; None if it is damaged or cut off."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    match line:
        case {"kind": "step", "loss": float(), "mazes": int()} | {"kind": "evaluation", "scores": {}}:
            step, numbers = line.get("step"), [line.get("elapsed"), *line.get("scores", {}).values()]
            sound = type(step) is int and step >= 0 and all(isinstance(number, float) for number in numbers)
            return line if sound and raw.endswith(b"\n") else None
    return None


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl, without those that cannot be read."""
    return [line for raw in _raw_metrics(run).splitlines(keepends=True) if (line := _parse_line(raw)) is not None]


def check_metrics(run: Path) -> None:
    """Print a line if metrics.jsonl lacks or changes lines that it had when the newest checkpoint was written."""
    newest = max(run.glob("checkpoints/[0-9]*/state.json"), default=None)
    with contextlib.suppress(UserError, OSError):
        match newest and read_json(newest):
            case {"metrics": {"bytes": int(size), "sha256": str(checksum)}}:
                if hashlib.sha256(_raw_metrics(run)[:size]).hexdigest() != checksum:
                    report_error(f"{run / METRICS_FILE} was changed after it was written; do not trust its curves.")


def cut_metrics(run: Path, step: int) -> None:
    """Remove the lines after a step, which the resumed run writes again, and those that cannot be read."""
    lines = [(raw, _parse_line(raw)) for raw in _raw_metrics(run).splitlines(keepends=True)]
    kept = [raw for raw, line in lines if line is not None and line["step"] <= step]
    damaged = sum(line is None and raw.endswith(b"\n") for raw, line in lines)  # a kill leaves one without an end
    if damaged:
        report_error(f"{run / METRICS_FILE} has {damaged} damaged lines, which are left out.")
    else:
        check_metrics(run)
    if len(kept) < len(lines):
        with atomic_write(run / METRICS_FILE, "wb") as file:
            file.writelines(kept)


def run_status(run: Path) -> dict[str, Any]:
    """Return the steps, progress, last loss and held-out accuracy of a run, and the seconds since it wrote."""
    last = {line["kind"]: line for line in read_metrics(run)}
    step, evaluation = last.get("step", {}), last.get("evaluation", {})
    changed = max(file.stat().st_mtime for file in (run / "config.json", run / METRICS_FILE) if file.exists())
    return {
        "step": max(step.get("step", 0), evaluation.get("step", 0)),
        "progress": step.get("progress", 0.0),
        "loss": step.get("loss"),
        "exact": evaluation.get("scores", {}).get("exact"),
        "age": round(max(0.0, time.time() - changed)),
    }


def curve(run: Path, y: str, x: str) -> Iterator[tuple[float, float]]:
    """Yield the points of a run's curve; an evaluation lies at the mazes of the last step before it."""
    mazes = 0
    for line in read_metrics(run):
        mazes = line.get("mazes", mazes)
        value = line.get("loss") if y == "loss" else line.get("scores", {}).get("exact")
        if value is not None:
            at = {"steps": line["step"], "mazes": mazes, "hours": line["elapsed"] / 3600}[x]
            yield at, value if y == "loss" else 100 * value


def find_runs(folder: Path) -> list[Path]:
    """Return the run folders in or below a folder, sorted."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give one that holds runs.")
    return sorted(file.parent for file in folder.glob("**/config.json"))


@dataclass(frozen=True)
class LogOptions:
    """Loggers of a run, besides its metrics.jsonl."""

    tensorboard: bool = False  # write RUN/tensorboard, for `tensorboard --logdir RUN`
    # Send to Weights & Biases; offline writes RUN/wandb, which `wandb sync` sends later.
    wandb: Literal["off", "online", "offline"] = "off"
    project: str = "clew"  # the project at Weights & Biases


class Logger(Callback):
    """Sends the numbers to TensorBoard (RUN/tensorboard) and Weights & Biases; UserError if one is not installed."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._writer: Any = None
        self._run: Any = None
        for package, wanted in (("tensorboard", options.tensorboard), ("wandb", options.wandb != "off")):
            if wanted and find_spec(package) is None:
                install = f"pip install 'clew[{package}]'"
                raise UserError(f"{package} is not installed; run: {install}, or leave --log.{package} out.")

    def on_start(self, start: RunStart) -> None:
        if self._options.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            # What a killed run wrote after its last checkpoint is written again, so it is hidden.
            self._writer = SummaryWriter(str(start.run / "tensorboard"), purge_step=start.first_step + 1)
        if self._options.wandb != "off":
            import wandb

            file = start.run / "wandb-id"  # of all parts of a resumed run
            if not file.exists():
                with atomic_write(file) as new:
                    new.write(secrets.token_hex(4))
            # Offline, whether the run exists is not known; `wandb sync` joins its parts.
            resume = "allow" if self._options.wandb == "online" else None
            run = {"name": start.run.name, "id": file.read_text().strip(), "dir": str(start.run), "resume": resume}
            run |= {"project": self._options.project, "mode": self._options.wandb}
            try:
                self._run = wandb.init(config=start.config.to_json(), **run)
            except wandb.Error as error:
                todo = "log in with `wandb login`, or use --log.wandb offline"
                raise UserError(f"Weights & Biases cannot be reached ({error}); {todo}.") from None

    def on_step(self, report: StepReport | EvaluationReport) -> None:
        group, numbers = "train", {k: v for k, v in vars(report).items() if k not in ("step", "progress")}
        if isinstance(report, EvaluationReport):
            group, numbers = "held-out", report.scores
        named = {f"{group}/{name}": value for name, value in numbers.items()}
        if self._run is not None:
            self._run.log(named, step=report.step)
        for name, value in named.items() if self._writer is not None else ():
            self._writer.add_scalar(name, value, report.step)

    on_evaluate = on_step

    def on_end(self, end: RunEnd) -> None:
        if self._run is not None:
            self._run.finish(exit_code=1 if end.reason == "failed" else 0)
        if self._writer is not None:
            self._writer.close()


class ProgressDisplay(Callback):
    """Prints the reports: one line that is redrawn on a terminal, a line every few seconds anywhere else."""

    def __init__(self, out: IO[str] | None = None, every: float = 10.0) -> None:
        self._out = out or sys.stderr
        self._redraws = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self._every = 0.25 if self._redraws else every

    def on_start(self, start: RunStart) -> None:
        self._total, self._printed = f" of {start.total_steps:,}" if start.total_steps else "", -self._every
        begun = f"resumes after step {start.first_step:,}" if start.first_step else "begins"
        where = start.device if start.processes == 1 else f"{start.processes} x {start.device}"
        self._print(f"{printable(str(start.run))} {begun}: {start.parameters:,} parameters on {where}")

    def on_step(self, report: StepReport) -> None:
        ended = report.progress >= 1
        if report.elapsed - self._printed < self._every and not ended:
            return
        self._printed = report.elapsed
        left = report.elapsed * max(1 / max(report.progress, 1e-9) - 1, 0.0)
        line = (
            f"step {report.step:>7,}{self._total} {report.progress:>6.1%}  loss {report.loss:.4f}  "
            f"token accuracy {report.accuracy:.3f}  lr {report.lr:.2e}  {report.mazes_per_second:,.0f} mazes/s  "
            f"{report.flops_per_second / 1e9:,.1f} GFLOP/s  {format_duration(left)} left"
        )
        self._print(line, stays=ended or not self._redraws)

    def on_evaluate(self, report: EvaluationReport) -> None:
        scores = "  ".join(f"{name} {value:.4f}" for name, value in report.scores.items())
        self._print(f"step {report.step:>7,} held out:  {scores}{'  (best)' if report.best else ''}")

    def on_end(self, end: RunEnd) -> None:
        if end.reason == "done":
            self._print(f"done after {counted(end.step, 'step')} and {format_duration(end.elapsed)} of training")
        elif self._redraws:
            self._print("")

    def _print(self, line: str, stays: bool = True) -> None:
        """Print a line; on a terminal over the last one, if that does not stay."""
        if self._redraws:
            line = "\r\x1b[K" + (line if stays else line[: shutil.get_terminal_size().columns - 1])
        print(line, end="\n" if stays else "", file=self._out, flush=True)


def format_duration(seconds: float) -> str:
    """Return a duration in words.

    Example:
        >>> [format_duration(s) for s in (12, 185, 7620, 273_600)]
        ['12 s', '3 min 05 s', '2 h 07 min', '3 d 04 h']
    """
    total = round(seconds)
    for size, unit, part, unit_of_part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if total >= size:
            return f"{total // size} {unit} {total % size // part:02} {unit_of_part}"
    return f"{total} s"
