"""Tables in the paper's layout and charts of what a study measured.

pivot(result, EXACT, "objective", "size")                # a Table
bars(result, "exact paths", "size", "objective")         # the same as a Panel
curves(result, "held-out", "mazes", "objective")         # a Panel of lines
curve_panels(result, findings)                           # the curves that verdicts rest on
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Literal

from clew.paper.result import Entry, Mean, Result, mean_of, run_name
from clew.paper.study import Finding, Table
from clew.viz.charts import Panel, Point, Series

EXACT, PER_TOKEN = "exact paths, %", "right tokens, %"
SCORE_WORDS = {"exact": "exact", "per_token": "per token", "valid": "valid", "shortest": "shortest"}
SCORE_WORDS |= {"unparsable": "no path"}
# The two objectives have one colour each in all charts; what is neither has others.
COLOURS = {"next token": 0, "next token on text": 0, "MLM-U": 1, "MLM-U on text": 1}
CURVE_WORDS = {"mazes": "mazes seen in training", "cpu": "core hours of training", "cuda": "GPU hours of training"}
BOTH_SPLITS = {"exact": "", "train-exact": ", training mazes"}  # the scores of a curve, and what is added to its name


def pivot(
    result: Result, title: str, rows: str, columns: str, what: str = "exact", exam: str = "held-out", **labels: str
) -> Table:
    """A table with a row for each word of one label and a column for each word of another."""
    heads = {word: word for word in result.values(columns, **labels)}
    return table_of(
        title,
        result.values(rows, **labels),
        heads,
        lambda row, column: result.mean(what, exam, **{**labels, rows: row, columns: column}),
    )


def exam_table(
    result: Result, title: str, rows: str, exams: Sequence[str], what: str = "exact", **labels: str
) -> Table:
    """A table with a row for each word of a label and a column for each exam."""
    heads = {exam: exam for exam in exams}
    return table_of(
        title,
        result.values(rows, **labels),
        heads,
        lambda row, exam: result.mean(what, exam, **{**labels, rows: row}),
    )


def score_table(result: Result, rows: str, exam: str = "held-out", **labels: str) -> Table:
    """All scores of one exam, a row for each word of a label."""
    title = ", ".join(["shares of mazes and tokens, %", *labels.values()])
    return table_of(
        title,
        result.values(rows, **labels),
        SCORE_WORDS,
        lambda row, what: result.mean(what, exam, **{**labels, rows: row}),
    )


def table_of(title: str, rows: Sequence[str], heads: dict[str, str], cell: Callable[[str, str], object]) -> Table:
    """A cell for each row and each key of the heads, empty where nothing was measured."""
    body = [[row, *(str(cell(row, column) or "") for column in heads)] for row in rows]
    return Table(title, [["", *heads.values()], *body])


def parameter_table(result: Result, rows: str, columns: str) -> Table:
    """How large the models are."""
    heads = result.values(columns)
    body = []
    for row in result.values(rows):
        found = [result.entries(**{rows: row, columns: column}) for column in heads]
        body.append([row, *(f"{runs[0]['parameters'] / 1e6:.2f}M" if runs else "" for runs in found)])
    return Table("parameters", [["", *heads], *body])


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
    names = result.values(series, **labels)
    for name, colour in zip(names, colours_of(names), strict=True):
        means = [
            (word, result.mean(what, exam, **{**labels, series: name, x: word})) for word in result.values(x, **labels)
        ]
        found.append(Series(name, [point(word, mean) for word, mean in means if mean], colour))
    return Panel(title, x, y_label, found)


def colours_of(names: Sequence[str]) -> list[int]:
    """Which colour each series has: its own, or one that no other of them has."""
    known = [COLOURS[name] for name in names if name in COLOURS]
    free = (colour for colour in itertools.count() if colour not in known)
    return [COLOURS[name] if name in COLOURS else next(free) for name in names]


def single_bars(result: Result, title: str, x: str, what: str = "exact", exam: str = "held-out") -> Panel:
    """A bar for each word of a label."""
    means = [(word, result.mean(what, exam, **{x: word})) for word in result.values(x)]
    return Panel(title, "", EXACT, [Series(x, [point(word, mean) for word, mean in means if mean])])


def point(x: float | str, mean: Mean) -> Point:
    """A share as a point of a chart, in per cent."""
    return Point(x, 100 * mean.value, 100 * mean.error)


def curve_points(entries: Sequence[Entry], x: str, what: str) -> list[tuple[float, Mean]]:
    """The mean curve of some seeds: where each evaluation stands on average, and its score."""
    curves = [entry["curve"] for entry in entries]
    # Evaluations come after the same steps in all seeds; a run that goes by minutes may have had one more.
    together = zip(*curves, strict=False)
    return [
        (sum(p[x] for p in points) / len(points), mean_of([p[what] for p in points]))
        for points in together
        if all(what in p for p in points)
    ]


def curves(result: Result, title: str, x: Literal["mazes", "hours"], series: str, **labels: str) -> Panel:
    """A line of held-out accuracy for each word of a label, and a dashed one of training accuracy where it is known."""
    names = result.values(series, **labels)
    return _lines(title, x, {name: result.entries(**{**labels, series: name}) for name in names})


def _lines(title: str, x: Literal["mazes", "hours"], groups: dict[str, list[Entry]]) -> Panel:
    """The mean curves of some groups of runs, each of which differ in their seeds."""
    found = []
    for (name, entries), colour in zip(groups.items(), colours_of(list(groups)), strict=True):
        for what, word in BOTH_SPLITS.items():
            points = [point(at, mean) for at, mean in curve_points(entries, x, what)]
            if points:
                found.append(Series(f"{name}{word}", points, colour=colour, dashed=what != "exact"))
    devices = {entry["device"] for entries in groups.values() for entry in entries}
    return Panel(title, CURVE_WORDS[max(devices, default="cpu") if x == "hours" else x], EXACT, found)


def curve_panels(result: Result, findings: Sequence[Finding]) -> list[Panel]:
    """For each task, the curves of the runs that its verdicts rest on, against mazes seen and against hours."""
    by_task: dict[str, set[str]] = {}
    for finding in findings:
        by_task.setdefault(finding.claim.task, set()).update(finding.runs)
    panels = []
    for task, names in by_task.items():
        entries = [entry for entry in result.runs if run_name(entry) in names and entry["curve"]]
        groups: dict[str, list[Entry]] = {}
        for entry in entries:
            # What all runs of the task have in common stands in the title.
            own = [word for key, word in entry["labels"].items() if len({e["labels"].get(key) for e in entries}) > 1]
            groups.setdefault(", ".join(own) or task, []).append(entry)
        if groups:
            panels += [_lines(task, "mazes", groups), _lines(task, "hours", groups)]
    return panels


def reached(entries: Sequence[Entry], x: str, target: float) -> float | None:
    """Where the mean curve first reaches a score, on the straight line between two evaluations."""
    before = (0.0, 0.0)
    for at, mean in curve_points(entries, x, "exact"):
        if mean.value >= target:
            share = (target - before[1]) / (mean.value - before[1]) if mean.value > before[1] else 1.0
            return before[0] + share * (at - before[0])
        before = (at, mean.value)
    return None
