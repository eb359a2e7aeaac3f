"""Parts of the HTML pages: frame, tables, charts, galleries of mazes; and generated sections of Markdown pages.

    write_html("out.html", document("title", header, body))
    write_between_marks(Path("docs/cells.md"), "cells-dfs", text)

A page has its style and drawings inside and loads nothing. `write_between_marks` replaces the text between
`<!-- cells-dfs: begin -->` and `<!-- cells-dfs: end -->`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from clew.errors import UserError
from clew.evaluation.scores import Evaluation, Outcome, Proportion
from clew.files import PathLike, atomic_write
from clew.viz.charts import Panel, Point, panel_svg
from clew.viz.drawing import BROKEN, GOAL, PREDICTED, START, TRUE_PATH, task_svg

STYLE = """
:root { color-scheme: light dark; --ground: #fbfaf7; --card: #fff; --ink: #22262b; --quiet: #6b7280; --line: #e3e2dc; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #16181c; --card: #1f2228; --ink: #e8e6e1; --quiet: #9aa1ac; --line: #343842; } }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1100px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
header { border-bottom: 3px solid #b3202c; padding-bottom: 0.75rem; margin-bottom: 1.5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 0.5rem; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 0.6rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 0.5rem; }
header p, .quiet, .note, footer, dd, figcaption { color: var(--quiet); font-weight: 400; }
.note, footer, figcaption, dt, dd, summary, .legend { font-size: 0.9rem; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; padding: 0; }
.swatch { display: inline-block; width: 0.75em; height: 0.75em; border-radius: 50%; margin-right: 0.45em; }
.wide, figure { background: var(--card); border: 1px solid var(--line); border-radius: 10px; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 0.925rem; }
th, td { text-align: right; padding: 0.5rem 0.8rem; white-space: nowrap; border-top: 1px solid var(--line); }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
td small { display: block; color: var(--quiet); font-size: 0.75rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; padding: 0.9rem; }
.chart, .gallery svg { width: 100%; height: auto; display: block; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(210px, 1fr)); gap: 1rem; }
"""


def write_between_marks(page: Path, name: str, text: str) -> None:
    """Replace the text between the two marks of this name; UserError unless the page has both, once, in order."""
    old = page.read_text(encoding="utf-8")
    begin, end = _marked_part(page, old, name)
    with atomic_write(page) as file:
        file.write(f"{old[:begin]}\n{text}{old[end:]}")


def between_marks(page: Path, name: str) -> str:
    """Return the text between the two marks."""
    text = page.read_text(encoding="utf-8")
    begin, end = _marked_part(page, text, name)
    return text[begin:end].removeprefix("\n")


def has_marks(page: Path, name: str) -> bool:
    """Return whether there is such a page with a mark of this name."""
    return page.is_file() and f"<!-- {name}:" in page.read_text(encoding="utf-8")


def _marked_part(page: Path, text: str, name: str) -> tuple[int, int]:
    first, last = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if text.count(first) != 1 or text.count(last) != 1 or text.index(first) > text.index(last):
        raise UserError(f"{page} must have the marks {first} and {last} once each, in this order; put them there.")
    return text.index(first) + len(first), text.index(last)


def write_html(file: PathLike, html: str) -> None:
    """Write a page, wholly or not at all."""
    with atomic_write(file) as out:
        out.write(html)


def document(title: str, header: str, body: str) -> str:
    """Return a whole page; `header` and `body` are HTML already."""
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f"<header><h1>{escape(title)}</h1>{header}</header>"
        f"{body}<footer>Made by Clew, {when}.</footer></main></body></html>\n"
    )


def page_header(notes: Sequence[str], origin: dict[str, Any]) -> str:
    """Return the notes, and command, seeds, machine and versions from clew.provenance."""
    seeds = ", ".join(map(str, origin["seeds"]))
    versions = ", ".join(f"{name} {number}" for name, number in origin["versions"].items())
    commit = f", commit {origin['commit'][:10]}" if origin["commit"] else ""
    where = f"{f'Seed {seeds}. ' * bool(seeds)}{origin['cores']} cores of {origin['cpu']}, {origin['system']}"
    lines = [escape(note) for note in notes]
    lines.append(f"Made by <code>{escape(origin['command'])}</code>. {escape(f'{where}; {versions}{commit}.')}")
    return "".join(f"<p>{line}</p>" for line in lines)


def maze_legend() -> str:
    """Return a legend of the colours of drawn mazes."""
    colours = {"start": START, "goal": GOAL, "true path": TRUE_PATH, "predicted path (arrows)": PREDICTED}
    colours["a step that the maze does not have"] = BROKEN
    items = [
        f'<li><span class="swatch" style="background:{colour}"></span>{escape(name)}</li>'
        for name, colour in colours.items()
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def section(title: str, body: str, note: str = "") -> str:
    return f"<section><h2>{escape(title)}</h2>{body}<p class=note>{escape(note)}</p></section>"


def folded(summary: str, body: str) -> str:
    return f'<details><summary class="quiet">{escape(summary)}</summary>{body}</details>'


def chart(panel: Panel) -> str:
    """Return a chart with its title above and its numbers in a folded table below."""
    rows = [
        [escape(each.name), f"{point.x:g}" if isinstance(point.x, float) else str(point.x), *_value(point)]
        for each in panel.series
        for point in each.points
    ]
    numbers = folded("numbers", table(["", panel.x_label, panel.y_label, "interval"], rows))
    return f"<figure><figcaption>{escape(panel.title)}</figcaption>{panel_svg(panel)}{numbers}</figure>"


def _value(point: Point) -> tuple[str, str]:
    below, above = point.errors
    return f"{point.y:.1f}", f"{point.y - below:.1f} to {point.y + above:.1f}" if below or above else ""


def charts(panels: Sequence[Panel]) -> str:
    return f'<div class="charts">{"".join(map(chart, panels))}</div>'


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose cells are HTML already."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def percent(value: Proportion) -> str:
    return f"{100 * value.share:.1f}<small>{100 * value.low:.1f} to {100 * value.high:.1f}</small>"


def percent_point(x: float, value: Proportion) -> Point:
    """Return a chart's point in per cent, with its 95 % interval."""
    return Point(x, 100 * value.share, (100 * (value.share - value.low), 100 * (value.high - value.share)))


def milliseconds(evaluation: Evaluation) -> str:
    return f"{1000 * evaluation.seconds / max(1, len(evaluation)):.1f}"


def gallery(outcomes: Sequence[Outcome], caption: Callable[[Outcome], str]) -> str:
    """Return the mazes with the true path as a line and the predicted one as arrows."""
    cards = [
        f"<figure>{task_svg(each.task, each.path, each.predicted)}"
        f"<figcaption>{escape(caption(each))}</figcaption></figure>"
        for each in outcomes
    ]
    return f'<div class="gallery">{"".join(cards)}</div>'


def result_of(outcome: Outcome) -> str:
    """Return what became of a maze, in a word or two."""
    if outcome.exact:
        return "exact"
    return "another shortest path" if outcome.shortest else str(outcome.failure)


def maze_list(outcomes: Sequence[Outcome]) -> str:
    """Return a folded table with a row for every maze."""
    rows = [
        [str(i), escape(result_of(each)), str(each.length), str(len(each.predicted or [])), str(each.passes)]
        for i, each in enumerate(outcomes)
    ]
    head = ["maze", "result", "cells of the true path", "cells of the predicted path", "passes"]
    return folded(f"all {len(rows):,} mazes", table(head, rows))
