"""An evaluation as one HTML page that needs nothing else: tables, charts, and galleries of mazes.

    write_page("out.html", Page("runs/x on 10x10 DFS mazes", [evaluation, ...], provenance("clew evaluate ...", [0])))

Style and drawings are inside the page; it loads nothing and runs no script.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from clew.evaluation.failures import failure_classes
from clew.evaluation.intervals import Proportion
from clew.evaluation.scores import Evaluation
from clew.files import PathLike
from clew.viz.charts import COLOURS, Axes, Dot, Series, chart_svg
from clew.viz.pages import (
    chart,
    document,
    gallery,
    legend,
    maze_legend,
    maze_list,
    origin_line,
    paragraphs,
    percent,
    section,
    table,
    write_html,
)

SOLVED_SHOWN, FAILED_SHOWN = 8, 4  # mazes of an evaluation; of each failure class
FEWEST_TOKENS = 20  # fewer say nothing about calibration


@dataclass(frozen=True)
class Page:
    """What is on the page."""

    title: str
    evaluations: Sequence[Evaluation]
    origin: dict[str, Any]  # of clew.provenance
    notes: Sequence[str] = field(default_factory=tuple)  # sentences below the title


def write_page(file: PathLike, page: Page) -> None:
    """Write the page, wholly or not at all."""
    write_html(file, page_html(page))


def page_html(page: Page) -> str:
    """The page as text."""
    assert page.evaluations, "a page tells of at least one evaluation"
    first_of_model = {evaluation.name: evaluation for evaluation in reversed(page.evaluations)}
    sections = [
        section("Scores", _scores_table(page.evaluations), _SCORES_NOTE),
        '<div class="charts">',
        chart("Exact path, by length of the true path", _by_length(page.evaluations)),
        chart("Exact path against passes a maze", _passes(page.evaluations)),
        chart("Calibration: how often a token is right, by how sure the model was of it", _calibration(page)),
        "</div>",
        section("How it fails", _failures_table(page.evaluations), "") + _meanings(page.evaluations),
        *[
            _galleries(each, many=len(page.evaluations) > 1, folded=each is not first_of_model[each.name])
            for each in page.evaluations
        ],
    ]
    colours = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(_short_labels(page.evaluations))}
    header = paragraphs(page.notes) + origin_line(page.origin) + legend(colours)
    return document(page.title, header, "".join(sections))


_SCORES_NOTE = (
    "Exact: the path is the true one. Per token: of the true response's tokens, how many stand at their place. Valid: "
    "a way from start to goal; shortest: none is shorter. Small numbers: 95 % interval."
)


def _label(evaluation: Evaluation) -> str:
    return f"{evaluation.name}, {evaluation.decoder}"


def _short_labels(evaluations: Sequence[Evaluation]) -> list[str]:
    """The decoder alone where there is one model."""
    one_model = len({evaluation.name for evaluation in evaluations}) == 1
    return [evaluation.decoder if one_model else _label(evaluation) for evaluation in evaluations]


def _scores_table(evaluations: Sequence[Evaluation]) -> str:
    head = [
        "model",
        "decoder",
        "mazes",
        "exact %",
        "per token %",
        "valid %",
        "shortest %",
        "unparsable %",
        "passes",
        "ms",
    ]
    rows = []
    for evaluation in evaluations:
        scores = evaluation.scores
        shares = (scores.exact, scores.per_token, scores.valid, scores.shortest, scores.unparsable)
        rows.append(
            [
                escape(evaluation.name),
                escape(evaluation.decoder),
                f"{scores.mazes:,}",
                *map(percent, shares),
                f"{scores.passes:.1f}",
                f"{1000 * evaluation.seconds / max(1, scores.mazes):.1f}",
            ]
        )
    return table(head, rows)


def _failures_table(evaluations: Sequence[Evaluation]) -> str:
    """Only the classes that occur."""
    counts = [each.failures() for each in evaluations]
    names = [name for name in _classes(evaluations) if any(count.get(name) for count in counts)]
    if not names:
        return "<p>No maze failed.</p>"
    rows = [
        [escape(each.name), escape(each.decoder), *(f"{count[name]:,}" if count.get(name) else "·" for name in names)]
        for each, count in zip(evaluations, counts, strict=True)
    ]
    return table(["model", "decoder", *names], rows)


def _classes(evaluations: Sequence[Evaluation]) -> dict[str, str]:
    return failure_classes(outcome.task for each in evaluations for outcome in each.outcomes)


def _meanings(evaluations: Sequence[Evaluation]) -> str:
    classes = _classes(evaluations).items()
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(meaning)}</dd>" for name, meaning in classes)
    return f'<details><summary class="quiet">what the classes mean</summary><dl>{items}</dl></details>'


def _share_dot(x: float, share: Proportion, what: str) -> Dot:
    return Dot(x, share.share, share.low, share.high, f"{what}: {share}, {share.hits:,} of {share.count:,}")


def _by_length(evaluations: Sequence[Evaluation]) -> str:
    series = []
    for each in evaluations:
        dots = []
        for part in each.by_length():
            cells = f"{part.low}" if part.low == part.high else f"{part.low} to {part.high}"
            dots.append(_share_dot((part.low + part.high) / 2, part.scores.exact, f"{_label(each)}, {cells} cells"))
        series.append(Series(_label(each), dots))
    return chart_svg(series, Axes("cells of the true path", "exact path", x_from=0))


def _passes(evaluations: Sequence[Evaluation]) -> str:
    series, lowest = [], 1.0
    for each, label in zip(evaluations, _short_labels(evaluations), strict=True):
        scores = each.scores
        lowest = min(lowest, scores.exact.low)
        what = f"{_label(each)}, {scores.passes:.1f} passes"
        series.append(Series(label, [_share_dot(max(scores.passes, 1.0), scores.exact, what)]))
    floor = min(0.9, math.floor(10 * lowest) / 10)
    return chart_svg(series, Axes("passes a maze", "exact path", log=True, x_from=1, y_from=floor, named=True))


def _calibration(page: Page) -> str:
    """The first decoder of each model: how sure a model is, is the model's own, and more lines would hide it."""
    series, models = [], set()
    for each in page.evaluations:
        parts = [] if each.name in models else each.calibration()
        models.add(each.name)
        dots = [
            _share_dot(part.confidence, part.right, f"{_label(each)}, sure to {100 * part.confidence:.0f} %")
            for part in parts
            if part.right.count >= FEWEST_TOKENS
        ]
        series.append(Series(_label(each), dots))  # an empty one keeps the colours of the others
    return chart_svg(series, Axes("probability the model gave the token", "right", 0.0, 1.0, diagonal=True))


