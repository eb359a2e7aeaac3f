"""Drawings of mazes with characters: written, and read with the line and column of what is wrong.

Walls between cells (`style="passages"`): a cell is two characters, its role and an arrow; `##` is a wall cell.

    +--+--+--+
    |S>  v|G |
    +--+  +  +
    |##| >  ^|
    +--+--+--+

Wall cells (`style="walls"`): each cell is one character.

    S>>v
    .##v
    ..#G

`S` is the start, `G` the goal (`B` if they are one cell), `#` a wall, `.` or a space a free cell; `^ v < >` are steps.
A path that visits no cell twice reads back as it was; with one character a cell it needs a cell between S and G.

Also read: Unicode box drawing, full blocks, maze-dataset's `as_ascii()` (`E` is the goal, `X` the path), rows of 0 and
1 (with S and G, or 2 and 3). A drawing may be indented, framed with lines, or have spaces after each cell. Where the
columns of the maze are not certain, it is refused.

All drawings, and the pictures and arrays of clew.data.readers, become rows of cells, of which `parse_cells` makes the
maze. Walls between cells are cells too: they make a lattice of 2H + 1 by 2W + 1 (`lattice`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.mazes.maze import EAST, MAX_SIDE, SIDES, SOUTH, WALL, Cell, Maze, Path, PathStar, Task, cells_from_solid
from clew.mazes.solvers import path_through
from clew.tokenization.tokens import Parsed, cell_token, quoted

Style = Literal["passages", "walls"]
Bools = npt.NDArray[np.bool_]
ARROWS = {(-1, 0): "^", (1, 0): "v", (0, -1): "<", (0, 1): ">"}
_STEPS = {arrow: step for step, arrow in ARROWS.items()}
_ROLES = {"S": ("start",), "G": ("goal",), "E": ("goal",), "B": ("start", "goal")}
WALL_MARKS, FREE_MARKS, PATH_MARKS = "#█▓■⬛", ".░·□⬜", "Xox*•"
HORIZONTAL, VERTICAL = "-─━═╌┄┅┈┉╍╼╾", "|│┃║╎┆┇┊┋╏╽╿"
# All other box drawing characters but diagonals: corners, junctions and ends of walls, in any mixture of line styles.
CORNERS = "+" + "".join(
    c for c in map(chr, range(0x2500, 0x2580)) if c not in HORIZONTAL + VERTICAL and not "\u2571" <= c <= "\u2573"
)
BINARY = {"0": ".", "1": "#", "2": "S", "3": "G", "S": "S", "G": "G"}
DRAWING_CHARACTERS = {*" \t0123,[]", *_ROLES, *_STEPS, *WALL_MARKS, *FREE_MARKS, *PATH_MARKS}
DRAWING_CHARACTERS |= {*HORIZONTAL, *VERTICAL, *CORNERS}
_MAX_COLUMNS = 16 * MAX_SIDE  # a cell may be several characters wide


def draw_ascii(task: Task, path: Path | None = None, style: Style | None = None) -> str:
    """Return the drawing; without a style, wall cells where they determine the maze, else passages."""
    maze = task.maze
    if isinstance(maze, PathStar):
        return _draw_graph(task, maze, path or [])
    arrows = {a: ARROWS.get((b[0] - a[0], b[1] - a[1]), "?") for a, b in pairwise(path or [])}
    if style == "walls" or (style is None and maze.has_wall_cells_only):
        marks = arrows | {cell: role for cell in (task.start, task.goal) if (role := _role(task, cell))}
        return draw_cells(task, marks, ".", "#")

    def inside(cell: Cell) -> str:
        return "##" if maze.is_wall(cell) else f"{_role(task, cell):1}{arrows.get(cell, ''):1}"

    return _draw_lattice(lattice(maze, with_wall_cells=True), inside, "-", "|", lambda row, col: "+")


def _role(task: Task, cell: Cell) -> str:
    if cell == task.start:
        return "B" if cell == task.goal else "S"
    return "G" if cell == task.goal else ""


def _draw_graph(task: Task, graph: PathStar, path: Path) -> str:
    """Return a line for each arm, such as `S3 > 2 - 6`, with `>` on the path; it is not read back."""
    joints = dict.fromkeys(pairwise(path), ">") | {(b, a): "<" for a, b in pairwise(path)}
    lines = []
    for branch in graph.branches():
        names = [f"{_role(task, node)}{node[1]}" for node in branch]
        joined = [f" {joints.get(step, '-')} {name}" for step, name in zip(pairwise(branch), names[1:], strict=True)]
        lines.append(names[0] + "".join(joined))
    return "\n".join(lines)


def _draw_lattice(
    solid: Bools, inside: Callable[[Cell], str], horizontal: str, vertical: str, corner: Callable[[int, int], str]
) -> str:
    """Return a drawing of walls between cells; `inside` gives what stands in a cell."""
    lines = []
    for row in range(len(solid)):
        line = ""
        for col in range(solid.shape[1]):
            if row % 2 and col % 2:
                line += inside((row // 2, col // 2))
            elif row % 2 or col % 2:
                wall = vertical if row % 2 else horizontal * len(inside((0, 0)))
                line += wall if solid[row, col] else " " * len(wall)
            else:
                line += corner(row, col)
        lines.append(line)
    return "\n".join(lines)


def draw_box(task: Task, path: Path | None = None) -> str:
    """Return a box drawing without the path. Its upper wall has a corner at every cell, to be read back."""
    solid = lattice(task.maze)
    padded = np.pad(solid, 1)

    def corner(row: int, col: int) -> str:
        west, east = padded[row + 1, col], padded[row + 1, col + 2]
        north, south = padded[row, col + 1], padded[row + 2, col + 1] or row == 0
        return " ╴╶─╵┘└┴╷┐┌┬│┤├┼"[west + 2 * east + 4 * north + 8 * south]

    return _draw_lattice(solid, lambda cell: f" {_role(task, cell):1} ", "─", "│", corner)


def draw_blocks(task: Task, path: Path | None) -> str:
    """Return maze-dataset's drawing: walls between cells as blocks, S, E and X; or one character a wall cell."""
    cells = path or []
    if task.maze.has_wall_cells_only:
        return draw_cells(task, dict.fromkeys(cells, "o") | {task.start: "S", task.goal: "G"}, ".", "#")
    grid = np.where(lattice(task.maze), "#", " ")
    for row, col in path_blocks(cells):
        grid[row, col] = "X"
    for mark, (row, col) in (("S", task.start), ("E", task.goal)):
        grid[2 * row + 1, 2 * col + 1] = mark
    return "\n".join("".join(row) for row in grid)


