"""Accuracy of shipped weights by size and by path length, for their cards, docs/cells.md and the README.

    clew evaluate cells-dfs --size 10 --mazes 2000 --seed 1 --decoder one-pass walk-repair --json > 10.json
    python benchmarks/weights_card.py cells-dfs --measured 5.json 10.json ...

The second command gathers what `clew evaluate --json` measured in results/NAME.json, and writes the tables between the
marks of the card, and for cell networks of docs/cells.md and of the README. Without `--measured` it writes them again
from results/NAME.json; a test compares the pages with that file. benchmarks/sizes.py runs both commands for all sizes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tyro.conf import Positional

from clew.files import read_json, write_json
from clew.viz.pages import replace_section

HEAD = (
    "| mazes | decoder | solved | exact % | 95 % | valid and shortest % | passes | ms a maze |",
    "|---|---|---|---|---|---|---|---|",
)


def pages(name: str, root: Path = Path()) -> list[tuple[Path, str]]:
    """Where the tables of these weights stand, and the way from there to results/."""
    card = (root / "weights" / name / "README.md", "../../results")
    return [card, (root / "docs" / "cells.md", "../results")] if name in PAPER else [card]


def gather(files: list[Path]) -> dict[str, Any]:
    """What was measured, in the order of the files."""
    return {"measured": [read_json(file) for file in files]}


def tables(name: str, results: dict[str, Any], link: str) -> str:
    """Return accuracy by size and decoder, then by path length with the first decoder, one pass for cell networks."""
    rows = [_row(report["mazes"], each) for report in results["measured"] for each in report["evaluations"]]
    first = [(_size(report["mazes"]), report["evaluations"][0]) for report in results["measured"]]
    origin = results["measured"][0]["provenance"]
    lines = [
        *HEAD,
        *rows,
        "",
        "Exact % by the number of cells of the path (how many mazes in brackets):",
        "",
        "| mazes | decoder | cells of the path: exact % (mazes) |",
        "|---|---|---|",
        *(f"| {size} | `{each['decoder']}` | {_lengths(each)} |" for size, each in first),
        "",
        f"Measured with `clew evaluate {name} --size ... --json`, {origin['cpu']}, {origin['date'][:10]}; every "
        f"command is in [{name}.json]({link}).",
    ]
    return "\n".join(lines) + "\n"


# The weights in the README, and the paper's MLM-U models of 8M parameters beside them, exact %.
PAPER = {
    "cells-dfs": {"5x5": "100", "10x10": "100", "15x15": "100", "20x20": "100", "30x30": "93.8"},
    "cells-astar": {"10x10": "98.5", "20x20": "95.2", "30x30": "85.5"},
}


def summary(results: dict[str, dict[str, Any]]) -> str:
    """Return a row for each of the weights and each size of the paper, in one pass, for the README."""
    lines = [
        "| weights | mazes | exact % (95 % interval) | the paper, exact % | valid and shortest % |",
        "|---|---|---|---|---|",
    ]
    for name, measured in results.items():
        for report in measured["measured"]:
            each, size = report["evaluations"][0], _size(report["mazes"])
            exact = each["exact"]
            if size in PAPER[name]:
                lines.append(
                    f"| `{name}` | {exact['count']:,} of {size} | {_percent(exact['share'])} "
                    f"({_percent(exact['low'])} to {_percent(exact['high'])}) | {PAPER[name][size]} | "
                    f"{_percent(each['shortest']['share'])} |"
                )
    return "\n".join(lines) + "\n"


def _row(mazes: str, each: dict[str, Any]) -> str:
    exact = each["exact"]
    return (
        f"| {_size(mazes)} | `{each['decoder']}` | {exact['hits']:,} of {exact['count']:,} | "
        f"{_percent(exact['share'])} | {_percent(exact['low'])} to {_percent(exact['high'])} | "
        f"{_percent(each['shortest']['share'])} | "
        f"{each['passes']:.1f} | {1000 * each['seconds_per_maze']:,.0f} |"
    )


def _lengths(each: dict[str, Any]) -> str:
    """Return accuracy by path length; larger mazes have longer paths, so each size has steps of its own."""
    parts = []
    for row in each["by_length"]:
        exact = _percent(row["exact"]["hits"] / row["mazes"])
        cells = f"{row['low']} to {row['high']}" if row["high"] > row["low"] else row["low"]
        parts.append(f"{cells}: {exact} ({row['mazes']:,})")
    return "; ".join(parts)


def _size(mazes: str) -> str:
    """The size, or the file, of "2,000 held-out dfs mazes of 10x10"."""
    return mazes.rsplit(" ", 1)[-1]


def _percent(share: float) -> str:
    """Two digits after the point where one would round a miss away."""
    return f"{100 * share:.2f}" if 0.9985 <= share < 1 else f"{100 * share:.1f}"


def main(name: Positional[str], measured: list[Path] | None = None) -> None:
    """Write what was measured into results/NAME.json and the pages.

    Args:
        name: of the shipped weights, such as cells-dfs.
        measured: files that `clew evaluate --json` printed; without any, results/NAME.json is taken as it is.
    """
    file = Path("results") / f"{name}.json"
    if measured:
        write_json(file, gather(measured))
    for page, results in pages(name):
        replace_section(page, name, tables(name, read_json(file), f"{results}/{name}.json"))
    shipped = {each: read_json(path) for each in PAPER if (path := Path("results") / f"{each}.json").exists()}
    replace_section(Path("README.md"), "shipped", summary(shipped))


if __name__ == "__main__":
    import sys

    import tyro

    from clew.errors import guarded

    sys.exit(guarded(lambda: tyro.cli(main)))
