"""Outcomes of single mazes and the scores of an evaluation, overall and by length of the true path.

    evaluation.exact.share, evaluation.exact.low, evaluation.exact.high      # evaluation: clew.evaluation.evaluate
    evaluation.scores.valid, evaluation.by_length(), evaluation.failures(), evaluation.calibration()
    evaluation.to_json(), evaluation.save_html("report.html")

- exact: the predicted path equals the true one; the paper's score.
- per token: the proportion of the tokens of the true responses, end tokens included, that the predicted response has
  at the same position; the paper's second score.
- valid: the path leads from start to goal; shortest: no path is shorter.
- unparsable: the response is not a path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.evaluation.failures import classify, failure_classes
from clew.evaluation.intervals import Proportion, proportion, token_proportion
from clew.files import PathLike
from clew.mazes.checks import is_shortest, is_valid
from clew.mazes.maze import Path, Task
from clew.provenance import provenance

if TYPE_CHECKING:
    from clew.decoding.decode import TaskStep

MAX_LENGTH_BINS = 8
CALIBRATION_BINS = 10


class Token(NamedTuple):
    """A predicted token: the probability that the model gave it when it was filled in, and whether it is right."""

    confidence: float
    right: bool


@dataclass(frozen=True)
class Outcome:
    """A task, its true path and the predicted one; the checks are computed when they are first read."""

    task: Task
    path: Path
    predicted: Path | None  # None if the response is not a path
    problem: str | None  # why it is not
    tokens: Sequence[Token]  # predicted ones, up to the end token
    true_tokens: int  # length of the true response, end token included
    passes: int  # forward passes for this maze
    seconds: float = 0.0  # of its batch, divided by the number of mazes
    steps: Sequence[TaskStep] = ()  # if they were recorded

    @property
    def exact(self) -> bool:
        return self.predicted == self.path

    @property
    def length(self) -> int:
        """Return the number of cells of the true path."""
        return len(self.path)

    @property
    def tokens_right(self) -> int:
        return sum(token.right for token in self.tokens)

    @cached_property
    def valid(self) -> bool:
        return bool(self.predicted) and is_valid(self.task, self.predicted or [])

    @cached_property
    def shortest(self) -> bool:
        return bool(self.predicted) and is_shortest(self.task, self.predicted or [])

    @cached_property
    def failure(self) -> str | None:
        """Return a name of clew.evaluation.failures.FAILURES, or None if the path is exact."""
        return classify(self.task, self.path, self.predicted)


@dataclass(frozen=True)
class Scores:
    """Scores over a set of mazes."""

    mazes: int
    exact: Proportion
    per_token: Proportion
    valid: Proportion
    shortest: Proportion
    unparsable: Proportion
    passes: float  # mean per maze


@dataclass(frozen=True)
class LengthBin:
    """Scores of the mazes whose true path has `low` to `high` cells, both included."""

    low: int
    high: int
    scores: Scores


@dataclass(frozen=True)
class CalibrationBin:
    """Tokens predicted with a probability from `low` to `high`: its mean, and the proportion that was right."""

    low: float
    high: float
    confidence: float
    right: Proportion


@dataclass(frozen=True)
class Evaluation:
    """Outcomes of one model with one decoder."""

    name: str  # of the model
    decoder: str
    outcomes: tuple[Outcome, ...]
    seconds: float
    precision: str = "fp32"

    def __len__(self) -> int:
        return len(self.outcomes)

    def __repr__(self) -> str:
        return f"Evaluation({self.name}, {self.decoder}: {len(self)} mazes, exact {self.exact})"

    @cached_property
    def scores(self) -> Scores:
        return _scores(self.outcomes)

    @property
    def exact(self) -> Proportion:
        return self.scores.exact

    def by_length(self) -> list[LengthBin]:
        """Return the scores in at most eight non-empty bins of equal width."""
        lengths = [outcome.length for outcome in self.outcomes]
        width = _bin_width(min(lengths, default=1), max(lengths, default=1))
        bins: dict[int, list[Outcome]] = {}
        for outcome in self.outcomes:
            bins.setdefault((outcome.length - 1) // width, []).append(outcome)
        return [LengthBin(i * width + 1, (i + 1) * width, _scores(bins[i])) for i in sorted(bins)]

    def failures(self) -> dict[str, int]:
        """Return the number of mazes of each failure class, 0 included."""
        counts = Counter(outcome.failure for outcome in self.outcomes)
        return {name: counts[name] for name in failure_classes(outcome.task for outcome in self.outcomes)}

    def calibration(self) -> list[CalibrationBin]:
        """Return how often tokens were right, in ten bins of their predicted probability; empty bins are left out."""
        bins: dict[int, list[Token]] = {}
        for outcome in self.outcomes:
            for token in outcome.tokens:
                bins.setdefault(min(int(token.confidence * CALIBRATION_BINS), CALIBRATION_BINS - 1), []).append(token)
        return [
            CalibrationBin(
                i / CALIBRATION_BINS,
                (i + 1) / CALIBRATION_BINS,
                sum(token.confidence for token in tokens) / len(tokens),
                proportion(sum(token.right for token in tokens), len(tokens)),
            )
            for i, tokens in sorted(bins.items())
        ]

    def to_json(self) -> dict[str, Any]:
        """Return all scores as plain values."""
        return {
            "model": self.name,
            "decoder": self.decoder,
            "precision": self.precision,
            **asdict(self.scores),
            "seconds": round(self.seconds, 3),
            "seconds_per_maze": self.seconds / max(1, len(self)),
            "failures": self.failures(),
            "by_length": [{"low": each.low, "high": each.high, **asdict(each.scores)} for each in self.by_length()],
            "calibration": [asdict(each) for each in self.calibration()],
        }

    def save_html(self, path: PathLike) -> None:
        """Write a self-contained HTML report with tables, charts and drawn mazes."""
        from clew.viz.evaluation_page import Page, write_page  # viz imports this package

        title = f"{self.name}: {len(self):,} mazes"
        write_page(path, Page(title, [self], provenance("evaluated from Python", [])))


def _scores(outcomes: Sequence[Outcome]) -> Scores:
    count = len(outcomes)
    return Scores(
        mazes=count,
        exact=proportion(sum(outcome.exact for outcome in outcomes), count),
        per_token=token_proportion([o.tokens_right for o in outcomes], [o.true_tokens for o in outcomes]),
        valid=proportion(sum(outcome.valid for outcome in outcomes), count),
        shortest=proportion(sum(outcome.shortest for outcome in outcomes), count),
        unparsable=proportion(sum(outcome.predicted is None for outcome in outcomes), count),
        passes=sum(outcome.passes for outcome in outcomes) / max(1, count),
    )


def _bin_width(shortest: int, longest: int) -> int:
    """Return the smallest round width with which these lengths need at most MAX_LENGTH_BINS bins."""
    widths = (step * factor for factor in (1, 10, 100, 1000, 10_000) for step in (1, 2, 5))
    return next(width for width in widths if (longest - 1) // width - (shortest - 1) // width < MAX_LENGTH_BINS)
