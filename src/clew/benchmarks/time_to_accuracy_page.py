"""What `clew bench time-to-accuracy` measured, as the table of docs/grid-pointer.md.

    clew bench time-to-accuracy --plot docs/time-to-accuracy.png --json > results/time-to-accuracy.json
    clew bench report

The second command puts them into the page.
"""

from __future__ import annotations

from typing import Any

from clew.benchmarks.pages import Picture, Section
from clew.benchmarks.time_to_accuracy import METHODS


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


SECTION = Section(
    "time-to-accuracy",
    "time-to-accuracy.json",
    "grid-pointer.md",
    tables,
    Picture("time-to-accuracy.png", "Exact paths against minutes of training"),
)