def draw_cells(task: Task, marks: dict[Cell, str], free: str, wall: str) -> str:
    """Return a drawing with one character a cell; UserError if walls between cells determine the maze."""
    if not task.maze.has_wall_cells_only:
        raise UserError("walls between cells cannot be drawn with one character a cell; use ascii, block or box.")
    grid = np.where(task.maze.cells == WALL, wall, free)
    for cell, mark in marks.items():
        if not task.maze.is_wall(cell):
            grid[cell] = mark
    return "\n".join("".join(row) for row in grid)


def lattice(maze: Maze, with_wall_cells: bool = False) -> Bools:
    """Return the grid of 2H + 1 by 2W + 1 blocks in which the walls between cells, and the corners, are solid."""
    if not with_wall_cells and (isinstance(maze, PathStar) or (maze.cells & WALL).any()):
        raise UserError("a maze with wall cells has no drawing of walls between cells; use block, hrm or json.")
    solid = np.ones((2 * maze.height + 1, 2 * maze.width + 1), dtype=bool)
    solid[1::2, 1::2] = maze.cells == WALL
    solid[1::2, 2::2] = (maze.cells & EAST) == 0
    solid[2::2, 1::2] = (maze.cells & SOUTH) == 0
    return solid


def path_blocks(path: Path) -> list[Cell]:
    """Return the blocks of a lattice that a path goes through: its cells, and what is between them."""
    return [(a[0] + b[0] + 1, a[1] + b[1] + 1) for a, b in [*pairwise(path), *zip(path, path, strict=True)]]


def is_lattice(solid_HW: Bools) -> bool:
    """Return whether blocks with two odd coordinates are all free and those with two even ones all solid."""
    odd = solid_HW.shape[0] % 2 == solid_HW.shape[1] % 2 == 1 and min(solid_HW.shape) >= 5
    return odd and not solid_HW[1::2, 1::2].any() and bool(solid_HW[::2, ::2].all())


