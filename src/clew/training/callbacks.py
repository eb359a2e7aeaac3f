"""Callbacks: the reports that a run makes, and those who receive them: files, services and the terminal.

    class Bell(Callback):
        def on_evaluate(self, report: EvaluationReport) -> None:
            print("\a" if report.best else "")

    train(config, "runs/x", callbacks=[ProgressDisplay(), Bell()], log=LogOptions(tensorboard=True))

Callbacks run on the main process only. `on_step` comes every `log_every` steps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from clew.errors import UserError, counted, printable, report_error
from clew.files import atomic_write, open_own, read_json

if TYPE_CHECKING:  # `clew train --help` needs LogOptions without torch
    from clew.training.config import TrainConfig


@dataclass(frozen=True)
class RunStart:
    """The run before its first step."""

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
    loss: float  # weighted mean over the predicted tokens
    accuracy: float  # the share of the predicted tokens whose highest logit was right
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
    """The end of a run."""

    step: int
    elapsed: float
    reason: Literal["done", "signal", "failed", "unfinished"]  # unfinished: a run that was not trained to its end
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


METRICS_FILE = "metrics.jsonl"


class MetricsFile(Callback):
    """metrics.jsonl: a line for each report, on the disk before a checkpoint is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None

    def on_start(self, start: RunStart) -> None:
        self._file = open_own(self._path)

    def on_step(self, report: StepReport | EvaluationReport) -> None:
        kind = "step" if isinstance(report, StepReport) else "evaluation"
        line = {"kind": kind, **_rounded(dataclasses.asdict(report))}
        self._write(json.dumps(line).encode() + b"\n")

    on_evaluate = on_step

    def on_end(self, end: RunEnd) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def checksum(self) -> dict[str, Any]:
        """Return the size and SHA-256 of the file, for the state of a checkpoint, when all lines are on the disk."""
        self._write(b"")
        data = self._path.read_bytes()
        return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    def _write(self, line: bytes) -> None:
        assert self._file is not None, "on_start comes first"
        try:
            self._file.write(line)
            self._file.flush()
            if not line:
                os.fsync(self._file.fileno())
        except OSError as error:  # of a full disk it names no file
            error.filename = error.filename or str(self._path)
            raise


def check_metrics(run: Path) -> None:
    """Print a line if metrics.jsonl lacks or changes lines that it had when the newest checkpoint was written."""
    for state in sorted(run.glob("checkpoints/[0-9]*/state.json"), reverse=True):
        with contextlib.suppress(UserError, OSError):
            match read_json(state):
                case {"metrics": {"bytes": int(size), "sha256": str(checksum)}}:
                    file = run / METRICS_FILE
                    data = file.read_bytes() if file.exists() else b""
                    if hashlib.sha256(data[:size]).hexdigest() != checksum:
                        report_error(f"{file} was changed after it was written; do not trust its curves.")
            return


def metric_lines(run: Path) -> list[tuple[bytes, dict[str, Any] | None]]:
    """Return each line of metrics.jsonl as bytes and as parsed, None if it is damaged or cut off."""
    path = run / METRICS_FILE
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    return [(raw, _parse_line(raw)) for raw in lines]


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Return the lines of metrics.jsonl, without those that cannot be read."""
    return [line for _, line in metric_lines(run) if line is not None]


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


# Of a line of metrics.jsonl: the value on the x axis.
X_AXES = {
    "steps": lambda line: line["step"],
    "mazes": lambda line: line["mazes"],
    "hours": lambda line: line["elapsed"] / 3600,
}


def curve(run: Path, y: str, x: str) -> Iterator[tuple[float, float]]:
    """Yield the points of a run's curve; an evaluation lies at the mazes of the last step before it."""
    mazes = 0
    for line in read_metrics(run):
        mazes = line.get("mazes", mazes)
        value = line.get("loss") if y == "loss" else line.get("scores", {}).get("exact")
        if value is not None:
            yield X_AXES[x](line | {"mazes": mazes}), value if y == "loss" else 100 * value


def find_runs(folder: Path) -> list[Path]:
    """Return the run folders in or below a folder, sorted."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give one that holds runs.")
    return sorted(file.parent for file in folder.glob("**/config.json"))


def _parse_line(raw: bytes) -> dict[str, Any] | None:
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


def _rounded(value: Any) -> Any:
    """Return the value with seven digits a number, as many as float32 has."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    return {name: _rounded(item) for name, item in value.items()} if isinstance(value, dict) else value


@dataclass(frozen=True)
class LogOptions:
    """Loggers of a run, besides its metrics.jsonl."""

    tensorboard: bool = False  # write RUN/tensorboard, for `tensorboard --logdir RUN`
    # Send to Weights & Biases; offline writes RUN/wandb, which `wandb sync` sends later.
    wandb: Literal["off", "online", "offline"] = "off"
    project: str = "clew"  # the project at Weights & Biases


