"""Tables and charts of what a study measured.

Pivot("objective", "size")(result)                       # a Report: exact paths, a table in the paper's layout
Pivot("objective", "evaluation", chart="bars")           # a column for each evaluation, and a bar chart
Pivot("rates", "score")                                  # a column for each score
curves(result, "held-out", "mazes", "objective")         # a Panel of lines
curve_panels(result, findings)                           # the curves that verdicts rest on
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from clew.paper.results import HELD_OUT, Entry, Mean, Result, mean_of, run_name
from clew.paper.verdict import Finding
from clew.tokenization.read import tasks_in_text
from clew.viz.charts import Panel, Point, Series
from clew.viz.drawing import Picture

EXACT, PER_TOKEN = "exact paths, %", "right tokens, %"
TITLES = {"exact": EXACT, "per_token": PER_TOKEN, "shortest": "shortest paths, %"}
SCORES = {"exact": "exact", "per_token": "per token", "valid": "valid", "shortest": "shortest", "unparsable": "no path"}
# The two objectives have one colour each in all charts.
COLOURS = {"next token": 0, "next token on text": 0, "MLM-U": 1, "MLM-U on text": 1}
X_LABELS = {"mazes": "mazes seen in training", "cpu": "core hours of training", "cuda": "GPU hours of training"}
SPLITS = {"exact": "", "train-exact": ", training mazes"}  # the scores of a curve, and the ends of their names


@dataclass(frozen=True)
class Table:
    """Rows of words; the first row is the head."""

    title: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Report:
    """Tables, charts and drawn mazes."""

    tables: Sequence[Table] = ()
    panels: Sequence[Panel] = ()
    galleries: Sequence[Sequence[Picture]] = ()  # drawn mazes, each gallery on rows of its own


@dataclass(frozen=True)
class Pivot:
    """Means of a score by two dimensions, each a label, "evaluation" or "score"; called with a result, it is a Report.

    There is a table, and with `chart` a chart of the columns, for each combination of the labels `each`.
    """

    rows: str
    columns: str
    title: str = ""  # by default the score and the values of `each`; a format string of them otherwise
    score: str = "exact"
    evaluation: str = HELD_OUT
    where: dict[str, str] = field(default_factory=dict)
    each: tuple[str, ...] = ()
    chart: Literal["", "bars", "lines"] = ""  # lines have a logarithmic x axis

    def __call__(self, result: Result) -> Report:
        tables, panels = [], []
        for labels in result.combinations(*self.each, **self.where):
            where = {**self.where, **labels}
            rows, columns = (self._values(result, name, where) for name in (self.rows, self.columns))
            if not rows or not columns:
                continue
            heads = [SCORES[name] if self.columns == "score" else name for name in columns]
            body = [[row, *(str(self._mean(result, where, row, c) or "") for c in columns)] for row in rows]
            what = "shares of mazes and tokens, %" if self.columns == "score" else TITLES[self.score]
            title = self.title.format(**labels) if self.title else ", ".join([what, *labels.values()])
            tables.append(Table(title, [["", *heads], *body]))
            if self.chart:
                panels.append(self._panel(result, title, where, rows, columns))
        return Report(tables, panels)

    def _values(self, result: Result, name: str, where: dict[str, str]) -> list[str]:
        if name == "score":
            return list(SCORES)
        if name == "evaluation":
            return list(dict.fromkeys(name for run in result.entries(**where) for name in run["exams"]))
        return result.values(name, **where)

    def _mean(self, result: Result, where: dict[str, str], row: str, column: str) -> Mean | None:
        asked = {"score": self.score, "evaluation": self.evaluation, **where, self.rows: row, self.columns: column}
        return result.mean(**asked)

    def _panel(
        self, result: Result, title: str, where: dict[str, str], rows: Sequence[str], columns: Sequence[str]
    ) -> Panel:
        """Return the chart of the columns, a series for each row; evaluations are always on the x axis.

        The chart of a table of scores has the exact paths of the rows.
        """
        cells = {(row, c): self._mean(result, where, row, c) for row in rows for c in columns}
        if self.columns == "score":
            cells = {(self.rows, row): cells[row, "exact"] for row in rows}
            rows, columns = [self.rows], rows
        elif self.rows == "evaluation":
            cells = {(c, row): mean for (row, c), mean in cells.items()}
            rows, columns = columns, rows
        lines = self.chart == "lines"
        series = []
        for row, colour in zip(rows, colours_of(rows), strict=True):
            known = [(column, mean) for column in columns if (mean := cells[row, column])]
            series.append(Series(row, [point(_number(c) if lines else c, mean) for c, mean in known], colour))
        x_label = "" if "evaluation" in (self.rows, self.columns) or self.columns == "score" else self.columns
        return Panel(title, x_label, TITLES[self.score], series, log_x=lines)


def _number(words: str) -> float:
    return float(words.replace(",", ""))


@dataclass(frozen=True)
class Parameters:
    """A table of the models' parameters by two labels."""

    rows: str
    columns: str

    def __call__(self, result: Result) -> Report:
        heads = result.values(self.columns)
        body = []
        for row in result.values(self.rows):
            found = [result.entries(**{self.rows: row, self.columns: column}) for column in heads]
            body.append([row, *(f"{runs[0]['parameters'] / 1e6:.2f}M" if runs else "" for runs in found)])
        return Report([Table("parameters", [["", *heads], *body])])


