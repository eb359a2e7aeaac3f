"""Path lengths of held-out mazes by size and family, as numbers and as the paper's figure.

    python benchmarks/path_lengths.py      # results/path-lengths.json and docs/path-lengths.png

The figure has the mean number of cells with the standard deviation as error bars, and an example of each family.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro
from work import save

from clew.errors import guarded
from clew.files import atomic_write
from clew.mazes.generate import generate
from clew.paper.studies.path_lengths import COUNT, EXAMPLE_SIZE, FAMILIES, SIZES, measure
from clew.provenance import provenance
from clew.viz.drawing import draw_task


def main(
    plot: Path = Path("docs/path-lengths.png"),
    out: Path = Path("results/path-lengths.json"),
    count: int = COUNT,
    seed: int = 0,
) -> None:
    """Measure the path lengths of held-out mazes, write the numbers and draw the figure.

    Args:
        plot: the figure, a PNG file.
        out: the numbers, a JSON file.
        count: mazes of each size and family.
        seed: which mazes.
    """
    measured = [measure(family, size, count, seed) for family in FAMILIES for size in SIZES]
    for lengths in measured:
        print(
            f"{FAMILIES[lengths['family']][0]:4}{lengths['size']}x{lengths['size']}: "
            f"{lengths['mean']:.1f} +- {lengths['standard_deviation']:.1f} cells, "
            f"{lengths['one_shortest']:.1%} with one shortest path only"
        )
    # --count is told even when it is the default: the command must give these numbers again in later versions too.
    command = f"python benchmarks/path_lengths.py --count {count} --seed {seed}"
    save(
        out,
        {
            "what": "path lengths in cells, both ends counted, of held-out mazes, and how many have one shortest path",
            "provenance": provenance(command, [seed]),
            "path_lengths": measured,
        },
    )
    draw(plot, measured, seed)


def draw(out: Path, measured: Sequence[dict[str, Any]], seed: int) -> None:
    """The figure: bars on the left, one maze of each family on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.3), layout="constrained")
    bars, *examples = figure.subplots(1, 1 + len(FAMILIES), width_ratios=[1.35] + [1] * len(FAMILIES))
    sizes = sorted({lengths["size"] for lengths in measured})
    width = 0.8 / len(FAMILIES)
    for which, (family, (name, colour)) in enumerate(FAMILIES.items()):
        of_family = [lengths for lengths in measured if lengths["family"] == family]
        places = [sizes.index(lengths["size"]) + (which - (len(FAMILIES) - 1) / 2) * width for lengths in of_family]
        bars.bar(
            places,
            [lengths["mean"] for lengths in of_family],
            yerr=[lengths["standard_deviation"] for lengths in of_family],
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
        task, path = generate(family, EXAMPLE_SIZE, EXAMPLE_SIZE, seed=seed, first=0, count=1, split="test")[0]
        draw_task(ax, task, path)
        ax.set_title(f"{name} maze, {EXAMPLE_SIZE}x{EXAMPLE_SIZE}", fontsize=10)
    with atomic_write(out, "wb") as file:
        figure.savefig(file, format="png", dpi=180, metadata={"Software": None})


if __name__ == "__main__":
    sys.exit(guarded(lambda: tyro.cli(main)))
