"""Mazes drawn to PNG and SVG files, one or many.

    save_picture("mazes.png", [(task, path, None, "DFS 10x10"), (other, path, predicted, "a failure")])

or on the axes of a larger matplotlib figure:

    draw_task(ax, task, path=path, predicted=predicted)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from clew.errors import UserError
from clew.files import PathLike, atomic_write
from clew.mazes.maze import Cell, Task
from clew.viz.drawing import MARGIN, Fill, Line, Picture, Point, Word, drawing_size, grid_svg, task_shapes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DPI, _MOST_PIXELS = 180, 10_000  # of a PNG's longer side, so that its memory stays bounded


def draw_task(
    ax: Axes, task: Task, path: Sequence[Cell] | None = None, predicted: Sequence[Cell] | None = None
) -> None:
    """Draw a task on matplotlib axes; a note about what could not be drawn goes below."""
    from matplotlib.collections import PolyCollection

    shapes, note = task_shapes(task, path, predicted)
    for order, shape in enumerate(shapes):
        if isinstance(shape, Word):
            _write(ax, shape, zorder=1 + order)
            continue
        if isinstance(shape, Fill):
            polygons = shape.polygons
        else:
            polygons = [polygon for line in shape.lines for polygon in _thick(line, shape)]
        # Everything is a polygon in cells, so that lines keep their width relative to the maze at any scale.
        # No snapping to pixels: it would shift the pieces of one line by different amounts.
        ax.add_collection(
            PolyCollection(polygons, facecolors=shape.colour, edgecolors="none", snap=False, zorder=1 + order)
        )
    width, height = drawing_size(task)
    ax.set_xlim(-MARGIN, width + MARGIN)
    ax.set_ylim(height + MARGIN, -MARGIN)
    ax.set_aspect("equal")
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)
    if note:
        ax.set_xlabel(note, fontsize=8, color="#444444")


def save_picture(file: PathLike, pictures: Sequence[Picture], columns: int | None = None) -> None:
    """Draw tasks in a grid to a .png or .svg file; each picture is (task, path, predicted, title)."""
    ending = check_ending(file)
    if not pictures:
        raise UserError("there is no maze to draw; give at least one.")
    columns = min(len(pictures), columns or math.ceil(math.sqrt(len(pictures))))
    if ending == ".svg":
        svg = grid_svg(pictures, columns)
        with atomic_write(file) as out:
            out.write(svg)
    else:
        _save_png(file, pictures, columns)


def check_ending(file: PathLike) -> str:
    """The file's ending if it names a format that pictures can have, otherwise UserError."""
    ending = FilePath(file).suffix.lower()
    if ending not in (".png", ".svg"):
        raise UserError(f"{file} must end in .png or .svg, since that says which kind of picture to draw.")
    return ending


def _save_png(file: PathLike, pictures: Sequence[Picture], columns: int) -> None:
    # Figure, not pyplot: no window system is asked for, and nothing stays behind in pyplot's list.
    from matplotlib.figure import Figure

    rows = math.ceil(len(pictures) / columns)
    longest = max(max(drawing_size(task)) for task, *_ in pictures)
    side = min(12.0, max(2.4, 0.18 * longest))  # inches of a panel
    size = (columns * side, rows * (side + 0.25))
    figure = Figure(figsize=size, layout="constrained")
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax, (task, path, predicted, title) in zip(axes, pictures, strict=False):
        draw_task(ax, task, path, predicted)
        ax.set_title(title, fontsize=9, color="#444444")
    for ax in axes[len(pictures) :]:
        ax.set_axis_off()
    with atomic_write(file, "wb") as out:
        figure.savefig(out, format="png", dpi=min(_DPI, _MOST_PIXELS / max(size)), metadata={"Software": None})


def _write(ax: Axes, word: Word, zorder: float) -> None:
    """Write a word as outlines in cells, so that it keeps its size relative to the drawing at any scale."""
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    outline = TextPath((0, 0), word.text, size=word.size)
    box = outline.get_extents()
    # The y axis points down, so the letters are turned over.
    upright = Affine2D().translate(-(box.x0 + box.x1) / 2, -(box.y0 + box.y1) / 2).scale(1, -1).translate(*word.middle)
    patch = PathPatch(outline.transformed(upright), facecolor=word.colour, edgecolor="none", zorder=zorder)
    ax.add_patch(patch)


def _thick(line: Sequence[Point], shape: Line) -> list[list[Point]]:
    """A polyline as polygons: a bar for each stretch, a disc at each point."""
    half = shape.width / 2
    polygons = []
    for (x0, y0), (x1, y1) in pairwise(line):
        if length := math.dist((x0, y0), (x1, y1)):
            dx, dy = half * (y1 - y0) / length, half * (x0 - x1) / length
            polygons.append([(x0 + dx, y0 + dy), (x1 + dx, y1 + dy), (x1 - dx, y1 - dy), (x0 - dx, y0 - dy)])
    disc = [(half * math.cos(k * math.pi / 8), half * math.sin(k * math.pi / 8)) for k in range(16)]
    polygons += [[(x + dx, y + dy) for dx, dy in disc] for x, y in line]
    return polygons
