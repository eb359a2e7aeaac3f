"""A task as one JSON object: `{"width","height","start":[x,y],"goal":[x,y],"walls":[[x,y],...]}`.

A `"path":[[x,y],...]` or a `"plan"` in wall-list text gives the path. Other keys are ignored, so that the lines of
other tools can be read as they are.

Reads tasks from a file or from standard input, whatever they are written in.

    for read in iter_tasks("mazes.txt"):      # or "-" for standard input
        read.task, read.path, read.line

The kind is seen from the first line: a drawing (several are set apart by empty lines), or one task a line as
edge-list, wall-list, grid or path-star text, or as JSON
`{"width","height","start":[x,y],"goal":[x,y],"walls":[[x,y],...]}`, to which a `"path":[[x,y],...]` or a `"plan"` text
may be added. All tasks of a file are of one kind. Nothing is read
further than needed, so tasks before a bad line still come out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path as FilePath
from typing import Any, BinaryIO

from clew.errors import UserError
from clew.mazes.maze import MAX_SIDE, Cell, Edge, Maze, Path, Task, check_shape
from clew.tokenization.ascii import parse_ascii
from clew.tokenization.cell_grid import GRID_START
from clew.tokenization.edge_list import ADJLIST_START
from clew.tokenization.format import format_named
from clew.tokenization.tokens import Parsed, shown
from clew.tokenization.wall_list import WallList

_KEYS = ("width", "height", "start", "goal", "walls")


def parse_json_task(line: str) -> Parsed:
    """The task that the line says, or a UserError that names what is wrong."""
    try:
        value = json.loads(line)
    except RecursionError:
        raise UserError("the JSON is nested too deeply to be a maze.") from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"the JSON is broken at character {error.pos + 1} ({error.msg}); each line must hold one whole object."
        ) from None
    except ValueError:
        raise UserError("the JSON holds a number that is too large.") from None
    if not isinstance(value, dict):
        raise UserError("a maze must be a JSON object {...}.")
    if missing := [key for key in _KEYS if key not in value]:
        raise UserError(f"the JSON lacks {', '.join(missing)}: a maze needs {', '.join(_KEYS)}.")
    height, width = _whole_number(value, "height"), _whole_number(value, "width")
    check_shape(height, width)
    walls = _cells(value, "walls", height, width)
    start, goal = (_cell(value[key], key, height, width) for key in ("start", "goal"))
    task = Task(Maze.from_walls(height, width, walls), start, goal)
    return Parsed(task, _path(value, height, width))


def _whole_number(value: dict[str, Any], key: str) -> int:
    number = value[key]
    if not isinstance(number, int) or isinstance(number, bool):
        raise UserError(f"{key} is {shown(json.dumps(number))}, but it must be a whole number.")
    return number


def _cell(value: Any, name: str, height: int, width: int) -> Cell:
    match value:
        case [int(x), int(y)] if type(x) is int and type(y) is int:  # bool is an int too
            if 0 <= x < width and 0 <= y < height:
                return y, x
            raise UserError(f"{name} is [{x},{y}], which lies outside the maze of width {width} and height {height}.")
    raise UserError(f"{name} is {shown(json.dumps(value))}, but it must be a cell [x,y].")


def _cells(value: dict[str, Any], key: str, height: int, width: int) -> list[Cell]:
    if not isinstance(value[key], list):
        raise UserError(f"{key} is {shown(json.dumps(value[key]))}, but it must be a list of cells [[x,y],...].")
    return [_cell(item, f"number {i + 1} of {key}", height, width) for i, item in enumerate(value[key])]


def _path(value: dict[str, Any], height: int, width: int) -> Path | None:
    if value.get("path") is not None:
        return _cells(value, "path", height, width) or None
    plan = value.get("plan")
    if plan is None:
        return None
    if not isinstance(plan, str):
        raise UserError(f"plan is {shown(json.dumps(plan))}, but it must be a text such as plan 0 1 plan 0 2.")
    try:
        return WallList(with_trace=False).parse_response(plan.split(), height=height, width=width)
    except UserError as error:
        raise UserError(f"plan: {error}") from None


# The longest text that a maze of 255 x 255 cells can have is shorter.
MAX_LINE_BYTES = 8_000_000
MAX_DRAWING_LINES = 2 * MAX_SIDE + 1

_KIND_NAMES = {
    "ascii": "part of a drawing",
    "edge-list": "edge-list text",
    "wall-list": "wall-list text",
    "grid": "grid text",
    "path-star": "path-star text",
    "json": "JSON",
}


@dataclass(frozen=True)
class ReadTask:
    """A task that was read, and where it stood."""

    task: Task
    path: Path | None  # the path the text gives, as written; it may not be valid
    kind: str  # ascii, edge-list, wall-list, grid, path-star or json
    line: int  # its first line, counted from 1
    edges: tuple[Edge, ...] | None = None  # of edge-list and path-star text, its edges as they stand there


def read_tasks(source: str | FilePath) -> list[ReadTask]:
    """All tasks of a file, or of standard input if the source is "-"."""
    return list(iter_tasks(source))


def iter_tasks(source: str | FilePath) -> Iterator[ReadTask]:
    """The tasks one by one; a UserError names the line that cannot be read, after the tasks before it."""
    name = "standard input" if str(source) == "-" else str(source)
    found = False
    with _opened(source) as stream:
        for read in _tasks_of(_lines_of(stream)):
            found = True
            yield read
    if not found:
        raise UserError(f"{name} holds no maze: it is empty.")


def tasks_in_text(text: str) -> list[ReadTask]:
    """All tasks that a text holds, written as a file would be."""
    found = list(_tasks_of(_lines_of(BytesIO(text.encode("utf-8", "surrogatepass")))))
    if not found:
        raise UserError("the text holds no maze: it is empty.")
    return found


@contextmanager
def _opened(source: str | FilePath) -> Iterator[BinaryIO]:
    if str(source) == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = open(source, "rb")  # noqa: SIM115 (closed below; opening alone may fail for the user's reasons)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"cannot read {shown(str(source))}: {reason}; give the name of a file, or -.") from None
    with stream:
        yield stream


def _lines_of(stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """The lines with their numbers, without their ends."""
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            raise UserError(f"line {number} is longer than {MAX_LINE_BYTES:,} bytes, more than any maze needs.")
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise UserError(f"line {number} is not text in UTF-8: give mazes as text, not a binary file.")
        yield number, text.rstrip("\r\n")


def _tasks_of(lines: Iterator[tuple[int, str]]) -> Iterator[ReadTask]:
    kind, first = "", 0  # the kind of the whole file, and the line that told it
    drawing: list[str] = []
    for number, line in lines:
        if not line.strip():
            if drawing:
                yield _drawn(drawing, number)
                drawing = []
            continue
        line_kind = _kind_of(line, number)
        if kind and line_kind != kind:
            raise UserError(
                f"line {number} is {_KIND_NAMES[line_kind]}, but line {first} is {_KIND_NAMES[kind]}: "
                "put each kind into a file of its own."
            )
        kind, first = line_kind, first or number
        if kind != "ascii":
            yield _one_line(line, kind, number)
            continue
        drawing.append(line)
        if len(drawing) > MAX_DRAWING_LINES:
            raise UserError(f"line {number}: the drawing has more lines than a maze of {MAX_SIDE} rows.")
    if drawing:
        yield _drawn(drawing, number + 1)


def _kind_of(line: str, number: int) -> str:
    text = line.lstrip()
    word = text.split(maxsplit=1)[0]
    if word == ADJLIST_START:
        return "edge-list"
    if word in ("bos", "start"):
        return "wall-list"
    if word == GRID_START:
        return "grid"
    if word.isdecimal():
        return "path-star"
    if text.startswith("{"):
        return "json"
    if set(line.strip()) <= set("+-|#.SGB^v<> "):
        return "ascii"
    raise UserError(
        f"line {number} begins with {shown(text)}, which is none of what Clew reads: a drawing, edge-list, wall-list, "
        "grid or path-star text, or JSON."
    )


def _drawn(lines: list[str], line_after: int) -> ReadTask:
    first = line_after - len(lines)
    parsed = parse_ascii(lines, first)
    return ReadTask(parsed.task, parsed.path, "ascii", first)


def _one_line(line: str, kind: str, number: int) -> ReadTask:
    parse: Callable[[str], Parsed]
    parse = parse_json_task if kind == "json" else lambda text: format_named(kind).parse(text.split())
    try:
        parsed = parse(line)
    except UserError as error:
        raise UserError(f"line {number}: {error}") from None
    return ReadTask(parsed.task, parsed.path, kind, number, parsed.edges)
