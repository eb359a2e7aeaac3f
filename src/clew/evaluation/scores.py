"""Scores of an evaluation with 95 % intervals, overall and by length of the true path, and failure classes.

    evaluation.exact.share, evaluation.exact.low, evaluation.exact.high      # evaluation: clew.evaluation.evaluate
    evaluation.scores.valid, evaluation.by_length(), evaluation.failures(), evaluation.calibration()
    evaluation.to_json(), evaluation.save_html("report.html")

docs/evaluation.md defines the scores. Of the failure classes, the first that fits is taken, in the order of FAILURES.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.files import PathLike
from clew.mazes.maze import Cell, Path, PathStar, Task
from clew.mazes.solvers import bfs_path, is_shortest, is_valid
from clew.provenance import provenance

if TYPE_CHECKING:
    from clew.decoding.decode import TaskStep

MAX_LENGTH_BINS = 8
CALIBRATION_BINS = 10
_Z = 1.959964  # 97.5 % quantile of the normal distribution
FAILURES = {
    "unparsable": "the tokens are not a path",
    "equally short": "a valid path as short as the true one, but another",
    "diagonal or gap": "some step goes to a cell that is no neighbour, or stands still, or leaves the maze",
    "through a wall": "every step goes to a neighbour, but some through a wall or into a wall cell",
    "wrong turn, then back": "every step is possible and it ends on a shortest path, but it visits a cell twice",
    "longer path": "a valid path that is not a shortest one and visits no cell twice",
    "short of the goal": "a possible walk that ends on a shortest path before the goal",
    "wrong end": "a possible walk that begins elsewhere than at the start, or ends off every shortest path",
}
GRAPH_FAILURES = {
    "unparsable": "the tokens are not a path",
    "wrong arm": "the first step follows an edge, but into an arm that does not lead to the goal",
    "no such edge": "some step joins two nodes that no edge joins",
    "wrong end": "every step follows an edge, but it begins elsewhere than at the start or does not end at the goal",
    "longer path": "it ends at the goal, but visits a node twice",
}


@dataclass(frozen=True)
class Proportion:
    """`hits` of `count`, with a 95 % confidence interval from `low` to `high`."""

    share: float
    hits: int
    count: int
    low: float
    high: float

    def __str__(self) -> str:
        """Return text such as `90.0 % (82.6 to 94.5)`."""
        return f"{100 * self.share:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


def proportion(hits: int, count: int) -> Proportion:
    """Return a proportion with Wilson's interval, which stays sound near 0 and 1; 0 to 1 if `count` is 0."""
    if count == 0:
        return Proportion(0.0, 0, 0, 0.0, 1.0)
    p, z2 = hits / count, _Z**2
    middle = (p + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z / (1 + z2 / count) * math.sqrt(p * (1 - p) / count + z2 / (4 * count**2))
    # Rounding may leave the interval slightly short of p itself.
    return Proportion(p, hits, count, max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half)))


def token_proportion(hits: Sequence[int], counts: Sequence[int]) -> Proportion:
    """Return the proportion of tokens over mazes; mazes are the sampling unit because their tokens are correlated."""
    total, right, mazes = sum(counts), sum(hits), len(counts)
    if total == 0:
        return proportion(0, 0)
    p = right / total
    if mazes < 2 or right in (0, total):
        # Without variance between mazes, each maze counts as one trial.
        bounds = proportion(round(p * mazes), mazes)
        return Proportion(p, right, total, min(p, bounds.low), max(p, bounds.high))
    squares = sum((h - p * c) ** 2 for h, c in zip(hits, counts, strict=True))
    half = _Z * math.sqrt(squares * mazes / (mazes - 1)) / total
    return Proportion(p, right, total, max(0.0, p - half), min(1.0, p + half))


@dataclass(frozen=True)
class PairedDifference:
    """Proportion solved by A minus proportion solved by B on the same mazes, with a 95 % confidence interval."""

    difference: float
    low: float
    high: float
    p: float  # two-sided exact McNemar test
    only_a: int  # mazes solved by A alone
    only_b: int
    count: int


