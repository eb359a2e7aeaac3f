"""Formats with one token a cell: grid, and cell-labels, whose response is one label a cell.

    <GRID_START> start:E SW / - goal:N / # - <GRID_END> <PATH_START> (0,0) (0,1) (1,1) <PATH_END>
    <GRID_START> start:E SW / - goal:N <GRID_END> <PATH_START> on on off on <PATH_END>

A cell's token lists its open sides as letters, always in the order N S W E, or is `-` for a free cell without any;
`#` is a wall cell. `start:` and `goal:` stand before the sides of these two (`start+goal:` if they are one cell). A
`/` stands between rows, so the text tells the maze's size, and every maze can be written. Path cells are (row,col).

A shortest path never touches itself, so the set of its cells determines it: labels are read back by walking from the
start over the cells that are on. A path that touches itself cannot be written with labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from clew.errors import UserError
from clew.mazes.maze import EAST, MAX_SIDE, NORTH, SOUTH, WALL, WEST, Cell, Maze, Path, Task, check_shape
from clew.tokenization.tokens import (
    PATH_END,
    PATH_START,
    Encoded,
    Parsed,
    TokenReader,
    Vocabulary,
    cell_token,
    cell_tokens,
    check_grid,
)

LABELS = ("off", "on")
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
        words = [GRID_START, GRID_END, ROW_END, PATH_START, PATH_END, *_MEANING]
        return Vocabulary.of([*words, *cell_tokens(height, width)])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Encoded:
        check_grid(task, self.name)
        prompt = [GRID_START]
        for row, sides_W in enumerate(task.maze.cells.tolist()):
            prompt += [ROW_END] * (row > 0)
            for col, sides in enumerate(sides_W):
                role = ROLES[((row, col) == task.start) + 2 * ((row, col) == task.goal)]
                prompt.append(role + SIDES_TOKENS[sides])
        response = [] if path is None else [*map(cell_token, path), PATH_END]
        return Encoded([*prompt, GRID_END, PATH_START], response)

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        """Return what the text says; the size, if given, must be the text's own."""
        reader = TokenReader(tokens)
        rows, role_cells = _parse_rows(reader, width)
        if height not in (None, len(rows)):
            raise UserError(f"the text has {len(rows)} rows, but a maze of {height} rows is expected.")
        for role in ("start", "goal"):
            if role not in role_cells:
                raise UserError(f"no cell of the text is marked {role}: put `{role}:` before the sides of one.")
        path = reader.path(lambda otherwise: reader.cell(len(rows), len(rows[0]), otherwise))
        maze = Maze(np.array(rows, dtype=np.uint8))
        return Parsed(Task(maze, role_cells["start"], role_cells["goal"]), path)

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        reader = TokenReader(tokens)
        return reader.response(lambda otherwise: reader.cell(height, width, otherwise))


@dataclass(frozen=True)
class CellLabels:
    """The format of the cell network, as text."""

    name: str = "cell-labels"
    end_token: str = PATH_END

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        return Vocabulary.of([*Grid().vocabulary(height, width).tokens, *LABELS])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Encoded:
        prompt = Grid().encode(task, None).prompt
        if path is None:
            return Encoded(prompt, [])
        on = set(path)
        labels = [LABELS[(row, col) in on] for row in range(task.maze.height) for col in range(task.maze.width)]
        if path_from_labels(task, on) != list(path):
            raise UserError("this path touches itself, so labels on cells do not determine it; use another format.")
        return Encoded(prompt, [*labels, PATH_END])

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        """Return what the text says; the size, if given, must be the text's own."""
        first = next((i for i, token in enumerate(tokens) if token in LABELS), len(tokens))
        task = Grid().parse(tokens[:first], height=height, width=width).task
        if first == len(tokens):
            return Parsed(task, None)
        on = _cells_on(tokens[first:], task.maze.height, task.maze.width)
        return Parsed(task, path_from_labels(task, on))

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        """Return the labelled cells in reading order; their order on the path needs the maze: `path_from_labels`."""
        return sorted(_cells_on(tokens, height, width))


def _cells_on(tokens: Sequence[str], height: int, width: int) -> set[Cell]:
    reader = TokenReader(tokens)
    on = set()
    for cell in range(height * width):
        if reader.peek() not in LABELS:
            reader.fail(f"the label {' or '.join(LABELS)} of cell {cell + 1} of {height * width}")
        if tokens[reader.at] == LABELS[1]:
            on.add(divmod(cell, width))
        reader.at += 1
    reader.expect(PATH_END)
    reader.expect_end()
    return on


def path_from_labels(task: Task, on: set[Cell]) -> Path | None:
    """Return the path that consists of exactly these cells, or None if they do not determine one."""
    path, left = [task.start], on - {task.start}
    if task.start not in on:
        return None
    while path[-1] != task.goal:
        near = [cell for cell in task.maze.neighbours(path[-1]) if cell in left]
        if len(near) != 1:
            return None
        path.append(near[0])
        left.remove(near[0])
    return None if left else path


def _parse_rows(reader: TokenReader, width: int | None) -> tuple[list[list[int]], dict[str, Cell]]:
    """Read the cells' values row by row, and where start and goal are."""
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
    """Read the values of the cells up to the next `/` or the end of the grid, which is left to read."""
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
