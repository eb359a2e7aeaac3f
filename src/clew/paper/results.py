"""The numbers that a study measured, read from results/NAME/SCALE.json.

    result = Result(read_json("results/astar/laptop.json"))
    result.mean(size="4x4", objective="MLM-U")                # a Mean over the seeds: exact, held-out
    result.mean("per_token", evaluation="training mazes", size="4x4")
    result.values("size")                                     # the values of a label, in the order of the runs

Each run of the file has its labels, seed, config, evaluations with their scores (under the key "exams") and its curve:
for every evaluation during training the mazes seen, the core or GPU hours, the held-out accuracy and, for a run with a
fixed training set, the training accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Entry = dict[str, Any]  # a run of the file
HELD_OUT = "held-out"
INTERVAL = 3.92  # width of a 95 % interval in standard errors


@dataclass(frozen=True)
class Mean:
    """A share averaged over the seeds, with its standard error."""

    value: float
    error: float
    seeds: int

    def __str__(self) -> str:
        """Return it in per cent, such as 45.2, or 45.2 ± 1.3 for several seeds."""
        return f"{100 * self.value:.1f}" + (f" ± {100 * self.error:.1f}" if self.seeds > 1 else "")


def mean_of(values: Sequence[float], errors: Sequence[float] = ()) -> Mean:
    """Return the mean of some values, each with its own error.

    The error of the mean is that of the mazes or that between the seeds, whichever is larger: two seeds that agree by
    chance do not make a sample of mazes more certain.
    """
    count = len(values)
    mean = sum(values) / count
    within = math.sqrt(sum(error**2 for error in errors)) / count
    between = math.sqrt(sum((v - mean) ** 2 for v in values) / (count - 1) / count) if count > 1 else 0.0
    return Mean(mean, max(within, between), count)


def run_name(run: Entry) -> str:
    """Return the labels and the seed of a run, in one line."""
    return ", ".join([*run["labels"].values(), f"seed {run['seed']}"])


def mean_over(runs: Sequence[Entry], score: str, evaluation: str) -> Mean | None:
    """Return the mean of a score over runs that differ in their seeds; None if none of them has it."""
    shares = [run["exams"][evaluation][score] for run in runs if evaluation in run["exams"]]
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
        """Return the runs with these labels, of all seeds."""
        return [run for run in self.runs if labels.items() <= run["labels"].items()]

    def values(self, label: str, **labels: str) -> list[str]:
        """Return the values of a label among the runs with the other labels, each once."""
        return list(dict.fromkeys(run["labels"][label] for run in self.entries(**labels) if label in run["labels"]))

    def combinations(self, *names: str, **labels: str) -> Iterator[dict[str, str]]:
        """Yield the combinations of values of some labels that runs with the other labels have; {} for no names."""
        if not names:
            yield {}
            return
        for value in self.values(names[0], **labels):
            for rest in self.combinations(*names[1:], **labels, **{names[0]: value}):
                yield {names[0]: value, **rest}

    def scores(self, evaluation: str = HELD_OUT, **labels: str) -> list[Entry]:
        """Return the scores of an evaluation, one for each seed."""
        return [run["exams"][evaluation] for run in self.entries(**labels) if evaluation in run["exams"]]

    def mean(self, score: str = "exact", evaluation: str = HELD_OUT, **labels: str) -> Mean | None:
        """Return a score averaged over the seeds; None if no run has it."""
        return mean_over(self.entries(**labels), score, evaluation)
