"""Synthetic results: runs with labels, evaluations and curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clew.evaluation.scores import FAILURES, proportion
from clew.paper.results import Result

FLAT_CURVE = "flat"
MAZES = 500


def scores(exact: float, mazes: int = MAZES, missed: Sequence[int] | None = None) -> dict[str, Any]:
    """Return the scores of an evaluation; every share is the same, and the last mazes are the missed ones."""
    solved = round(exact * mazes) if missed is None else mazes - len(missed)
    share = vars(proportion(solved, mazes))
    kinds = ("exact", "per_token", "valid", "shortest", "unparsable")
    return {
        "mazes": mazes,
        **dict.fromkeys(kinds, share),
        "passes": 5.0,
        "failures": dict.fromkeys(FAILURES, 0),
        "missed": list(range(solved, mazes)) if missed is None else list(missed),
        "examples": [],
    }


def curve(accuracies: Sequence[float], mazes: float = 40_000, score: str = "exact") -> list[dict[str, float]]:
    """A curve with evaluations at equal distances, the last of them after so many mazes."""
    count = len(accuracies)
    return [
        {"mazes": mazes * i / count, "minutes": 10.0 * i / count, "hours": i / count / 6, score: accuracy}
        for i, accuracy in enumerate(accuracies, start=1)
    ]


def rising(level: float, mazes: float = 40_000, half: float = 0.25) -> list[dict[str, float]]:
    """A converged curve of 40 evaluations: half of the level after `half` of its mazes, all of it after twice that."""
    return curve([level * min(1.0, i / 80 / half) for i in range(1, 41)], mazes)


def entry(labels: dict[str, str], seed: int = 0, points: Any = None, **evaluations: float) -> dict[str, Any]:
    """A run; without a curve of its own, it has converged."""
    level = max(evaluations.values(), default=0.5)
    return {
        "labels": labels,
        "seed": seed,
        "parameters": 1_500_000,
        "minutes": 2.0,
        "device": "cpu",
        "devices": 1,
        "exams": {name.replace("_", "-"): scores(value) for name, value in evaluations.items()},
        "curve": rising(level) if points is None else list(points),
    }


def result(*entries: dict[str, Any], study: str = "accuracy-by-size", scale: str = "laptop") -> Result:
    provenance = {"command": f"clew reproduce {study}", "cpu": "a CPU", "date": "2026-01-01"}
    value = {"study": study, "scale": scale, "runs": list(entries), "measured": {}, "minutes": 1.0}
    return Result(value | {"provenance": provenance})
