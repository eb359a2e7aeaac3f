"""What an evaluation amounts to: shares with 95 % intervals, over all mazes and by the length of the true path.

    scores = scores_of(evaluation)
    scores.exact.share, scores.exact.low, scores.exact.high
    scores_json(evaluation)      # everything, as plain values

- exact: the predicted path is the true one, the paper's score;
- per token: of all tokens of the true responses, their ends included, how many stand at the same place of the
  predicted response, the paper's second score;
- valid: some way from start to goal; shortest: a way that none is shorter than;
- unparsable: the response says no path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from clew.evaluation.evaluate import Evaluation, Outcome
from clew.evaluation.failures import failure_classes
from clew.evaluation.intervals import Share, share, share_of_tokens

MOST_BINS = 8
CALIBRATION_BINS = 10


@dataclass(frozen=True)
class Scores:
    """The scores of some mazes."""

    mazes: int
    exact: Share
    per_token: Share
    valid: Share
    shortest: Share
    unparsable: Share
    passes: float  # a maze, on average


@dataclass(frozen=True)
class LengthBin:
    """The scores of the mazes whose true path has between `low` and `high` cells, both included."""

    low: int
    high: int
    scores: Scores


@dataclass(frozen=True)
class CalibrationBin:
    """Of the tokens that were written with a confidence in a range: its mean, and how many were right."""

    low: float
    high: float
    confidence: float
    right: Share


def scores_of(evaluation: Evaluation) -> Scores:
    return _scores(evaluation.outcomes)


def scores_by_length(evaluation: Evaluation) -> list[LengthBin]:
    """At most eight bins of equal width, the empty ones left out."""
    if not evaluation.outcomes:
        return []
    lengths = [outcome.length for outcome in evaluation.outcomes]
    width = _bin_width(min(lengths), max(lengths))
    bins: dict[int, list[Outcome]] = {}
    for outcome in evaluation.outcomes:
        bins.setdefault((outcome.length - 1) // width, []).append(outcome)
    return [
        LengthBin(number * width + 1, (number + 1) * width, _scores(outcomes))
        for number, outcomes in sorted(bins.items())
    ]


def failures_of(evaluation: Evaluation) -> dict[str, int]:
    """How many mazes failed in which way; every class is named, also where it is 0."""
    counts = Counter(outcome.failure for outcome in evaluation.outcomes)
    return {name: counts[name] for name in failure_classes(outcome.task for outcome in evaluation.outcomes)}


def calibration_of(evaluation: Evaluation) -> list[CalibrationBin]:
    """How often tokens were right, by how sure the model was of them; empty bins are left out."""
    bins: dict[int, list[tuple[float, bool]]] = {}
    for outcome in evaluation.outcomes:
        for token in outcome.said:
            number = min(int(token.confidence * CALIBRATION_BINS), CALIBRATION_BINS - 1)
            bins.setdefault(number, []).append((token.confidence, token.right))
    return [
        CalibrationBin(
            number / CALIBRATION_BINS,
            (number + 1) / CALIBRATION_BINS,
            sum(confidence for confidence, _ in tokens) / len(tokens),
            share(sum(right for _, right in tokens), len(tokens)),
        )
        for number, tokens in sorted(bins.items())
    ]


def scores_json(evaluation: Evaluation) -> dict[str, Any]:
    """Everything that can be counted, as plain values."""
    return {
        "model": evaluation.name,
        "decoder": evaluation.decoder,
        "precision": evaluation.precision,
        **asdict(scores_of(evaluation)),
        "seconds": round(evaluation.seconds, 3),
        "seconds_per_maze": evaluation.seconds / max(1, len(evaluation)),
        "failures": failures_of(evaluation),
        "by_length": [
            {"low": each.low, "high": each.high, **asdict(each.scores)} for each in scores_by_length(evaluation)
        ],
        "calibration": [asdict(each) for each in calibration_of(evaluation)],
    }


def _scores(outcomes: Sequence[Outcome]) -> Scores:
    count = len(outcomes)
    return Scores(
        mazes=count,
        exact=share(sum(outcome.exact for outcome in outcomes), count),
        per_token=share_of_tokens([o.tokens_right for o in outcomes], [o.tokens for o in outcomes]),
        valid=share(sum(outcome.valid for outcome in outcomes), count),
        shortest=share(sum(outcome.shortest for outcome in outcomes), count),
        unparsable=share(sum(outcome.predicted is None for outcome in outcomes), count),
        passes=sum(outcome.passes for outcome in outcomes) / max(1, count),
    )


def _bin_width(shortest: int, longest: int) -> int:
    """The smallest round width with which the lengths need no more than MOST_BINS bins."""
    widths = (step * factor for factor in (1, 10, 100, 1000, 10_000) for step in (1, 2, 5))
    return next(width for width in widths if (longest - 1) // width - (shortest - 1) // width < MOST_BINS)
