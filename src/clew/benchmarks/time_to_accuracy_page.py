"""What `clew bench time-to-accuracy` measured, as the table of docs/grid-pointer.md.

    clew bench time-to-accuracy --plot docs/time-to-accuracy.png --json > results/time-to-accuracy.json
    python -m clew.benchmarks.time_to_accuracy_page

The second command puts the table between two marks of the page; a test holds the page to the numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clew.benchmarks.pages import Picture, measured_section
from clew.benchmarks.time_to_accuracy import METHODS
from clew.report.marked import write_between_marks

NAME = "time-to-accuracy"  # of the marks
PICTURE = Picture("time-to-accuracy.png", "Exact paths against minutes of training")


def tables(report: dict[str, Any]) -> str:
    """A row for each training."""
    targets = list(report["curves"][0]["minutes_to"])
    lines = [
        f"{report['minutes_each']:g} minutes of training each, {report['threads']} thread(s), exact paths of "
        f"{report['held_out']} held-out mazes, left to right:",
        "",
        f"| mazes | model | parameters | {' | '.join(f'minutes to {target}' for target in targets)} | exact % at the "
        "end | trained on |",
        "|---" * (5 + len(targets)) + "|",
    ]
    for each in report["curves"]:
        minutes = ["not reached" if each["minutes_to"][t] is None else f"{each['minutes_to'][t]:.1f}" for t in targets]
        final = {name: f"{100 * value:.1f}" for name, value in each["final"].items()}
        lines.append(
            f"| {each['size']}x{each['size']} | {METHODS[each['method']]} | {each['parameters']:,} | "
            f"{' | '.join(minutes)} | {final['exact']} ({final['low']} to {final['high']}) | {each['mazes']:,} mazes |"
        )
    return "\n".join(lines) + "\n"


def section(results: Path, page: Path) -> str:
    """What stands between the marks of the page."""
    return measured_section(results, page, PICTURE, tables)


def main(results: Path = Path("results/time-to-accuracy.json"), page: Path = Path("docs/grid-pointer.md")) -> None:
    """Write the measured table into the page.

    Args:
        results: what `clew bench time-to-accuracy --json` printed.
        page: the page, with the two marks.
    """
    write_between_marks(page, NAME, section(results, page))


if __name__ == "__main__":
    import sys

    import tyro

    from clew.guard import guarded

    sys.exit(guarded(lambda: tyro.cli(main)))
