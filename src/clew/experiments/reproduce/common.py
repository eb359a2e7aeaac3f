"""What studies share: the two objectives in words, runs at both scales, tables, charts and comparisons.

laptop_text("MLM-U", size=4)                             # a TrainConfig with the laptop's recipe and budget
pivot(result, "exact paths, %", "objective", "size")     # a Table in the paper's layout
bars(result, "exact paths", "size", "objective")         # the same as a Panel
compare("MLM-U beats next token", paper, better=..., worse=...)
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from clew.experiments.grid_presets import GridKind, single_size
from clew.experiments.laptop import text_config
from clew.experiments.reproduce.result import Mean, Result
from clew.experiments.reproduce.study import Finding, Table, Verdict
from clew.objectives.config import ObjectiveName
from clew.report.panels import Panel, Point, Series
from clew.training.config import Budget, DataConfig, TrainConfig

NEXT, MLMU = "next token", "MLM-U"
OBJECTIVES: dict[str, ObjectiveName] = {NEXT: "next-token", MLMU: "mlm-u"}  # in the order of the paper's tables
SHORT = {NEXT: "next", MLMU: "mlmu"}  # in the names of presets
EVALUATIONS = 10  # in a run whose budget is in steps, about
EXACT, PER_TOKEN = "exact paths, %", "right tokens, %"

# Steps of a text model on mazes of a side: two to four minutes of one core each.
LAPTOP_STEPS = {3: 1000, 4: 800, 5: 500}


def square(size: int) -> str:
    """A size in words."""
    return f"{size}x{size}"


def scheduled(config: TrainConfig, steps: int | None = None, minutes: float | None = None) -> TrainConfig:
    """A laptop's run: one thread, some evaluations on the way if it goes by steps, else one in the end."""
    every = max(1, steps // EVALUATIONS) if steps else 1_000_000
    return replace(
        config,
        budget=Budget(steps=steps, minutes=minutes),
        evaluate_every=every,
        held_out=200,
        checkpoint_every=max(50, every) if steps else 200,
        log_every=10,
        keep_last=1,
        threads=1,
    )


def laptop_text(
    objective: str,
    size: int,
    *,
    steps: int | None = None,
    minutes: float | None = None,
    mazes: int | None = None,
    **changes: Any,
) -> TrainConfig:
    """The laptop's recipe on DFS text: fresh mazes, or the first `mazes` again and again."""
    data = DataConfig("stream" if mazes is None else "dataset", sizes=(size,), mazes=mazes)
    config = text_config(OBJECTIVES[objective], data, Budget(steps=1), **changes)
    return scheduled(config, None if minutes else steps or LAPTOP_STEPS[size], minutes)


def laptop_cells(kind: GridKind, size: int, minutes: float) -> TrainConfig:
    """A model that reads cells, with the recipe of the grid presets."""
    return scheduled(single_size(kind, size), minutes=minutes)


def pivot(
    result: Result, title: str, rows: str, columns: str, what: str = "exact", exam: str = "held-out", **labels: str
) -> Table:
    """A table with a row for each word of one label and a column for each word of another."""
    heads = result.values(columns, **labels)
    body = []
    for row in result.values(rows, **labels):
        means = [result.mean(what, exam, **{**labels, rows: row, columns: column}) for column in heads]
        body.append([row, *("" if mean is None else str(mean) for mean in means)])
    return Table(title, [["", *heads], *body])


def bars(
    result: Result,
    title: str,
    x: str,
    series: str,
    what: str = "exact",
    exam: str = "held-out",
    y_label: str = EXACT,
    **labels: str,
) -> Panel:
    """A bar for each word of `x`, side by side for each word of `series`."""
    found = []
    for name in result.values(series, **labels):
        means = [(word, result.mean(what, exam, **{**labels, series: name, x: word})) for word in result.values(x)]
        found.append(Series(name, [Point(w, 100 * mean.value, 100 * mean.error) for w, mean in means if mean]))
    return Panel(title, x, y_label, found)


def clearly_above(a: Mean, b: Mean) -> bool:
    """Whether a is above b by more than two standard errors of the difference."""
    return a.value - b.value > 2 * math.hypot(a.error, b.error) > 0


def compare(claim: str, paper: str, better: tuple[str, Mean | None], worse: tuple[str, Mean | None]) -> Finding:
    """A claim that one thing solves more mazes than another."""
    (name_a, a), (name_b, b) = better, worse
    if a is None or b is None:
        return Finding(claim, paper, "", "cannot be told", "it was not measured.")
    ours = f"{name_a} {a}, {name_b} {b}"
    verdict: Verdict
    if max(a.value, b.value) < 0.02:
        verdict, because = "cannot be told", "neither solves more than a few mazes with this budget."
    elif min(a.value, b.value) > 0.99:
        verdict, because = "cannot be told", "both solve nearly all mazes here."
    elif clearly_above(a, b):
        verdict, because = "holds", f"{name_a} solves {_points(a, b)} more, {ratio_words(a.value, b.value)}."
    elif clearly_above(b, a):
        verdict, because = "does not hold", f"{name_b} solves {_points(b, a)} more, {ratio_words(b.value, a.value)}."
    else:
        verdict, because = "cannot be told", "the difference is within two standard errors."
    return Finding(claim, paper, ours, verdict, because)


def _points(a: Mean, b: Mean) -> str:
    return f"{100 * (a.value - b.value):.1f} points"


def ratio_words(a: float, b: float) -> str:
    """How many times as much."""
    return f"{a / b:.1f} times as many" if b > 0 else "where the other solves none"
