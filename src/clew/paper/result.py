"""What a study measured, read from results/NAME/SCALE.json.

    result = Result(read_json("results/astar/laptop.json"))
    result.mean(size="4x4", objective="MLM-U")                          # a Mean over the seeds: exact, held-out
    result.mean("per_token", exam="held-out", size="4x4")
    result.values("size")                                               # the labels, in the order of the runs

Every run of the file has its labels, its seed, its config, its exams with their scores, and its curve: for each
evaluation the mazes seen, the core or GPU hours, and the held-out accuracy, with the training accuracy beside it where
the run has a fixed training set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Entry = dict[str, Any]  # a run of the file
INTERVAL = 3.92  # so many standard errors is an interval of 95 % wide


@dataclass(frozen=True)
class Mean:
    """A share, averaged over the seeds, with its standard error."""

    value: float
    error: float
    seeds: int

    def __str__(self) -> str:
        """In per cent, such as 45.2, or 45.2 ± 1.3 where there are several seeds."""
        return f"{100 * self.value:.1f}" + (f" ± {100 * self.error:.1f}" if self.seeds > 1 else "")


def mean_of(values: Sequence[float], errors: Sequence[float] = ()) -> Mean:
    """The mean of some values, each with the error it would have alone.

    The error of the mean is that of the mazes or that between the seeds, whichever is larger: two seeds that happen to
    agree do not make a sample of mazes more certain than it is.
    """
    count = len(values)
    mean = sum(values) / count
    within = math.sqrt(sum(error**2 for error in errors)) / count
    between = math.sqrt(sum((v - mean) ** 2 for v in values) / (count - 1) / count) if count > 1 else 0.0
    return Mean(mean, max(within, between), count)


def run_name(run: Entry) -> str:
    """A run of a result in words: its labels and its seed."""
    return ", ".join([*run["labels"].values(), f"seed {run['seed']}"])


def mean_over(runs: Sequence[Entry], what: str, exam: str) -> Mean | None:
    """A share over runs that differ in their seeds; None if none of them has it."""
    shares = [run["exams"][exam][what] for run in runs if exam in run["exams"]]
    if not shares:
        return None
    return mean_of([s["share"] for s in shares], [(s["high"] - s["low"]) / INTERVAL for s in shares])


class Result:
    """See the module's docstring."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value
        self.study: str = value["study"]
        self.scale: str = value["scale"]
        self.runs: list[Entry] = value["runs"]
        self.measured: dict[str, Any] = value["measured"]

    def entries(self, **labels: str) -> list[Entry]:
        """The runs with these labels, of all seeds."""
        return [run for run in self.runs if all(run["labels"].get(name) == word for name, word in labels.items())]

    def values(self, label: str, **labels: str) -> list[str]:
        """The words that a label has among the runs with the other labels, each once."""
        return list(dict.fromkeys(run["labels"][label] for run in self.entries(**labels) if label in run["labels"]))

    def scores(self, exam: str = "held-out", **labels: str) -> list[Entry]:
        """The scores of an exam, one for each seed."""
        return [run["exams"][exam] for run in self.entries(**labels) if exam in run["exams"]]

    def mean(self, what: str = "exact", exam: str = "held-out", **labels: str) -> Mean | None:
        """A share over the seeds; None if no run has it."""
        return mean_over(self.entries(**labels), what, exam)
