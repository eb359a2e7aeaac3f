"""Where else the numbers of a run may go: TensorBoard and Weights & Biases, as extras beside metrics.jsonl.

    clew train PRESET --out RUN --log.tensorboard --log.wandb offline

    train(config, "runs/x", callbacks=build_loggers(LogOptions(tensorboard=True)))

A resumed run goes on in the same curves. The packages are looked for before the run begins, on every process, and
used on the main process alone.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clew.errors import UserError
from clew.files import atomic_write

if TYPE_CHECKING:  # `clew train --help` needs LogOptions alone, without torch
    from clew.training.callbacks import Callback, EvaluationReport, RunEnd, RunStart, StepReport

STEP_FIELDS = (
    "loss",
    "accuracy",
    "gradient_norm",
    "lr",
    "mazes",
    "elapsed",
    "mazes_per_second",
    "tokens_per_second",
    "flops_per_second",
    "skipped",
)


@dataclass(frozen=True)
class LogOptions:
    """Where to send the numbers of a run, besides its metrics.jsonl."""

    # Write RUN/tensorboard, for `tensorboard --logdir RUN`.
    tensorboard: bool = False
    # Send to Weights & Biases; offline writes RUN/wandb, which `wandb sync` sends later.
    wandb: Literal["off", "online", "offline"] = "off"
    # The project at Weights & Biases.
    project: str = "clew"


def build_loggers(options: LogOptions) -> list[Callback]:
    """The callbacks that the options ask for; UserError if their packages are not there."""
    loggers: list[Callback] = []
    if options.tensorboard:
        loggers.append(TensorBoard())
    if options.wandb != "off":
        loggers.append(WeightsAndBiases(options.project, options.wandb))
    return loggers


def step_numbers(report: StepReport) -> dict[str, float]:
    """What is drawn of the steps since the last report."""
    return {f"train/{name}": getattr(report, name) for name in STEP_FIELDS}


def evaluation_numbers(report: EvaluationReport) -> dict[str, float]:
    """What is drawn of an evaluation."""
    return {f"held-out/{name}": value for name, value in report.scores.items()}


class TensorBoard:
    """Event files in RUN/tensorboard."""

    def __init__(self) -> None:
        _require("tensorboard", "TensorBoard", "--log.tensorboard")
        self._writer: Any = None

    def on_start(self, start: RunStart) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # What a killed run wrote after its last checkpoint is written again, so it is hidden.
        self._writer = SummaryWriter(str(start.run / "tensorboard"), purge_step=start.first_step + 1)

    def on_step(self, report: StepReport) -> None:
        self._write(step_numbers(report), report.step)

    def on_evaluate(self, report: EvaluationReport) -> None:
        self._write(evaluation_numbers(report), report.step)

    def on_checkpoint(self, step: int, path: Path) -> None:
        self._writer.flush()

    def on_end(self, end: RunEnd) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _write(self, numbers: dict[str, float], step: int) -> None:
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)


class WeightsAndBiases:
    """A run at Weights & Biases; its id is kept in RUN/wandb-id, so that a resumed run goes on in it."""

    def __init__(self, project: str, mode: Literal["online", "offline"]) -> None:
        _require("wandb", "Weights & Biases", "--log.wandb")
        self._project, self._mode = project, mode
        self._run: Any = None

    def on_start(self, start: RunStart) -> None:
        import wandb

        try:
            self._run = wandb.init(
                project=self._project,
                name=start.run.name,
                id=_lasting_id(start.run / "wandb-id"),
                # Offline nobody knows whether there is such a run; its parts are put together when they are sent.
                resume="allow" if self._mode == "online" else None,
                mode=self._mode,
                dir=str(start.run),
                config={**start.config.to_json(), "parameters": start.parameters, "processes": start.processes},
            )
        except wandb.Error as error:
            raise UserError(
                f"Weights & Biases cannot be reached ({error}); log in with `wandb login`, or use --log.wandb offline."
            ) from None

    def on_step(self, report: StepReport) -> None:
        self._run.log(step_numbers(report), step=report.step)

    def on_evaluate(self, report: EvaluationReport) -> None:
        self._run.log(evaluation_numbers(report), step=report.step)

    def on_checkpoint(self, step: int, path: Path) -> None:
        pass

    def on_end(self, end: RunEnd) -> None:
        if self._run is not None:
            self._run.summary.update({"end": _plain(end)})
            self._run.finish(exit_code=1 if end.reason == "failed" else 0)
            self._run = None


def _plain(end: RunEnd) -> dict[str, Any]:
    return {**asdict(end), "checkpoint": None if end.checkpoint is None else str(end.checkpoint)}


def _lasting_id(file: Path) -> str:
    if not file.exists():
        with atomic_write(file) as new:
            new.write(secrets.token_hex(4))
    return file.read_text().strip()


def _require(package: str, name: str, option: str) -> None:
    if find_spec(package) is None:
        raise UserError(f"{name} is not installed; run: pip install 'clew[{package}]', or leave {option} out.")
