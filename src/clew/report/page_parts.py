"""What the HTML pages are put together from: the frame, tables, charts with their titles, galleries of mazes.

    write_html("out.html", document("title", header, body))

Style and drawings are inside a page; it loads nothing and runs no script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from clew.evaluation.intervals import Share
from clew.evaluation.outcome import Outcome
from clew.files import PathLike, atomic_write
from clew.report.page_style import STYLE
from clew.report.shapes import BROKEN, GOAL, PREDICTED, START, TRUE_PATH
from clew.report.svg import task_svg


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
    """Command, seeds, machine and versions, from clew.report.provenance."""
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


def percent(share: Share) -> str:
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
