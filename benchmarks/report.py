"""Write what the benchmarks measured, results/*.json, into docs/cells.md, with its plots.

    python benchmarks/report.py

Accuracy by size is written by benchmarks/sizes.py; this writes the rest: larger mazes, long paths, other families,
time to accuracy, cost and two cores. What has no result yet is said to be not measured. A test compares the page with
the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cell_choices
import cell_cost
import families
import grid_pointer
import short_recipes
import time_to_accuracy
import two_cores

from clew.files import read_json
from clew.viz.pages import replace_section

ROOT = Path(__file__).parents[1]
PAGE = Path("docs/cells.md")
NOT_MEASURED = "Not measured yet.\n"
# Cited, each on its own set of the same kind: HRM, arXiv 2506.21734; TRM, arXiv 2510.04871.
OTHERS_ON_MAZE_HARD = {"HRM": 74.5, "TRM": 85.3}


@dataclass(frozen=True)
class Section:
    """A part of the page, between the marks of its name, made from results/NAME.json."""

    name: str
    tables: Callable[[dict[str, Any]], str]
    plot: Callable[[dict[str, Any], Path], None] | None = None

    def text(self, root: Path) -> str:
        """What stands between the marks."""
        file = root / "results" / f"{self.name}.json"
        if not file.exists():
            return NOT_MEASURED
        report = read_json(file)
        origin = report.get("provenance") or report["measured"][0]["provenance"]
        picture = f"![{self.name}]({self.name}.png)\n\n" if self.plot else ""
        where = f"`{origin['command']}`, {origin['cpu']}, {origin['date'][:10]}: "
        return f"{picture}{self.tables(report)}\n{where}[{self.name}.json](../results/{self.name}.json)\n"

    def write(self, root: Path) -> None:
        file = root / "results" / f"{self.name}.json"
        if self.plot and file.exists():
            self.plot(read_json(file), root / "docs" / f"{self.name}.png")
        replace_section(root / PAGE, self.name, self.text(root))


def evaluation_rows(evaluations: list[dict[str, Any]], first: str = "") -> list[str]:
    """A row for each evaluation: decoder, exact and valid and shortest with intervals, passes, milliseconds."""
    rows = []
    for each in evaluations:
        shares = [
            f"{100 * each[name]['share']:.1f} ({100 * each[name]['low']:.1f} to {100 * each[name]['high']:.1f})"
            for name in ("exact", "shortest")
        ]
        rows.append(
            f"| {first}`{each['decoder']}` | {each['mazes']:,} | {' | '.join(shares)} | {each['passes']:.1f} | "
            f"{1000 * each['seconds_per_maze']:,.0f} |"
        )
    return rows


def larger_tables(report: dict[str, Any]) -> str:
    """Sizes that were never trained on."""
    lines = ["| size, decoder | mazes | exact % (95 %) | valid and shortest % (95 %) | passes | ms a maze |"]
    lines.append("|---|---|---|---|---|---|")
    for measured in report["measured"]:
        lines += evaluation_rows(measured["evaluations"], f"{measured['mazes'].rsplit(' ', 1)[-1]}, ")
    return "\n".join(lines) + "\n"


def maze_hard_tables(report: dict[str, Any]) -> str:
    """Long paths, beside what others report."""
    others = ", ".join(f"{name} {value} %" for name, value in OTHERS_ON_MAZE_HARD.items())
    lines = [
        f"{report['mazes']}. The score of the Maze-Hard benchmark is the share of valid and shortest paths; others, on "
        f"its own mazes: {others}.",
        "",
        "| decoder | mazes | exact % (95 %) | valid and shortest % (95 %) | passes | ms a maze |",
        "|---|---|---|---|---|---|",
        *evaluation_rows(report["evaluations"]),
    ]
    return "\n".join(lines) + "\n"


SECTIONS = (
    Section("cells-dfs-larger", larger_tables),
    Section("maze-hard", maze_hard_tables),
    Section("cells-families", families.tables),
    Section("time-to-accuracy", time_to_accuracy.tables, time_to_accuracy.plot),
    Section("cell-cost", cell_cost.tables, cell_cost.plot),
    Section("two-cores", two_cores.tables),
    Section("grid-pointer", grid_pointer.tables),
    Section("short-recipes", short_recipes.tables),
    Section("cell-choices", cell_choices.tables),
)


def main(root: Path = ROOT) -> None:
    for section in SECTIONS:
        section.write(root)
    print(root / PAGE)


if __name__ == "__main__":
    main()