def build_loggers(options: LogOptions) -> list[Callback]:
    """Return the callbacks of the options; UserError if a package is not installed."""
    loggers: list[Callback] = [TensorBoard()] if options.tensorboard else []
    if options.wandb != "off":
        loggers.append(WeightsAndBiases(options.project, options.wandb))
    return loggers


def _numbers(report: StepReport | EvaluationReport) -> dict[str, float]:
    """Return the numbers of a report by the names of their curves."""
    if isinstance(report, EvaluationReport):
        return {f"held-out/{name}": value for name, value in report.scores.items()}
    return {f"train/{name}": value for name, value in vars(report).items() if name not in ("step", "progress")}


def _require(package: str, name: str, option: str) -> None:
    if find_spec(package) is None:
        raise UserError(f"{name} is not installed; run: pip install 'clew[{package}]', or leave {option} out.")


class TensorBoard(Callback):
    """Event files in RUN/tensorboard."""

    def __init__(self) -> None:
        _require("tensorboard", "TensorBoard", "--log.tensorboard")
        self._writer: Any = None

    def on_start(self, start: RunStart) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # What a killed run wrote after its last checkpoint is written again, so it is hidden.
        self._writer = SummaryWriter(str(start.run / "tensorboard"), purge_step=start.first_step + 1)

    def on_step(self, report: StepReport | EvaluationReport) -> None:
        for name, value in _numbers(report).items():
            self._writer.add_scalar(name, value, report.step)

    on_evaluate = on_step

    def on_end(self, end: RunEnd) -> None:
        if self._writer is not None:  # it may have failed to start
            self._writer.close()


class WeightsAndBiases(Callback):
    """A run at Weights & Biases; its id is kept in RUN/wandb-id, so that a resumed run continues it."""

    def __init__(self, project: str, mode: Literal["online", "offline"]) -> None:
        _require("wandb", "Weights & Biases", "--log.wandb")
        self._project, self._mode = project, mode
        self._run: Any = None

    def on_start(self, start: RunStart) -> None:
        import wandb

        file = start.run / "wandb-id"
        if not file.exists():
            with atomic_write(file) as new:
                new.write(secrets.token_hex(4))
        try:
            self._run = wandb.init(
                project=self._project,
                name=start.run.name,
                id=file.read_text().strip(),
                # Offline, whether the run exists is not known; `wandb sync` joins its parts.
                resume="allow" if self._mode == "online" else None,
                mode=self._mode,
                dir=str(start.run),
                config={**start.config.to_json(), "parameters": start.parameters, "processes": start.processes},
            )
        except wandb.Error as error:
            raise UserError(
                f"Weights & Biases cannot be reached ({error}); log in with `wandb login`, or use --log.wandb offline."
            ) from None

    def on_step(self, report: StepReport | EvaluationReport) -> None:
        self._run.log(_numbers(report), step=report.step)

    on_evaluate = on_step

    def on_end(self, end: RunEnd) -> None:
        if self._run is not None:
            self._run.summary.update({"end": {**dataclasses.asdict(end), "checkpoint": str(end.checkpoint)}})
            self._run.finish(exit_code=1 if end.reason == "failed" else 0)


class ProgressDisplay(Callback):
    """Loss, speed, remaining time and held-out scores, on stderr or `out`.

    One line that is redrawn on a terminal, a line every few seconds anywhere else.
    """

    def __init__(self, out: IO[str] | None = None, every: float = 10.0) -> None:
        from rich.console import Console

        self._console = Console(file=out, stderr=out is None, highlight=False, soft_wrap=True)
        self._every = every
        self._live: Any = None

    def on_start(self, start: RunStart) -> None:
        self._start, self._printed, self._first = start, -self._every, (0.0, 0.0)
        begun = f"resumes after step {start.first_step:,}" if start.first_step else "begins"
        where = start.device if start.processes == 1 else f"{start.processes} x {start.device}"
        self._print(f"{printable(str(start.run))} {begun}: {start.parameters:,} parameters on {where}")
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            from rich.live import Live

            self._live = Live(console=self._console, refresh_per_second=4)
            self._live.start()

    def on_step(self, report: StepReport) -> None:
        if self._first == (0.0, 0.0):
            self._first = report.progress, time.monotonic()
        if self._live is not None:
            from rich.text import Text

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
            self._print(f"done after {counted(end.step, 'step')} and {format_duration(end.elapsed)} of training")

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
    for size, unit, part, unit_of_part in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if total >= size:
            return f"{total // size} {unit} {total % size // part:02} {unit_of_part}"
    return f"{total} s"
