"""What the processes of a submitted job do in test_slurm.py; imported by name in each of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tiny_runs import tiny_config

from clew.training.config import Budget, TrainConfig
from clew.training.distributed import joined_world
from clew.training.loop import train
from clew.training.observer import LinePrinter, RunEnd, RunStart, StepReport


def job_config() -> TrainConfig:
    """Twelve steps, and no checkpoint but those that a signal and the end cause."""
    return tiny_config(budget=Budget(steps=12), checkpoint_every=1000, keep_last=10)


class SignalOnce(LinePrinter):
    """The signal comes after step 4, in the first part of the run only."""

    def __init__(self, number: int) -> None:
        super().__init__(every=0)
        self.number = number

    def on_start(self, start: RunStart) -> None:
        super().on_start(start)
        self.first = start.first_step == 0

    def on_step(self, report: StepReport) -> None:
        super().on_step(report)
        if self.first and report.step == 4 and self.number:
            os.kill(os.getpid(), self.number)


def work(run: Path, number: int = signal.SIGUSR2) -> RunEnd:
    with joined_world("cpu") as world:
        return train(job_config(), run, observers=[SignalOnce(number)], world=world)
