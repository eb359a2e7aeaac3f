"""What the processes of a submitted job do in test_slurm.py; imported by name in each of them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tiny_runs import tiny_config
from torch import nn

from clew.training.callbacks import ProgressDisplay, RunEnd, RunStart, StepReport
from clew.training.config import Budget, TrainConfig
from clew.training.distributed import joined_world
from clew.training.train import held_out_evaluator, train


def job_config() -> TrainConfig:
    """Twelve steps with an evaluation after the eighth, and no checkpoint but those that a signal and the end cause."""
    return tiny_config(budget=Budget(steps=12), checkpoint_every=1000, keep_last=10, evaluate_every=8, held_out=6)


class SignalTwice(ProgressDisplay):
    """The signal comes after step 4 in the first part of the run, and in the evaluation after step 8 in the second."""

    def __init__(self, number: int) -> None:
        super().__init__(every=0)
        self.number, self.first_step = number, 0

    def on_start(self, start: RunStart) -> None:
        super().on_start(start)
        self.first_step = start.first_step

    def on_step(self, report: StepReport) -> None:
        super().on_step(report)
        if self.first_step == 0 and report.step == 4:
            os.kill(os.getpid(), self.number)


def work(run: Path, number: int = signal.SIGUSR2) -> RunEnd:
    callback = SignalTwice(number)
    with joined_world("cpu") as world:
        held_out = held_out_evaluator(job_config(), world)
        assert held_out is not None

        def evaluate(model: nn.Module) -> dict[str, float]:
            if callback.first_step == 4:  # the main process alone knows
                os.kill(os.getpid(), number)
            return held_out(model)

        return train(job_config(), run, evaluate=evaluate, callbacks=[callback], world=world).end
