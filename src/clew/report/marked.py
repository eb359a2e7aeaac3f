"""Pages that are written by hand but for a part between two marks, which is made from results.

    write_between_marks(Path("docs/cells.md"), "cells-dfs", text)

puts the text between `<!-- cells-dfs: begin -->` and `<!-- cells-dfs: end -->`, in place of what stood there.
"""

from __future__ import annotations

from pathlib import Path

from clew.errors import UserError
from clew.files import atomic_write


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