def colours_of(names: Sequence[str]) -> list[int]:
    """Return the colour of each series: the objective's own, or one that no other series has."""
    known = [COLOURS[name] for name in names if name in COLOURS]
    free = (colour for colour in itertools.count() if colour not in known)
    return [COLOURS[name] if name in COLOURS else next(free) for name in names]


def point(x: float | str, mean: Mean) -> Point:
    """Return a share as a point of a chart, in per cent."""
    return Point(x, 100 * mean.value, 100 * mean.error)


def curve_points(entries: Sequence[Entry], x: str, score: str) -> list[tuple[float, Mean]]:
    """Return the mean curve of some seeds: the mean position of each evaluation, and its score."""
    # Evaluations come after the same steps in all seeds; a run that goes by minutes may have one more.
    together = zip(*(entry["curve"] for entry in entries), strict=False)
    return [
        (sum(p[x] for p in points) / len(points), mean_of([p[score] for p in points]))
        for points in together
        if all(score in p for p in points)
    ]


def curves(result: Result, title: str, x: Literal["mazes", "hours"], series: str, **labels: str) -> Panel:
    """Return a line of held-out accuracy for each value of a label, and a dashed one of training accuracy if known."""
    names = result.values(series, **labels)
    return _lines(title, x, {name: result.entries(**{**labels, series: name}) for name in names})


def _lines(title: str, x: Literal["mazes", "hours"], groups: dict[str, list[Entry]]) -> Panel:
    """Return the mean curves of groups of runs that differ in their seeds."""
    found = []
    for (name, entries), colour in zip(groups.items(), colours_of(list(groups)), strict=True):
        for score, end in SPLITS.items():
            points = [point(at, mean) for at, mean in curve_points(entries, x, score)]
            if points:
                found.append(Series(f"{name}{end}", points, colour=colour, dashed=score != "exact"))
    devices = {entry["device"] for entries in groups.values() for entry in entries}
    return Panel(title, X_LABELS[max(devices, default="cpu") if x == "hours" else x], EXACT, found)


def curve_panels(result: Result, findings: Sequence[Finding]) -> list[Panel]:
    """Return for each task the curves of the runs that its verdicts rest on, against mazes seen and hours."""
    by_task: dict[str, set[str]] = {}
    for finding in findings:
        by_task.setdefault(finding.claim.task, set()).update(finding.runs)
    panels = []
    for task, names in by_task.items():
        entries = [entry for entry in result.runs if run_name(entry) in names and entry["curve"]]
        groups: dict[str, list[Entry]] = {}
        for entry in entries:
            # Labels that all runs of the task share are left out of the names.
            own = [word for key, word in entry["labels"].items() if len({e["labels"].get(key) for e in entries}) > 1]
            groups.setdefault(", ".join(own) or task, []).append(entry)
        if groups:
            panels += [_lines(task, "mazes", groups), _lines(task, "hours", groups)]
    return panels


def reached(entries: Sequence[Entry], x: str, target: float) -> float | None:
    """Return where the mean curve first reaches a score, interpolated between two evaluations; None if never."""
    before = (0.0, 0.0)
    for at, mean in curve_points(entries, x, "exact"):
        if mean.value >= target:
            share = (target - before[1]) / (mean.value - before[1]) if mean.value > before[1] else 1.0
            return before[0] + share * (at - before[0])
        before = (at, mean.value)
    return None


def gallery(result: Result, evaluation: str, count: int, title: str = "", **labels: str) -> list[Picture]:
    """Return the first wrong paths that the runs with these labels kept, titled with their class of failure."""
    found: list[Picture] = []
    for scores in result.scores(evaluation, **labels):
        for example in scores["examples"][: count - len(found)]:
            (parsed,) = tasks_in_text(example["maze"])
            predicted = [(int(row), int(col)) for row, col in example["predicted"]]
            found.append((parsed.task, parsed.path, predicted, f"{title}{example['class']}"))
    return found
