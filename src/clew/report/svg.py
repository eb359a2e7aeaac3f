"""Mazes as compact SVG text, small enough to stand inside a notebook or an HTML page.

    task_svg(task, path=path, predicted=cells) -> "<svg ...>...</svg>"

Nothing in it has an id or a style sheet, so many of them on one page do not disturb each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from clew.mazes.maze import Cell, Task
from clew.report.shapes import MARGIN, Fill, Point, Shape, Word, drawing_size, task_shapes

Picture = tuple[Task, Sequence[Cell] | None, Sequence[Cell] | None, str]  # task, path, predicted, title

_PANEL = 340  # pixels of a panel's longer side, unless cells would become too large or too small
_TEXT = 14  # pixels of a line of text's height
_GAP = 14  # pixels between panels


def task_svg(
    task: Task,
    path: Sequence[Cell] | None = None,
    predicted: Sequence[Cell] | None = None,
    title: str = "",
) -> str:
    """One drawn task."""
    width, height, body = _panel((task, path, predicted, title))
    return _document(width, height, body)


def grid_svg(pictures: Sequence[Picture], columns: int) -> str:
    """Many drawn tasks in rows of `columns`."""
    panels = [_panel(picture) for picture in pictures]
    column_width = max(width for width, _, _ in panels) + _GAP
    parts, top, total_width = [], 0.0, 0.0
    for first in range(0, len(panels), columns):
        row = panels[first : first + columns]
        for column, (width, _, body) in enumerate(row):
            left = column * column_width + (column_width - _GAP - width) / 2
            parts.append(f'<g transform="translate({_number(left)} {_number(top)})">{body}</g>')
        total_width = max(total_width, len(row) * column_width - _GAP)
        top += max(height for _, height, _ in row) + _GAP
    return _document(total_width, top - _GAP, "".join(parts))


def _document(width: float, height: float, body: str) -> str:
    w, h = _number(math.ceil(width)), _number(math.ceil(height))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{w}" height="{h}" viewBox="0 0 {w} {h}">'
        f'<rect width="{w}" height="{h}" fill="#ffffff"/>{body}</svg>\n'
    )


def _panel(picture: Picture) -> tuple[float, float, str]:
    """Width, height and content of one task with its title above and its note below, in pixels."""
    task, path, predicted, title = picture
    shapes, note = task_shapes(task, path, predicted)
    columns, rows = (side + 2 * MARGIN for side in drawing_size(task))
    cell = min(32.0, max(6.0, _PANEL / max(columns, rows)))
    width = columns * cell
    top = 1.5 * _TEXT if title else 0.0
    drawing = "".join(_shape(shape) for shape in shapes)
    scale = f"translate({_number(MARGIN * cell)} {_number(top + MARGIN * cell)}) scale({_number(cell)})"
    height = top + rows * cell
    body = f'<g transform="{scale}">{drawing}</g>'
    if title:
        body = _text(width / 2, _TEXT, title) + body
    if note:
        height += 1.5 * _TEXT
        body += _text(width / 2, height - _TEXT / 2, note)
    return width, height, body


def _text(x: float, y: float, text: str) -> str:
    return (
        f'<text x="{_number(x)}" y="{_number(y)}" font-family="sans-serif" font-size="{_TEXT - 2}" fill="#444444" '
        f'text-anchor="middle">{escape(text)}</text>'
    )


def _shape(shape: Shape) -> str:
    if isinstance(shape, Word):
        (x, y), size = shape.middle, shape.size
        return (
            f'<text x="{_number(x)}" y="{_number(y + 0.36 * size)}" font-family="sans-serif" '
            f'font-size="{_number(size)}" fill="{shape.colour}" text-anchor="middle">{escape(shape.text)}</text>'
        )
    if isinstance(shape, Fill):
        return f'<path fill="{shape.colour}" d="{"".join(_points(p) + "z" for p in shape.polygons)}"/>'
    return (
        f'<path fill="none" stroke="{shape.colour}" stroke-width="{_number(shape.width)}" stroke-linecap="round" '
        f'stroke-linejoin="round" d="{"".join(map(_points, shape.lines))}"/>'
    )


def _points(points: Sequence[Point]) -> str:
    """A polyline in SVG's path language; a lone point becomes a dot by a line to itself."""
    here, text = points[0], f"M{_number(points[0][0])} {_number(points[0][1])}"
    for x, y in points[1:] or points:
        if y == here[1]:
            text += f"H{_number(x)}"
        elif x == here[0]:
            text += f"V{_number(y)}"
        else:
            text += f"L{_number(x)} {_number(y)}"
        here = (x, y)
    return text


def _number(value: float) -> str:
    """At most three digits after the point, and no needless ones."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
