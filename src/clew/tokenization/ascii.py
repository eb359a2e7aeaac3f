"""Drawings of mazes with plain characters.

Walls between cells (`style="passages"`): each cell is two characters, a role and an arrow of the path; `##` is a wall
cell.

    +--+--+--+
    |S>  v|G |
    +--+  +  +
    |##| >  ^|
    +--+--+--+

Wall cells (`style="walls"`): each cell is one character.

    S>>v
    .##v
    ..#G

`S` is the start, `G` the goal (`B` if they are one cell), `#` a wall, `.` or a space a free cell; `^ v < >` are the
steps of the path. A drawing of a path that visits no cell twice reads back as the same path, except that where one
character is all there is, a path without a cell between S and G cannot be seen and reads back as no path.

A path-star graph is drawn as one line an arm, `>` on the path and `-` elsewhere; such a drawing is not read back.

    S3 > 2 > G6
    S3 - 5 - 1
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from clew.errors import UserError
from clew.mazes.maze import EAST, MAX_SIDE, MIN_SIDE, SIDES, SOUTH, WALL, Cell, Cells, Maze, Path, PathStar, Task
from clew.tokenization.tokens import Parsed, cell_token, quoted

Style = Literal["passages", "walls"]
ARROWS = {(-1, 0): "^", (1, 0): "v", (0, -1): "<", (0, 1): ">"}
_STEPS = {arrow: step for step, arrow in ARROWS.items()}
START, GOAL, BOTH, SOLID, FREE = "S", "G", "B", "#", "."
_ROLES = (START, GOAL, BOTH)


def draw_ascii(task: Task, path: Path | None = None, style: Style | None = None) -> str:
    """Return the drawing; without a style, wall cells where they determine the maze, else passages."""
    if isinstance(task.maze, PathStar):
        return _draw_graph(task, task.maze, path or [])
    if style is None:
        style = "walls" if task.maze.has_wall_cells_only else "passages"
    arrows = {a: ARROWS.get((b[0] - a[0], b[1] - a[1]), "?") for a, b in pairwise(path or [])}
    return _draw_walls(task, arrows) if style == "walls" else _draw_passages(task, arrows)


def _role(task: Task, cell: Cell) -> str:
    if cell == task.start:
        return BOTH if cell == task.goal else START
    return GOAL if cell == task.goal else ""


def _draw_graph(task: Task, graph: PathStar, path: Path) -> str:
    steps = set(pairwise(path))

    def line(branch: Path) -> str:
        text = f"{_role(task, branch[0])}{branch[0][1]}"
        for here, there in pairwise(branch):
            joint = ">" if (here, there) in steps else "<" if (there, here) in steps else "-"
            text += f" {joint} {_role(task, there)}{there[1]}"
        return text

    return "\n".join(map(line, graph.branches()))


def _draw_walls(task: Task, arrows: dict[Cell, str]) -> str:
    if not task.maze.has_wall_cells_only:
        raise UserError("a maze with walls between cells cannot be drawn as wall cells; use the style passages.")

    def character(cell: Cell) -> str:
        return SOLID if task.maze.is_wall(cell) else _role(task, cell) or arrows.get(cell, FREE)

    rows, cols = range(task.maze.height), range(task.maze.width)
    return "\n".join("".join(character((row, col)) for col in cols) for row in rows)


def _draw_passages(task: Task, arrows: dict[Cell, str]) -> str:
    maze = task.maze
    lines = ["+" + "--+" * maze.width]
    for row in range(maze.height):
        middle, below = "|", "+"
        for col in range(maze.width):
            cell = (row, col)
            inside = SOLID * 2 if maze.is_wall(cell) else f"{_role(task, cell):1}{arrows.get(cell, ''):1}"
            middle += inside + (" " if maze.cells[cell] & EAST else "|")
            below += ("  " if maze.cells[cell] & SOUTH else "--") + "+"
        lines += [middle, below]
    return "\n".join(lines)


def parse_ascii(lines: Sequence[str], first_line: int = 1) -> Parsed:
    """Return the task of a drawing, and its path if one is drawn; `first_line` is the number of its first line."""
    if not lines:
        raise UserError("there is no maze to read: the drawing has no lines.")
    reader = _DrawingReader([line.rstrip() for line in lines], first_line)
    return reader.passages() if reader.lines[0].startswith("+") else reader.walls()


class _DrawingReader:
    """Collects roles and arrows from a drawing, and names line and column of what is wrong."""

    def __init__(self, lines: Sequence[str], first_line: int) -> None:
        self.lines = lines
        self.first_line = first_line
        self.roles: dict[str, Cell] = {}
        self.arrows: dict[Cell, str] = {}

    def where(self, line: int, column: int) -> str:
        return f"line {self.first_line + line}, column {column + 1}"

    def at(self, line: int, column: int) -> str:
        """Return the character there; editors cut spaces at the end of a line, so what is missing is a space."""
        text = self.lines[line]
        return text[column] if column < len(text) else " "

    def mark(self, character: str, cell: Cell, line: int, column: int) -> None:
        """Remember a role or an arrow."""
        if character in _STEPS:
            self.arrows[cell] = character
            return
        for role in (START, GOAL) if character == BOTH else (character,):
            if role in self.roles:
                raise UserError(f"{self.where(line, column)}: a second {role} is drawn, but a maze has only one.")
            self.roles[role] = cell

    def walls(self) -> Parsed:
        height, width = len(self.lines), max(map(len, self.lines))
        self.check_shape(height, width)
        cells: list[Cell] = []
        # Only where free cells are spaces may an editor have cut some from the end of a line.
        least = width if any(FREE in line for line in self.lines) else 0
        for row, text in enumerate(self.lines):
            if len(text) < least:
                raise UserError(
                    f"line {self.first_line + row} has {len(text)} cells, but its maze has {width} columns."
                )
            for col in range(width):
                character = self.at(row, col)
                if character == SOLID:
                    cells.append((row, col))
                elif character in _ROLES or character in _STEPS:
                    self.mark(character, (row, col), row, col)
                elif character not in (FREE, " "):
                    raise UserError(
                        f"{self.where(row, col)}: {quoted(character)} is no part of a maze; "
                        "use # for walls, . for free cells, S and G for start and goal, ^ v < > for the path."
                    )
        return self.parsed(Maze.from_walls(height, width, cells))

    def passages(self) -> Parsed:
        top = self.lines[0]
        inside = top.find("+", 1) - 1  # how many characters wide a cell is
        if inside < 1 or top != "+" + ("-" * inside + "+") * top[1:].count("+"):
            raise UserError(f"line {self.first_line} must be the upper wall of a maze, such as +--+--+.")
        height, width = (len(self.lines) - 1) // 2, top[1:].count("+")
        if len(self.lines) % 2 == 0:
            raise UserError(
                f"the drawing that begins at line {self.first_line} has {len(self.lines)} lines, "
                "but a maze with walls between cells has an odd number; perhaps its lower wall is missing."
            )
        self.check_shape(height, width)
        for row, text in enumerate(self.lines):
            if len(text) > len(top):
                raise UserError(f"line {self.first_line + row} is longer than the upper wall of its maze.")
        for line in range(0, 2 * height + 1, 2):
            for column in range(0, len(top), inside + 1):
                if (character := self.at(line, column)) != "+":
                    raise UserError(f"{self.where(line, column)}: {quoted(character)} stands where a + must be.")
        cells = np.zeros((height, width), dtype=np.uint8)
        for row in range(height):
            for col in range(width):
                self.read_cell(cells, (row, col), inside)
        return self.parsed(Maze(cells))

    def read_cell(self, cells: Cells, cell: Cell, inside: int) -> None:
        """Fill in the open sides of a cell, and what is drawn in it."""
        row, col = cell
        line, left = 2 * row + 1, col * (inside + 1) + 1
        drawn = [(self.at(line, left + i), left + i) for i in range(inside)]
        if all(character == SOLID for character, _ in drawn):
            cells[cell] = WALL
        for character, column in drawn:
            if character in _ROLES or character in _STEPS:
                self.mark(character, cell, line, column)
            elif character != " " and cells[cell] != WALL:
                raise UserError(
                    f"{self.where(line, column)}: {quoted(character)} is no part of a cell; "
                    "use S and G for start and goal, ^ v < > for the path, # for a wall cell."
                )
        for bit, (dr, dc, _) in SIDES.items():
            if dr:
                wall, places = "-", [(line + dr, left + i) for i in range(inside)]
            else:
                wall, places = "|", [(line, left - 1 if dc < 0 else left + inside)]
            is_open = self.is_open(wall, places)
            beyond = not (0 <= row + dr < len(cells) and 0 <= col + dc < cells.shape[1])
            if is_open and (beyond or cells[cell] == WALL):
                why = "the border of a maze is closed" if beyond else "a wall cell is closed on all sides"
                raise UserError(f"{self.where(*places[0])}: {why}, but there is no {wall} here.")
            if is_open:
                cells[cell] |= bit

    def is_open(self, wall: str, places: list[tuple[int, int]]) -> bool:
        """Return whether nothing stands at these places; half a wall is an error."""
        found = [self.at(*place) for place in places]
        for place, character in zip(places, found, strict=True):
            if character not in (wall, " ") or character != found[0]:
                raise UserError(
                    f"{self.where(*place)}: {quoted(character)} stands where only {wall} or a space can be."
                )
        return found[0] == " "

    def check_shape(self, height: int, width: int) -> None:
        if not (MIN_SIDE <= height <= MAX_SIDE and MIN_SIDE <= width <= MAX_SIDE):
            raise UserError(
                f"the drawing that begins at line {self.first_line} has {height} rows and {width} columns of cells; "
                f"Clew handles between {MIN_SIDE} and {MAX_SIDE} of each."
            )

    def parsed(self, maze: Maze) -> Parsed:
        for role, name in ((START, "start"), (GOAL, "goal")):
            if role not in self.roles:
                raise UserError(
                    f"the drawing that begins at line {self.first_line} has no {role}: mark the {name} with {role}."
                )
        task = Task(maze, self.roles[START], self.roles[GOAL])
        return Parsed(task, self.path(task) if self.arrows else None)

    def path(self, task: Task) -> Path:
        """Return the path that the arrows draw from start to goal."""
        following = {(r, c): (r + _STEPS[arrow][0], c + _STEPS[arrow][1]) for (r, c), arrow in self.arrows.items()}
        path = [task.start]
        if task.start not in following:
            # The start hides its own arrow: the second cell is the one that no arrow points to.
            heads = [cell for cell in following if cell not in set(following.values())]
            path += [cell for cell in heads if abs(cell[0] - path[0][0]) + abs(cell[1] - path[0][1]) == 1][:1]
        while (step := following.pop(path[-1], None)) is not None:
            path.append(step)
        if following or path[-1] != task.goal:
            stray = next(iter(following), path[-1])
            raise UserError(
                f"the arrows of the drawing that begins at line {self.first_line} do not make one path from S to G: "
                f"look at cell {cell_token(stray)}."
            )
        return path
