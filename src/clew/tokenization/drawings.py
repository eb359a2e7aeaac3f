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
1 (with S and G, or 2 and 3). Blocks that are free where both coordinates are odd and walls where both are even, drawn
with `E` or with full blocks, are walls between cells: they make a maze of half the size. A drawing may be indented,
framed with lines, or have spaces after each cell. Where the columns of the maze are not certain, it is refused.

A path-star graph is drawn as one line an arm, `>` on the path and `-` elsewhere; such a drawing is not read back.

    S3 > 2 > G6
    S3 - 5 - 1
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Literal

import numpy as np
import numpy.typing as npt

from clew.errors import UserError, counted
from clew.mazes.maze import EAST, MAX_SIDE, SIDES, SOUTH, WALL, Cell, Maze, Path, PathStar, Task, check_shape
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
_BOX_CODES = set(range(0x2500, 0x2580)) - set(range(0x2571, 0x2574))
CORNERS = "+" + "".join(sorted(set(map(chr, _BOX_CODES)) - set(HORIZONTAL + VERTICAL)))
DRAWING_CHARACTERS = set(
    " \t0123,[]" + "".join((*_ROLES, *_STEPS, WALL_MARKS, FREE_MARKS, PATH_MARKS, HORIZONTAL, VERTICAL, CORNERS))
)
_MAX_COLUMNS = 16 * MAX_SIDE  # a cell may be several characters wide
_BINARY = {"0": ".", "1": "#", "2": "S", "3": "G", "S": "S", "G": "G"}


def draw_ascii(task: Task, path: Path | None = None, style: Style | None = None) -> str:
    """Return the drawing; without a style, wall cells where they determine the maze, else passages."""
    maze = task.maze
    if isinstance(maze, PathStar):
        return _draw_graph(task, maze, path or [])
    arrows = {a: ARROWS.get((b[0] - a[0], b[1] - a[1]), "?") for a, b in pairwise(path or [])}
    if style is None:
        style = "walls" if maze.has_wall_cells_only else "passages"
    if style == "walls":
        marks = arrows | {cell: role for cell in (task.start, task.goal) if (role := _role(task, cell))}
        return draw_cells(task, marks, ".", "#")
    lines = ["+" + "--+" * maze.width]
    for row in range(maze.height):
        middle, below = "|", "+"
        for cell in ((row, col) for col in range(maze.width)):
            inside = "##" if maze.is_wall(cell) else f"{_role(task, cell):1}{arrows.get(cell, ''):1}"
            middle += inside + (" " if maze.cells[cell] & EAST else "|")
            below += ("  " if maze.cells[cell] & SOUTH else "--") + "+"
        lines += [middle, below]
    return "\n".join(lines)


def _role(task: Task, cell: Cell) -> str:
    if cell == task.start:
        return "B" if cell == task.goal else "S"
    return "G" if cell == task.goal else ""


def _draw_graph(task: Task, graph: PathStar, path: Path) -> str:
    steps = set(pairwise(path))

    def line(branch: Path) -> str:
        text = f"{_role(task, branch[0])}{branch[0][1]}"
        for here, there in pairwise(branch):
            joint = ">" if (here, there) in steps else "<" if (there, here) in steps else "-"
            text += f" {joint} {_role(task, there)}{there[1]}"
        return text

    return "\n".join(map(line, graph.branches()))


def draw_cells(task: Task, marks: dict[Cell, str], free: str, wall: str) -> str:
    """Return a drawing with one character a cell; UserError if walls between cells determine the maze."""
    maze = task.maze
    if not maze.has_wall_cells_only:
        raise UserError("walls between cells cannot be drawn with one character a cell; use ascii, block or box.")
    rows = ([(row, col) for col in range(maze.width)] for row in range(maze.height))
    return "\n".join("".join(wall if maze.is_wall(cell) else marks.get(cell, free) for cell in row) for row in rows)