@dataclass(frozen=True)
class Page:
    """Where the cells of a drawing stand, for messages."""

    first_line: int = 1
    indent: int = 0
    columns: Sequence[int] = range(_MAX_COLUMNS)  # where each cell of a line begins

    def error(self, line: int, column: int, problem: str) -> UserError:
        return UserError(f"line {self.first_line + line}, column {self.indent + column + 1}: {problem}.")

    def unknown(self, line: int, column: int, character: str) -> UserError:
        known = "# for walls, . for free cells, S and G for start and goal, ^ v < > for the path"
        return self.error(line, column, f"{quoted(character)} is no part of a maze; use {known}")


PLAIN = Page()


def parse_cells(cells: Sequence[Sequence[str]], page: Page = PLAIN, lines: bool = False) -> Parsed:
    """Return the task of rows of cells, and its path if one is marked.

    A cell is one character, or several in a drawing with `lines` as walls. Rows that are a lattice give a maze with
    walls between cells if they are drawn so, or with full blocks or the goal as E; other walls are wall cells.
    """
    solid = np.zeros((len(cells), len(cells[0])), dtype=bool)
    ends: dict[str, Cell] = {}
    arrows: dict[Cell, str] = {}
    marks: set[Cell] = set()
    for cell in np.ndindex(*solid.shape):
        text = cells[cell[0]][cell[1]]
        solid[cell] = len(text) == 1 and text in WALL_MARKS
        for column, character in enumerate(text, page.columns[cell[1]]):
            for role in _ROLES.get(character, ()):
                if role in ends:
                    problem = f"a second {character} is drawn, but a maze has only one {role}"
                    raise page.error(cell[0], column, problem)
                ends[role] = cell
            if character in _STEPS:
                arrows[cell] = character
            elif character in PATH_MARKS:
                marks.add(cell)
            elif not (character in _ROLES or solid[cell] or character in FREE_MARKS + " "):
                raise page.unknown(cell[0], column, character)
    for role, mark in (("start", "S"), ("goal", "G")):
        if role not in ends:
            raise UserError(f"the drawing has no {mark}: mark the {role} with {mark}.")
    used, is_marked = {character for row in cells for character in row}, bool(marks)
    if not lines and used & {"E", *WALL_MARKS[1:]} and is_lattice(solid):
        lines = all(i % 2 for cell in ends.values() for i in cell)
    maze = _maze_of_lattice(solid) if lines else Maze(cells_from_solid(solid))
    if lines:
        ends = {role: _half(cell) for role, cell in ends.items()}
        arrows = {_half(cell): arrow for cell, arrow in arrows.items()}
        marks = {_half(cell) for cell in marks if cell[0] % 2 and cell[1] % 2}
    task = Task(maze, ends["start"], ends["goal"])
    if arrows:
        return Parsed(task, _drawn_path(task, arrows, marks))
    path = path_through(task, {task.start, task.goal, *marks}) if is_marked else None
    if is_marked and path is None:
        raise UserError("the marked cells are not one path from start to goal.")
    return Parsed(task, path)


def _half(cell: Cell) -> Cell:
    return cell[0] // 2, cell[1] // 2


