"""The grid format: one token a cell, in reading order, with the open sides and the role of the cell.

    <GRID_START> start:E SW / - goal:N / # - <GRID_END> <PATH_START> (0,0) (0,1) (1,1) <PATH_END>

A cell's token lists its open sides as letters, always in the order N S W E, or is `-` for a free cell without any;
`#` is a wall cell. `start:` and `goal:` stand before the sides of these two (`start+goal:` if they are one cell). A
`/` stands between rows, so the text tells the maze's size, and it can write every maze. Path cells are (row,col).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clew.errors import UserError
from clew.mazes.maze import EAST, MAX_SIDE, NORTH, SOUTH, WALL, WEST, Cell, Maze, Path, Task, check_shape
from clew.tokenization.edge_list import parse_cells
from clew.tokenization.tokens import PATH_END, PATH_START, Parsed, TokenReader, Written, cell_token, check_grid
from clew.tokenization.vocabulary import Vocabulary

GRID_START, GRID_END, ROW_END = "<GRID_START>", "<GRID_END>", "/"
# The role of a cell, by whether it is the start (1) and whether it is the goal (2).
ROLES = ("", "start:", "goal:", "start+goal:")
_LETTERS = ((NORTH, "N"), (SOUTH, "S"), (WEST, "W"), (EAST, "E"))
# The value of a cell in Maze.cells -> its token without role.
SIDES_TOKENS = ["".join(letter for bit, letter in _LETTERS if sides & bit) or "-" for sides in range(WALL)] + ["#"]
# A cell's token -> its value in Maze.cells and its role.
_MEANING = {role + token: (sides, role) for role in ROLES for sides, token in enumerate(SIDES_TOKENS[:WALL])}
_MEANING["#"] = (WALL, "")


@dataclass(frozen=True)
class Grid:
    """The grid format."""

    name: str = "grid"
    end_token: str = PATH_END

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        check_shape(height, width)
        cells = [cell_token((row, col)) for row in range(height) for col in range(width)]
        return Vocabulary.of([GRID_START, GRID_END, ROW_END, PATH_START, PATH_END, *_MEANING, *cells])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Written:
        """The task and its path; nothing in it is left to chance."""
        check_grid(task, self.name)
        prompt = [GRID_START]
        for row, sides_W in enumerate(task.maze.cells.tolist()):
            prompt += [ROW_END] * (row > 0)
            prompt += [_role(task, (row, col)) + SIDES_TOKENS[sides] for col, sides in enumerate(sides_W)]
        response = [] if path is None else [*map(cell_token, path), PATH_END]
        return Written([*prompt, GRID_END, PATH_START], response)

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        """What the text says; the size, if given, must be the text's own."""
        reader = TokenReader(tokens)
        rows, role_cells = _parse_rows(reader, width)
        if height not in (None, len(rows)):
            raise UserError(f"the text has {len(rows)} rows, but a maze of {height} rows is expected.")
        for role in ("start", "goal"):
            if role not in role_cells:
                raise UserError(f"no cell of the text is marked {role}: put `{role}:` before the sides of one.")
        if reader.peek() not in (None, PATH_START):
            reader.fail(f"{PATH_START} or the end of the text")
        path = None
        if reader.skip(PATH_START) and not reader.is_done:
            path = parse_cells(reader, len(rows), len(rows[0]))
        maze = Maze(np.array(rows, dtype=np.uint8))
        return Parsed(Task(maze, role_cells["start"], role_cells["goal"]), path)

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        return parse_cells(TokenReader(tokens), height, width)


def _role(task: Task, cell: Cell) -> str:
    return ROLES[(cell == task.start) + 2 * (cell == task.goal)]


def _parse_rows(reader: TokenReader, width: int | None) -> tuple[list[list[int]], dict[str, Cell]]:
    """The cells' values row by row, and where start and goal are."""
    reader.expect(GRID_START)
    rows: list[list[int]] = []
    role_cells: dict[str, Cell] = {}
    while True:
        rows.append(_parse_row(reader, len(rows), width, role_cells))
        width = len(rows[0])
        if reader.skip(GRID_END):
            return rows, role_cells
        if len(rows) == MAX_SIDE:
            reader.fail(f"{GRID_END} after {MAX_SIDE} rows")
        reader.expect(ROW_END)


def _parse_row(reader: TokenReader, row: int, width: int | None, role_cells: dict[str, Cell]) -> list[int]:
    """The values of the cells up to the next `/` or the end of the grid, which is left to read."""
    values: list[int] = []
    while (token := reader.peek()) not in (ROW_END, GRID_END):
        if len(values) == (width or MAX_SIDE):
            reader.fail(f"{ROW_END} or {GRID_END} after {len(values)} cells in the row")
        if token not in _MEANING:
            reader.fail("a cell such as SE, start:N, - or #" + (f", {ROW_END} or {GRID_END}" if values else ""))
        value, role = _MEANING[token]
        for name in role[:-1].split("+") if role else ():
            if name in role_cells:
                raise UserError(f"token {reader.at + 1} is {token!r}, but the maze has a {name} already.")
            role_cells[name] = (row, len(values))
        values.append(value)
        reader.at += 1
    if len(values) < (width or 1):
        reader.fail(f"cell {len(values) + 1} of the row")
    return values
