"""What a study measured, read from results/NAME/SCALE.json: means over the seeds, tables and charts.

    result = Result(read_json("results/astar/laptop.json"))
    result.mean(size="4x4", objective="MLM-U")               # a Mean over the seeds: exact, held-out
    Pivot("objective", "size")(result)                       # a Report: exact paths, a table in the paper's layout
    curves(result, "held-out", "mazes", "objective")         # a Panel of lines

Each run of the file has its labels, seed, config, evaluations with their scores (under the key "exams") and its curve.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from clew.tokenization.read import tasks_in_text
from clew.viz.charts import Panel, Point, Series
from clew.viz.drawing import Picture

Entry = dict[str, Any]  # a run of the file
HELD_OUT = "held-out"
INTERVAL = 3.92  # width of a 95 % interval in standard errors
EXACT, PER_TOKEN = "exact paths, %", "right tokens, %"
TITLES = {"exact": EXACT, "per_token": PER_TOKEN, "shortest": "shortest paths, %"}
SCORES = {"exact": "exact", "per_token": "per token", "valid": "valid", "shortest": "shortest", "unparsable": "no path"}
# The two objectives have one colour each in all charts.
COLOURS = {"next token": 0, "next token on text": 0, "MLM-U": 1, "MLM-U on text": 1}
X_LABELS = {"mazes": "mazes seen in training", "cpu": "core hours of training", "cuda": "GPU hours of training"}


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


def mean_over(runs: Sequence[Entry], score: str, evaluation: str) -> Mean | None:
    """Return the mean of a score over runs that differ in their seeds; None if none of them has it."""
    shares = [run["exams"][evaluation][score] for run in runs if evaluation in run["exams"]]
    if not shares:
        return None
    return mean_of([s["share"] for s in shares], [(s["high"] - s["low"]) / INTERVAL for s in shares])


def run_name(run: Entry) -> str:
    """Return the labels and the seed of a run, in one line."""
    return ", ".join([*run["labels"].values(), f"seed {run['seed']}"])


class Result:
    """The runs of a result file, selected by their labels."""

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
            for rest in self.combinations(*names[1:], **labels | {names[0]: value}):
                yield {names[0]: value, **rest}

    def scores(self, evaluation: str = HELD_OUT, **labels: str) -> list[Entry]:
        """Return the scores of an evaluation, one for each seed."""
        return [run["exams"][evaluation] for run in self.entries(**labels) if evaluation in run["exams"]]

    def mean(self, score: str = "exact", evaluation: str = HELD_OUT, **labels: str) -> Mean | None:
        """Return a score averaged over the seeds; None if no run has it."""
        return mean_over(self.entries(**labels), score, evaluation)


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


def paper_table(title: str, *rows: str) -> Report:
    """Return a table of the paper; the cells of a row are separated by `|`."""
    return Report([Table(title, [row.split("|") for row in rows])])


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
            selected = {"score": self.score, "evaluation": self.evaluation, **where}
            means = {
                (row, column): result.mean(**selected | {self.rows: row, self.columns: column})
                for row in rows
                for column in columns
            }
            heads = [SCORES[name] if self.columns == "score" else name for name in columns]
            what = "shares of mazes and tokens, %" if self.columns == "score" else TITLES[self.score]
            title = self.title.format(**labels) if self.title else ", ".join([what, *labels.values()])
            body = [[row, *(str(means[row, column] or "") for column in columns)] for row in rows]
            tables.append(Table(title, [["", *heads], *body]))
            if self.chart:
                panels.append(self._panel(title, means, rows, columns))
        return Report(tables, panels)

    def _values(self, result: Result, name: str, where: dict[str, str]) -> list[str]:
        if name == "score":
            return list(SCORES)
        if name == "evaluation":
            return list(dict.fromkeys(name for run in result.entries(**where) for name in run["exams"]))
        return result.values(name, **where)

    def _panel(
        self, title: str, means: dict[tuple[str, str], Mean | None], rows: Sequence[str], columns: Sequence[str]
    ) -> Panel:
        """Return the chart of the columns, a series for each row; evaluations are always on the x axis.

        The chart of a table of scores has the exact paths of the rows.
        """
        if self.columns == "score":
            means = {(self.rows, row): means[row, "exact"] for row in rows}
            rows, columns = [self.rows], rows
        elif self.rows == "evaluation":
            means = {(column, row): mean for (row, column), mean in means.items()}
            rows, columns = columns, rows
        lines = self.chart == "lines"
        series = []
        for row, colour in zip(rows, colours_of(rows), strict=True):
            known = [(column, mean) for column in columns if (mean := means[row, column])]
            points = [point(float(c.replace(",", "")) if lines else c, mean) for c, mean in known]
            series.append(Series(row, points, colour))
        x_label = "" if "evaluation" in (self.rows, self.columns) or self.columns == "score" else self.columns
        return Panel(title, x_label, TITLES[self.score], series, log_x=lines)


def parameters(rows: str, columns: str) -> Callable[[Result], Report]:
    """Return a table of the models' parameters by two labels, as a function of a result."""

    def report(result: Result) -> Report:
        heads = result.values(columns)
        body = []
        for row in result.values(rows):
            found = [result.entries(**{rows: row, columns: column}) for column in heads]
            body.append([row, *(f"{runs[0]['parameters'] / 1e6:.2f}M" if runs else "" for runs in found)])
        return Report([Table("parameters", [["", *heads], *body])])

    return report


def colours_of(names: Sequence[str]) -> list[int]:
    """Return the colour of each series: the objective's own, or one that no other series has."""
    known = [COLOURS[name] for name in names if name in COLOURS]
    free = (colour for colour in itertools.count() if colour not in known)
    return [COLOURS[name] if name in COLOURS else next(free) for name in names]


def point(x: float | str, mean: Mean) -> Point:
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
    return mean_curves(title, x, {name: result.entries(**{**labels, series: name}) for name in names})


def mean_curves(title: str, x: Literal["mazes", "hours"], groups: dict[str, list[Entry]]) -> Panel:
    """Return the mean curves of groups of runs that differ in their seeds."""
    found = []
    for (name, entries), colour in zip(groups.items(), colours_of(list(groups)), strict=True):
        for score, end in (("exact", ""), ("train-exact", ", training mazes")):
            if points := [point(at, mean) for at, mean in curve_points(entries, x, score)]:
                found.append(Series(f"{name}{end}", points, colour=colour, dashed=score != "exact"))
    devices = {entry["device"] for entries in groups.values() for entry in entries}
    return Panel(title, X_LABELS[max(devices, default="cpu") if x == "hours" else x], EXACT, found)


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
