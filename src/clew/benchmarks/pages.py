"""What a benchmark measured as a part of a page: its picture, its tables, and where the numbers come from.

    section = Section("grid-cost", "grid-cost.json", "grid-pointer.md", tables, Picture("grid-cost.png", "Cost"))
    section.write(root)                 # from root/results/grid-cost.json into root/docs/grid-pointer.md

`clew bench report` writes them all (sections.py); a test holds the pages to the numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew.files import read_json
from clew.report.marked import write_between_marks

NOTHING_YET = "Not measured yet on a quiet machine.\n"


@dataclass(frozen=True)
class Picture:
    """A file beside the page, and what it shows in words."""

    file: str
    words: str


@dataclass(frozen=True)
class Section:
    """A part of a page."""

    name: str  # of its marks
    results: str  # the file in results/, printed by the benchmark's --json
    page: str  # the file in docs/
    tables: Callable[[dict[str, Any]], str]
    picture: Picture | None = None

    def text(self, root: Path) -> str:
        """What stands between the marks of the page."""
        results = root / "results" / self.results
        if not results.exists():
            return NOTHING_YET
        report = read_json(results)
        told = report["provenance"]
        where = f"`{told['command']}`, {told['cpu']}, {told['date'][:10]}: [{self.results}](../results/{self.results})"
        drawn = ""
        if self.picture and (root / "docs" / self.picture.file).exists():
            drawn = f"![{self.picture.words}]({self.picture.file})\n\n"
        return f"{drawn}{self.tables(report)}\n{where}\n"

    def write(self, root: Path) -> Path:
        """Put the text into the page; the page."""
        page = root / "docs" / self.page
        write_between_marks(page, self.name, self.text(root))
        return page
