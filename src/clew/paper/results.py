"""What a study measured, read from results/NAME/SCALE.json: arms, means over the seeds, tables and charts.

    result = Result(read_json("results/astar/laptop.json"))
    result.arm(size="4x4", method="MLM-U").mean()            # a Mean over the seeds: exact, held-out
    Pivot("method", "size")(result)                          # a Report: exact paths, a table in the paper's layout
    curves("4x4", "mazes", [result.arm(method="MLM-U")])     # a Panel of lines

Each run of the file has its labels, seed, config, evaluations with their scores (under the key "exams") and its curve.
The name of an evaluation counts as its label "evaluation".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from clew.tokenization.read import tasks_in_text
from clew.viz.charts import Panel, Point, Series
from clew.viz.drawing import Picture

Entry = dict[str, Any]  # a run of the file
HELD_OUT, NEXT, MLMU = "held-out", "next token", "MLM-U"
INTERVAL = 3.92  # width of a 95 % interval in standard errors
TITLES = {"exact": "exact paths, %", "per_token": "right tokens, %", "shortest": "shortest paths, %"}
# The two objectives have one colour each in all charts.
COLOURS = {NEXT: 0, MLMU: 1}
X_LABELS = {"mazes": "mazes seen in training", "cpu": "core hours of training", "cuda": "GPU hours of training"}


class Mean(NamedTuple):
    """A share averaged over the seeds, with its standard error."""

    value: float
    error: float
    seeds: int

    def __str__(self) -> str:
        """Return it in per cent, such as 45.2, or 45.2 ± 1.3 for several seeds."""
        return f"{100 * self.value:.1f}" + (f" ± {100 * self.error:.1f}" if self.seeds > 1 else "")


Cell = Mean | float | str | None  # of a table; a float is in per cent


def mean_of(values: Sequence[float], errors: Sequence[float] = ()) -> Mean:
    """Return the mean of some values, each with its own error.

    The error of the mean is that of the mazes or that between the seeds, whichever is larger: two seeds that agree by
    chance do not make a sample of mazes more certain.
    """
    count, mean = len(values), sum(values) / len(values)
    within = math.sqrt(sum(error**2 for error in errors)) / count
    between = math.sqrt(sum((v - mean) ** 2 for v in values) / (count - 1) / count) if count > 1 else 0.0
    return Mean(mean, max(within, between), count)


def run_name(run: Entry) -> str:
    """Return the labels and the seed of a run, in one line."""
    return ", ".join([*run["labels"].values(), f"seed {run['seed']}"])


@dataclass(frozen=True)
class Arm:
    """Runs that differ in their seeds alone, and the one of their evaluations that is looked at."""

    name: str
    runs: Sequence[Entry]
    evaluation: str = HELD_OUT

    @property
    def scores(self) -> list[Entry]:
        """The scores of the evaluation, of each seed that has it."""
        return [run["exams"][self.evaluation] for run in self.runs if self.evaluation in run["exams"]]

    def mean(self, score: str = "exact") -> Mean | None:
        """Return a score averaged over the seeds; None if no run has it."""
        shares = [scores[score] for scores in self.scores]
        errors = [(share["high"] - share["low"]) / INTERVAL for share in shares]
        return mean_of([share["share"] for share in shares], errors) if shares else None

    @property
    def share(self) -> float:
        """The mean share of exact paths; 0 if no run has it."""
        return mean.value if (mean := self.mean()) else 0.0

    def curve(self, x: str, score: str = "exact") -> list[tuple[float, Mean]]:
        """Return the mean curve: the mean position of each evaluation during the training, and its score."""
        # Evaluations come after the same steps in all seeds; a run that goes by minutes may have one more.
        together = zip(*(run["curve"] for run in self.runs), strict=False)
        return [
            (sum(p[x] for p in points) / len(points), mean_of([p[score] for p in points]))
            for points in together
            if all(score in p for p in points)
        ]

    def reached(self, x: str, target: float) -> float | None:
        """Return where the curve first reaches a score, interpolated between two evaluations; None if never."""
        before = (0.0, 0.0)
        for at, mean in self.curve(x):
            if mean.value >= target:
                share = (target - before[1]) / (mean.value - before[1]) if mean.value > before[1] else 1.0
                return before[0] + share * (at - before[0])
            before = (at, mean.value)
        return None


class Result:
    """The runs of a result file, selected by their labels."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value
        self.scale: str = value["scale"]
        self.runs: list[Entry] = value["runs"]
        self.measured: dict[str, Any] = value["measured"]

    def entries(self, **labels: str) -> list[Entry]:
        """Return the runs with these labels, of all seeds."""
        return [run for run in self.runs if all(value in _values(run, name) for name, value in labels.items())]

    def values(self, label: str, **labels: str) -> list[str]:
        """Return the values of a label among the runs with the other labels, each once."""
        return list(dict.fromkeys(value for run in self.entries(**labels) for value in _values(run, label)))

    def combinations(self, *names: str, **labels: str) -> Iterator[dict[str, str]]:
        """Yield the combinations of values of some labels that runs with the other labels have."""
        for values in itertools.product(*(self.values(name, **labels) for name in names)):
            found = dict(zip(names, values, strict=True))
            if self.entries(**labels | found):
                yield found

    def arm(self, name: str = "", **labels: str) -> Arm:
        """Return the runs with these labels as an arm, named after its last label unless a name is given."""
        name = name or [*labels.values()][-1]
        evaluation = labels.pop("evaluation", HELD_OUT)
        return Arm(name, self.entries(**labels), evaluation)


