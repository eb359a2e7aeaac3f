"""How far a run is: steps, seconds of training, and what happened since the last line of metrics.

clock = Clock(); clock.run(); ...; clock.pause(); clock.seconds
progress = budget_progress(budget, total_steps, step, seconds)
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Any

from clew.errors import UserError
from clew.training.config import Budget
from clew.training.sources import Source
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


def total_steps(budget: Budget, source: Source) -> int | None:
    """The number of steps of the whole run; None if it goes by minutes."""
    if budget.epochs is None:
        return budget.steps
    if source.steps_per_epoch is None:
        raise UserError("a stream of fresh mazes has no epochs; give the budget in steps or minutes.")
    return budget.epochs * source.steps_per_epoch


def budget_progress(budget: Budget, total: int | None, step: int, seconds: float) -> tuple[float, float]:
    """The share of the budget that is used, and the share that one step uses (0 where nobody knows)."""
    if total is not None:
        return step / total, 1 / total
    assert budget.minutes is not None
    return seconds / (60 * budget.minutes), 0.0