def draw_blocks(task: Task, path: Path | None) -> str:
    """Return maze-dataset's drawing: walls between cells as blocks, S, E and X; or one character a wall cell."""
    maze, cells = task.maze, path or []
    if maze.has_wall_cells_only:
        return draw_cells(task, dict.fromkeys(cells, "o") | {task.start: "S", task.goal: "G"}, ".", "#")
    grid = np.where(lattice(maze), "#", " ")
    for row, column in [(a[0] + b[0], a[1] + b[1]) for a, b in [*pairwise(cells), *zip(cells, cells, strict=True)]]:
        grid[row + 1, column + 1] = "X"
    for mark, (row, column) in (("S", task.start), ("E", task.goal)):
        grid[2 * row + 1, 2 * column + 1] = mark
    return "\n".join("".join(row) for row in grid)


def draw_box(task: Task, path: Path | None = None) -> str:
    """Return a box drawing without the path. Its upper wall has a corner at every cell, to be read back."""
    solid = lattice(task.maze)
    padded = np.pad(solid, 1)
    lines = []
    for row in range(len(solid)):
        line = ""
        for col in range(solid.shape[1]):
            if row % 2 and col % 2:
                line += f" {_role(task, (row // 2, col // 2)):1} "
            elif row % 2 or col % 2:
                line += (" " if not solid[row, col] else "│") if row % 2 else ("───" if solid[row, col] else "   ")
            else:
                west, east = padded[row + 1, col], padded[row + 1, col + 2]
                north, south = padded[row, col + 1], padded[row + 2, col + 1] or row == 0
                line += " ╴╶─╵┘└┴╷┐┌┬│┤├┼"[west + 2 * east + 4 * north + 8 * south]
        lines.append(line)
    return "\n".join(lines)


def lattice(maze: Maze) -> Bools:
    """Return the grid of 2H + 1 by 2W + 1 blocks in which the walls between cells, and the corners, are solid."""
    if isinstance(maze, PathStar) or (maze.cells & WALL).any():
        raise UserError("a maze with wall cells has no drawing of walls between cells; use block, hrm or json.")
    solid = np.ones((2 * maze.height + 1, 2 * maze.width + 1), dtype=bool)
    solid[1::2, 1::2] = False
    solid[1::2, 2::2] = (maze.cells & EAST) == 0
    solid[2::2, 1::2] = (maze.cells & SOUTH) == 0
    return solid


def is_lattice(solid_HW: Bools) -> bool:
    """Return whether blocks with two odd coordinates are all free and those with two even ones all solid."""
    odd = solid_HW.shape[0] % 2 == solid_HW.shape[1] % 2 == 1 and min(solid_HW.shape) >= 5
    return odd and not solid_HW[1::2, 1::2].any() and bool(solid_HW[::2, ::2].all())