def paired_difference(only_a: int, only_b: int, count: int) -> PairedDifference:
    """Compare two models on the same mazes, by Agresti and Min's interval (half a maze is added to each of four cells).

    It stays sound when few mazes are solved by one model alone.
    """
    n, a, b = count + 2, only_a + 0.5, only_b + 0.5
    middle, half = (a - b) / n, _Z * math.sqrt(a + b - (a - b) ** 2 / n) / n
    difference, alone = (only_a - only_b) / count, only_a + only_b
    low, high = max(-1.0, min(difference, middle - half)), min(1.0, max(difference, middle + half))
    tail = sum(math.comb(alone, i) for i in range(min(only_a, only_b) + 1))
    return PairedDifference(difference, low, high, min(1.0, 2 * tail / 2**alone), only_a, only_b, count)


class Token(NamedTuple):
    """A predicted token."""

    confidence: float  # the probability that the model gave it when it was filled in
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
        return len(self.path)

    @property
    def tokens_right(self) -> int:
        return sum(token.right for token in self.tokens)

    @cached_property
    def valid(self) -> bool:
        return is_valid(self.task, self.predicted or [])

    @cached_property
    def shortest(self) -> bool:
        return is_shortest(self.task, self.predicted or [])

    @cached_property
    def failure(self) -> str | None:
        """Return a name of FAILURES, or None if the path is exact."""
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


class LengthBin(NamedTuple):
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
        lengths = sorted({outcome.length - 1 for outcome in self.outcomes}) or [0]
        # The smallest round width with which so many bins are enough.
        widths = (step * 10**power for power in range(5) for step in (1, 2, 5))
        width = next(width for width in widths if lengths[-1] // width - lengths[0] // width < MAX_LENGTH_BINS)
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
        for token in (token for outcome in self.outcomes for token in outcome.tokens):
            bins.setdefault(min(int(token.confidence * CALIBRATION_BINS), CALIBRATION_BINS - 1), []).append(token)
        return [
            CalibrationBin(
                i / CALIBRATION_BINS,
                (i + 1) / CALIBRATION_BINS,
                sum(token.confidence for token in bins[i]) / len(bins[i]),
                proportion(sum(token.right for token in bins[i]), len(bins[i])),
            )
            for i in sorted(bins)
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
        from clew.viz.pages import Page, write_page  # viz imports this package

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


def failure_classes(tasks: Iterable[Task]) -> dict[str, str]:
    """Return the classes that predictions for these tasks may have, with their descriptions."""
    graphs = [isinstance(task.maze, PathStar) for task in tasks]
    classes = {} if graphs and all(graphs) else dict(FAILURES)
    return classes | {name: words for name, words in GRAPH_FAILURES.items() if any(graphs) and name not in classes}


def classify(task: Task, true_path: Path, predicted: Path | None) -> str | None:
    """Return the class of a prediction, or None if it is the true path; `predicted` is None if it is unparsable."""
    if not predicted:
        return "unparsable"
    if predicted == true_path:
        return None
    maze, steps = task.maze, list(pairwise(predicted))
    is_closed = not all(maze.is_open(a, b) for a, b in steps)
    if isinstance(maze, PathStar):
        if predicted[0] == task.start and steps and maze.is_open(*steps[0]) and predicted[1] != true_path[1]:
            return "wrong arm"
        if is_closed:
            return "no such edge"
        return "longer path" if is_valid(task, predicted) else "wrong end"
    if is_shortest(task, predicted):
        return "equally short"
    is_gap = any(abs(a[0] - b[0]) + abs(a[1] - b[1]) != 1 for a, b in steps)
    if is_gap or any(cell not in maze for cell in predicted):
        return "diagonal or gap"
    if is_closed or maze.is_wall(predicted[0]):
        return "through a wall"
    is_on_the_way = predicted[0] == task.start and _on_shortest_path(task, predicted[-1])
    if is_on_the_way and len(set(predicted)) < len(predicted):
        return "wrong turn, then back"
    if is_valid(task, predicted):
        return "longer path"
    return "short of the goal" if is_on_the_way else "wrong end"


def _on_shortest_path(task: Task, cell: Cell) -> bool:
    """Return whether some shortest path from start to goal visits the cell."""
    ends = ((task.start, task.goal), (task.start, cell), (cell, task.goal))
    whole, there, onwards = (len(bfs_path(Task(task.maze, *each)) or []) for each in ends)
    return whole > 0 and there > 0 and onwards > 0 and there + onwards - 1 == whole
