"""How long the paths of held-out mazes are, by size and family: the paper's figure of path lengths.

    python -m clew.viz.path_lengths --out docs/path-lengths.png --results results/path-lengths.json

draws the mean number of cells with the standard deviation as error bars, beside an example of each family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from clew.data.settings import DatasetSettings
from clew.errors import UserError
from clew.files import atomic_write, write_json
from clew.mazes.generate import generate
from clew.mazes.solvers import one_shortest
from clew.provenance import provenance
from clew.viz.picture import draw_task

SIZES, COUNT = (10, 20, 30), 2_000
FAMILIES = {"astar": ("A*", "#5b8bd0"), "dfs": ("DFS", "#e2804f")}  # in the paper's order: its name and its colour


@dataclass(frozen=True)
class PathLengths:
    """The numbers of cells of the paths of one kind of maze, both ends counted."""

    family: str
    size: int
    count: int
    mean: float
    standard_deviation: float
    shortest: int
    median: float
    longest: int
    one_shortest: float  # the share of mazes with one shortest path only


def measure(family: str, size: int, count: int = COUNT, seed: int = 0) -> PathLengths:
    """The path lengths of `count` held-out mazes."""
    if count < 2:
        raise UserError(f"{count} mazes have no standard deviation; use at least 2.")
    # As in the test split of a dataset; the families without wall cells take no notice of the draws.
    draws = DatasetSettings(family, size, size, seed, {"train": 1, "test": count}).test_draws
    batch = generate(family, size, size, seed=seed, first=0, count=count, split="test", draws=draws)
    length_N = batch.length_N
    return PathLengths(
        family=family,
        size=size,
        count=count,
        mean=round(float(length_N.mean()), 3),
        standard_deviation=round(float(length_N.std(ddof=1)), 3),
        shortest=int(length_N.min()),
        median=float(np.median(length_N)),
        longest=int(length_N.max()),
        one_shortest=float(one_shortest(batch).mean()),
    )


def draw(out: Path, measured: Sequence[PathLengths], example_size: int = 10, seed: int = 0) -> None:
    """The figure: bars on the left, one maze of each family on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.3), layout="constrained")
    bars, *examples = figure.subplots(1, 1 + len(FAMILIES), width_ratios=[1.35] + [1] * len(FAMILIES))
    sizes = sorted({lengths.size for lengths in measured})
    width = 0.8 / len(FAMILIES)
    for which, (family, (name, colour)) in enumerate(FAMILIES.items()):
        of_family = [lengths for lengths in measured if lengths.family == family]
        places = [sizes.index(lengths.size) + (which - (len(FAMILIES) - 1) / 2) * width for lengths in of_family]
        bars.bar(
            places,
            [lengths.mean for lengths in of_family],
            yerr=[lengths.standard_deviation for lengths in of_family],
            width=width * 0.92,
            color=colour,
            error_kw={"capsize": 4, "elinewidth": 1.2, "ecolor": "#3a3a3a"},
            label=name,
        )
    bars.set_xticks(range(len(sizes)), [f"{size}x{size}" for size in sizes])
    bars.set_ylabel("path length (cells)")
    bars.set_ylim(bottom=0)
    bars.spines[["top", "right"]].set_visible(False)
    bars.legend(frameon=False, loc="upper left")
    for ax, (family, (name, _)) in zip(examples, FAMILIES.items(), strict=True):
        task, path = generate(family, example_size, example_size, seed=seed, first=0, count=1, split="test")[0]
        draw_task(ax, task, path)
        ax.set_title(f"{name} maze, {example_size}x{example_size}", fontsize=10)
    with atomic_write(out, "wb") as file:
        figure.savefig(file, format="png", dpi=180, metadata={"Software": None})


def main(out: Path, results: Path, count: int = COUNT, seed: int = 0) -> None:
    """Measure the path lengths of held-out mazes, write the numbers and draw the figure.

    Args:
        out: the figure, a PNG file.
        results: the numbers, a JSON file.
        count: mazes of each size and family.
        seed: which mazes.
    """
    measured = [measure(family, size, count, seed) for family in FAMILIES for size in SIZES]
    for lengths in measured:
        print(
            f"{FAMILIES[lengths.family][0]:4}{lengths.size}x{lengths.size}: "
            f"{lengths.mean:.1f} +- {lengths.standard_deviation:.1f} cells, "
            f"{lengths.one_shortest:.1%} with one shortest path only"
        )
    # --count is told even when it is the default: the command must give these numbers again in later versions too.
    command = f"python -m clew.viz.path_lengths --out {out} --results {results} --count {count} --seed {seed}"
    write_json(
        results,
        {
            "what": "path lengths in cells, both ends counted, of held-out mazes, and how many have one shortest path",
            "provenance": provenance(command, [seed]),
            "path_lengths": [asdict(lengths) for lengths in measured],
        },
    )
    draw(out, measured, seed=seed)


if __name__ == "__main__":
    import sys

    import tyro

    from clew.errors import guarded

    sys.exit(guarded(lambda: tyro.cli(main)))
