"""Drawings of tasks as SVG text, as images, and as PNG and SVG files.

    task_svg(task, path=path, predicted=cells)      # "<svg ...>...</svg>", for a notebook or an HTML page
    save_picture("mazes.png", [(task, path, None, "DFS 10x10"), (other, path, predicted, "a failure")])
    draw_task(ax, task, path=path)                  # on the axes of a matplotlib figure

The true path is a red line, a predicted one amber arrows; an arrow is purple where the maze has no such step. A
path-star graph has one arm a row. Shapes are in cells, x to the right and y downwards: the centre of cell (row, col) is
(col + 0.5, row + 0.5). The SVG has no ids and no style sheet, so many drawings can stand on one page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.files import PathLike, atomic_write
from clew.mazes.maze import EAST, SOUTH, WALL, Cell, Maze, PathStar, Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.Image import Image

PAPER, GRID, STONE, INK, TEXT = "#ffffff", "#eceef1", "#b9bec7", "#22262b", "#444444"
START, GOAL = "#3fae6a", "#f28c38"
TRUE_PATH, PREDICTED, BROKEN = "#d7263d", "#f5b700", "#7b3fb5"
MARGIN = 0.25  # of a cell, around the drawing, so that the frame is wholly visible

Point = tuple[float, float]
Polygon = list[Point]
Picture = tuple[Task | Maze, Sequence[Cell] | None, Sequence[Cell] | None, str]  # task, path, predicted, title


@dataclass(frozen=True)
class Fill:
    colour: str
    polygons: list[Polygon]


@dataclass(frozen=True)
class Line:
    """Polylines with round ends and joints."""

    colour: str
    width: float
    lines: list[Polygon]


@dataclass(frozen=True)
class Word:
    """A short text around a point, `size` cells high."""

    colour: str
    size: float
    text: str
    middle: Point


Shape = Fill | Line | Word


def drawing_size(task: Task | Maze) -> tuple[int, int]:
    """Return width and height of the drawing, in cells."""
    maze = task if isinstance(task, Maze) else task.maze
    if isinstance(maze, PathStar):
        branches = maze.branches()
        return max(map(len, branches)), len(branches)
    return maze.width, maze.height


def centres(maze: Maze) -> Callable[[Cell], Point]:
    """Return the function from a cell, or from a node of a path-star graph, to its centre."""
    if not isinstance(maze, PathStar):
        return lambda cell: (cell[1] + 0.5, cell[0] + 0.5)
    branches = maze.branches()
    found = {node: (step + 0.5, row + 0.5) for row, nodes in enumerate(branches) for step, node in enumerate(nodes)}
    found[branches[0][0]] = (0.5, len(branches) / 2)
    return found.__getitem__


def task_shapes(
    task: Task | Maze, path: Sequence[Cell] | None = None, predicted: Sequence[Cell] | None = None
) -> tuple[list[Shape], str]:
    """Return the shapes from the bottom up, the background first, and a note about cells that cannot be drawn."""
    maze = task if isinstance(task, Maze) else task.maze
    ends = [] if isinstance(task, Maze) else [(START, task.start), (GOAL, task.goal)]
    centre = centres(maze)
    nodes = list(dict.fromkeys(n for arm in maze.branches() for n in arm)) if isinstance(maze, PathStar) else []
    true_cells, inside = ([cell for cell in cells or [] if cell in (nodes or maze)] for cells in (path, predicted))
    true_line = Line(TRUE_PATH, 0.2, [[centre(cell) for cell in _corners(true_cells)]])
    shapes: list[Fill | Line] = [Fill(PAPER, [box(0, 0, *drawing_size(task))])]
    words: list[Word] = []
    if isinstance(maze, PathStar):
        plain = [node for node in nodes if node not in [end for _, end in ends]]
        shapes += [Line(STONE, 0.08, [[centre(a), centre(b)] for a, b in maze.edges()]), true_line]
        shapes.append(Fill(GRID, [disc(centre(node), 0.3) for node in plain]))
        shapes += [Fill(colour, [disc(centre(node), 0.3)]) for colour, node in ends]
        words = [Word(INK, 0.3, maze.name(node), centre(node)) for node in nodes]
        outside = ("label is", "labels are", "not in the graph")
    else:
        if maze.has_wall_cells_only:
            across: list[Polygon] = [[(0, row), (maze.width, row)] for row in range(1, maze.height)]
            down: list[Polygon] = [[(col, 0), (col, maze.height)] for col in range(1, maze.width)]
            shapes.append(Line(GRID, 0.03, across + down))
        frame = box(0, 0, maze.width, maze.height)
        # Boxes of wall cells overlap a little, so that no seam is visible.
        walls = [
            box(first - 0.01, row - 0.01, after - first + 0.02, 1.02)
            for row, first, after in runs((maze.cells & WALL) != 0)
        ]
        shapes += [
            Fill(STONE, walls),
            *(Fill(colour, [rounded_square(centre(cell))]) for colour, cell in ends),
            Line(STONE, 0.18, [[*frame, frame[0]], *_walls_between(maze)]),
            true_line,
        ]
        outside = ("cell lies", "cells lie", "outside the maze")
    shapes += _arrows(maze, inside, centre)
    number = len(predicted or []) - len(inside)
    note = f"{number} predicted {outside[number > 1]} {outside[2]}" if number else ""
    drawn = [shape for shape in shapes if any(shape.polygons if isinstance(shape, Fill) else shape.lines)]
    return [*drawn, *words], note


def _corners(path: Sequence[Cell]) -> list[Cell]:
    """Return the path without the cells that it crosses straight on: the same line in fewer segments."""

    corners = []
    for a, b, c in zip(path, path[1:], path[2:], strict=False):
        if (b[0] - a[0], b[1] - a[1]) != (c[0] - b[0], c[1] - b[1]):
            corners.append(b)
    return [*path[:1], *corners, *path[1:][-1:]]


def box(x: float, y: float, width: float, height: float) -> Polygon:
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def disc(middle: Point, radius: float = 0.13) -> Polygon:
    angles = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    return [(middle[0] + radius * math.cos(angle), middle[1] + radius * math.sin(angle)) for angle in angles]


def rounded_square(middle: Point, half: float = 0.36, radius: float = 0.14) -> Polygon:
    """Return a square of side 2 * half with round corners, clockwise from the right."""
    inner = half - radius
    corners = [(inner, inner, 0), (-inner, inner, 90), (-inner, -inner, 180), (inner, -inner, 270)]
    return [
        (middle[0] + dx + radius * math.cos(angle), middle[1] + dy + radius * math.sin(angle))
        for dx, dy, first in corners
        for angle in np.radians(np.linspace(first, first + 90, 5))
    ]


def runs(marked: npt.NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """Return (row, first column, column after the last) of each unbroken run of marks in a row."""
    edges = np.diff(np.pad(marked, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    begins, ends = np.argwhere(edges == 1), np.argwhere(edges == -1)
    return [(int(row), int(first), int(after)) for (row, first), (_, after) in zip(begins, ends, strict=True)]


def _walls_between(maze: Maze) -> list[Polygon]:
    """Return a line for each straight wall between free cells that are not open to each other."""
    free = (maze.cells & WALL) == 0
    below = free[:-1] & free[1:] & ((maze.cells[:-1] & SOUTH) == 0)
    right = free[:, :-1] & free[:, 1:] & ((maze.cells[:, :-1] & EAST) == 0)
    flat: list[Polygon] = [[(first, row + 1), (after, row + 1)] for row, first, after in runs(below)]
    upright: list[Polygon] = [[(col + 1, first), (col + 1, after)] for col, first, after in runs(right.T)]
    return flat + upright


def _arrows(maze: Maze, cells: list[Cell], centre: Callable[[Cell], Point]) -> list[Fill | Line]:
    """Return a dot where the prediction begins or stands still, and an arrow for each other step."""
    steps = list(pairwise(cells))
    taken = set(steps)
    dots = [*cells[:1], *(a for a, b in steps if a == b)]
    found: dict[bool, list[Polygon]] = {True: [disc(centre(cell)) for cell in dots], False: []}
    for a, b in steps:
        if a != b:
            # Steps there and back would cover each other, so each keeps to its right.
            found[maze.is_open(a, b)].append(_arrow(centre(a), centre(b), aside=0.17 if (b, a) in taken else 0.0))
    return [Fill(PREDICTED, found[True]), Fill(BROKEN, found[False])]


def _arrow(tail: Point, tip: Point, aside: float) -> Polygon:
    """Return an arrow that stops a little short of both points, shifted to its right by `aside`."""
    length = math.dist(tail, tip)
    along = ((tip[0] - tail[0]) / length, (tip[1] - tail[1]) / length)
    across = (-along[1], along[0])  # to the right of the arrow, since y points down
    shaft, wing, neck = 0.05, 0.19, length - 0.06 - 0.36
    half = [(0.1, shaft), (neck, shaft), (neck, wing), (length - 0.06, 0.0)]
    outline = [(x, -y) for x, y in half] + half[-2::-1]
    return [
        (
            tail[0] + forward * along[0] + (sideways + aside) * across[0],
            tail[1] + forward * along[1] + (sideways + aside) * across[1],
        )
        for forward, sideways in outline
    ]


_PANEL = 340  # pixels of a panel's longer side, unless cells would become too large or too small
_TEXT = 14  # pixels of a line of text's height
_GAP = 14  # pixels between panels


def task_svg(
    task: Task | Maze, path: Sequence[Cell] | None = None, predicted: Sequence[Cell] | None = None, title: str = ""
) -> str:
    """Return one drawn task."""
    return grid_svg([(task, path, predicted, title)], columns=1)


def grid_svg(pictures: Sequence[Picture], columns: int) -> str:
    """Return many drawn tasks in rows of `columns`."""
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
    return svg_document(total_width, top - _GAP, "".join(parts))


def svg_document(width: float, height: float, body: str) -> str:
    w, h = _number(math.ceil(width)), _number(math.ceil(height))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{w}" height="{h}" viewBox="0 0 {w} {h}">'
        f'<rect width="{w}" height="{h}" fill="#ffffff"/>{body}</svg>\n'
    )


def scaled_svg(task: Task | Maze, body: str, top: float = 0.0) -> tuple[float, float, str]:
    """Return width, height and content in pixels of a drawing of the task that is given in cells."""
    columns, rows = (side + 2 * MARGIN for side in drawing_size(task))
    cell = min(32.0, max(6.0, _PANEL / max(columns, rows)))
    scale = f"translate({_number(MARGIN * cell)} {_number(top + MARGIN * cell)}) scale({_number(cell)})"
    return columns * cell, top + rows * cell, f'<g transform="{scale}">{body}</g>'


def _panel(picture: Picture) -> tuple[float, float, str]:
    """Return width, height and content of one task with its title above and its note below, in pixels."""
    task, path, predicted, title = picture
    shapes, note = task_shapes(task, path, predicted)
    width, height, body = scaled_svg(task, "".join(map(shape_svg, shapes)), 1.5 * _TEXT if title else 0.0)
    if title:
        body = _text(width / 2, _TEXT, title, _TEXT - 2) + body
    if note:
        height += 1.5 * _TEXT
        body += _text(width / 2, height - _TEXT / 2, note, _TEXT - 2)
    return width, height, body


def shape_svg(shape: Shape) -> str:
    """Return a shape in cells."""
    if isinstance(shape, Word):
        return _text(shape.middle[0], shape.middle[1] + 0.36 * shape.size, shape.text, shape.size, shape.colour)
    if isinstance(shape, Fill):
        return f'<path fill="{shape.colour}" d="{"".join(_points(p) + "z" for p in shape.polygons)}"/>'
    return (
        f'<path fill="none" stroke="{shape.colour}" stroke-width="{_number(shape.width)}" stroke-linecap="round" '
        f'stroke-linejoin="round" d="{"".join(map(_points, shape.lines))}"/>'
    )


def _text(x: float, y: float, text: str, size: float, colour: str = TEXT) -> str:
    return (
        f'<text x="{_number(x)}" y="{_number(y)}" font-family="sans-serif" font-size="{_number(size)}" fill="{colour}" '
        f'text-anchor="middle">{escape(text)}</text>'
    )


def _points(points: Sequence[Point]) -> str:
    """Return a polyline in SVG's path language; a lone point becomes a dot by a line to itself."""
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
    """Return at most three digits after the point, and no trailing zeros."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


_CELL, _PANEL_LEAST, _PANEL_MOST = 32.0, 430, 2160  # pixels: of a cell, and of a panel's longer side
_MOST_PIXELS = 10_000  # of a PNG's longer side, so that its memory stays bounded
_SMOOTHING = 3  # drawn so many times as large, then reduced: pillow's polygons have hard edges
_IMAGE_TEXT = 18  # pixels


def shapes_image(shapes: Sequence[Shape], width: float, height: float, cell: float) -> Image:
    """Return the shapes of a drawing of so many cells, with a margin, at `cell` pixels a cell."""
    from PIL import Image, ImageDraw, ImageFont

    scale = cell * _SMOOTHING
    size = [round((side + 2 * MARGIN) * cell) for side in (width, height)]
    image = Image.new("RGB", (size[0] * _SMOOTHING, size[1] * _SMOOTHING), "#ffffff")
    canvas = ImageDraw.Draw(image)

    def at(point: Point) -> Point:
        return ((point[0] + MARGIN) * scale, (point[1] + MARGIN) * scale)

    for shape in shapes:
        if isinstance(shape, Word):
            canvas.text(
                at(shape.middle), shape.text, shape.colour, ImageFont.load_default(shape.size * scale), anchor="mm"
            )
        elif isinstance(shape, Fill):
            for polygon in shape.polygons:
                canvas.polygon([at(point) for point in polygon], fill=shape.colour)
        else:
            half = shape.width * scale / 2
            for line in shape.lines:
                points = [at(point) for point in line]
                canvas.line(points, shape.colour, round(2 * half))
                for x, y in points:  # round ends and joints
                    canvas.ellipse((x - half, y - half, x + half, y + half), fill=shape.colour)
    return image.reduce(_SMOOTHING)


def task_image(
    task: Task | Maze, path: Sequence[Cell] | None = None, predicted: Sequence[Cell] | None = None, cell: float = _CELL
) -> Image:
    """Return a drawn task at `cell` pixels a cell."""
    return shapes_image(task_shapes(task, path, predicted)[0], *drawing_size(task), cell)


def with_text(image: Image, above: str = "", below: str = "") -> Image:
    """Return the image with a centred line of text above and below, where it is not empty."""
    from PIL import Image as Images
    from PIL import ImageDraw, ImageFont

    space = round(1.6 * _IMAGE_TEXT)
    top, bottom = space * bool(above), space * bool(below)
    whole = Images.new("RGB", (image.width, image.height + top + bottom), "#ffffff")
    whole.paste(image, (0, top))
    canvas, font = ImageDraw.Draw(whole), ImageFont.load_default(_IMAGE_TEXT)
    for text, y in ((above, top / 2), (below, whole.height - bottom / 2)):
        canvas.text((image.width / 2, y), text, TEXT, font, anchor="mm")
    return whole


def draw_task(
    ax: Axes, task: Task | Maze, path: Sequence[Cell] | None = None, predicted: Sequence[Cell] | None = None
) -> None:
    """Draw a task on matplotlib axes; a note about cells that cannot be drawn goes below."""
    ax.imshow(task_image(task, path, predicted), interpolation="antialiased")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.set_xlabel(task_shapes(task, path, predicted)[1], fontsize=8, color=TEXT)


def save_picture(file: PathLike, pictures: Sequence[Picture], columns: int | None = None) -> None:
    """Draw tasks in a grid to a .png or .svg file; each picture is (task, path, predicted, title)."""
    ending = check_ending(file)
    if not pictures:
        raise UserError("there is no maze to draw; give at least one.")
    columns = min(len(pictures), columns or math.ceil(math.sqrt(len(pictures))))
    if ending == ".svg":
        with atomic_write(file) as out:
            out.write(grid_svg(pictures, columns))
    else:
        with atomic_write(file, "wb") as out:
            _grid_image(pictures, columns).save(out, "png")


def check_ending(file: PathLike) -> str:
    """Return the file's ending if it names a picture format, otherwise raise UserError."""
    ending = Path(file).suffix.lower()
    if ending not in (".png", ".svg"):
        raise UserError(f"{file} must end in .png or .svg, since that says which kind of picture to draw.")
    return ending


def _grid_image(pictures: Sequence[Picture], columns: int) -> Image:
    from PIL import Image

    rows = math.ceil(len(pictures) / columns)
    most = min(_PANEL_MOST, _MOST_PIXELS // max(rows, columns) - 4 * _IMAGE_TEXT)
    images = []
    for task, path, predicted, title in pictures:
        longest = max(drawing_size(task)) + 2 * MARGIN
        cell = min(max(_CELL, _PANEL_LEAST / longest), most / longest)
        image = task_image(task, path, predicted, cell)
        images.append(with_text(image, title, task_shapes(task, path, predicted)[1]))
    width, height = max(image.width for image in images), max(image.height for image in images)
    gap = _IMAGE_TEXT // 2
    whole = Image.new("RGB", (columns * (width + gap) - gap, rows * (height + gap) - gap), "#ffffff")
    for number, image in enumerate(images):
        row, column = divmod(number, columns)
        whole.paste(image, (column * (width + gap) + (width - image.width) // 2, row * (height + gap)))
    return whole
