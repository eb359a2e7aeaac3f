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
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from clew.errors import UserError, counted
from clew.files import PathLike, atomic_write
from clew.mazes.maze import EAST, SOUTH, WALL, Cell, Maze, PathStar, Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.Image import Image

PAPER, GRID, STONE, INK, TEXT = "#ffffff", "#eceef1", "#b9bec7", "#22262b", "#444444"
START, GOAL = "#3fae6a", "#f28c38"
TRUE_PATH, PREDICTED, BROKEN = "#d7263d", "#f5b700", "#7b3fb5"
MARGIN = 0.25  # of a cell, around the drawing, so that the frame is wholly visible
_PANEL = 340  # pixels of a drawing's longer side, unless cells would become too large or too small
_CELL = (6.0, 48.0)  # pixels
_TEXT, _LINE, _GAP = 12, 21, 14  # pixels: of text, of a line of text, between drawings
_ZOOM, _MOST_PIXELS = 2.0, 4_000  # of a PNG file; its memory stays bounded
_SMOOTHING = 3  # images are drawn so many times as large, then reduced: pillow's polygons have hard edges

Point = tuple[float, float]
Polygon = list[Point]
Cells = Sequence[Cell] | None
Picture = tuple[Task | Maze, Cells, Cells, str]  # task, path, predicted, title


class Shape(NamedTuple):
    """Filled polygons, or with a width polylines with round ends and joints."""

    colour: str
    lines: Sequence[Polygon]
    width: float = 0.0


class Word(NamedTuple):
    """A short text around a point."""

    colour: str
    size: float
    text: str
    middle: Point


class Layer(NamedTuple):
    """Shapes with their place and scale in pixels."""

    x: float
    y: float
    scale: float
    shapes: Sequence[Shape | Word]
    attributes: str = ""  # of the SVG element


class Drawing(NamedTuple):
    """Layers from the bottom up; width and height are in pixels."""

    width: float
    height: float
    layers: Sequence[Layer]


def centres(maze: Maze) -> dict[Cell, Point]:
    """Return the centre of each cell, or of each node of a path-star graph."""
    if not isinstance(maze, PathStar):
        return {(row, col): (col + 0.5, row + 0.5) for row in range(maze.height) for col in range(maze.width)}
    branches = maze.branches()
    found = {node: (step + 0.5, row + 0.5) for row, nodes in enumerate(branches) for step, node in enumerate(nodes)}
    return found | {branches[0][0]: (0.5, len(branches) / 2)}


def drawing_size(maze: Maze) -> tuple[int, int]:
    """Return width and height of the drawing, in cells."""
    x, y = zip(*centres(maze).values(), strict=True)
    return math.ceil(max(x)), math.ceil(max(y))


def task_shapes(task: Task | Maze, path: Cells = None, predicted: Cells = None) -> tuple[list[Shape | Word], str]:
    """Return the shapes from the bottom up, the background first, and a note about cells that cannot be drawn."""
    maze = task if isinstance(task, Maze) else task.maze
    ends = [] if isinstance(task, Maze) else [(START, task.start), (GOAL, task.goal)]
    centre = centres(maze)
    true, inside = ([cell for cell in cells or [] if cell in centre] for cells in (path, predicted))
    right, bottom = drawing_size(maze)
    frame: Polygon = [(0, 0), (right, 0), (right, bottom), (0, bottom)]
    shapes, words = [Shape(PAPER, [frame])], []
    line = Shape(TRUE_PATH, [[centre[cell] for cell in true]], 0.2)
    if isinstance(maze, PathStar):
        shapes += [Shape(STONE, [[centre[a], centre[b]] for a, b in maze.edges()], 0.08), line]
        shapes += [Shape(GRID, [disc(middle, 0.3) for middle in centre.values()])]
        shapes += [Shape(colour, [disc(centre[node], 0.3)]) for colour, node in ends]
        words = [Word(INK, 0.3, maze.name(node), middle) for node, middle in centre.items()]
    else:
        squares = [Shape(colour, [square(centre[cell], 0.34)]) for colour, cell in ends]
        shapes += [*_maze_shapes(maze, frame, squares), line]
    shapes += _arrows(maze, inside, centre)
    number = len(predicted or []) - len(inside)
    note = f"{counted(number, f'predicted {maze.cell_word}')} outside the maze" if number else ""
    return [*(shape for shape in shapes if any(shape.lines)), *words], note


