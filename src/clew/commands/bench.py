"""`clew bench ...`: speed, always as a ratio measured side by side in one run."""

from __future__ import annotations

import sys
from pathlib import Path


def generation(json: bool = False, seconds: float = 6.0, plot: Path | None = None) -> None:
    """Measure how fast mazes are generated and solved, beside maze-dataset and beside plain Python.

    Also the peak memory of 100,000 mazes of 30x30, and how the time a maze grows with its cells. Takes about ten
    times --seconds, and half a minute more.

    Args:
        json: print one JSON document with everything measured, instead of a table.
        seconds: how long each side of each comparison may work.
        plot: draw the time a maze against its cells to this PNG or SVG file.
    """
    from clew.benchmarks.generation import measure, plot_costs
    from clew.errors import UserError

    if not 0 < seconds <= 3600:
        raise UserError(f"{seconds} seconds cannot be used; give --seconds a number above 0 and up to 3600.")
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise UserError(f"the plot {plot} has no known format; give --plot a name that ends in .png or .svg.")
    if plot is not None and not plot.parent.is_dir():
        raise UserError(f"the folder {plot.parent} does not exist; make it first, or give --plot another name.")

    command = f"clew bench generation --seconds {seconds:g}"
    report = measure(seconds, command, say=lambda text: print(f"measuring: {text}", file=sys.stderr))
    if plot is not None:
        plot_costs(report.costs, plot)
    if json:
        print(report.as_json())
        return
    for each in report.comparisons:
        print(
            f"{each.what}: {each.ours_per_second:,.0f} a second, {each.against} {each.theirs_per_second:,.1f}: "
            f"{each.ratio:,.0f} times as fast (target {each.target:g}), {each.ratio_one_core:,.0f} times on one core"
        )
    for sentence in report.left_out:
        print(f"left out: {sentence}")
    print(
        f"peak memory of {report.memory_mazes:,} mazes of 30x30: {report.peak_memory_mb:,.0f} MB "
        f"(target under {report.memory_target_mb:,.0f})"
    )
    for cost in report.costs:
        print(
            f"{cost.family}: {cost.microseconds_per_cell * 1000:.1f} ns a cell, "
            f"R² of the straight line {cost.r_squared:.4f}, {min(cost.cells)} to {max(cost.cells):,} cells"
        )
