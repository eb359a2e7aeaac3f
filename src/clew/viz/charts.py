"""Charts of measured values (matplotlib): PNG files, with drawn mazes below, and inline SVG.

    draw_panels("results/astar/laptop.png", [Panel("exact paths", "size", "%", [Series("MLM-U", [Point("4x4", 98)])])])

Points whose x is a word are bars; points whose x is a number are joined to lines.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from clew.files import PathLike, atomic_write
from clew.viz.drawing import TEXT, Picture, draw_task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distinguishable with colour blindness, on light and dark backgrounds.
COLOURS = ("#4269d0", "#e8710a", "#3ca951", "#a463f2", "#d6409f", "#0e9aa7", "#9c6b4e", "#8a8d91", "#c9a300", "#5b5ea6")
_MARKERS = "osD^vPXp*h"
_PANEL, _MAZE, _IN_A_ROW = (4.6, 3.4), (2.5, 2.8), 4  # width and height in inches, and how many side by side
_INK = "#010203"  # becomes the colour of the page's text


@dataclass(frozen=True)
class Point:
    """A measured value with its standard error, or with how far its interval goes below and above it."""

    x: float | str
    y: float
    error: float | tuple[float, float] = 0.0

    @property
    def errors(self) -> tuple[float, float]:
        return self.error if isinstance(self.error, tuple) else (self.error, self.error)


@dataclass(frozen=True)
class Series:
    """Points of one colour."""

    name: str
    points: Sequence[Point]
    colour: int | None = None  # index of the colour; by default the series' index in the panel
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """One chart."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    percent: bool = True  # y goes from 0 to 100
    diagonal: bool = False  # with a line where y equals x


def draw_panels(file: PathLike, panels: Sequence[Panel], galleries: Sequence[Sequence[Picture]] = ()) -> None:
    """Write a PNG file with the panels above and the drawn mazes below, each gallery on rows of its own."""
    from matplotlib.figure import Figure

    groups: list[Sequence[Any]] = [group for group in (panels, *galleries) if group]
    sizes = [_PANEL if isinstance(group[0], Panel) else _MAZE for group in groups]
    shapes = [(math.ceil(len(group) / _IN_A_ROW), min(len(group), _IN_A_ROW)) for group in groups]
    width = max(across * size[0] for (_, across), size in zip(shapes, sizes, strict=True))
    heights = [rows * size[1] for (rows, _), size in zip(shapes, sizes, strict=True)]
    figure = Figure((width, sum(heights)), layout="constrained")
    figures = figure.subfigures(len(groups), 1, height_ratios=heights, squeeze=False).flat
    for part, shape, group in zip(figures, shapes, groups, strict=True):
        for ax, each in zip_longest(part.subplots(*shape, squeeze=False).flat, group):
            if each is None:
                ax.set_axis_off()
            elif isinstance(each, Panel):
                _draw_panel(ax, each)
            else:
                task, path, predicted, title = each
                draw_task(ax, task, path, predicted)
                ax.set_title(title, fontsize=8, color=TEXT)
    with atomic_write(file, "wb") as out:
        figure.savefig(out, format="png", dpi=120, metadata={"Software": None})


def panel_svg(panel: Panel) -> str:
    """Return the panel, without its title, as SVG for an HTML page; its text has the page's colour and font."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color")
    # Equal charts give equal text, since ids are hashes with this salt.
    style: dict[Any, Any] = dict.fromkeys(inked, _INK) | {"svg.fonttype": "none", "svg.hashsalt": "clew"}
    with rc_context(style | {"font.family": "DejaVu Sans", "font.size": 9}):
        figure = Figure(_PANEL, layout="constrained")
        _draw_panel(ax := figure.subplots(), panel)
        ax.set_title("")
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True)
    # A style would apply to the whole page, the metadata have the date, and only ids that are referred to stay.
    svg = re.sub(r"^.*?<svg|<(style|metadata).*?</\1>", "", out.getvalue(), flags=re.DOTALL)
    svg = re.sub(r' (id="(?![a-z][0-9a-f]{10}")|xmlns:xlink=")[^"]*"', "", svg)
    svg = svg.replace("xlink:href", "href").replace(_INK, "currentColor").replace("'DejaVu Sans'", "sans-serif")
    return f'<svg class="chart" role="img" aria-label="{escape(f"{panel.y_label} by {panel.x_label}")}"{svg}'


def _draw_panel(ax: Axes, panel: Panel) -> None:
    count = len(panel.series)
    words = list(dict.fromkeys(point.x for each in panel.series for point in each.points if isinstance(point.x, str)))
    for index, series in enumerate(panel.series):
        # Bars of a word stand side by side around it.
        shift = 0.8 * ((index + 0.5) / count - 0.5)
        x_of = {point: words.index(point.x) + shift if isinstance(point.x, str) else point.x for point in series.points}
        points = sorted(series.points, key=x_of.__getitem__)
        x, y = [x_of[point] for point in points], [point.y for point in points]
        style: dict[str, Any] = {"color": COLOURS[(index if series.colour is None else series.colour) % len(COLOURS)]}
        style |= {"label": series.name, "yerr": np.transpose([point.errors for point in points]) if points else None}
        if words:
            bars = ax.bar(x, y, width=0.736 / count, error_kw={"capsize": 2.5, "elinewidth": 1}, **style)
            ax.bar_label(bars, fmt="%.1f" if panel.percent else "%.3g", fontsize=6.5, padding=1)
        else:
            style |= {"marker": _MARKERS[index % len(_MARKERS)], "linestyle": "--" if series.dashed else "-"}
            ax.errorbar(x, y, markersize=4, elinewidth=1, **style)
    _set_x_axis(ax, panel, words)
    if panel.diagonal:
        ax.plot([0, 100], [0, 100], color="grey", linewidth=0.8, linestyle=":")
    rows = math.ceil(count / 2) if count > 1 else 0  # of names
    ax.set_title(panel.title, fontsize=10, pad=6 + 13 * rows)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    ax.set_ylim(0, 105 if panel.percent else None)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", linewidth=0.4, alpha=0.4)
    ax.set_axisbelow(True)
    if rows:  # above the chart, where it covers nothing
        ax.legend(fontsize=7.5, frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 0.97))


def _set_x_axis(ax: Axes, panel: Panel, words: list[str]) -> None:
    from matplotlib.ticker import LogLocator

    if words:
        # Long words are written at an angle, so that they do not run into one another.
        slanted = len(words) * max(map(len, words)) > 54
        ax.set_xticks(range(len(words)), words, fontsize=8, rotation=28 * slanted, ha="right" if slanted else "center")
        return
    if panel.log_x:
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.minorticks_off()
    else:
        ax.set_xlim(left=0)
    ax.xaxis.set_major_formatter(
        lambda x, _: f"{x / 1e6:g}M" if x >= 1e6 else f"{x / 1e3:g}k" if x >= 1e3 else f"{x:g}"
    )
