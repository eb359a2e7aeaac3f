"""The style sheet of the HTML pages: quiet, narrow enough to read, light or dark as the reader has it.

Pages that are written by hand but for a part between two marks, which is made from results.

    write_between_marks(Path("docs/cells.md"), "cells-dfs", text)

puts the text between `<!-- cells-dfs: begin -->` and `<!-- cells-dfs: end -->`, in place of what stood there.

What the HTML pages are put together from: the frame, tables, charts with their titles, galleries of mazes.

    write_html("out.html", document("title", header, body))

Style and drawings are inside a page; it loads nothing and runs no script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

from clew.errors import UserError
from clew.evaluation.intervals import Proportion
from clew.evaluation.scores import Outcome
from clew.files import PathLike, atomic_write
from clew.viz.drawing import BROKEN, GOAL, PREDICTED, START, TRUE_PATH, task_svg

STYLE = """
:root { color-scheme: light dark; --ground: #fbfaf7; --card: #ffffff; --ink: #22262b; --quiet: #6b7280;
  --line: #e3e2dc; --accent: #b3202c; }
@media (prefers-color-scheme: dark) { :root { --ground: #16181c; --card: #1f2228; --ink: #e8e6e1; --quiet: #9aa1ac;
  --line: #343842; --accent: #ff7a85; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1100px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
header { border-bottom: 3px solid var(--accent); padding-bottom: 0.75rem; margin-bottom: 1.5rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 0.5rem; letter-spacing: -0.01em; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 0.6rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 0.5rem; }
header p { margin: 0.2rem 0; color: var(--quiet); }
.quiet, .note, footer { color: var(--quiet); font-weight: 400; }
.note { font-size: 0.875rem; margin: 0.5rem 0; }
footer { margin-top: 3rem; font-size: 0.875rem; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.25rem 1.25rem; padding: 0; margin: 0.75rem 0 0;
  font-size: 0.9rem; }
.swatch { display: inline-block; width: 0.75em; height: 0.75em; border-radius: 50%; margin-right: 0.45em; }
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 0.925rem; }
th, td { text-align: right; padding: 0.55rem 0.8rem; white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
th { font-weight: 600; color: var(--quiet); font-size: 0.8rem; border-bottom: 1px solid var(--line); }
tr + tr td { border-top: 1px solid var(--line); }
td small { display: block; color: var(--quiet); font-size: 0.75rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 1rem;
  margin-top: 1.5rem; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 0.9rem; }
figcaption { font-size: 0.875rem; color: var(--quiet); }
.charts figcaption { font-weight: 600; color: var(--ink); margin-bottom: 0.4rem; min-height: 2.6em; }
.chart { width: 100%; height: auto; display: block; }
.chart .grid { stroke: var(--line); fill: none; }
.chart .dashed { stroke-dasharray: 4 4; stroke: var(--quiet); }
.chart .axis { fill: var(--quiet); font-size: 11px; }
details { margin: 0.6rem 0; }
summary { cursor: pointer; font-size: 0.9rem; }
dt { font-weight: 600; font-size: 0.9rem; margin-top: 0.5rem; }
dd { margin: 0; color: var(--quiet); font-size: 0.9rem; }
.chart .label { fill: var(--ink); font-size: 12px; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(210px, 1fr)); gap: 1rem; }
.gallery svg { width: 100%; height: auto; display: block; border-radius: 4px; }
.gallery figcaption { text-align: center; margin-top: 0.5rem; }
"""


def write_between_marks(page: Path, name: str, text: str) -> None:
    """Put a text between the two marks of this name; UserError unless the page has both, once, in order."""
    old = page.read_text(encoding="utf-8")
    begin, end = _marked_part(page, old, name)
    with atomic_write(page) as file:
        file.write(f"{old[:begin]}\n{text}{old[end:]}")


def between_marks(page: Path, name: str) -> str:
    """What stands between the two marks."""
    text = page.read_text(encoding="utf-8")
    begin, end = _marked_part(page, text, name)
    return text[begin:end].removeprefix("\n")


def has_marks(page: Path, name: str) -> bool:
    """Whether there is such a page with a mark of this name."""
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
    """A whole page; `header` stands below the title, and both are HTML already."""
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f"<header><h1>{escape(title)}</h1>{header}</header>"
        f"{body}<footer>Made by Clew, {when}.</footer></main></body></html>\n"
    )


def paragraphs(sentences: Sequence[str]) -> str:
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def origin_line(origin: dict[str, Any]) -> str:
    """Command, seeds, machine and versions, from clew.provenance."""
    seeds = ", ".join(map(str, origin["seeds"]))
    versions = ", ".join(f"{name} {number}" for name, number in origin["versions"].items())
    commit = f", commit {origin['commit'][:10]}" if origin["commit"] else ""
    where = f"Seed {seeds}. {origin['cores']} cores of {origin['cpu']}, {origin['system']}; {versions}{commit}."
    return f"<p>Made by <code>{escape(origin['command'])}</code>. {escape(where)}</p>"


def legend(colours: dict[str, str]) -> str:
    """A colour before each name."""
    items = [
        f'<li><span class="swatch" style="background:{colour}"></span>{escape(name)}</li>'
        for name, colour in colours.items()
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def maze_legend() -> str:
    """The colours of drawn mazes."""
    path = {"true path": TRUE_PATH, "predicted path (arrows)": PREDICTED, "a step that the maze does not have": BROKEN}
    return legend({"start": START, "goal": GOAL, **path})


def section(title: str, body: str, note: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{body}<p class=note>{escape(note)}</p></section>"


def chart(title: str, svg: str) -> str:
    return f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML already."""
    top = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def percent(share: Proportion) -> str:
    return f"{100 * share.share:.1f}<small>{100 * share.low:.1f} to {100 * share.high:.1f}</small>"


def gallery(outcomes: Sequence[Outcome], caption: Callable[[Outcome], str]) -> str:
    """The mazes with the true path as a line and the predicted one as arrows."""
    cards = [
        f"<figure>{task_svg(each.task, each.path, each.predicted)}"
        f"<figcaption>{escape(caption(each))}</figcaption></figure>"
        for each in outcomes
    ]
    return f'<div class="gallery">{"".join(cards)}</div>'


def result_of(outcome: Outcome) -> str:
    """What became of a maze, in a word or two."""
    if outcome.exact:
        return "exact"
    return "another shortest path" if outcome.shortest else str(outcome.failure)


def maze_list(outcomes: Sequence[Outcome]) -> str:
    """A folded table with a row for every maze, in the order of their numbers."""
    rows = [
        [
            str(number),
            escape(result_of(each)),
            f"{each.length:,}",
            f"{len(each.predicted):,}" if each.predicted else "",
            str(each.passes),
        ]
        for number, each in enumerate(outcomes)
    ]
    body = table(["maze", "result", "cells of the true path", "cells of the predicted path", "passes"], rows)
    return f'<details><summary class="quiet">all {len(rows):,} mazes</summary>{body}</details>'
