"""An evaluation as one HTML page: tables, charts and galleries of mazes.

write_page("out.html", Page("runs/x on 10x10 DFS mazes", [evaluation, ...], provenance("clew evaluate ...", [0])))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from clew.evaluation.scores import Evaluation, failure_classes
from clew.files import PathLike
from clew.viz.charts import Panel, Point, Series
from clew.viz.pages import (
    charts,
    document,
    folded,
    gallery,
    maze_legend,
    maze_list,
    milliseconds,
    page_header,
    percent,
    percent_point,
    section,
    table,
    write_html,
)

SOLVED_SHOWN, FAILED_SHOWN = 8, 4  # mazes of an evaluation; of each failure class
FEWEST_TOKENS = 20  # fewer say nothing about calibration
_SCORES_NOTE = (
    "Exact: the path is the true one. Per token: of the true response's tokens, how many stand at their place. Valid: "
    "a path from start to goal; shortest: none is shorter. Small numbers: 95 % interval."
)
_SCORES = ["mazes", "exact %", "per token %", "valid %", "shortest %", "unparsable %", "passes", "ms a maze"]


@dataclass(frozen=True)
class Page:
    """Content of the page."""

    title: str
    evaluations: Sequence[Evaluation]
    origin: dict[str, Any]  # of clew.provenance
    notes: Sequence[str] = ()  # sentences below the title


def write_page(file: PathLike, page: Page) -> None:
    """Write the page, wholly or not at all."""
    write_html(file, page_html(page))


def page_html(page: Page) -> str:
    """Return the page as text."""
    assert page.evaluations, "a page reports at least one evaluation"
    first_of_model = {each.name: each for each in reversed(page.evaluations)}
    panels = [_by_length(page.evaluations), _passes(page.evaluations), *_calibration(list(first_of_model.values()))]
    body = [
        section("Scores", _scores_table(page.evaluations), _SCORES_NOTE),
        charts(panels),
        section("Failures", _failures_table(page.evaluations)),
        *[_mazes(each, is_folded=each is not first_of_model[each.name]) for each in page.evaluations],
    ]
    return document(page.title, page_header(page.notes, page.origin), "".join(body))


def _label(evaluation: Evaluation) -> str:
    return f"{evaluation.name}, {evaluation.decoder}"


def _labels(evaluations: Sequence[Evaluation]) -> list[str]:
    """Return the decoder alone where there is one model."""
    one_model = len({each.name for each in evaluations}) == 1
    return [each.decoder if one_model else _label(each) for each in evaluations]


def _scores_table(evaluations: Sequence[Evaluation]) -> str:
    rows = []
    for each in evaluations:
        scores = each.scores
        shares = (scores.exact, scores.per_token, scores.valid, scores.shortest, scores.unparsable)
        numbers = [f"{scores.mazes:,}", *map(percent, shares), f"{scores.passes:.1f}", milliseconds(each)]
        rows.append([escape(each.name), escape(each.decoder), *numbers])
    return table(["model", "decoder", *_SCORES], rows)


def _failures_table(evaluations: Sequence[Evaluation]) -> str:
    """Return a table of the classes that occur, and what all classes mean."""
    classes = failure_classes(outcome.task for each in evaluations for outcome in each.outcomes)
    counts = [each.failures() for each in evaluations]
    names = [name for name in classes if any(count.get(name) for count in counts)]
    rows = [
        [escape(each.name), escape(each.decoder), *(f"{count[name]:,}" if count.get(name) else "·" for name in names)]
        for each, count in zip(evaluations, counts, strict=True)
    ]
    meanings = "".join(f"<dt>{escape(name)}</dt><dd>{escape(meaning)}</dd>" for name, meaning in classes.items())
    found = table(["model", "decoder", *names], rows) if names else "<p>No maze failed.</p>"
    return found + folded("what the classes mean", f"<dl>{meanings}</dl>")


def _by_length(evaluations: Sequence[Evaluation]) -> Panel:
    """Return exact paths by length; decoders with the same values share one line."""
    names_of: dict[tuple[Point, ...], list[str]] = {}
    for each, label in zip(evaluations, _labels(evaluations), strict=True):
        points = tuple(percent_point((part.low + part.high) / 2, part.scores.exact) for part in each.by_length())
        names_of.setdefault(points, []).append(label)
    series = [Series(" = ".join(names), points) for points, names in names_of.items()]
    return Panel("Exact path, by length of the true path", "cells of the true path", "exact %", series)


def _passes(evaluations: Sequence[Evaluation]) -> Panel:
    series = [
        Series(label, [percent_point(max(each.scores.passes, 1.0), each.exact)])
        for each, label in zip(evaluations, _labels(evaluations), strict=True)
    ]
    floor = min(90, 10 * math.floor(10 * min(each.exact.low for each in evaluations)))
    return Panel(
        "Exact path against passes a maze", "passes a maze", "exact %", series, log_x=True, y_from=max(0, floor)
    )


def _calibration(evaluations: Sequence[Evaluation]) -> list[Panel]:
    """Return a chart of the first decoder of each model; none where all probabilities lie in one bin."""
    series = []
    for each in evaluations:
        parts = [part for part in each.calibration() if part.right.count >= FEWEST_TOKENS]
        if len(parts) > 1:
            series.append(Series(_label(each), [percent_point(100 * part.confidence, part.right) for part in parts]))
    title = "Calibration: tokens that are right, by the probability that the model gave them"
    return [Panel(title, "probability %", "right %", series, diagonal=True)] if series else []


def _mazes(evaluation: Evaluation, is_folded: bool) -> str:
    """Return solved and failed mazes, and a row for every maze."""
    label, classes = _label(evaluation), failure_classes(outcome.task for outcome in evaluation.outcomes)
    solved = sorted((each for each in evaluation.outcomes if each.exact), key=lambda each: -each.length)
    parts = []
    if solved:
        longest = gallery(solved[:SOLVED_SHOWN], lambda each: f"exact, {each.length} cells")
        parts.append(f"<h2>Solved: {escape(label)}, the longest paths</h2>{longest}")
    if len(solved) < len(evaluation):
        parts.append(f"<h2>Failed: {escape(label)}</h2>")
    for name, meaning in classes.items():
        failed = [each for each in evaluation.outcomes if each.failure == name][:FAILED_SHOWN]
        if failed:
            parts.append(f'<h3>{escape(name)} <span class="quiet">{escape(meaning)}</span></h3>')
            drawn = [each for each in failed if each.predicted]
            parts.append(gallery(drawn, lambda each: f"{len(each.predicted or [])} of {each.length} cells"))
            parts += [f"<p>{escape(each.problem)}</p>" for each in failed if each.predicted is None and each.problem]
    body = maze_legend() + "".join(parts) + maze_list(evaluation.outcomes)
    return f"<section>{folded(f'mazes of {label}', body) if is_folded else body}</section>"
