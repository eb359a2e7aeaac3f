"""Tasks from files and texts, whatever they are written in, and tasks written for other libraries.

    for read in iter_tasks("mazes.txt"):      # or "-" for standard input
        read.task, read.path, read.line
    write_maze("hrm", task, path)

The kind of a file is seen from its first line; docs/data.md has an example of each. Drawings and AlphaMaze texts have
several lines and are separated by empty ones, all other mazes stand on a line. A line of token text may also be written
with labels, or reversed. Nothing is read further than needed.

JSON has `width`, `height`, `start` [x,y], `goal` and `walls`, or instead of `walls` the `cells` (rows of the open sides
of each cell: 1 north, 2 south, 4 west, 8 east; 16 for a wall cell), or `edges` and nodes for a path-star graph. A
`path` or a `plan` in wall-list text may be added; other keys are ignored.
"""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain, pairwise
from pathlib import Path as FilePath
from typing import Any, BinaryIO

import numpy as np

from clew.errors import UserError, counted
from clew.mazes.maze import MAX_SIDE, SIDES, WALL, Cell, Maze, Path, PathStar, Task, check_shape
from clew.tokenization import drawings
from clew.tokenization.format import (
    ADJLIST_START,
    FORMATS,
    GRID_START,
    LABELS,
    format_named,
    plan_tokens,
    prompt_tokens,
)
from clew.tokenization.tokens import Parsed, quoted

# The longest text that a maze of 255 x 255 cells can have is shorter.
MAX_LINE_BYTES = 8_000_000
MAX_DRAWING_LINES = 2 * MAX_SIDE + 1

FIRST_WORDS = (ADJLIST_START, GRID_START, "bos", "start")  # of token text

# Gets a sentence about each maze that cannot be read; the others are read.
OnError = Callable[[str], None]


@dataclass(frozen=True)
class ReadTask(Parsed):
    """A task that was read, with the path as written, and where it stood."""

    kind: str = ""
    line: int = 1  # its first line, counted from 1
    number: int = 1  # of the mazes of the file, counted from 1


def iter_tasks(source: str | FilePath, on_error: OnError | None = None) -> Iterator[ReadTask]:
    """Yield the tasks of a file, or of standard input if the source is "-".

    A maze that cannot be read raises a UserError that names the line, unless there is `on_error`.
    """
    if str(source) == "-":
        yield from _tasks_of(sys.stdin.buffer, "standard input", on_error)
        return
    try:
        stream = open(source, "rb")  # noqa: SIM115 (closed below; opening alone may fail for the user's reasons)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"cannot read {quoted(str(source))}: {reason}; give the name of a file, or -.") from None
    with stream:
        yield from _tasks_of(stream, str(source), on_error)


def tasks_in_text(text: str) -> list[ReadTask]:
    """Return all tasks that a text holds, written as a file would be."""
    return list(_tasks_of(BytesIO(text.encode("utf-8", "surrogatepass")), "the text", None))


def _tasks_of(stream: BinaryIO, name: str, on_error: OnError | None) -> Iterator[ReadTask]:
    number = 0
    for number, (kind, line, lines) in enumerate(_mazes_of(_lines_of(stream)), start=1):
        try:
            yield ReadTask(**vars(_parse(kind, line, lines)), kind=kind, line=line, number=number)
        except UserError as error:
            sentence = str(error) if str(error).startswith("line ") else f"line {line}: {error}"
            if on_error is None:
                raise UserError(sentence) from None
            on_error(f"maze {number}, {sentence}")
    if not number:
        raise UserError(f"{name} holds no maze: it is empty.")


