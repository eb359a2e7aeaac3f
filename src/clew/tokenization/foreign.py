"""Text formats of other maze libraries: read and written.

    parse_foreign("block", lines)          # maze-dataset's as_ascii(), full blocks, S and E or G
    write_foreign("hrm", task, path)       # one line, HRM's and TRM's Maze-Hard

| name | form |
|---|---|
| block | `#` or full blocks for walls, spaces for free cells, S start, E or G end, X or o path; one drawing |
| box | Unicode box drawing, one drawing |
| binary | rows of 0 (free) and 1 (wall), S or 2 start, G or 3 goal; one drawing |
| hrm | height * width characters in one line: `#` wall, space free, S, G, o path |
| alphamaze | `<|row-column|><|up_left_wall|><|origin|>` a cell |
| token-list | Searchformer's tokens as a JSON list, or as the lists `prompt` and `plan` of an object |

A drawing of walls as blocks in which every cell with two odd coordinates is free and every one with two even
coordinates is a wall, with `E` as its end or drawn with full blocks, has walls between cells: it is read as a maze of
half the size. Any other drawing has wall cells.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.mazes.maze import EAST, NORTH, SOUTH, WALL, WEST, Cell, Maze, Path, Task, check_shape
from clew.tokenization.tokens import Parsed
from clew.tokenization.wall_list import WallList, plan_tokens, prompt_tokens

Bools = npt.NDArray[np.bool_]
WALL_BLOCKS, FREE_BLOCKS = "#█▓■⬛", " .░·□⬜"
START_MARKS, GOAL_MARKS, PATH_MARKS = "S", "EG", "Xox*•"
HORIZONTAL, VERTICAL = "─━═╌┄-", "│┃║╎┆|"
CORNERS = "┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋╴╵╶╷╭╮╯╰+"
DRAWING_CHARACTERS = set(
    "+-|#.SGBEXo^v<> \t01234,[]" + WALL_BLOCKS + FREE_BLOCKS + HORIZONTAL + VERTICAL + CORNERS + "•*"
)
FOREIGN_FORMATS = ("block", "box", "binary", "hrm", "alphamaze", "token-list")
_ALPHAMAZE = re.compile(r"<\|(\d{1,4})-(\d{1,4})\|><\|(no|[a-z_]+)_wall\|><\|(blank|origin|target)\|>")
_ALPHAMAZE_SIDES = {"up": NORTH, "down": SOUTH, "left": WEST, "right": EAST}


def line_kind(line: str) -> str | None:
    """Return the name of the format of one line that holds a whole maze, or None."""
    text = line.strip()
    if text.startswith("[") and '"' in text:
        return "token-list"
    return "hrm" if _is_hrm(line) else None


def drawing_kind(lines: Sequence[str]) -> str | None:
    """Return the name of the format of a drawing, or None if it is not one of these."""
    characters = set("".join(lines)) - set(" \t\r\n")
    if lines[0].lstrip().startswith("<|"):
        return "alphamaze"
    if characters & set(HORIZONTAL[:-1] + VERTICAL[:-1] + CORNERS[:-1]):
        return "box"
    if characters & set("01") and characters <= set("01SG23,[]"):
        return "binary"
    if characters & set(WALL_BLOCKS[1:] + FREE_BLOCKS[2:]) or (characters & set("EXo") and "|" not in characters):
        return "block"
    return None


def parse_foreign(kind: str, lines: Sequence[str], first_line: int = 1) -> Parsed:
    """Return the task of a drawing, or of a line, in one of these formats, and its path if it gives one."""
    if kind == "alphamaze":
        return _parse_alphamaze("".join(lines))
    if kind == "token-list":
        return _parse_token_list("".join(lines))
    if kind == "hrm":
        side = math.isqrt(len(lines[0]))
        rows = [lines[0][side * row : side * (row + 1)] for row in range(side)]
        return _parse_rows(rows, first_line)
    if kind == "box":
        return _parse_box(lines, first_line)
    if kind == "binary":
        table = str.maketrans({"0": " ", "1": "#", "2": "S", "3": "G", ",": None, "[": None, "]": None})
        spaced = any(mark in line.strip() for line in lines for mark in (" ", ","))
        rows = [line.replace(" ", "").translate(table) if spaced else line.strip().translate(table) for line in lines]
        return _parse_rows([row for row in rows if row], first_line)
    return _parse_rows(_unindent([line.rstrip("\r\n") for line in lines]), first_line)


def _parse_rows(rows: list[str], first_line: int) -> Parsed:
    """Return the task of rows in which every character is a wall or a free cell."""
    width = max(map(len, rows), default=0)
    # Editors drop spaces at the end of a line; a framed drawing has none.
    rows = [row.ljust(width) for row in rows]
    known = set(WALL_BLOCKS + FREE_BLOCKS + START_MARKS + GOAL_MARKS + PATH_MARKS)
    for number, row in enumerate(rows):
        for column, character in enumerate(row):
            if character not in known:
                where = f"line {first_line + number}, column {column + 1}"
                raise UserError(f"{where}: {character!r} is neither a wall, a free cell nor a mark of a maze drawing.")
    text = "".join(rows)
    grid_HW = np.array([list(row) for row in rows]).reshape(len(rows), width)
    start, goal = (
        _only(grid_HW, marks, word) for marks, word in ((START_MARKS, "start (S)"), (GOAL_MARKS, "end (E or G)"))
    )
    solid_HW = np.isin(grid_HW, list(WALL_BLOCKS))
    on_path = {start, goal, *((row, col) for row, col in np.argwhere(np.isin(grid_HW, list(PATH_MARKS))).tolist())}
    has_path = bool(set(text) & set(PATH_MARKS))
    halved = "E" in text or bool(set(text) & set(WALL_BLOCKS[1:]))
    return maze_of_blocks(solid_HW, start, goal, on_path if has_path else None, halved)


def maze_of_blocks(solid_HW: Bools, start: Cell, goal: Cell, on_path: set[Cell] | None, halved: bool) -> Parsed:
    """Return the task of a grid of solid and free blocks; `halved` if walls between cells may be drawn as blocks."""
    height, width = solid_HW.shape
    if halved and is_lattice(solid_HW) and all(i % 2 for i in (*start, *goal)):
        check_shape(height // 2, width // 2)
        cells = np.zeros((height // 2, width // 2), dtype=np.uint8)
        for side, rows, columns in ((NORTH, 0, 1), (SOUTH, 2, 1), (WEST, 1, 0), (EAST, 1, 2)):
            free = ~solid_HW[rows : rows + height - 2 : 2, columns : columns + width - 2 : 2]
            cells |= np.where(free, side, 0).astype(np.uint8)
        # A gap in the frame is an entrance, not a passage.
        cells[0] &= ~np.uint8(NORTH)
        cells[-1] &= ~np.uint8(SOUTH)
        cells[:, 0] &= ~np.uint8(WEST)
        cells[:, -1] &= ~np.uint8(EAST)
        maze = Maze(cells)
        start, goal = (start[0] // 2, start[1] // 2), (goal[0] // 2, goal[1] // 2)
        on_path = on_path and {(row // 2, column // 2) for row, column in on_path if row % 2 and column % 2}
    else:
        check_shape(height, width)
        maze = Maze.from_walls(height, width, map(tuple, np.argwhere(solid_HW).tolist()))  # type: ignore[arg-type]
    task = Task(maze, start, goal)
    return Parsed(task, None if on_path is None else _ordered(task, on_path))


def is_lattice(solid_HW: Bools) -> bool:
    """Return whether blocks with two odd coordinates are all free and those with two even ones all solid."""
    height, width = solid_HW.shape
    odd = height % 2 == 1 and width % 2 == 1 and min(height, width) >= 5
    return odd and not solid_HW[1::2, 1::2].any() and bool(solid_HW[::2, ::2].all())


def write_foreign(kind: str, task: Task, path: Path | None = None) -> str:
    """Return a task in one of these formats; UserError if the format cannot express the maze."""
    maze = task.maze
    if kind in ("hrm", "binary", "token-list") and not maze.has_wall_cells_only:
        raise UserError(
            f"the format {kind} has wall cells only and cannot express walls between cells; use block or box."
        )
    if kind == "token-list":
        return json.dumps([*prompt_tokens(task), *(plan_tokens(path) if path else ())])
    if kind == "alphamaze":
        return _write_alphamaze(task)
    if kind == "box":
        return _write_box(task)
    marks = dict.fromkeys(path or (), "o") | {task.start: "S", task.goal: "G"}
    if kind in ("hrm", "binary") or (kind == "block" and maze.has_wall_cells_only):
        free, wall = {"binary": ("0", "1"), "hrm": (" ", "#")}.get(kind, (".", "#"))
        if kind == "binary":
            marks = {task.start: "S", task.goal: "G"}
        rows = [
            "".join(wall if maze.is_wall((r, c)) else marks.get((r, c), free) for c in range(maze.width))
            for r in range(maze.height)
        ]
        return "".join(rows) if kind == "hrm" else "\n".join(rows)
    return _write_lattice(task, path)


def _write_lattice(task: Task, path: Path | None) -> str:
    """Return maze-dataset's drawing: walls between cells as blocks, S, E and X."""
    maze = task.maze
    if any(maze.is_wall((r, c)) for r in range(maze.height) for c in range(maze.width)):
        raise UserError("a maze with both wall cells and walls between cells cannot be drawn with blocks; use json.")
    grid = np.full((2 * maze.height + 1, 2 * maze.width + 1), "#")
    grid[1::2, 1::2] = " "
    for a, b in maze.edges():
        grid[a[0] + b[0] + 1, a[1] + b[1] + 1] = " "
    cells = path or []
    for row, column in cells:
        grid[2 * row + 1, 2 * column + 1] = "X"
    for a, b in pairwise(cells):
        grid[a[0] + b[0] + 1, a[1] + b[1] + 1] = "X"
    for mark, (row, column) in (("S", task.start), ("E", task.goal)):
        grid[2 * row + 1, 2 * column + 1] = mark
    return "\n".join("".join(row) for row in grid)


