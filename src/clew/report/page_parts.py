"""What the HTML pages are put together from: the frame, tables, charts with their titles, galleries of mazes.

    write_html("out.html", document("title", header, body))

Style and drawings are inside a page; it loads nothing and runs no script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape

from clew.evaluation.intervals import Share
from clew.evaluation.outcome import Outcome
from clew.files import PathLike, atomic_write
from clew.report.page_style import STYLE
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
