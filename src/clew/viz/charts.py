"""Small charts as SVG text for an HTML page: points with error bars, joined or not.

    chart_svg([Series("threshold", [Dot(10, 0.9, 0.85, 0.93, "10 cells: 90 %")])], Axes("path length", "exact"))

Colours of text and lines come from the page (classes `axis`, `grid`, `label`), those of the series are their own. A
dot's note shows when the pointer rests on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

# Told apart by people who see few colours, and readable on light and dark grounds.
COLOURS = ("#4269d0", "#e8710a", "#3ca951", "#a463f2", "#d6409f", "#0e9aa7", "#9c6b4e", "#8a8d91", "#c9a300", "#5b5ea6")
_WIDTH, _HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 46


@dataclass(frozen=True)
class Dot:
    """A measured value with its interval, and the note that explains it."""

    x: float
    y: float
    low: float
    high: float
    note: str


@dataclass(frozen=True)
class Series:
    """Dots of one colour."""

    name: str
    dots: Sequence[Dot]


@dataclass(frozen=True)
class Axes:
    """What the two directions mean; y goes up to 1 and is shown in per cent."""

    x_label: str
    y_label: str
    x_from: float | None = None  # by default what the dots need
    x_to: float | None = None
    y_from: float = 0.0
    log: bool = False  # x grows by factors
    diagonal: bool = False  # a line where y is x
    named: bool = False  # each series' name beside its first dot


def chart_svg(series: Sequence[Series], axes: Axes) -> str:
    """The chart; the colours follow the order of the series."""
    xs = [dot.x for each in series for dot in each.dots] or [1.0]
    low = axes.x_from if axes.x_from is not None else min(xs)
    high = axes.x_to if axes.x_to is not None else max(xs)
    if axes.log:
        low, high = 10 ** math.floor(math.log10(max(low, 1e-9))), 10 ** math.ceil(math.log10(max(high, 1e-9)))
    if high <= low:
        high = low * 10 if axes.log else low + 1

    def across(x: float) -> float:
        share = math.log(x / low) / math.log(high / low) if axes.log else (x - low) / (high - low)
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def up(y: float) -> float:
        share = (max(y, axes.y_from) - axes.y_from) / (1 - axes.y_from)
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)

    parts = [_grid(axes, low, high, across, up)]
    if axes.diagonal:
        parts.append(
            f'<path class="grid dashed" d="M{across(low):.1f} {up(low):.1f}L{across(high):.1f} {up(high):.1f}"/>'
        )
    for number, each in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        dots = sorted(each.dots, key=lambda dot: dot.x)
        if len(dots) > 1:
            line = "L".join(f"{across(dot.x):.1f} {up(dot.y):.1f}" for dot in dots)
            parts.append(f'<path fill="none" stroke="{colour}" stroke-width="2" opacity="0.75" d="M{line}"/>')
        for dot in dots:
            x = across(dot.x)
            parts.append(
                f'<g><title>{escape(dot.note)}</title><path stroke="{colour}" stroke-width="1.5" opacity="0.55" '
                f'd="M{x:.1f} {up(dot.low):.1f}V{up(dot.high):.1f}"/>'
                f'<circle cx="{x:.1f}" cy="{up(dot.y):.1f}" r="4.5" fill="{colour}"/></g>'
            )
    if axes.named:
        parts += _names(series, across, up)
    return (
        f'<svg class="chart" role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-label="{escape(axes.y_label)} by '
        f'{escape(axes.x_label)}">{"".join(parts)}</svg>'
    )


def _grid(axes: Axes, low: float, high: float, across: Callable[[float], float], up: Callable[[float], float]) -> str:
    parts = []
    for value in _ticks(axes.y_from, 1.0, log=False):
        y = up(value)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="axis" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{100 * value:g} %</text>')
    for x in _ticks(low, high, axes.log):
        parts.append(
            f'<text class="axis" x="{across(x):.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{x:g}</text>'
        )
    parts.append(
        f'<text class="label" x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 6}" text-anchor="middle">'
        f"{escape(axes.x_label)}</text>"
    )
    return "".join(parts)


def _names(series: Sequence[Series], across: Callable[[float], float], up: Callable[[float], float]) -> list[str]:
    """The series' names beside their first dots, moved down where they would cover one another."""
    placed: list[tuple[float, float, float]] = []  # left, right, y of the names so far
    parts = []
    spots = [(across(s.dots[0].x), up(s.dots[0].y), s.name, i) for i, s in enumerate(series) if s.dots]
    for x, y, name, number in sorted(spots, key=lambda spot: spot[1]):
        width = 6.2 * len(name)
        left = x + 8 if x + 8 + width < _WIDTH else x - 8 - width
        while any(
            abs(y - other) < 12 and left < right and other_left < left + width for other_left, right, other in placed
        ):
            y += 3
        placed.append((left, left + width, y))
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<text x="{left:.1f}" y="{y + 4:.1f}" font-size="11" fill="{colour}">{escape(name)}</text>')
    return parts


def _ticks(low: float, high: float, log: bool) -> list[float]:
    if log:
        decades = range(round(math.log10(low)), round(math.log10(high)) + 1)
        return [x for d in decades for x in (10.0**d, 2 * 10.0**d, 5 * 10.0**d) if low <= x <= high * 1.001]
    step = next(s for s in _round_steps() if (high - low) / s <= 7)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 6) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _round_steps() -> list[float]:
    return [step * 10.0**power for power in range(-3, 7) for step in (1, 2, 5)]
