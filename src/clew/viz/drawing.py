"""What a drawn maze consists of: filled polygons and round-ended lines, in cells, for any kind of canvas.

Two looks, as in the paper: a maze that is told by its passages gets walls between its cells, one that is told by its
wall cells gets those filled. The true path is a red line, a predicted one amber arrows; an arrow is purple where the
maze has no such step (through a wall, diagonal, or over a gap), so broken predictions show where they break.

A path-star graph has one arm a row, drawn to the right of the centre, with the labels in its nodes.

Points are (x, y) with the maze's top left corner at (0, 0) and y downwards; cell (row, col) has its centre at
(col + 0.5, row + 0.5).

Mazes as compact SVG text, small enough to stand inside a notebook or an HTML page.

    task_svg(task, path=path, predicted=cells) -> "<svg ...>...</svg>"

Nothing in it has an id or a style sheet, so many of them on one page do not disturb each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from clew.mazes.maze import EAST, SOUTH, WALL, Cell, Maze, PathStar, Task

PAPER, GRID, STONE, INK = "#ffffff", "#eceef1", "#b9bec7", "#22262b"
START, GOAL = "#3fae6a", "#f28c38"
TRUE_PATH, PREDICTED, BROKEN = "#d7263d", "#f5b700", "#7b3fb5"
MARGIN = 0.25  # of a cell, around the maze, so that the frame is wholly visible

Point = tuple[float, float]


@dataclass(frozen=True)
class Fill:
    colour: str
    polygons: list[list[Point]]


@dataclass(frozen=True)
class Line:
    colour: str
    width: float
    lines: list[list[Point]]


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
    maze, _ = _maze_and_ends(task)
    if isinstance(maze, PathStar):
        branches = maze.branches()
        return max(map(len, branches)), len(branches)
    return maze.width, maze.height


def _maze_and_ends(task: Task | Maze) -> tuple[Maze, list[tuple[str, Cell]]]:
    """Return the maze, and the colours of start and goal, which a maze alone has not."""
    return (task, []) if isinstance(task, Maze) else (task.maze, [(START, task.start), (GOAL, task.goal)])


def task_shapes(
    task: Task | Maze, path: Sequence[Cell] | None = None, predicted: Sequence[Cell] | None = None
) -> tuple[list[Shape], str]:
    """Everything to draw, from the bottom up, and a note about what could not be drawn (or an empty string)."""
    maze, ends = _maze_and_ends(task)
    if isinstance(maze, PathStar):
        return _graph_shapes(maze, ends, path, predicted)
    shapes: list[Shape] = [Fill(PAPER, [_box(0, 0, maze.width, maze.height)])]
    if maze.has_wall_cells_only:
        shapes.append(Line(GRID, 0.03, _grid_lines(maze)))
    shapes.append(Fill(STONE, _wall_boxes(maze)))
    shapes += [Fill(colour, [_rounded_square(centre(cell))]) for colour, cell in ends]
    shapes.append(Line(STONE, 0.18, [_frame(maze), *_walls_between(maze)]))
    note = ""
    if path:
        shapes.append(Line(TRUE_PATH, 0.2, [[centre(cell) for cell in _corners(path)]]))
    if predicted:
        inside = [cell for cell in predicted if cell in maze]
        shapes += _prediction(maze, inside, centre)
        if outside := len(predicted) - len(inside):
            note = f"{outside} predicted cell{'s lie' if outside > 1 else ' lies'} outside the maze"
    return _not_empty(shapes), note


def _graph_shapes(
    graph: PathStar, ends: list[tuple[str, Cell]], path: Sequence[Cell] | None, predicted: Sequence[Cell] | None
) -> tuple[list[Shape], str]:
    branches = graph.branches()
    place = {node: (step + 0.5, row + 0.5) for row, nodes in enumerate(branches) for step, node in enumerate(nodes)}
    place[branches[0][0]] = (0.5, len(branches) / 2)

    def discs(nodes: Sequence[Cell]) -> list[list[Point]]:
        return [_dot(place[node], 0.3) for node in nodes]

    width, height = drawing_size(graph)
    plain = [node for node in place if node not in [end for _, end in ends]]
    shapes: list[Shape] = [
        Fill(PAPER, [_box(0, 0, width, height)]),
        Line(STONE, 0.08, [[place[a], place[b]] for a, b in graph.edges()]),
    ]
    if path:
        shapes.append(Line(TRUE_PATH, 0.2, [[place[node] for node in path if node in place]]))
    shapes += [Fill(GRID, discs(plain)), *(Fill(colour, discs([node])) for colour, node in ends)]
    note = ""
    if predicted:
        inside = [node for node in predicted if node in place]
        shapes += _prediction(graph, inside, place.__getitem__)
        if outside := len(predicted) - len(inside):
            note = f"{outside} predicted label{'s are' if outside > 1 else ' is'} not in the graph"
    shapes += [Word(INK, 0.3, graph.name(node), middle) for node, middle in place.items()]
    return _not_empty(shapes), note


def _not_empty(shapes: Sequence[Shape]) -> list[Shape]:
    return [
        shape
        for shape in shapes
        if isinstance(shape, Word) or (shape.polygons if isinstance(shape, Fill) else shape.lines)
    ]


def centre(cell: Cell) -> Point:
    return (cell[1] + 0.5, cell[0] + 0.5)


def _corners(path: Sequence[Cell]) -> list[Cell]:
    """The path without the cells that it crosses straight on: the same line in fewer pieces."""

    def step(a: Cell, b: Cell) -> Cell:
        return (b[0] - a[0], b[1] - a[1])

    inner = [b for a, b, c in zip(path, path[1:], path[2:], strict=False) if step(a, b) != step(b, c)]
    return [path[0], *inner, *path[1:][-1:]]


def _box(x: float, y: float, width: float, height: float) -> list[Point]:
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def _rounded_square(middle: Point, half: float = 0.36, radius: float = 0.14) -> list[Point]:
    """A square of side 2 * half with round corners, clockwise from the right."""
    inner = half - radius
    corners = [(inner, inner, 0), (-inner, inner, 90), (-inner, -inner, 180), (inner, -inner, 270)]
    return [
        (middle[0] + dx + radius * math.cos(angle), middle[1] + dy + radius * math.sin(angle))
        for dx, dy, first in corners
        for angle in np.radians(np.linspace(first, first + 90, 5))
    ]


def _runs(marked: npt.NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """(row, first column, column after the last) of every unbroken run of marks in a row."""
    edges = np.diff(np.pad(marked, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    begins, ends = np.argwhere(edges == 1), np.argwhere(edges == -1)
    return [(int(row), int(first), int(after)) for (row, first), (_, after) in zip(begins, ends, strict=True)]


def _wall_boxes(maze: Maze) -> list[list[Point]]:
    """The wall cells, a box for each run in a row; boxes overlap a little so that no seam shines through."""
    overlap = 0.01
    return [
        _box(first - overlap, row - overlap, after - first + 2 * overlap, 1 + 2 * overlap)
        for row, first, after in _runs((maze.cells & WALL) != 0)
    ]


def _walls_between(maze: Maze) -> list[list[Point]]:
    """A line for each straight wall between free cells that are not open to each other."""
    free = (maze.cells & WALL) == 0
    below = free[:-1] & free[1:] & ((maze.cells[:-1] & SOUTH) == 0)
    right = free[:, :-1] & free[:, 1:] & ((maze.cells[:, :-1] & EAST) == 0)
    flat: list[list[Point]] = [[(first, row + 1), (after, row + 1)] for row, first, after in _runs(below)]
    upright: list[list[Point]] = [[(col + 1, first), (col + 1, after)] for col, first, after in _runs(right.T)]
    return flat + upright


def _frame(maze: Maze) -> list[Point]:
    box = _box(0, 0, maze.width, maze.height)
    return [*box, box[0]]


def _grid_lines(maze: Maze) -> list[list[Point]]:
    across: list[list[Point]] = [[(0, row), (maze.width, row)] for row in range(1, maze.height)]
    down: list[list[Point]] = [[(col, 0), (col, maze.height)] for col in range(1, maze.width)]
    return across + down


def _prediction(maze: Maze, cells: list[Cell], place: Callable[[Cell], Point]) -> list[Shape]:
    """A dot where the prediction begins or stands still, an arrow for each other step."""
    steps = list(pairwise(cells))
    dots = [cells[0]] if cells else []
    dots += [a for a, b in steps if a == b]
    taken = set(steps)
    sound: list[list[Point]] = []
    broken: list[list[Point]] = []
    for a, b in steps:
        if a != b:
            # Steps there and back would cover each other, so each keeps to its right.
            arrow = _arrow(place(a), place(b), aside=0.17 if (b, a) in taken else 0.0)
            (sound if maze.is_open(a, b) else broken).append(arrow)
    return [Fill(PREDICTED, [_dot(place(cell)) for cell in dots] + sound), Fill(BROKEN, broken)]


def _dot(middle: Point, radius: float = 0.13) -> list[Point]:
    angles = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    return [(middle[0] + radius * math.cos(angle), middle[1] + radius * math.sin(angle)) for angle in angles]


def _arrow(tail: Point, tip: Point, aside: float) -> list[Point]:
    """An arrow between two points that stops a little short of both, shifted to its right by `aside`."""
    length = math.dist(tail, tip)
    along = ((tip[0] - tail[0]) / length, (tip[1] - tail[1]) / length)
    across = (-along[1], along[0])  # to the right of the arrow, since y points down
    half_shaft, half_head, head = 0.05, 0.19, 0.36
    begin, end = 0.1, length - 0.06
    outline = [
        (begin, -half_shaft),
        (end - head, -half_shaft),
        (end - head, -half_head),
        (end, 0.0),
        (end - head, half_head),
        (end - head, half_shaft),
        (begin, half_shaft),
    ]
    return [
        (
            tail[0] + forward * along[0] + (sideways + aside) * across[0],
            tail[1] + forward * along[1] + (sideways + aside) * across[1],
        )
        for forward, sideways in outline
    ]


Picture = tuple[Task | Maze, Sequence[Cell] | None, Sequence[Cell] | None, str]  # task, path, predicted, title

_PANEL = 340  # pixels of a panel's longer side, unless cells would become too large or too small
_TEXT = 14  # pixels of a line of text's height
_GAP = 14  # pixels between panels


def task_svg(
    task: Task | Maze,
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
