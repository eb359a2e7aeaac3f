"""HTML pages of evaluations, and generated sections of Markdown pages.

    write_page("out.html", Page("runs/x on 10x10 DFS mazes", [evaluation, ...], provenance("clew evaluate ...", [0])))
    replace_section(Path("docs/cells.md"), "cells-dfs", text)

A page is the template report.html, filled in; it has its style and drawings inside and loads nothing. A section of a
Markdown page is the text between `<!-- cells-dfs: begin -->` and `<!-- cells-dfs: end -->`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clew.errors import UserError
from clew.evaluation.scores import Evaluation, Proportion, failure_classes
from clew.files import PathLike, atomic_write
from clew.viz import drawing
from clew.viz.charts import Panel, Point, Series, panel_svg

FEWEST_TOKENS = 20  # fewer say nothing about calibration


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
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    evaluations = page.evaluations
    opened = list({each.name: each for each in reversed(evaluations)}.values())  # the first of each model
    panels = page.panels or [_by_length(evaluations), _passes(evaluations), *_calibration(opened)]
    classes = failure_classes(outcome.task for each in evaluations for outcome in each.outcomes)
    folder = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=folder, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("report.html").render(
        page=page,
        opened=opened,
        classes=classes,
        occurring=[name for name in classes if any(each.failures().get(name) for each in evaluations)],
        charts=[(panel, panel_svg(panel)) for panel in panels],
        drawing=drawing,
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def percent_point(x: float, value: Proportion) -> Point:
    """Return a chart's point in per cent, with its 95 % interval."""
    return Point(x, 100 * value.share, (100 * (value.share - value.low), 100 * (value.high - value.share)))


def _labels(evaluations: Sequence[Evaluation]) -> list[str]:
    """Return model and decoder, or the decoder alone where there is one model."""
    one_model = len({each.name for each in evaluations}) == 1
    return [each.decoder if one_model else f"{each.name}, {each.decoder}" for each in evaluations]


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
    return Panel("Exact path against passes a maze", "passes a maze", "exact %", series, log_x=True)


def _calibration(evaluations: Sequence[Evaluation]) -> list[Panel]:
    """Return a chart with a line for each evaluation; none where all probabilities lie in one bin."""
    series = []
    for each in evaluations:
        bins = [found for found in each.calibration() if found.right.count >= FEWEST_TOKENS]
        if len(bins) > 1:
            points = [percent_point(100 * found.confidence, found.right) for found in bins]
            series.append(Series(f"{each.name}, {each.decoder}", points))
    title = "Calibration: tokens that are right, by the probability that the model gave them"
    return [Panel(title, "probability %", "right %", series, diagonal=True)] if series else []


def replace_section(page: Path, name: str, text: str) -> None:
    """Replace the text between the two marks of this name; UserError unless the page has both, once, in order."""
    before, _, after = _split(page, name)
    with atomic_write(page) as file:
        file.write(f"{before}\n{text}{after}")


def read_section(page: Path, name: str) -> str:
    """Return the text between the two marks."""
    return _split(page, name)[1].removeprefix("\n")


def _split(page: Path, name: str) -> tuple[str, str, str]:
    """Return the text up to and with the first mark, that between the marks, and the rest."""
    text, first, last = page.read_text(encoding="utf-8"), f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if text.count(first) != 1 or text.count(last) != 1 or text.index(first) > text.index(last):
        raise UserError(f"{page} must have the marks {first} and {last} once each, in this order; put them there.")
    begin, end = text.index(first) + len(first), text.index(last)
    return text[:begin], text[begin:end], text[end:]
