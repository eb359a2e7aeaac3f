"""How studies tell what they found: tables in the paper's layout, charts, and comparisons in words.

pivot(result, EXACT, "objective", "size")                # a Table
bars(result, "exact paths", "size", "objective")         # the same as a Panel
curves(result, "held-out", "mazes", ["objective"])       # a Panel of lines
compare("MLM-U beats next token", paper, (MLMU, mean), (NEXT, mean))
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from clew.experiments.reproduce.result import Entry, Mean, Result, mean_of
from clew.experiments.reproduce.study import Finding, Table, Verdict
from clew.report.panels import Panel, Point, Series

EXACT, PER_TOKEN = "exact paths, %", "right tokens, %"
NOTHING = Mean(0.0, 0.0, 1)
NOT_MEASURED = "it was not measured."
SCORE_WORDS = {"exact": "exact", "per_token": "per token", "valid": "valid", "shortest": "shortest"}
SCORE_WORDS |= {"unparsable": "no path"}
# The two objectives have one colour each in all charts; what is neither has others.
COLOURS = {"next token": 0, "next token on text": 0, "MLM-U": 1, "MLM-U on text": 1}
CURVE_WORDS = {"mazes": "mazes trained on", "minutes": "minutes of training", "step": "steps"}


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


def curves(
    result: Result, title: str, x: str, series: str, whats: dict[str, str] | None = None, **labels: str
) -> Panel:
    """A line for each word of a label, and a dashed one where `whats` names a second score, such as train-exact."""
    found = []
    names = result.values(series, **labels)
    for name, colour in zip(names, colours_of(names), strict=True):
        entries = result.entries(**{**labels, series: name})
        for number, (what, word) in enumerate((whats or {"exact": ""}).items()):
            points = [point(at, mean) for at, mean in curve_points(entries, x, what)]
            if points:
                found.append(Series(f"{name}{word}", points, colour=colour, dashed=number > 0))
    return Panel(title, CURVE_WORDS[x], EXACT, found)


def reached(entries: Sequence[Entry], x: str, target: float) -> float | None:
    """Where the mean curve first reaches a score, on the straight line between two evaluations."""
    before = (0.0, 0.0)
    for at, mean in curve_points(entries, x, "exact"):
        if mean.value >= target:
            share = (target - before[1]) / (mean.value - before[1]) if mean.value > before[1] else 1.0
            return before[0] + share * (at - before[0])
        before = (at, mean.value)
    return None


def clearly_above(a: Mean, b: Mean, errors: float = 2.0) -> bool:
    """Whether a is above b by more than two (or so many) standard errors of the difference."""
    return a.value - b.value > max(errors * math.hypot(a.error, b.error), 1e-9)


def difference(a: Mean | None, b: Mean | None) -> Mean | None:
    """How much a is above b; None if one of them was not measured."""
    if a is None or b is None:
        return None
    return _gain(a, b)


def _gain(a: Mean, b: Mean) -> Mean:
    return Mean(a.value - b.value, math.hypot(a.error, b.error), min(a.seeds, b.seeds))


def compare_differences(
    claim: str, paper: str, what: str, larger: tuple[str, Mean | None], smaller: tuple[str, Mean | None]
) -> Finding:
    """A claim that one difference of shares, such as a gain, is larger than another."""
    (name_a, a), (name_b, b) = larger, smaller
    if a is None or b is None:
        return Finding(claim, paper, "", "cannot be told", NOT_MEASURED)
    ours = f"{what}: {name_a} {a} points, {name_b} {b} points"
    if clearly_above(a, b):
        return Finding(claim, paper, ours, "holds", f"that of {name_a} is larger by {_points(a, b)}.")
    if clearly_above(b, a):
        return Finding(claim, paper, ours, "does not hold", f"that of {name_b} is larger by {_points(b, a)}.")
    return Finding(claim, paper, ours, "cannot be told", "they are within two standard errors of each other.")


def compare(claim: str, paper: str, better: tuple[str, Mean | None], worse: tuple[str, Mean | None]) -> Finding:
    """A claim that one thing solves more mazes than another."""
    (name_a, a), (name_b, b) = better, worse
    if a is None or b is None:
        return Finding(claim, paper, "", "cannot be told", NOT_MEASURED)
    verdict, because = judged(name_a, a, name_b, b)
    return Finding(claim, paper, f"{name_a} {a}, {name_b} {b}", verdict, because)


def judged(name_a: str, a: Mean, name_b: str, b: Mean) -> tuple[Verdict, str]:
    """Whether a is above b, and by how much."""
    if clearly_above(a, b):
        return "holds", f"{name_a} solves {_points(a, b)} more{_times(a, b)}."
    if clearly_above(b, a):
        return "does not hold", f"{name_b} solves {_points(b, a)} more{_times(b, a)}."
    if max(a.value, b.value) < 0.02:
        return "cannot be told", "neither solves more than a few mazes with this budget."
    if min(a.value, b.value) > 0.98:
        return "cannot be told", "both solve nearly all mazes."
    return "cannot be told", "the difference is within two standard errors."


def best_of(
    claim: str,
    paper: str,
    means: dict[str, Mean | None],
    base: str,
    gain: Callable[[str], Mean | None] = lambda word: None,
) -> Finding:
    """A claim that something else is better than `base`; the best of many is asked for three standard errors.

    `gain` is how much better a thing is, where that is known better than from the two shares.
    """
    known = {word: mean for word, mean in means.items() if mean is not None}
    if base not in known or len(known) < 2:
        return Finding(claim, paper, "", "cannot be told", NOT_MEASURED)
    first = known.pop(base)
    best = max(known, key=lambda word: known[word].value)
    ours = f"{base}: {first}; best other, {best}: {known[best]}"
    gains = {word: gain(word) or _gain(mean, first) for word, mean in known.items()}
    if clearly_above(gains[best], NOTHING, errors=3):
        return Finding(claim, paper, ours, "holds", f"{best} solves {_points(known[best], first)} more.")
    if all(clearly_above(NOTHING, each) for each in gains.values()):
        return Finding(claim, paper, ours, "does not hold", f"{base} is clearly better than all others.")
    because = f"the best of {len(known)} others is within three standard errors of it."
    return Finding(claim, paper, ours, "cannot be told", because)


def _points(a: Mean, b: Mean) -> str:
    return f"{100 * (a.value - b.value):.1f} points"


def _times(a: Mean, b: Mean) -> str:
    return f", {a.value / b.value:.1f} times as many" if b.value > 0.005 else ""