def _galleries(evaluation: Evaluation, many: bool, folded: bool) -> str:
    after = f": {_label(evaluation)}" if many else ""
    solved = [outcome for outcome in evaluation.outcomes if outcome.exact]
    parts = []
    if solved:
        # The hardest ones: the longest paths.
        longest = sorted(solved, key=lambda outcome: -outcome.length)[:SOLVED_SHOWN]
        parts.append(f"<h2>Solved{escape(after)}</h2>" + gallery(longest, lambda o: f"{o.length} cells"))
    classes = _classes([evaluation])
    failed = [(name, [o for o in evaluation.outcomes if o.failure == name and o.predicted]) for name in classes]
    if any(outcomes for _, outcomes in failed):
        parts.append(f"<h2>Failed{escape(after)}</h2>")
    for name, outcomes in failed:
        if outcomes:
            parts.append(f'<h3>{escape(name)} <span class="quiet">{escape(classes[name])}</span></h3>')
            parts.append(gallery(outcomes[:FAILED_SHOWN], lambda o: f"{len(o.predicted or [])} of {o.length} cells"))
    unread = [outcome.problem or "" for outcome in evaluation.outcomes if outcome.predicted is None][:FAILED_SHOWN]
    if unread:
        items = "".join(f"<li>{escape(problem)}</li>" for problem in unread)
        parts.append(f'<h3>unparsable <span class="quiet">{escape(classes["unparsable"])}</span></h3><ul>{items}</ul>')
    body = maze_legend() + "".join(parts) + maze_list(evaluation.outcomes)
    if folded:
        summary = f"mazes of {_label(evaluation)}"
        body = f'<details><summary class="quiet">{escape(summary)}</summary>{body}</details>'
    return f"<section>{body}</section>"
