"""What a benchmark measured as a part of a page: its picture, its tables, and where the numbers come from.

text = measured_section(Path("results/grid-cost.json"), Path("docs/grid-pointer.md"), Picture("a.png", "Cost"), tables)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew.files import read_json

NOTHING_YET = "Not measured yet on a quiet machine.\n"


@dataclass(frozen=True)
class Picture:
    """A file beside the page, and what it shows in words."""

    file: str
    words: str


def measured_section(
    results: Path, page: Path, picture: Picture | None, tables: Callable[[dict[str, Any]], str]
) -> str:
    """What stands between the marks of the page."""
    if not results.exists():
        return NOTHING_YET
    drawn = f"![{picture.words}]({picture.file})\n\n" if picture and (page.parent / picture.file).exists() else ""
    report = read_json(results)
    told = report["provenance"]
    where = f"`{told['command']}`, {told['cpu']}, {told['date'][:10]}: [{results.name}](../results/{results.name})"
    return f"{drawn}{tables(report)}\n{where}\n"
