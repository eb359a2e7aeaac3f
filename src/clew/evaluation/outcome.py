"""What became of each maze, and of all of them together.

    outcome = outcome_of(task, path, predicted, ...)
    evaluation.outcomes, evaluation.decoder, evaluation.seconds

Everything that is told about an evaluation (clew.evaluation.scores) is counted from these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clew.evaluation.failures import classify
from clew.mazes.checks import is_shortest, is_valid
from clew.mazes.maze import Path, Task


@dataclass(frozen=True)
class Token:
    """A predicted token: how sure the model was of it when it wrote it, and whether it is the true one."""

    confidence: float
    right: bool


@dataclass(frozen=True)
class Outcome:
    """One maze, its true path and the predicted one."""

    task: Task
    path: Path
    predicted: Path | None  # None if the response says no path
    problem: str | None  # why it says none
    tokens: int  # of the true response, its end included
    tokens_right: int  # of those, how many stand at the same place of the predicted response
    valid: bool
    shortest: bool
    failure: str | None  # a name of clew.evaluation.failures.FAILURES, None if the path is the true one
    passes: int
    said: tuple[Token, ...]  # the predicted tokens up to the end

    @property
    def exact(self) -> bool:
        return self.failure is None

    @property
    def length(self) -> int:
        """The number of cells of the true path."""
        return len(self.path)


@dataclass(frozen=True)
class Evaluation:
    """All outcomes of one model with one decoder."""

    name: str  # of the model
    decoder: str
    outcomes: tuple[Outcome, ...]
    seconds: float
    precision: str = "fp32"  # that the model computed in

    def __len__(self) -> int:
        return len(self.outcomes)


def outcome_of(
    task: Task,
    path: Path,
    predicted: Path | None,
    problem: str | None,
    said: Sequence[Token],
    tokens: int,
    passes: int,
) -> Outcome:
    """Check a prediction against its maze and the true path."""
    return Outcome(
        task,
        path,
        predicted,
        problem,
        tokens=tokens,
        tokens_right=sum(token.right for token in said),
        valid=bool(predicted) and is_valid(task, predicted or []),
        shortest=bool(predicted) and is_shortest(task, predicted or []),
        failure=classify(task, path, predicted),
        passes=passes,
        said=tuple(said),
    )