def _lines_of(stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, without their ends."""
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            raise UserError(f"line {number} is longer than {MAX_LINE_BYTES:,} bytes, more than any maze needs.")
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            text = "\0"  # which no maze holds, so that only this one is refused
        yield number, text.rstrip("\r\n")


def _mazes_of(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[str, int, list[str]]]:
    """Yield the kind, the first line and the lines of each maze of a file; before a row of CSV stands its head.

    What begins with a line of no known kind ends at an empty line, or at a maze that is one line; its kind is "".
    """
    kind, head, block, first = "", list[str](), list[str](), 0
    is_unknown, may_begin = False, True
    for (number, line), (_, after) in pairwise(chain(lines, [(0, ""), (0, "")])):
        may_begin |= not line.strip()
        if line.strip() and not kind:
            kind = _kind_of(line, after)
            if not kind or (kind in _BLOCKS and not may_begin):
                if not is_unknown:
                    yield "", number, [line]
                kind, block, is_unknown, may_begin = "", [], True, False
                continue
            if kind == "csv":
                head = [line]
                continue
        if kind and kind not in _BLOCKS:
            if line.strip():
                yield kind, number, [*head, line]
        elif line.strip():
            first = first or number
            block += [line] * (len(block) <= MAX_DRAWING_LINES + 1)
        else:  # a line of spaces is passed with both of its neighbours: it may be a row of free cells
            spaces = [line] * bool(line)
            if first:
                yield kind, first, block + spaces
            block, first = spaces, 0


def _kind_of(line: str, after: str) -> str:
    """Return the kind of a file, seen from its first line and the next one; "" if it is of none."""
    both = [line, after] if after.strip() else [line]
    # A line of a drawing may look like a whole maze, but then the other has neither S nor G, or is short.
    are_mazes = all({"S", "G"} & {*each} for each in both) or min(map(len, both)) > MAX_DRAWING_LINES
    if any(map(_is_hrm, both)) and are_mazes:
        return "hrm"
    return next((kind for kind, (recognise, _) in _KINDS.items() if recognise(line.strip())), "")


def _is_hrm(line: str) -> bool:
    side = math.isqrt(len(line))
    ends = line.count("S") == line.count("G") == 1
    return side >= 4 and side * side == len(line) and ends and set(line) <= set("# SGo")


def _parse(kind: str, first_line: int, lines: list[str]) -> Parsed:
    filled = lines[-1:] if kind == "csv" else [line for line in lines if line.strip()]
    for number, line in enumerate(filled, first_line):
        if "\0" in line:
            raise UserError(f"line {number} is not text in UTF-8: give mazes as text, not a binary file.")
    if not kind:
        raise UserError(
            f"line {first_line} begins with {quoted(lines[0].strip())}, which is none of what Clew reads: a drawing, "
            "edge-list, wall-list, grid, path-star, HRM or AlphaMaze text, a list of tokens, CSV or JSON."
        )
    if len(filled) > MAX_DRAWING_LINES:
        where = f"line {first_line + MAX_DRAWING_LINES}"
        raise UserError(f"{where}: the {kind} has more lines than a maze of {MAX_SIDE} rows.")
    if (parse := _KINDS[kind][1]) is None:
        return drawings.parse_drawing(lines, first_line)
    return parse("\n".join(lines))


def _parse_tokens(line: str) -> Parsed:
    """Return the task of token text, or of a JSON list of tokens."""
    value = _json(line) if line.strip().startswith("[") else line.split()
    if not isinstance(value, list) or not all(isinstance(token, str | int) for token in value):
        raise UserError("the list of tokens must hold words and numbers only.")
    tokens = [str(token) for token in value]
    word = tokens[0] if tokens else ""
    name = {ADJLIST_START: "edge-list", GRID_START: "grid"}.get(word, "path-star" if word.isdecimal() else "wall-list")
    if name == "grid" and not {*LABELS}.isdisjoint(tokens):
        name = "cell-labels"
    parsed = format_named(name).parse(tokens)
    if name == "path-star" and parsed.path and parsed.path[0] == parsed.task.goal:
        return replace(parsed, path=parsed.path[::-1])  # path-star-reversed
    return parsed


def _parse_hrm(line: str) -> Parsed:
    if not _is_hrm(line):
        problem = f"the line of {counted(len(line), 'character')} is no HRM maze"
        raise UserError(f"{problem}: that is side * side of #, space and o, with one S and one G.")
    side = math.isqrt(len(line))
    return drawings.parse_cells([line[side * row : side * (row + 1)] for row in range(side)])


def _parse_csv(text: str) -> Parsed:
    """Return the maze in the column `question`, with the path that the column `answer` marks."""
    try:
        names, values = (next(csv.reader([line]), []) for line in text.split("\n"))
    except csv.Error as error:
        raise UserError(f"the row of CSV cannot be read: {error}.") from None
    row = dict(zip([name.strip().lower() for name in names], values, strict=False))
    question = _parse_hrm(row.get("question", ""))
    if "o" not in row.get("answer", ""):  # a set may have no answers
        return question
    answer = _parse_hrm(row["answer"])
    if question.task != answer.task:
        raise UserError("the answer is that of another maze than the question.")
    return answer


_SIDE = "(?:up|down|left|right)"
_ALPHAMAZE = re.compile(
    rf"<\|(\d{{1,4}})-(\d{{1,4}})\|><\|(no|{_SIDE}(?:_{_SIDE})*)_wall\|><\|(blank|origin|target)\|>"
)
_ALPHAMAZE_SIDES = dict(zip(("up", "down", "left", "right"), SIDES, strict=True))


def _parse_alphamaze(text: str) -> Parsed:
    found, rest = _ALPHAMAZE.findall(text), _ALPHAMAZE.sub("", text).strip()
    if not found or rest:
        raise UserError(f"the AlphaMaze text cannot be read at {quoted(rest)}; give <|row-column|>, walls and role.")
    places = [(int(row), int(column)) for row, column, _, _ in found]
    height, width = (1 + max(numbers) for numbers in zip(*places, strict=True))
    check_shape(height, width)
    if sorted(places) != [*np.ndindex(height, width)]:
        raise UserError(f"the AlphaMaze text gives {len(found)} cells of a maze of {height} rows and {width} columns.")
    cells, ends = np.zeros((height, width), dtype=np.uint8), []
    for cell, (_, _, walls, role) in zip(places, found, strict=True):
        cells[cell] = sum(side for word, side in _ALPHAMAZE_SIDES.items() if word not in walls.split("_"))
        ends += [(role, cell)] * (role != "blank")
    if [role for role, _ in sorted(ends)] != ["origin", "target"]:
        raise UserError("the AlphaMaze text must have one <|origin|> and one <|target|>.")
    return Parsed(Task(Maze(cells), *(cell for _, cell in sorted(ends))), None)


def _parse_json(line: str) -> Parsed:
    """Return the task of a line of JSON, or raise a UserError that names what is wrong."""
    value = _json(line)
    if not isinstance(value, dict):
        raise UserError("a maze must be a JSON object {...}.")
    edges, rows = value.get("edges"), value.get("cells")
    needed = ["start", "goal"] if edges or rows else ["width", "height", "start", "goal", "walls"]
    if missing := [key for key in needed if key not in value]:
        raise UserError(f"the JSON lacks {', '.join(missing)}: a maze needs {', '.join(needed)}.")
    if edges:
        _check("edges", edges, _is_table(edges, 2), "a list of pairs of nodes [[a,b],...]")
        height, width = 1, value.get("labels", 1 + max(map(max, edges)))
    elif rows:
        fits = _is_table(rows) and all(0 <= sides <= WALL for row in rows for sides in row)
        _check("cells", rows, fits, f"rows of equal length, each a list of numbers from 0 to {WALL}")
        height, width = len(rows), len(rows[0])
    else:
        height, width = value["height"], value["width"]
    for key, side in (("height", height), ("width", width)):
        _check(key, side, type(side) is int, "a whole number")  # bool is an int too
    if not edges:
        check_shape(height, width)

    def cell(name: str, item: Any) -> Cell:
        x_y = [item, 0] if edges else item
        what = f"a node below {width}" if edges else f"a cell [x,y] of the maze of width {width} and height {height}"
        _check(name, item, _is_table([x_y], 2) and 0 <= x_y[0] < width and 0 <= x_y[1] < height, what)
        return x_y[1], x_y[0]

    def cells(key: str) -> list[Cell]:
        _check(key, value[key], isinstance(value[key], list), "a list of cells")
        return [cell(f"number {i + 1} of {key}", item) for i, item in enumerate(value[key])]

    if edges:
        maze: Maze = PathStar.from_pairs(width, edges)
    else:
        maze = Maze(np.array(rows, dtype=np.uint8)) if rows else Maze.from_walls(height, width, cells("walls"))
    task, plan = Task(maze, cell("start", value["start"]), cell("goal", value["goal"])), value.get("plan")
    if value.get("path") is not None:
        return Parsed(task, cells("path") or None)
    if plan is None:
        return Parsed(task, None)
    _check("plan", plan, isinstance(plan, str), "a text such as plan 0 1 plan 0 2")
    try:
        return Parsed(task, format_named("wall-list").parse_response(plan.split(), height=height, width=width))
    except UserError as error:
        raise UserError(f"plan: {error}") from None


def _is_table(rows: Any, width: int | None = None) -> bool:
    """Return whether a value is a list of rows of equal length, by default the first one's, of whole numbers."""
    is_list = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
    return is_list and all([type(item) for item in row] == [int] * (width or len(rows[0])) for row in rows)


def _check(name: str, value: Any, fits: bool, what: str) -> None:
    if not fits:
        raise UserError(f"{name} is {quoted(json.dumps(value))}, but it must be {what}.")


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        where = f"at character {error.pos + 1} ({error.msg})"
        raise UserError(f"the JSON is broken {where}; each line must hold one whole object.") from None
    except (RecursionError, ValueError):  # a number with thousands of digits
        raise UserError("the JSON is nested too deeply, or holds a number that is too large.") from None


def _is_drawing(line: str) -> bool:
    """Return whether most characters belong to a drawing, which names those that do not."""
    return 2 * sum(character in drawings.DRAWING_CHARACTERS for character in line) > len(line)


# Kind -> whether a line begins a maze of it, and what parses its text (None: a drawing); the first that fits is taken.
_KINDS: dict[str, tuple[Callable[[str], bool], Callable[[str], Parsed] | None]] = {
    "edge-list": (lambda line: line.startswith(ADJLIST_START), _parse_tokens),
    "wall-list": (lambda line: line.split()[0] in ("bos", "start"), _parse_tokens),
    "grid": (lambda line: line.startswith(GRID_START), _parse_tokens),
    "json": (lambda line: line.startswith("{"), _parse_json),
    "alphamaze": (lambda line: line.startswith("<|"), _parse_alphamaze),
    "token-list": (lambda line: line.startswith("[") and '"' in line, _parse_tokens),
    "grid-list": (lambda line: line.startswith("[[") and line.endswith("]]"), None),
    "hrm": (lambda line: False, _parse_hrm),  # _kind_of looks at two lines
    "path-star": (lambda line: line.split()[0].isdecimal() and "|" in line, _parse_tokens),
    "csv": (lambda line: "question" in re.findall('[^, "]+', line.lower()), _parse_csv),
    "drawing": (_is_drawing, None),
}
_BLOCKS = ("drawing", "alphamaze")  # kinds of several lines


def write_maze(kind: str, task: Task, path: Path | None = None) -> str:
    """Return a task in one of WRITTEN_KINDS; UserError if that cannot express the maze.

    The path is left out where the kind has no place for it: box, binary, alphamaze.
    """
    if kind in FORMATS:
        return format_named(kind).encode(task, path).text
    if kind not in _WRITERS:
        raise UserError(f"mazes cannot be written as {kind!r}; use one of {', '.join(WRITTEN_KINDS)}.")
    if isinstance(task.maze, PathStar) and kind not in ("ascii", "token-list", "json"):
        raise UserError(f"a path-star graph cannot be written as {kind}; use path-star or json.")
    return _WRITERS[kind](task, path)


def _write_hrm(task: Task, path: Path | None) -> str:
    if task.maze.height != task.maze.width:
        raise UserError("a line of HRM does not tell the size, so it is for square mazes only; use block.")
    marks = dict.fromkeys(path or (), "o") | {task.start: "S", task.goal: "G"}
    return drawings.draw_cells(task, marks, " ", "#").replace("\n", "")


def _write_alphamaze(task: Task, path: Path | None) -> str:
    if (task.maze.cells & WALL).any():
        raise UserError("AlphaMaze text has walls between cells only; use block, hrm or json for wall cells.")
    lines = [""] * task.maze.height
    for (row, column), sides in np.ndenumerate(task.maze.cells):
        closed = [word for word, side in _ALPHAMAZE_SIDES.items() if not sides & side]
        role = {task.goal: "target", task.start: "origin"}.get((row, column), "blank")
        lines[row] += f"<|{row}-{column}|><|{'_'.join(closed) or 'no'}_wall|><|{role}|>"
    return "\n".join(lines)


def _write_json(task: Task, path: Path | None) -> str:
    maze, is_graph = task.maze, isinstance(task.maze, PathStar)

    def plain(cell: Cell) -> Any:
        return cell[1] if is_graph else [cell[1], cell[0]]

    found: dict[str, Any] = {"width": maze.width, "height": maze.height}
    if is_graph:
        found = {"labels": maze.width, "edges": [[plain(a), plain(b)] for a, b in maze.edges()]}
    elif maze.has_wall_cells_only:
        found["walls"] = [plain(cell) for cell in maze.walls()]
    else:
        found["cells"] = maze.cells.tolist()
    found |= {"start": plain(task.start), "goal": plain(task.goal)}
    return json.dumps(found | ({"path": [plain(cell) for cell in path]} if path else {}))


_WRITERS: dict[str, Callable[[Task, Path | None], str]] = {
    "ascii": drawings.draw_ascii,
    "block": drawings.draw_blocks,
    "box": drawings.draw_box,
    "binary": lambda task, path: drawings.draw_cells(task, {task.start: "S", task.goal: "G"}, "0", "1"),
    "hrm": _write_hrm,
    "csv": lambda task, path: f"question,answer\n{_write_hrm(task, None)},{_write_hrm(task, path) if path else ''}",
    "alphamaze": _write_alphamaze,
    "token-list": lambda task, path: json.dumps([*prompt_tokens(task), *plan_tokens(path or [])]),
    "json": _write_json,
}
WRITTEN_KINDS = (*_WRITERS, *FORMATS)