def maze_of_blocks(solid_HW: Bools, start: Cell, goal: Cell, on_path: set[Cell] | None, halved: bool) -> Parsed:
    """Return the task of a grid of solid and free blocks; `halved` if walls between cells may be drawn as blocks."""
    height, width = solid_HW.shape
    if halved and is_lattice(solid_HW) and all(i % 2 for i in (*start, *goal)):
        free = np.pad(~solid_HW[1:-1, 1:-1], 1)  # a gap in the frame is an entrance, not a passage
        cells = np.zeros((height // 2, width // 2), dtype=np.uint8)
        for bit, (dr, dc, _) in SIDES.items():
            cells[free[1 + dr : height - 1 + dr : 2, 1 + dc : width - 1 + dc : 2]] |= bit
        maze, start, goal = Maze(cells), (start[0] // 2, start[1] // 2), (goal[0] // 2, goal[1] // 2)
        on_path = on_path and {(row // 2, column // 2) for row, column in on_path if row % 2 and column % 2}
    else:
        maze = Maze.from_walls(height, width, [(int(row), int(col)) for row, col in np.argwhere(solid_HW)])
    task = Task(maze, start, goal)
    return Parsed(task, None if on_path is None else _marked_path(task, on_path))


def _marked_path(task: Task, on_path: set[Cell]) -> Path:
    if (path := path_through(task, on_path)) is None:
        raise UserError("the marked cells are not one path from start to goal.")
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
    drawing, width = _Drawing(first_line, indent), max(map(len, rows)) - indent
    if width > _MAX_COLUMNS:
        raise drawing.error([*map(len, rows)].index(width + indent), _MAX_COLUMNS, "no drawing of a maze is so wide")
    rows = [row[indent:] for row in rows]
    if rows[0][0] not in CORNERS:
        outside = [(0, -indent)] if indent else []
        outside += [(-1, -indent)] * bool(filled[0]) + [(len(rows), -indent)] * (filled[-1] + 1 < len(lines))
        longer = [(number, width) for number, line in enumerate(inner) if len(line) > width + indent]
        return drawing.blocks(_cells_of_lines(rows, drawing, outside, longer))
    inside = set("".join(row[1:-1] for row in rows[1:-1]))
    if set(rows[0][1:-1]) - set(HORIZONTAL) or not inside & set(WALL_MARKS + FREE_MARKS + "01"):
        return drawing.passages(rows)
    for number, row in enumerate(rows[1:-1], 1):
        if len(row) != width or row[0] not in VERTICAL or row[-1] not in VERTICAL:
            raise drawing.error(number, len(row) - 1, "the frame of the drawing is open here")
    if len(rows) < 3 or len(rows[-1]) != width or set(rows[-1][1:-1]) - set(HORIZONTAL):
        raise drawing.error(len(rows) - 1, 0, "the frame of the drawing has no lower line")
    drawing = _Drawing(first_line + 1, indent + 1)
    return drawing.blocks(_cells_of_lines([row[1:-1] for row in rows[1:-1]], drawing))


def parse_rows(rows: Sequence[str]) -> Parsed:
    """Return the task of rows in which every character is a cell."""
    return _Drawing(1, 0).blocks([list(zip(row, range(len(row)), strict=True)) for row in rows])


# The cells of a line: each character, and its column.
_Line = list[tuple[str, int]]
_Places = Sequence[tuple[int, int]]  # lines and columns


def _cells_of_lines(rows: list[str], drawing: _Drawing, outside: _Places = (), longer: _Places = ()) -> list[_Line]:
    """Return the cells of each line: without spaces between cells and punctuation of lists.

    UserError where the columns of the maze are not certain: a drawing is never read in the wrong columns. `outside`
    are places of spaces to the left, above and below, `longer` of those to the right.
    """
    used, width = set("".join(rows)), max(map(len, rows))
    if used & set("01") and used <= {*_BINARY, *" ,[]"}:
        return _binary_cells(rows, drawing)
    # Up to the width, since editors cut spaces at the end of a line.
    grid = np.array([list(row.ljust(width)) for row in rows])
    is_blank = (grid == " ").all(0)
    step = next(n for n in range(min(8, max(width - 1, 1)), 0, -1) if is_blank[np.arange(width) % n > 0].all())
    if used & set(FREE_MARKS):  # spaces are no cells
        lines = [list(zip(row, range(width), strict=False))[::step] for row in rows]
        for number, line in enumerate(lines):
            for character, column in line:
                if character == " ":
                    raise drawing.error(number, column, "a space stands between cells; use . for free cells")
        return lines
    wall = np.isin(grid, list(WALL_MARKS))
    every = max(step, 2)  # a gap between two corners is an entrance
    is_closed = wall[0, ::every].all() and wall[-1, ::every].all() and wall[:, 0].all()
    if (outside and not is_closed) or (longer and not (is_closed and wall[:, -1].all())):
        problem = "the spaces here may be free cells or lie outside of the maze; use . for free cells"
        raise drawing.error(*[*outside, *longer][0], problem)
    grid, columns = grid[:, ::step], range(0, width, step)
    left, right = grid[:, : len(columns) // 2 * 2 : 2], grid[:, 1::2]
    no_wall = ~np.isin([left, right], list(WALL_MARKS)).any(0) & ((left == " ") | (right == " "))
    is_doubled = len(columns) % 2 == 0 and wall.any() and ((left == right) | no_wall).all()
    # A few lines of # may as well have walls of two cells.
    if (step > 1 and not is_closed) or (is_doubled and not (is_closed and (len(rows) >= 5 or "#" not in used))):
        problem = "the columns between the cells are empty" if step > 1 else "every character stands twice"
        raise drawing.error(0, 1, f"{problem}; write one character a cell, and . for free cells")
    if is_doubled:
        grid, columns = np.where(left == " ", right, left), columns[::2]
    return [list(zip(row, columns, strict=True)) for row in grid.tolist()]


def _binary_cells(rows: list[str], drawing: _Drawing) -> list[_Line]:
    """Return the cells of lines, or lists, of 0 and 1; UserError unless they stand at one distance from each other."""
    lines = [[column for column, character in enumerate(row) if character in _BINARY] for row in rows]
    first_line, is_list = next(line for line in lines if line), any("[" in row for row in rows)
    first, step = first_line[0], first_line[1] - first_line[0] if len(first_line) > 1 else 1
    is_certain = step == 1 or {"0", ","} & set("".join(rows))  # or else spaces may be the free cells
    for number, (row, line) in enumerate(zip(rows, lines, strict=True)):
        if not line:
            continue
        wrong = [b for a, b in pairwise(line) if b - a != step]
        if is_list and not (row[: line[0]].strip(" ,").endswith("[") and row[line[-1] + 1 :].strip().startswith("]")):
            wrong = [0]
        if wrong or (not is_list and (line[0] != first or not is_certain)):
            problem = "the columns of the 0 and 1 are not certain; write each row on a line, with equal spaces"
            raise drawing.error(number, [*wrong, line[0]][0], problem)
    return [[(_BINARY[row[column]], column) for column in line] for row, line in zip(rows, lines, strict=True) if line]


class _Drawing:
    """Collects roles, arrows and marks of a drawing, and names line and column of what is wrong."""

    def __init__(self, first_line: int, indent: int) -> None:
        self.first_line, self.indent = first_line, indent
        self.roles: dict[str, Cell] = {}
        self.arrows: dict[Cell, str] = {}
        self.marks: set[Cell] = set()

    def error(self, line: int, column: int, problem: str) -> UserError:
        return UserError(f"line {self.first_line + line}, column {self.indent + column + 1}: {problem}.")

    def mark(self, character: str, cell: Cell, line: int, column: int) -> bool:
        """Note a role, an arrow or a mark of the path; False if the character is none of these."""
        for role in _ROLES.get(character, ()):
            if role in self.roles:
                raise self.error(line, column, f"a second {character} is drawn, but a maze has only one {role}")
            self.roles[role] = cell
        if character in _STEPS:
            self.arrows[cell] = character
        elif character in PATH_MARKS:
            self.marks.add(cell)
        return character in _ROLES or character in _STEPS or character in PATH_MARKS

    def blocks(self, rows: list[_Line]) -> Parsed:
        """Return the task of rows of cells, one character each."""
        height, width = len(rows), max(map(len, rows))
        solid, halved = np.zeros((height, width), dtype=bool), False
        for row, line in enumerate(rows):
            for col, (character, column) in enumerate(line):
                solid[row, col] = character in WALL_MARKS
                halved |= character == "E" or character in WALL_MARKS[1:]
                if not (self.mark(character, (row, col), row, column) or character in WALL_MARKS + FREE_MARKS + " "):
                    known = "# for walls, . for free cells, S and G for start and goal, ^ v < > for the path"
                    raise self.error(row, column, f"{quoted(character)} is no part of a maze; use {known}")
        for row, line in enumerate(rows):
            if len(line) < width:
                cells = counted(len(line), "cell")
                raise UserError(f"line {self.first_line + row} has {cells}, but its maze has {width} columns.")
        ends = self.ends()
        parsed = maze_of_blocks(solid, *ends, {*ends, *self.marks} if self.marks else None, halved)
        return Parsed(parsed.task, self.path(parsed.task)) if self.arrows else parsed

    def passages(self, rows: list[str]) -> Parsed:
        """Return the task of a drawing with lines between cells."""
        top, step = rows[0], self.cell_width(rows)
        height, width = len(rows) // 2, (len(top) - 1) // step
        if len(rows) % 2 == 0:
            problem = f"the drawing has {len(rows)} lines, but a maze with walls between cells has an odd number"
            raise UserError(f"{problem}; perhaps its lower wall is missing.")
        for number, row in enumerate(rows):
            if len(row) > len(top):
                raise self.error(number, len(top), "the line is longer than the upper wall of its maze")
        check_shape(height, width)
        rows = [row.ljust(len(top)) for row in rows]
        corners = "+" if top[0] == "+" else CORNERS + HORIZONTAL + VERTICAL + " "
        for line, column in product(range(0, len(rows), 2), range(0, len(top), step)):
            if (character := rows[line][column]) not in corners:
                raise self.error(line, column, f"{quoted(character)} stands where a {corners[0]} must be")
        cells = np.zeros((height, width), dtype=np.uint8)
        for cell in np.ndindex(height, width):
            self.read_cell(rows, cells, cell, step)
        start, goal = self.ends()
        task = Task(Maze(cells), start, goal)
        if self.arrows:
            return Parsed(task, self.path(task))
        return Parsed(task, _marked_path(task, {start, goal, *self.marks}) if self.marks else None)

    def cell_width(self, rows: list[str]) -> int:
        """Return how many columns a cell and the wall beside it have; UserError if that is not certain."""
        top = rows[0]
        corners = [column for column, character in enumerate(top) if character in CORNERS]
        bars = [column for row in rows for column, character in enumerate(row) if character in VERTICAL + CORNERS]
        gaps = {b - a for a, b in pairwise(corners)}
        if len(gaps) == 1 and (len(corners) > 2 or top[0] == "+"):
            steps = list(gaps)
        else:  # corners stand only where walls meet
            widest = math.gcd(*bars)
            inside = [column for row in rows[1::2] for column, character in enumerate(row) if character.isalpha()]
            steps = [s for s in range(2, widest + 1) if widest % s == 0 and all(column % s for column in inside)]
        straight = not set(top) - set(CORNERS + HORIZONTAL)
        if not steps or steps[0] < 2 or not straight or corners[-1] != len(top) - 1:
            raise self.error(0, 0, "here must be the upper wall of a maze with cells of one width, such as +--+--+")
        if len(steps) > 1:
            raise self.error(0, steps[0], "a cell may end here or not; put a corner above every wall of the first line")
        return steps[0]

    def read_cell(self, rows: list[str], cells: npt.NDArray[np.uint8], cell: Cell, step: int) -> None:
        """Fill in the open sides of a cell, and what is drawn in it."""
        line, left, inside = 2 * cell[0] + 1, cell[1] * step + 1, step - 1
        drawn = rows[line][left : left + inside]
        cells[cell] = WALL if drawn == "#" * inside else 0
        for column, character in enumerate(drawn, left):
            if not self.mark(character, cell, line, column) and character not in " .·" and cells[cell] != WALL:
                known = "use S and G for start and goal, ^ v < > for the path, # for a wall cell"
                raise self.error(line, column, f"{quoted(character)} is no part of a cell; {known}")
        for bit, (dr, dc, _) in SIDES.items():
            walls = HORIZONTAL if dr else VERTICAL
            side = [(line + dr, left + i) for i in range(inside)] if dr else [(line, left + (inside if dc > 0 else -1))]
            is_open = rows[side[0][0]][side[0][1]] == " "
            for y, x in side:
                if rows[y][x] not in walls + " " or (rows[y][x] == " ") != is_open:  # half a wall too
                    raise self.error(y, x, f"{quoted(rows[y][x])} stands where only {walls[0]} or a space can be")
            beyond = not (0 <= cell[0] + dr < len(cells) and 0 <= cell[1] + dc < cells.shape[1])
            if is_open and (beyond or cells[cell] == WALL):
                why = "the border of a maze is closed" if beyond else "a wall cell is closed on all sides"
                raise self.error(*side[0], f"{why}, but there is no {walls[0]} here")
            cells[cell] |= bit * is_open

    def ends(self) -> tuple[Cell, Cell]:
        for role, mark in (("start", "S"), ("goal", "G")):
            if role not in self.roles:
                raise UserError(f"the drawing has no {mark}: mark the {role} with {mark}.")
        return self.roles["start"], self.roles["goal"]

    def path(self, task: Task) -> Path:
        """Return the path that the arrows draw from start to goal."""
        following = {(r, c): (r + _STEPS[arrow][0], c + _STEPS[arrow][1]) for (r, c), arrow in self.arrows.items()}
        path = [task.start]
        if task.start not in following:
            # The start hides its own arrow: the second cell is the one that no arrow points to.
            heads = sorted(set(following) - set(following.values()))
            path += [cell for cell in heads if abs(cell[0] - path[0][0]) + abs(cell[1] - path[0][1]) == 1][:1]
        while (step := following.pop(path[-1], None)) is not None:
            path.append(step)
        if following or path[-1] != task.goal or self.marks:
            stray = cell_token(next(iter(following), path[-1]))
            raise UserError(f"the arrows of the drawing do not make one path from S to G: look at cell {stray}.")
        return path