def _maze_of_lattice(solid: Bools) -> Maze:
    height, width = solid.shape
    free = np.pad(~solid[1:-1, 1:-1], 1)  # a gap in the frame is an entrance, not a passage
    cells = np.zeros((height // 2, width // 2), dtype=np.uint8)
    for bit, (dr, dc, _) in SIDES.items():
        cells[free[1 + dr : height - 1 + dr : 2, 1 + dc : width - 1 + dc : 2]] |= bit
    cells[solid[1::2, 1::2]] = WALL
    return Maze(cells)


def _drawn_path(task: Task, arrows: dict[Cell, str], marks: set[Cell]) -> Path:
    """Return the path that the arrows draw from start to goal."""
    following = {(r, c): (r + _STEPS[arrow][0], c + _STEPS[arrow][1]) for (r, c), arrow in arrows.items()}
    path = [task.start]
    if task.start not in following:
        # The start hides its own arrow: the second cell is the one that no arrow points to.
        heads = sorted(set(following) - set(following.values()))
        path += [cell for cell in heads if abs(cell[0] - path[0][0]) + abs(cell[1] - path[0][1]) == 1][:1]
    while (step := following.pop(path[-1], None)) is not None:
        path.append(step)
    if following or path[-1] != task.goal or marks:
        stray = cell_token(next(iter(following), path[-1]))
        raise UserError(f"the arrows of the drawing do not make one path from S to G: look at cell {stray}.")
    return path


def parse_drawing(lines: Sequence[str], first_line: int = 1) -> Parsed:
    """Return the task of a drawing, and its path if one is drawn; `first_line` is the number of its first line.

    Lines of spaces above and below are not counted. They, and other spaces around it, are refused if they may be cells.
    """
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if not filled:
        raise UserError("there is no maze to read: the drawing has no lines.")
    inner = lines[filled[0] : filled[-1] + 1]
    rows = [line.rstrip() for line in inner]
    indent = min(len(row) - len(row.lstrip(rows[0][0] if rows[0][0] in " \t" else " ")) for row in rows if row)
    page, width = Page(first_line, indent), max(map(len, rows)) - indent
    if width > _MAX_COLUMNS:
        raise page.error([*map(len, rows)].index(width + indent), _MAX_COLUMNS, "no drawing of a maze is so wide")
    rows = [row[indent:] for row in rows]
    for number, row in enumerate(rows):
        for column, character in enumerate(row):
            if character not in DRAWING_CHARACTERS:
                raise page.unknown(number, column, character)
    if rows[0][0] not in CORNERS:
        outside = [(0, -indent)] * bool(indent) + [(-1, -indent)] * bool(filled[0])
        outside += [(len(rows), -indent)] * (filled[-1] + 1 < len(lines))
        outside += [(number, width) for number, line in enumerate(inner) if len(line) > width + indent]
        return _parse_characters(rows, page, outside)
    inside = set("".join(row[1:-1] for row in rows[1:-1]))
    if set(rows[0][1:-1]) - set(HORIZONTAL) or not inside & set(WALL_MARKS + FREE_MARKS + "01"):
        return _parse_lines(rows, page)
    for number, row in enumerate(rows[1:], 1):
        is_last = number == len(rows) - 1
        is_closed = not set(row[1:-1]) - set(HORIZONTAL) if is_last else {row[0], row[-1]} <= set(VERTICAL)
        if len(row) != width or not is_closed:
            raise page.error(number, len(row) - 1, "the frame of the drawing is open here")
    return _parse_characters([row[1:-1] for row in rows[1:-1]], Page(first_line + 1, indent + 1))


def _parse_characters(rows: list[str], page: Page, outside: Sequence[tuple[int, int]] = ()) -> Parsed:
    """Return the task of lines in which characters are cells, with or without columns of spaces between them.

    UserError where the columns of the maze are not certain: a drawing is never read in the wrong columns. `outside`
    are lines and columns of spaces around it.
    """
    used, width = set("".join(rows)), max(map(len, rows))
    if used & set("01") and used <= {*BINARY, *" ,[]"}:
        return _parse_binary(rows, page)
    # Up to the width, since editors cut spaces at the end of a line.
    grid = np.array([list(row.ljust(width)) for row in rows])
    is_blank = (grid == " ").all(0)
    step = next(n for n in range(min(8, max(width - 1, 1)), 0, -1) if is_blank[np.arange(width) % n > 0].all())
    columns = range(0, width, step)
    if used & set(FREE_MARKS):  # spaces are no cells
        for row, col in np.argwhere(grid[:, ::step] == " "):
            raise page.error(row, columns[col], "no cell is drawn here; use . for free cells")
        return parse_cells(grid[:, ::step].tolist(), replace(page, columns=columns))
    wall = np.isin(grid, list(WALL_MARKS))
    every = max(step, 2)  # a gap between two corners is an entrance
    is_closed = wall[0, ::every].all() and wall[-1, ::every].all() and wall[:, [0, -1]].all()
    if outside and not is_closed:
        problem = "the spaces here may be free cells or lie outside of the maze; use . for free cells"
        raise page.error(*outside[0], problem)
    grid = grid[:, ::step]
    left, right = grid[:, : len(columns) // 2 * 2 : 2], grid[:, 1::2]
    no_wall = ~np.isin([left, right], list(WALL_MARKS)).any(0) & ((left == " ") | (right == " "))
    is_doubled = len(columns) % 2 == 0 and wall.any() and ((left == right) | no_wall).all()
    # A few lines of # may as well have walls of two cells.
    if (step > 1 and not is_closed) or (is_doubled and not (is_closed and (len(rows) >= 5 or "#" not in used))):
        problem = "the columns between the cells are empty" if step > 1 else "every character stands twice"
        raise page.error(0, 1, f"{problem}; write one character a cell, and . for free cells")
    if is_doubled:
        grid, columns = np.where(left == " ", right, left), columns[::2]
    return parse_cells(grid.tolist(), replace(page, columns=columns))


def _parse_binary(rows: list[str], page: Page) -> Parsed:
    """Return the task of lines, or of lists, of 0 and 1; UserError unless their columns are certain."""
    text = "\n".join(rows)
    lines = [[column for column, character in enumerate(row) if character in BINARY] for row in rows]
    if "[" in text:  # a row is what stands between two brackets without others
        row_pattern = r"\[\s*([0-3SG](?:(?:\s*,\s*|\s+)[0-3SG])*)\s*\]"
        found = [re.findall("[0-3SG]", row) for row in re.findall(row_pattern, text)]
        around = re.sub(r"[\s,]", "", re.sub(row_pattern, "", text))
        is_certain = around in ("", "[]") and len({*map(len, found)}) == 1
    else:
        found = [[row[column] for column in line] for row, line in zip(rows, lines, strict=True)]
        steps = {b - a for a, b in pairwise(lines[0])}
        # Without zeros spaces may be the free cells.
        is_certain = len({*map(tuple, lines)}) == 1 and len(steps) == 1 and (steps == {1} or bool({"0", ","} & {*text}))
    if not is_certain:
        problem = "the columns of the 0 and 1 are not certain; write each row on a line, with equal spaces"
        line = next((number for number, line in enumerate(lines) if line != lines[0]), 0)
        raise page.error(line, 0, problem)
    columns = lines[0] if len(lines[0]) == len(found[0]) else range(len(found[0]))
    return parse_cells([[BINARY[cell] for cell in row] for row in found], replace(page, columns=columns))


def _parse_lines(rows: list[str], page: Page) -> Parsed:
    """Return the task of a drawing with lines between cells."""
    top, step = rows[0], _cell_width(rows, page)
    if len(rows) % 2 == 0:
        problem = f"the drawing has {len(rows)} lines, but a maze with walls between cells has an odd number"
        raise UserError(f"{problem}; perhaps its lower wall is missing.")
    corners = "+" if top[0] == "+" else CORNERS + HORIZONTAL + VERTICAL + " "
    columns = [column for corner in range(0, len(top), step) for column in (corner, corner + 1)][:-1]
    cells = []
    for number, row in enumerate(rows):
        if len(row) > len(top):
            raise page.error(number, len(top), "the line is longer than the upper wall of its maze")
        line = []
        for i, column in enumerate(columns):
            text = row.ljust(len(top))[column : column + (step - 1 if i % 2 else 1)]
            if number % 2 and i % 2:
                line.append("#" if text == "#" * len(text) else text)
                continue
            marks = corners if not (number % 2 or i % 2) else (VERTICAL if number % 2 else HORIZONTAL) + " "
            for offset, character in enumerate(text):
                if character not in marks or (character == " ") != (text[0] == " "):  # half a wall too
                    only = f"a {marks[0]} must be" if marks is corners else f"only {marks[0]} or a space can be"
                    raise page.error(number, column + offset, f"{quoted(character)} stands where {only}")
            if marks is not corners and text[0] == " " and (number in (0, len(rows) - 1) or i in (0, len(columns) - 1)):
                raise page.error(number, column, f"the border of a maze is closed, but there is no {marks[0]} here")
            line.append(" " if marks is not corners and text[0] == " " else "#")
        cells.append(line)
    return parse_cells(cells, replace(page, columns=columns), lines=True)


def _cell_width(rows: list[str], page: Page) -> int:
    """Return how many columns a cell and the wall beside it have; UserError if that is not certain."""
    top = rows[0]
    corners = [column for column, character in enumerate(top) if character in CORNERS]
    gaps = {b - a for a, b in pairwise(corners)}
    if len(gaps) == 1 and (len(corners) > 2 or top[0] == "+"):
        steps = list(gaps)
    else:  # corners stand only where walls meet
        bars = [column for row in rows for column, character in enumerate(row) if character in VERTICAL + CORNERS]
        inside = [column for row in rows[1::2] for column, character in enumerate(row) if character.isalpha()]
        widest = math.gcd(*bars)
        steps = [s for s in range(2, widest + 1) if widest % s == 0 and all(column % s for column in inside)]
    straight = not set(top) - set(CORNERS + HORIZONTAL)
    if not steps or steps[0] < 2 or not straight or corners[-1] != len(top) - 1:
        raise page.error(0, 0, "here must be the upper wall of a maze with cells of one width, such as +--+--+")
    if len(steps) > 1:
        raise page.error(0, steps[0], "a cell may end here or not; put a corner above every wall of the first line")
    return steps[0]
