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
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from clew.files import PathLike, atomic_write
from clew.viz.drawing import TEXT, Picture, draw_task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distinguishable with colour blindness, on light and dark backgrounds.
COLOURS = ("#4269d0", "#e8710a", "#3ca951", "#a463f2", "#d6409f", "#0e9aa7", "#9c6b4e", "#8a8d91", "#c9a300", "#5b5ea6")
_MARKERS = "osD^vPXp*h"
_PANEL_WIDTH, _PANEL_HEIGHT, _MAZE = 4.6, 3.4, 2.5  # inches
_PANELS_IN_A_ROW, _MAZES_IN_A_ROW, _NAMES_IN_A_ROW = 4, 4, 3
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
    percent: bool = True  # y goes from 0, or `y_from`, to 100
    y_from: float = 0.0
    diagonal: bool = False  # with a line where y equals x


def draw_panels(file: PathLike, panels: Sequence[Panel], galleries: Sequence[Sequence[Picture]] = ()) -> None:
    """Write a PNG file with the panels above and the drawn mazes below, each gallery on rows of its own."""
    from matplotlib.figure import Figure

    mazes = [gallery[i : i + _MAZES_IN_A_ROW] for gallery in galleries for i in range(0, len(gallery), _MAZES_IN_A_ROW)]
    assert panels or mazes, "a picture shows something"
    across, rows = min(len(panels), _PANELS_IN_A_ROW), math.ceil(len(panels) / _PANELS_IN_A_ROW)
    width = max(_PANEL_WIDTH * across, _MAZE * max(map(len, mazes), default=0))
    heights = [rows * _PANEL_HEIGHT] * bool(panels) + [len(mazes) * (_MAZE + 0.3)] * bool(mazes)
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    figures = list(figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False).flat)
    if panels:
        spots = list(figures[0].subplots(rows, across, squeeze=False).flat)
        for ax, panel in zip(spots, panels, strict=False):
            _draw_panel(ax, panel)
        for ax in spots[len(panels) :]:
            ax.set_axis_off()
    if mazes:
        grid = figures[-1].subplots(len(mazes), max(map(len, mazes)), squeeze=False)
        for spots, row in zip(grid, mazes, strict=True):
            for ax, (task, path, predicted, title) in zip(spots, row, strict=False):
                draw_task(ax, task, path, predicted)
                ax.set_title(title, fontsize=8, color=TEXT)
            for ax in spots[len(row) :]:
                ax.set_axis_off()
    with atomic_write(file, "wb") as out:
        figure.savefig(out, format="png", dpi=120, metadata={"Software": None})


