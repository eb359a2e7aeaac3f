"""What `clew bench recipes` measured, as the table of docs/experiments-log.md.

    clew bench recipes --json > results/grid-recipes.json
    python -m clew.benchmarks.recipes_page

The second command puts the table between two marks of the page; a test holds the page to the numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clew.benchmarks.pages import measured_section
from clew.benchmarks.recipes import table
from clew.report.marked import write_between_marks

NAME = "recipes"  # of the marks


def tables(report: dict[str, Any]) -> str:
    """A row for each recipe."""
    size = report["curves"][0]["size"]
    head = (
        f"{size}x{size} DFS mazes, {report['minutes_each']:g} minutes of training each, {report['threads']} thread(s), "
        f"exact paths of {report['held_out']} held-out mazes, left to right:"
    )
    return "\n".join([head, "", *table(report["curves"])]) + "\n"


def section(results: Path, page: Path) -> str:
    """What stands between the marks of the page."""
    return measured_section(results, page, None, tables)


def main(results: Path = Path("results/grid-recipes.json"), page: Path = Path("docs/experiments-log.md")) -> None:
    """Write the measured table into the page.

    Args:
        results: what `clew bench recipes --json` printed.
        page: the page, with the two marks.
    """
    write_between_marks(page, NAME, section(results, page))


if __name__ == "__main__":
    import sys

    import tyro

    from clew.guard import guarded

    sys.exit(guarded(lambda: tyro.cli(main)))
