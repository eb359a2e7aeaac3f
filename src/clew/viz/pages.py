"""HTML pages of evaluations, and generated sections of Markdown pages.

    write_page("out.html", Page("runs/x on 10x10 DFS mazes", [evaluation, ...], provenance("clew evaluate ...", [0])))
    replace_section(Path("docs/cells.md"), "cells-dfs", text)

A page has its style and drawings inside and loads nothing. A section of a Markdown page is the text between
`<!-- cells-dfs: begin -->` and `<!-- cells-dfs: end -->`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from clew.errors import UserError
from clew.evaluation.scores import Evaluation, Outcome, Proportion, failure_classes
from clew.files import PathLike, atomic_write
from clew.viz.charts import Panel, Point, Series, panel_svg
from clew.viz.drawing import BROKEN, GOAL, PREDICTED, START, TRUE_PATH, task_svg

SOLVED_SHOWN, FAILED_SHOWN = 8, 4  # mazes of an evaluation; of each failure class
FEWEST_TOKENS = 20  # fewer say nothing about calibration
_SCORES_NOTE = (
    "Exact: the path is the true one. Per token: of the true response's tokens, how many are at their position. Valid: "
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
    panels: Sequence[Panel] = ()  # the charts; by default accuracy by length and by passes, and calibration


def write_page(file: PathLike, page: Page) -> None:
    """Write the page, wholly or not at all."""
    with atomic_write(file) as out:
        out.write(page_html(page))


def page_html(page: Page) -> str:
    """Return the page as text."""
    assert page.evaluations, "a page reports at least one evaluation"
    first_of_model = {each.name: each for each in reversed(page.evaluations)}
    panels = page.panels or [
        _by_length(page.evaluations),
        _passes(page.evaluations),
        *_calibration(list(first_of_model.values())),
    ]
    body = [
        _section("Scores", _scores_table(page.evaluations), _SCORES_NOTE),
        _charts(panels),
        _section("Failures", _failures_table(page.evaluations)),
        *[_mazes(each, is_folded=each is not first_of_model[each.name]) for each in page.evaluations],
    ]
    return _document(page, "".join(body))


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
        percents = [f"{100 * s.share:.1f}<small>{100 * s.low:.1f} to {100 * s.high:.1f}</small>" for s in shares]
        cost = [f"{scores.passes:.1f}", f"{1000 * each.seconds / max(1, len(each)):.1f}"]
        rows.append([escape(each.name), escape(each.decoder), f"{scores.mazes:,}", *percents, *cost])
    return _table(["model", "decoder", *_SCORES], rows)


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
    found = _table(["model", "decoder", *names], rows) if names else "<p>No maze failed.</p>"
    return found + _folded("what the classes mean", f"<dl>{meanings}</dl>")


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
        bins = [found for found in each.calibration() if found.right.count >= FEWEST_TOKENS]
        if len(bins) > 1:
            points = [percent_point(100 * found.confidence, found.right) for found in bins]
            series.append(Series(_label(each), points))
    title = "Calibration: tokens that are right, by the probability that the model gave them"
    return [Panel(title, "probability %", "right %", series, diagonal=True)] if series else []


def _mazes(evaluation: Evaluation, is_folded: bool) -> str:
    """Return solved and failed mazes, and a row for every maze."""
    label, classes = _label(evaluation), failure_classes(outcome.task for outcome in evaluation.outcomes)
    solved = sorted((each for each in evaluation.outcomes if each.exact), key=lambda each: -each.length)
    blocks = []
    if solved:
        longest = _gallery(solved[:SOLVED_SHOWN], lambda each: f"exact, {each.length} cells")
        blocks.append(f"<h2>Solved: {escape(label)}, the longest paths</h2>{longest}")
    if len(solved) < len(evaluation):
        blocks.append(f"<h2>Failed: {escape(label)}</h2>")
    for name, meaning in classes.items():
        failed = [each for each in evaluation.outcomes if each.failure == name][:FAILED_SHOWN]
        if failed:
            blocks.append(f'<h3>{escape(name)} <span class="quiet">{escape(meaning)}</span></h3>')
            drawn = [each for each in failed if each.predicted]
            blocks.append(_gallery(drawn, lambda each: f"{len(each.predicted or [])} of {each.length} cells"))
            blocks += [f"<p>{escape(each.problem)}</p>" for each in failed if each.predicted is None and each.problem]
    body = _legend() + "".join(blocks) + _maze_list(evaluation.outcomes)
    return f"<section>{_folded(f'mazes of {label}', body) if is_folded else body}</section>"


def _document(page: Page, body: str) -> str:
    """Return the page around its body, which is HTML already."""
    title, origin = escape(page.title), page.origin
    seeds = ", ".join(map(str, origin["seeds"]))
    versions = ", ".join(f"{name} {number}" for name, number in origin["versions"].items())
    commit = f", commit {origin['commit'][:10]}" if origin["commit"] else ""
    where = f"{f'Seed {seeds}. ' * bool(seeds)}{origin['cores']} cores of {origin['cpu']}, {origin['system']}"
    lines = [escape(note) for note in page.notes]
    lines.append(f"Made by <code>{escape(origin['command'])}</code>. {escape(f'{where}; {versions}{commit}.')}")
    header = "".join(f"<p>{line}</p>" for line in lines)
    style = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>\n{style}</style></head><body><main>"
        f"<header><h1>{title}</h1>{header}</header>"
        f"{body}<footer>Made by Clew, {when}.</footer></main></body></html>\n"
    )


def _legend() -> str:
    colours = {"start": START, "goal": GOAL, "true path": TRUE_PATH, "predicted path (arrows)": PREDICTED}
    colours["a step that the maze does not have"] = BROKEN
    items = [
        f'<li><span class="swatch" style="background:{colour}"></span>{escape(name)}</li>'
        for name, colour in colours.items()
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def _section(title: str, body: str, note: str = "") -> str:
    return f"<section><h2>{escape(title)}</h2>{body}<p class=note>{escape(note)}</p></section>"


def _folded(summary: str, body: str) -> str:
    return f'<details><summary class="quiet">{escape(summary)}</summary>{body}</details>'


def _charts(panels: Sequence[Panel]) -> str:
    """Return charts, each with its title above and its numbers in a folded table below."""

    def row(name: str, point: Point) -> list[str]:
        x = f"{point.x:g}" if isinstance(point.x, float) else str(point.x)
        below, above = point.errors
        interval = f"{point.y - below:.1f} to {point.y + above:.1f}" if below or above else ""
        return [escape(name), x, f"{point.y:.1f}", interval]

    figures = []
    for panel in panels:
        rows = [row(each.name, point) for each in panel.series for point in each.points]
        numbers = _folded("numbers", _table(["", panel.x_label, panel.y_label, "interval"], rows))
        title = f"<figcaption>{escape(panel.title)}</figcaption>"
        figures.append(f"<figure>{title}{panel_svg(panel)}{numbers}</figure>")
    return f'<div class="charts">{"".join(figures)}</div>'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose cells are HTML already."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def percent_point(x: float, value: Proportion) -> Point:
    """Return a chart's point in per cent, with its 95 % interval."""
    return Point(x, 100 * value.share, (100 * (value.share - value.low), 100 * (value.high - value.share)))