def panel_svg(panel: Panel) -> str:
    """Return the panel, without its title, as SVG for an HTML page; its text has the page's colour and font."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # Equal charts give equal text: ids come from a hash with a fixed salt, and there is no date.
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": "clew",
        "text.color": _INK,
        "axes.labelcolor": _INK,
    }
    style |= dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), _INK)
    with rc_context({**style, "font.family": "DejaVu Sans", "font.size": 9}):
        figure = Figure(figsize=(_PANEL_WIDTH, _PANEL_HEIGHT), layout="constrained")
        ax = figure.subplots()
        _draw_panel(ax, panel)
        ax.set_title("")
        out = io.StringIO()
        metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, metadata=metadata)
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :].replace("xlink:href", "href").replace(_INK, "currentColor")
    svg = svg.replace("'DejaVu Sans'", "sans-serif")
    svg = re.sub(r"<style.*?</style>", "", svg)  # it would apply to the whole page
    svg = re.sub(r' id="(?![a-z][0-9a-f]{10}")[^"]*"', "", svg)  # only ids that are referred to stay
    head = f'<svg class="chart" role="img" aria-label="{escape(panel.y_label)} by {escape(panel.x_label)}"'
    return re.sub(r"^<svg[^>]*?( viewBox=[^ ]* [^>]*?\")[^>]*>", rf"{head}\1>", svg, count=1)


def _draw_panel(ax: Axes, panel: Panel) -> None:
    if any(isinstance(point.x, str) for series in panel.series for point in series.points):
        _bars(ax, panel)
    else:
        _lines(ax, panel)
    wide = len(panel.series) == 4 or sum(len(series.name) for series in panel.series) > 48
    across = 2 if wide else _NAMES_IN_A_ROW
    rows = math.ceil(len(panel.series) / across) if len(panel.series) > 1 else 0
    ax.set_title(panel.title, fontsize=10, pad=6 + 13 * rows)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    if panel.percent:
        ax.set_ylim(panel.y_from, 100 + 0.05 * (100 - panel.y_from))
    else:
        ax.set_ylim(bottom=0)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", linewidth=0.4, alpha=0.4)
    ax.set_axisbelow(True)
    if rows:  # above the chart, where it covers nothing
        legend = ax.legend(fontsize=7.5, frameon=False, ncols=across, columnspacing=1.2, loc="lower center")
        legend.set_bbox_to_anchor((0.5, 0.97), ax.transAxes)


def _colour(series: Series, index: int) -> str:
    return COLOURS[(index if series.colour is None else series.colour) % len(COLOURS)]


def _bars(ax: Axes, panel: Panel) -> None:
    words = list(dict.fromkeys(str(point.x) for series in panel.series for point in series.points))
    width = 0.8 / len(panel.series)
    for index, series in enumerate(panel.series):
        shift = (index - (len(panel.series) - 1) / 2) * width
        bars = ax.bar(
            [words.index(str(point.x)) + shift for point in series.points],
            [point.y for point in series.points],
            yerr=list(zip(*(point.errors for point in series.points), strict=True)) or None,
            width=0.92 * width,
            color=_colour(series, index),
            error_kw={"capsize": 2.5, "elinewidth": 1, "ecolor": "#3a3a3a"},
            label=series.name,
        )
        ax.bar_label(bars, fmt="%.1f" if panel.percent else "%.3g", fontsize=6.5, padding=1)
    # Long words are written at an angle, so that they do not run into one another.
    slanted = len(words) * max(map(len, words), default=0) > 54
    ax.set_xticks(
        range(len(words)), words, fontsize=8, rotation=28 if slanted else 0, ha="right" if slanted else "center"
    )


def _lines(ax: Axes, panel: Panel) -> None:
    for index, series in enumerate(panel.series):
        points = sorted(series.points, key=lambda point: float(point.x))
        x, y = [float(point.x) for point in points], [point.y for point in points]
        colour, marker = _colour(series, index), _MARKERS[index % len(_MARKERS)]
        style = "--" if series.dashed else "-"
        ax.plot(x, y, color=colour, marker=marker, markersize=4, linestyle=style, label=series.name)
        low, high = [p.y - p.errors[0] for p in points], [p.y + p.errors[1] for p in points]
        ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        if len(points) == 1:
            ax.vlines(x, low, high, color=colour, alpha=0.5)
    if panel.diagonal:
        ax.plot([0, 100], [0, 100], color="grey", linewidth=0.8, linestyle=":")
    tried = sorted({float(point.x) for series in panel.series for point in series.points})
    if panel.log_x:
        ax.set_xscale("log")
        # The values that were tried, and no others, unless they are too close to one another.
        if any(b / a < 1.3 for a, b in pairwise(tried)):
            round_ones = [step * 10.0**power for power in range(-9, 10) for step in (1, 2, 5)]
            tried = [x for x in round_ones if tried[0] / 2 < x < tried[-1] * 2]
            ax.set_xlim(tried[0] / 1.1, tried[-1])
        ax.set_xticks(tried, [f"{x:,.0f}" if x >= 1 else f"{x:.0e}".replace("e-0", "e-") for x in tried])
        ax.minorticks_off()
    else:
        ax.set_xlim(left=0)
        ax.xaxis.set_major_formatter(
            lambda x, position: f"{x / 1e6:g}M" if x >= 1e6 else f"{x / 1e3:g}k" if x >= 1e3 else f"{x:g}"
        )
