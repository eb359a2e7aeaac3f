"""What `clew bench cost` measured, as a plot and as the tables of docs/grid-pointer.md.

    clew bench cost --plot docs/grid-cost.png --json > results/grid-cost.json
    clew bench report

The second command puts them into the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clew.benchmarks.cost import QUANTITIES
from clew.benchmarks.pages import Picture, Section
from clew.files import atomic_write

_PANELS = {"seconds": "seconds a maze", "mb": "MB a maze"}


def plot(report: dict[str, Any], file: Path) -> None:
    """Draw time and memory a maze against its cells on logarithmic axes, with the fitted lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    cells = [each["cells"] for each in report["sizes"]]
    for axes, (ending, label) in zip(figure.subplots(1, 2), _PANELS.items(), strict=True):
        for name in (name for name in QUANTITIES if name.endswith(ending)):
            costs = [each[name] for each in report["sizes"]]
            exponent = report["fits"][name]["exponent"]
            what = QUANTITIES[name].split(",")[0]
            (points,) = axes.loglog(cells, costs, "o", label=f"{what}: cells^{exponent:.2f}")
            axes.loglog(cells, _line(cells, costs, exponent), color=points.get_color(), linewidth=1)
        axes.set(xlabel="cells of the maze", ylabel=label)
        axes.set_xticks(cells, [f"{each['side']}x{each['side']}" for each in report["sizes"]], fontsize=8)
        axes.minorticks_off()
        axes.grid(linewidth=0.4, alpha=0.6)
        axes.legend(frameon=False)
    with atomic_write(file, "wb") as out:
        figure.savefig(out, format=file.suffix[1:], dpi=150)


def _line(cells: Sequence[int], costs: Sequence[float], exponent: float) -> list[float]:
    """The fitted line: the one of this slope through the middle of the points."""
    import numpy as np

    middle = np.log(costs).mean() - exponent * np.log(cells).mean()
    return [float(np.exp(middle) * each**exponent) for each in cells]


def tables(report: dict[str, Any]) -> str:
    """Costs by size, and the share of the peak by width."""
    rows = [
        f"| {each['side']}x{each['side']} | {each['loops']} | {_number(1000 * each['training_seconds'])} | "
        f"{_number(1000 * each['pass_seconds'])} | {_number(1000 * each['solving_seconds'])} | {each['passes']:.1f} | "
        f"{_number(each['training_mb'])} | {_number(each['solving_mb'])} |"
        for each in report["sizes"]
    ]
    exponents = [f"{report['fits'][name]['exponent']:.2f}" for name in QUANTITIES]
    last = f"| grows as cells to the power | | {' | '.join(exponents[:3])} | | {' | '.join(exponents[3:])} |"
    head = (
        "| mazes | loops | training, ms | one pass, ms | solving, ms | passes | training, MB | solving, MB |",
        "|---|---|---|---|---|---|---|---|",
    )
    parts = list(report["widths"][0]["shares"])
    widths = [
        f"| {each['width']} | {each['gigaflops']:.1f} | {_percent(each['share_of_peak'])} | "
        f"{_percent(each['products_share_of_peak'])} | "
        f"{' | '.join(_percent(each['shares'][part]) for part in parts)} |"
        for each in report["widths"]
    ]
    peak = max(each["peak_gigaflops"] for each in report["widths"])
    lines = [
        f"All a maze, in batches of about as many cells; {report['threads']} thread(s), {report['clock']} clock, "
        f"`{report['weights']}` ({report['parameters']:,} parameters), decoder `{report['decoder']}`:",
        "",
        *head,
        *rows,
        last,
        "",
        f"A training step at 10x10 beside the peak of {peak:.0f} GFLOP/s of float32 matrix products in the same run "
        f"(we want {_percent(report['target'])}), and the shares of its time:",
        "",
        f"| width | GFLOP/s | of the peak | products alone, of the peak | {' | '.join(parts)} |",
        "|---" * (4 + len(parts)) + "|",
        *widths,
    ]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """Two digits that count at least, and no more than one after the point above ten."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2g}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


SECTION = Section(
    "grid-cost",
    "grid-cost.json",
    "grid-pointer.md",
    tables,
    Picture("grid-cost.png", "Time and memory against size"),
)