def _parse_box(lines: Sequence[str], first_line: int) -> Parsed:
    rows = _unindent([line.rstrip() for line in lines])
    width = max(map(len, rows))
    rows = [row.ljust(width) for row in rows]
    marks = START_MARKS + GOAL_MARKS
    for number, row in enumerate(rows):
        for column, character in enumerate(row):
            if character not in HORIZONTAL + VERTICAL + CORNERS + " .o•" + marks:
                where = f"line {first_line + number}, column {column + 1}"
                raise UserError(f"{where}: {character!r} does not belong to a box drawing of a maze.")
    if len(rows) % 2 == 0:
        raise UserError(
            f"a box drawing has a line for each row and one between rows, so an odd number, not {len(rows)}."
        )
    bars = {column for row in rows[1::2] for column, character in enumerate(row) if character in VERTICAL + CORNERS}
    fitting = [step for step in (5, 4, 3, 2) if (width - 1) % step == 0 and all(column % step == 0 for column in bars)]
    if not fitting:
        raise UserError("the columns of the box drawing do not line up; give every cell the same width.")
    step, height = fitting[0], len(rows) // 2
    check_shape(height, (width - 1) // step)
    edges, ends = [], {}
    for r in range(height):
        for c in range((width - 1) // step):
            inside = rows[2 * r + 1][c * step + 1 : (c + 1) * step]
            for mark in inside.replace("E", "G").strip(" .o•"):
                if mark in ends:
                    raise UserError(f"the drawing has two {mark}; mark one start (S) and one end (E or G).")
                ends[mark] = (r, c)
            if (c + 1) * step < width - 1 and rows[2 * r + 1][(c + 1) * step] == " ":
                edges.append(((r, c), (r, c + 1)))
            wall = rows[2 * r + 2][c * step + 1 : (c + 1) * step]
            if r + 1 < height and not set(wall) & set(HORIZONTAL):
                edges.append(((r, c), (r + 1, c)))
    if set(ends) != {"S", "G"}:
        raise UserError("the drawing must mark one start (S) and one end (E or G).")
    return Parsed(Task(Maze.from_edges(height, (width - 1) // step, edges), ends["S"], ends["G"]), None)


def _write_box(task: Task) -> str:
    """Return a box drawing, three characters a cell."""
    maze = task.maze
    corner = " ╴╶─╵┘└┴╷┐┌┬│┤├┼"  # 1 west, 2 east, 4 north, 8 south
    open_right = {frozenset(edge) for edge in maze.edges()}

    def wall_below(r: int, c: int) -> bool:  # between rows r - 1 and r
        return 0 <= c < maze.width and (r in (0, maze.height) or frozenset({(r - 1, c), (r, c)}) not in open_right)

    def wall_right(r: int, c: int) -> bool:  # between columns c - 1 and c
        return 0 <= r < maze.height and (c in (0, maze.width) or frozenset({(r, c - 1), (r, c)}) not in open_right)

    if any(maze.is_wall((r, c)) for r in range(maze.height) for c in range(maze.width)):
        raise UserError("a box drawing has walls between cells only; use block, hrm or json for wall cells.")
    lines = []
    for r in range(maze.height + 1):
        line = ""
        for c in range(maze.width + 1):
            bits = wall_below(r, c - 1) + 2 * wall_below(r, c) + 4 * wall_right(r - 1, c) + 8 * wall_right(r, c)
            line += corner[bits] + ("───" if wall_below(r, c) else "   " if c < maze.width else "")
        lines.append(line)
        if r < maze.height:
            marks = {task.start: "S", task.goal: "G"}
            cells = (("│" if wall_right(r, c) else " ") + f" {marks.get((r, c), ' ')} " for c in range(maze.width))
            lines.append("".join(cells) + "│")
    return "\n".join(lines)


def _parse_alphamaze(text: str) -> Parsed:
    found = _ALPHAMAZE.findall(text)
    rest = _ALPHAMAZE.sub("", text).strip()
    if not found or rest:
        raise UserError(
            f"the AlphaMaze text cannot be read from {rest[:40]!r} on; give <|row-column|>, walls and role."
        )
    height, width = 1 + max(int(cell[0]) for cell in found), 1 + max(int(cell[1]) for cell in found)
    check_shape(height, width)
    if len({cell[:2] for cell in found}) != len(found) or len(found) != height * width:
        raise UserError(f"the AlphaMaze text gives {len(found)} cells of a maze of {height} rows and {width} columns.")
    cells, ends = np.zeros((height, width), dtype=np.uint8), {}
    for row, column, walls, role in found:
        closed = [] if walls == "no" else walls.split("_")
        if unknown := [word for word in closed if word not in _ALPHAMAZE_SIDES]:
            raise UserError(f"cell {row}-{column} has the wall {unknown[0]!r}; walls are up, down, left and right.")
        cells[int(row), int(column)] = sum(side for word, side in _ALPHAMAZE_SIDES.items() if word not in closed)
        if role != "blank":
            ends[role] = (int(row), int(column))
    if set(ends) != {"origin", "target"}:
        raise UserError("the AlphaMaze text must have one <|origin|> and one <|target|>.")
    return Parsed(Task(Maze(cells), ends["origin"], ends["target"]), None)


def _write_alphamaze(task: Task) -> str:
    maze, rows = task.maze, []
    for r in range(maze.height):
        row = ""
        for c in range(maze.width):
            closed = [word for word, side in _ALPHAMAZE_SIDES.items() if not maze.cells[r, c] & side]
            if maze.cells[r, c] & WALL:
                closed = list(_ALPHAMAZE_SIDES)
            role = "origin" if (r, c) == task.start else "target" if (r, c) == task.goal else "blank"
            row += f"<|{r}-{c}|><|{'_'.join(closed) or 'no'}_wall|><|{role}|>"
        rows.append(row)
    return "\n".join(rows)


def _parse_token_list(text: str) -> Parsed:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError("the list of tokens is not valid JSON.") from None
    if not isinstance(value, list) or not all(isinstance(token, str | int) for token in value):
        raise UserError("the list of tokens must hold words and numbers only.")
    return WallList(with_trace=False).parse([str(token) for token in value])


def aligned(lines: list[str], first_line: int = 1) -> list[str]:
    """Return a drawing of # and spaces without indentation and without spaces between its characters.

    UserError where spaces may be free cells as well as indentation: a drawing is never read in the wrong columns.
    """
    if not all(set(line) <= set("#SGB^v<> ") for line in lines):
        return lines  # `.` or walls between cells say which columns belong to the maze
    rows = [line.rstrip() for line in lines]
    indent = min(len(row) - len(row.lstrip()) for row in rows)
    width = max(map(len, rows))
    framed = set(rows[0].strip()) == set(rows[-1].strip()) == {"#"}
    if indent and not framed:
        raise UserError(
            f"line {first_line}, column 1: spaces at the left may be free cells or indentation; use . for free cells."
        )
    rows = [row[indent:].ljust(width - indent) for row in rows]
    spaced = width - indent >= 5 and all(not row[1::2].strip() for row in rows)
    if not spaced:
        return rows if indent else lines
    if set(rows[0][::2]) == set(rows[-1][::2]) == {"#"}:
        return [row[::2] for row in rows]
    raise UserError(
        f"line {first_line}, column 2: every second column is empty; write one character a cell, or . for free cells."
    )


def _unindent(lines: list[str]) -> list[str]:
    """Return the lines of a drawing without empty lines around it and without a common indentation."""
    rows = [line.rstrip() for line in lines]
    while rows and not rows[0]:
        rows.pop(0)
    while rows and not rows[-1]:
        rows.pop()
    if not rows:
        raise UserError("there is no maze to read: the drawing has no lines.")
    indents = {len(row) - len(row.lstrip()) for row in rows}
    if len(indents) == 1:
        return [row[min(indents) :] for row in rows]
    framed = all(row and row[0] not in " \t" for row in (rows[0], rows[-1]))
    if not framed:
        raise UserError("the lines of the drawing are indented differently, so its columns cannot be told apart.")
    return rows


def _only(grid_HW: npt.NDArray[np.str_], marks: str, word: str) -> Cell:
    found = np.argwhere(np.isin(grid_HW, list(marks)))
    if len(found) != 1:
        raise UserError(f"the drawing has {len(found)} marks for the {word}; give exactly one.")
    return int(found[0][0]), int(found[0][1])


def _ordered(task: Task, on_path: set[Cell]) -> Path:
    """Return the marked cells in the order of a walk from the start; UserError if they are not one path."""
    path, left = [task.start], on_path - {task.start}
    while left:
        onward = [cell for cell in task.maze.neighbours(path[-1]) if cell in left]
        if len(onward) != 1:
            raise UserError("the marked cells are not one path from start to goal.")
        path.append(onward[0])
        left.remove(onward[0])
    return path


def _is_hrm(line: str) -> bool:
    side = math.isqrt(len(line))
    return (
        side >= 4 and side * side == len(line) and set(line) <= set("# SGo") and line.count("S") == line.count("G") == 1
    )