def _maze_shapes(maze: Maze, frame: Polygon, ends: Sequence[Shape]) -> list[Shape]:
    """Return the grid, the wall cells, start and goal, and the frame with the walls between cells."""
    height, width = maze.cells.shape
    across: list[Polygon] = [[(0, row), (width, row)] for row in range(1, height)]
    down: list[Polygon] = [[(col, 0), (col, height)] for col in range(1, width)]
    wall = (maze.cells & WALL) != 0
    # Squares of wall cells overlap a little, so that no seam is visible.
    blocks = [square((col + 0.5, row + 0.5), 0.51) for row, col in np.argwhere(wall).tolist()]
    # Walls stand between free cells that are not open to each other.
    below = ~wall[:-1] & ~wall[1:] & ((maze.cells[:-1] & SOUTH) == 0)
    right = ~wall[:, :-1] & ~wall[:, 1:] & ((maze.cells[:, :-1] & EAST) == 0)
    lines: list[Polygon] = [[(col, row + 1), (col + 1, row + 1)] for row, col in np.argwhere(below).tolist()]
    lines += [[(col + 1, row), (col + 1, row + 1)] for row, col in np.argwhere(right).tolist()]
    edges = Shape(STONE, [[*frame, frame[0]], *lines], 0.18)
    return [Shape(GRID, across + down, 0.03), Shape(STONE, blocks), *ends, edges]


def _arrows(maze: Maze, cells: list[Cell], centre: dict[Cell, Point]) -> list[Shape]:
    """Return a dot where the prediction begins or stands still, and an arrow for each other step."""
    steps = list(pairwise(cells))
    taken = set(steps)
    dots = [*cells[:1], *(a for a, b in steps if a == b)]
    found = {PREDICTED: [disc(centre[cell], 0.13) for cell in dots], BROKEN: []}
    for a, b in steps:
        if a != b:
            # Steps there and back would cover each other, so each keeps to its right.
            aside = 0.17 if (b, a) in taken else 0.0
            found[PREDICTED if maze.is_open(a, b) else BROKEN].append(_arrow(centre[a], centre[b], aside))
    return [Shape(colour, polygons) for colour, polygons in found.items()]


def _arrow(tail: Point, tip: Point, aside: float) -> Polygon:
    """Return an arrow that stops a little short of both points, shifted to its right by `aside`."""
    # Points as complex numbers: a product with `along` turns them, and i is to the right since y points down.
    begin, length = complex(*tail), math.dist(tail, tip)
    along = (complex(*tip) - begin) / length
    half = [0.1 + 0.05j, length - 0.42 + 0.05j, length - 0.42 + 0.19j, length - 0.06 + 0j]
    outline = [begin + along * (point + aside * 1j) for point in [p.conjugate() for p in half] + half[-2::-1]]
    return [(point.real, point.imag) for point in outline]


def square(middle: Point, half: float) -> Polygon:
    x, y = middle
    return [(x - half, y - half), (x + half, y - half), (x + half, y + half), (x - half, y + half)]


def disc(middle: Point, radius: float) -> Polygon:
    angles = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    return [(middle[0] + radius * math.cos(angle), middle[1] + radius * math.sin(angle)) for angle in angles]


def place(task: Task | Maze, shapes: Sequence[Shape | Word], note: str = "", title: str = "") -> Drawing:
    """Return shapes of a task in pixels, with a title above and a note below."""
    columns, rows = (side + 2 * MARGIN for side in drawing_size(task if isinstance(task, Maze) else task.maze))
    cell = min(max(_PANEL / max(columns, rows), _CELL[0]), _CELL[1])
    width, top = columns * cell, _LINE * bool(title)
    height = top + rows * cell + _LINE * bool(note)
    # A long text is written smaller, so that it is not cut off.
    words = [
        Word(TEXT, min(_TEXT, 1.9 * width / len(text)), text, (width / 2, y))
        for text, y in ((title, _LINE / 2), (note, height - _LINE / 2))
        if text
    ]
    return Drawing(width, height, [Layer(MARGIN * cell, top + MARGIN * cell, cell, shapes), Layer(0, 0, 1, words)])