def _gallery(outcomes: Sequence[Outcome], caption: Callable[[Outcome], str]) -> str:
    """Return the mazes with the true path as a line and the predicted one as arrows."""
    cards = [
        f"<figure>{task_svg(each.task, each.path, each.predicted)}"
        f"<figcaption>{escape(caption(each))}</figcaption></figure>"
        for each in outcomes
    ]
    return f'<div class="gallery">{"".join(cards)}</div>'


def _maze_list(outcomes: Sequence[Outcome]) -> str:
    """Return a folded table with a row for every maze."""
    rows = []
    for i, each in enumerate(outcomes):
        result = "exact" if each.exact else "another shortest path" if each.shortest else str(each.failure)
        rows.append([str(i), escape(result), str(each.length), str(len(each.predicted or [])), str(each.passes)])
    head = ["maze", "result", "cells of the true path", "cells of the predicted path", "passes"]
    return _folded(f"all {len(rows):,} mazes", _table(head, rows))


def replace_section(page: Path, name: str, text: str) -> None:
    """Replace the text between the two marks of this name; UserError unless the page has both, once, in order."""
    old = page.read_text(encoding="utf-8")
    begin, end = _section_bounds(page, old, name)
    with atomic_write(page) as file:
        file.write(f"{old[:begin]}\n{text}{old[end:]}")


def read_section(page: Path, name: str) -> str:
    """Return the text between the two marks."""
    text = page.read_text(encoding="utf-8")
    begin, end = _section_bounds(page, text, name)
    return text[begin:end].removeprefix("\n")


def _section_bounds(page: Path, text: str, name: str) -> tuple[int, int]:
    first, last = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if text.count(first) != 1 or text.count(last) != 1 or text.index(first) > text.index(last):
        raise UserError(f"{page} must have the marks {first} and {last} once each, in this order; put them there.")
    return text.index(first) + len(first), text.index(last)