def _values(run: Entry, label: str) -> Collection[str]:
    if label == "evaluation":
        return list(run["exams"])
    return [run["labels"][label]] if label in run["labels"] else []


class Table(NamedTuple):
    """Rows of words; the first row is the head."""

    title: str
    rows: Sequence[Sequence[str]]


class Report(NamedTuple):
    """Tables, charts and drawn mazes."""

    tables: Sequence[Table] = ()
    panels: Sequence[Panel] = ()
    galleries: Sequence[Sequence[Picture]] = ()  # drawn mazes, each gallery on rows of its own


def paper_table(title: str, *rows: str) -> Report:
    """Return a table of the paper; the cells of a row are separated by `|`."""
    return Report([Table(title, [row.split("|") for row in rows])])


@dataclass(frozen=True)
class Pivot:
    """A table with a row for each combination of the labels `rows`; called with a result, it is a Report.

    The columns are the values of a label, with means of a score, or what a function returns for the arm of a row.
    There is a table, and with `chart` a chart, for each combination of the labels `each`.
    """

    rows: str | Sequence[str]
    columns: str | Callable[[Arm], Mapping[str, Cell]]
    title: str = ""  # by default the score and the values of `each`; a format string of them otherwise
    score: str = "exact"
    where: dict[str, str] = field(default_factory=dict)
    each: Sequence[str] = ()
    chart: Literal["", "bars", "lines"] = ""  # lines have a logarithmic x axis

    def __call__(self, result: Result) -> Report:
        tables, panels = [], []
        names = [self.rows] if isinstance(self.rows, str) else self.rows
        for labels in result.combinations(*self.each, **self.where):
            where = self.where | labels
            rows = {tuple(own.values()): self._row(result, where, own) for own in result.combinations(*names, **where)}
            heads = list(dict.fromkeys(head for cells in rows.values() for head in cells))
            if not heads:
                continue
            title = self.title.format(**labels) if self.title else ", ".join([TITLES[self.score], *labels.values()])
            body = [[*row, *(_words(cells.get(head)) for head in heads)] for row, cells in rows.items()]
            tables.append(Table(title, [[*([""] if len(names) == 1 else names), *heads], *body]))
            if self.chart:
                series = []
                for row, colour in zip(rows, colours_of([", ".join(row) for row in rows]), strict=True):
                    cells = {head: cell for head, cell in rows[row].items() if isinstance(cell, Mean | float)}
                    xs = [float(head.replace(",", "")) if self.chart == "lines" else head for head in cells]
                    points = [point(x, cell) for x, cell in zip(xs, cells.values(), strict=True)]
                    series.append(Series(", ".join(row), points, colour))
                x_label = self.columns if isinstance(self.columns, str) and self.columns != "evaluation" else ""
                y_label = TITLES[self.score] if isinstance(self.columns, str) else "%"
                panels.append(Panel(title, x_label, y_label, series, log_x=self.chart == "lines"))
        return Report(tables, panels)

    def _row(self, result: Result, where: dict[str, str], own: dict[str, str]) -> Mapping[str, Cell]:
        if callable(self.columns):
            return self.columns(result.arm(**where | own))
        heads = result.values(self.columns, **where)
        return {head: result.arm(**where | own | {self.columns: head}).mean(self.score) for head in heads}


def _words(cell: Cell) -> str:
    return "" if cell is None else f"{cell:.1f}" if isinstance(cell, float) else str(cell)


def point(x: float | str, value: Mean | float) -> Point:
    return Point(x, value) if isinstance(value, float) else Point(x, 100 * value.value, 100 * value.error)


def colours_of(names: Sequence[str]) -> list[int]:
    """Return the colour of each series: the objective's own, or one that no other series has."""
    known = [COLOURS[name] for name in names if name in COLOURS]
    free = (colour for colour in itertools.count() if colour not in known)
    return [COLOURS[name] if name in COLOURS else next(free) for name in names]


def curves(title: str, x: Literal["mazes", "hours"], arms: Sequence[Arm]) -> Panel:
    """Return a line of held-out accuracy for each arm, and a dashed one of training accuracy if it is known."""
    found = []
    for arm, colour in zip(arms, colours_of([arm.name for arm in arms]), strict=True):
        for score, end in (("exact", ""), ("train-exact", ", training mazes")):
            if points := [point(at, mean) for at, mean in arm.curve(x, score)]:
                found.append(Series(f"{arm.name}{end}", points, colour, dashed=score != "exact"))
    devices = {run["device"] for arm in arms for run in arm.runs}
    return Panel(title, X_LABELS[max(devices, default="cpu") if x == "hours" else x], TITLES["exact"], found)


def gallery(arm: Arm, count: int, title: str = "") -> list[Picture]:
    """Return the first wrong paths that were kept, titled with their class of failure."""
    found: list[Picture] = []
    for scores in arm.scores:
        for example in scores["examples"][: count - len(found)]:
            (parsed,) = tasks_in_text(example["maze"])
            predicted = [(int(row), int(col)) for row, col in example["predicted"]]
            found.append((parsed.task, parsed.path, predicted, f"{title}{example['class']}"))
    return found