def _grid(pictures: Sequence[Picture], columns: int) -> Drawing:
    """Return drawn tasks in rows of `columns`."""
    drawings = [place(task, *task_shapes(task, path, predicted), title) for task, path, predicted, title in pictures]
    width, height = max(each.width for each in drawings) + _GAP, max(each.height for each in drawings) + _GAP
    layers = []
    for i, each in enumerate(drawings):
        left, top = (i % columns) * width + (width - _GAP - each.width) / 2, (i // columns) * height
        layers += [layer._replace(x=layer.x + left, y=layer.y + top) for layer in each.layers]
    return Drawing(columns * width - _GAP, math.ceil(len(drawings) / columns) * height - _GAP, layers)


def task_svg(task: Task | Maze, path: Cells = None, predicted: Cells = None) -> str:
    """Return one drawn task."""
    return grid_svg([(task, path, predicted, "")], columns=1)


def grid_svg(pictures: Sequence[Picture], columns: int) -> str:
    """Return drawn tasks in rows of `columns`."""
    return to_svg(_grid(pictures, columns))


def to_svg(drawing: Drawing) -> str:
    w, h = math.ceil(drawing.width), math.ceil(drawing.height)
    layers = [
        f'<g{layer.attributes} transform="translate({layer.x:.5g} {layer.y:.5g}) scale({layer.scale:.5g})">'
        f"{''.join(map(_shape_svg, layer.shapes))}</g>"
        for layer in drawing.layers
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{w}" height="{h}" viewBox="0 0 {w} {h}">'
        f'<rect width="{w}" height="{h}" fill="{PAPER}"/>{"".join(layers)}</svg>\n'
    )


def _shape_svg(shape: Shape | Word) -> str:
    if isinstance(shape, Word):
        x, y = shape.middle[0], shape.middle[1] + 0.36 * shape.size
        style = f'font-family="sans-serif" font-size="{shape.size:.5g}" fill="{shape.colour}" text-anchor="middle"'
        return f'<text x="{x:.5g}" y="{y:.5g}" {style}>{escape(shape.text)}</text>'
    # A lone point becomes a dot by a line to itself.
    lines = ["L".join(f"{x:.5g} {y:.5g}" for x, y in (line if len(line) > 1 else line * 2)) for line in shape.lines]
    if not shape.width:
        return f'<path fill="{shape.colour}" d="M{"zM".join(lines)}z"/>'
    style = f'stroke-width="{shape.width}" stroke-linecap="round" stroke-linejoin="round"'
    return f'<path fill="none" stroke="{shape.colour}" {style} d="M{"M".join(lines)}"/>'


def to_image(drawing: Drawing, zoom: float) -> Image:
    """Return the drawing at `zoom` times its size."""
    from PIL import Image, ImageDraw, ImageFont

    size = [round(side * zoom) * _SMOOTHING for side in (drawing.width, drawing.height)]
    image = Image.new("RGB", (size[0], size[1]), PAPER)
    canvas = ImageDraw.Draw(image)
    for layer in drawing.layers:
        scale = layer.scale * zoom * _SMOOTHING
        left, top = layer.x * zoom * _SMOOTHING, layer.y * zoom * _SMOOTHING
        for shape in layer.shapes:
            if isinstance(shape, Word):
                middle = (left + shape.middle[0] * scale, top + shape.middle[1] * scale)
                canvas.text(middle, shape.text, shape.colour, ImageFont.load_default(shape.size * scale), anchor="mm")
                continue
            half = shape.width * scale / 2
            for line in shape.lines:
                points = [(left + x * scale, top + y * scale) for x, y in line]
                if not half:
                    canvas.polygon(points, shape.colour)
                    continue
                canvas.line(points, shape.colour, round(2 * half))
                for x, y in points:  # round ends and joints
                    canvas.ellipse((x - half, y - half, x + half, y + half), shape.colour)
    return image.reduce(_SMOOTHING)


def draw_task(ax: Axes, task: Task | Maze, path: Cells = None, predicted: Cells = None) -> None:
    """Draw a task on matplotlib axes."""
    ax.imshow(to_image(_grid([(task, path, predicted, "")], columns=1), _ZOOM), interpolation="antialiased")
    ax.set_axis_off()


def save_picture(file: PathLike, pictures: Sequence[Picture], columns: int | None = None) -> None:
    """Draw tasks in a grid to a .png or .svg file; each picture is (task, path, predicted, title)."""
    ending = check_ending(file)
    if not pictures:
        raise UserError("there is no maze to draw; give at least one.")
    whole = _grid(pictures, min(len(pictures), columns or math.ceil(math.sqrt(len(pictures)))))
    with atomic_write(file, "wb") as out:
        if ending == ".svg":
            out.write(to_svg(whole).encode())
        else:
            to_image(whole, min(_ZOOM, _MOST_PIXELS / max(whole.width, whole.height))).save(out, "png")


def check_ending(file: PathLike) -> str:
    """Return the file's ending if it names a picture format, otherwise raise UserError."""
    ending = Path(file).suffix.lower()
    if ending in (".png", ".svg"):
        return ending
    raise UserError(f"{file} must end in .png or .svg, since that says which kind of picture to draw.")
