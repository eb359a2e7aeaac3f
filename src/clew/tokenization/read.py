"""Tasks from a file, from standard input or from a text, whatever they are written in.

    for read in iter_tasks("mazes.txt"):      # or "-" for standard input
        read.task, read.path, read.line

The kind is seen from the first line: a drawing (several are set apart by empty lines; clew.tokenization.ascii and
foreign), one task a line as edge-list, wall-list, grid, path-star or HRM text or as a list of tokens, a CSV file with
the columns question and answer, or JSON: `{"width","height","start":[x,y],"goal":[x,y],"walls":[[x,y],...]}`, or
`cells`, rows of the open sides of each cell (1 north, 2 south, 4 west, 8 east; 16 for a wall cell), instead of
`walls`, or `edges` and nodes instead of cells for a path-star graph. A `"path":[[x,y],...]` or a `"plan"` in wall-list
text may be added; other keys are ignored. All tasks of a file are of one kind. Nothing is read further than needed, so
tasks before a bad line still come out.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path as FilePath
from typing import Any, BinaryIO

import numpy as np

from clew.errors import UserError
from clew.mazes.maze import MAX_SIDE, WALL, Cell, Edge, Maze, Path, PathStar, Task, check_shape
from clew.tokenization.ascii import parse_ascii
from clew.tokenization.cell_grid import GRID_START
from clew.tokenization.edge_list import ADJLIST_START
from clew.tokenization.foreign import DRAWING_CHARACTERS, aligned, drawing_kind, line_kind, parse_foreign
from clew.tokenization.format import format_named
from clew.tokenization.tokens import Parsed, quoted

# The longest text that a maze of 255 x 255 cells can have is shorter.
MAX_LINE_BYTES = 8_000_000
MAX_DRAWING_LINES = 2 * MAX_SIDE + 1

_KIND_NAMES = {
    "ascii": "part of a drawing",
    "edge-list": "edge-list text",
    "wall-list": "wall-list text",
    "grid": "grid text",
    "path-star": "path-star text",
    "hrm": "HRM text",
    "token-list": "a list of tokens",
    "csv": "CSV",
    "json": "JSON",
}
_KIND_OF_WORD = {ADJLIST_START: "edge-list", "bos": "wall-list", "start": "wall-list", GRID_START: "grid"}
_JSON_KEYS = ("width", "height", "start", "goal", "walls")


@dataclass(frozen=True)
class ReadTask:
    """A task that was read, and where it stood."""

    task: Task
    path: Path | None  # the path the text gives, as written; it may not be valid
    kind: str  # ascii, edge-list, wall-list, grid, path-star, json, csv, or one of clew.tokenization.foreign
    line: int  # its first line, counted from 1
    edges: tuple[Edge, ...] | None = None  # of edge-list and path-star text, its edges as they stand there


def iter_tasks(source: str | FilePath) -> Iterator[ReadTask]:
    """Yield the tasks of a file, or of standard input if the source is "-"; a UserError names a line that is wrong."""
    with _opened(source) as stream:
        yield from _tasks_of(stream, "standard input" if str(source) == "-" else str(source))


def tasks_in_text(text: str) -> list[ReadTask]:
    """Return all tasks that a text holds, written as a file would be."""
    return list(_tasks_of(BytesIO(text.encode("utf-8", "surrogatepass")), "the text"))


@contextmanager
def _opened(source: str | FilePath) -> Iterator[BinaryIO]:
    if str(source) == "-":
        yield sys.stdin.buffer
        return
    try:
        stream = open(source, "rb")  # noqa: SIM115 (closed below; opening alone may fail for the user's reasons)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"cannot read {quoted(str(source))}: {reason}; give the name of a file, or -.") from None
    with stream:
        yield stream


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
            text = "\0"
        if "\0" in text:
            raise UserError(f"line {number} is not text in UTF-8: give mazes as text, not a binary file.")
        yield number, text.rstrip("\r\n")


def _tasks_of(stream: BinaryIO, name: str) -> Iterator[ReadTask]:
    kind, first = "", 0  # the kind of the whole file, and the line that told it
    drawing: list[str] = []
    columns: list[str] = []  # of a CSV file
    for number, line in _lines_of(stream):
        if not line.strip():
            if drawing:
                yield _drawn(drawing, number)
                drawing = []
            continue
        if kind == "csv":
            yield _csv_row(columns, line, number)
            continue
        this_kind = "ascii" if drawing and set(line) <= DRAWING_CHARACTERS else _kind_of(line, number)
        if kind and this_kind != kind:
            raise UserError(
                f"line {number} is {_KIND_NAMES[this_kind]}, but line {first} is {_KIND_NAMES[kind]}: "
                "put each kind into a file of its own."
            )
        kind, first = this_kind, first or number
        if kind == "csv":
            columns = [name.strip().lower() for name in next(csv.reader([line]))]
            continue
        if kind != "ascii":
            yield _one_line(line, kind, number)
            continue
        drawing.append(line)
        if len(drawing) > MAX_DRAWING_LINES:
            raise UserError(f"line {number}: the drawing has more lines than a maze of {MAX_SIDE} rows.")
    if drawing:
        yield _drawn(drawing, number + 1)
    if not kind:
        raise UserError(f"{name} holds no maze: it is empty.")


def _kind_of(line: str, number: int) -> str:
    text = line.lstrip()
    word = text.split(maxsplit=1)[0]
    if word in _KIND_OF_WORD:
        return _KIND_OF_WORD[word]
    if text.startswith("{"):
        return "json"
    if (foreign := line_kind(line)) is not None:
        return foreign
    if word.isdecimal() and "|" in line:
        return "path-star"
    if "question" in text.lower().split(","):
        return "csv"
    if set(line) <= DRAWING_CHARACTERS or text.startswith("<|"):
        return "ascii"
    raise UserError(
        f"line {number} begins with {quoted(text)}, which is none of what Clew reads: a drawing, edge-list, wall-list, "
        "grid, path-star or HRM text, a list of tokens, CSV or JSON."
    )


def _drawn(lines: list[str], line_after: int) -> ReadTask:
    first = line_after - len(lines)
    kind = drawing_kind(lines)
    parsed = parse_ascii(aligned(lines, first), first) if kind is None else parse_foreign(kind, lines, first)
    return ReadTask(parsed.task, parsed.path, kind or "ascii", first)


def _one_line(line: str, kind: str, number: int) -> ReadTask:
    try:
        if kind == "json":
            parsed = parse_json_task(line)
        elif kind in ("hrm", "token-list"):
            parsed = parse_foreign(kind, [line], number)
        else:
            parsed = format_named(kind).parse(line.split())
    except UserError as error:
        raise UserError(f"line {number}: {error}") from None
    return ReadTask(parsed.task, parsed.path, kind, number, parsed.edges)


def _csv_row(columns: list[str], line: str, number: int) -> ReadTask:
    """Return the maze in the column `question`, with the path that the column `answer` marks."""
    row = dict(zip(columns, next(csv.reader([line]), []), strict=False))
    for name in ("answer", "question"):
        text = row.get(name, "")
        if name == "answer" and "o" not in text:
            continue  # a set without answers
        if line_kind(text) != "hrm":
            raise UserError(f"line {number}: the {name} is not a square maze of #, spaces, S and G: {quoted(text)}.")
        parsed = parse_foreign("hrm", [text], number)
        return ReadTask(parsed.task, parsed.path, "csv", number)
    raise UserError(f"line {number} has no question.")


def parse_json_task(line: str) -> Parsed:
    """Return the task of a line of JSON, or raise a UserError that names what is wrong."""
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
    if "edges" in value:
        return Parsed(_graph_task(value), None)
    rows = _rows_of_sides(value)
    if missing := [
        key for key in _JSON_KEYS if key not in value and not (rows and key in ("width", "height", "walls"))
    ]:
        raise UserError(f"the JSON lacks {', '.join(missing)}: a maze needs {', '.join(_JSON_KEYS)}.")
    for key in ("height", "width"):
        if not rows and type(value[key]) is not int:  # bool is an int too
            raise UserError(f"{key} is {_as_json(value[key])}, but it must be a whole number.")
    height, width = (len(rows), len(rows[0])) if rows else (value["height"], value["width"])
    check_shape(height, width)

    def cell(item: Any, name: str) -> Cell:
        match item:
            case [int(x), int(y)] if type(x) is int and type(y) is int:
                if 0 <= x < width and 0 <= y < height:
                    return y, x
                raise UserError(
                    f"{name} is [{x},{y}], which lies outside the maze of width {width} and height {height}."
                )
        raise UserError(f"{name} is {_as_json(item)}, but it must be a cell [x,y].")

    def cells(key: str) -> list[Cell]:
        if not isinstance(value[key], list):
            raise UserError(f"{key} is {_as_json(value[key])}, but it must be a list of cells [[x,y],...].")
        return [cell(item, f"number {i + 1} of {key}") for i, item in enumerate(value[key])]

    maze = Maze(np.array(rows, dtype=np.uint8)) if rows else Maze.from_walls(height, width, cells("walls"))
    task = Task(maze, cell(value["start"], "start"), cell(value["goal"], "goal"))
    if value.get("path") is not None:
        return Parsed(task, cells("path") or None)
    plan = value.get("plan")
    if plan is None:
        return Parsed(task, None)
    if not isinstance(plan, str):
        raise UserError(f"plan is {_as_json(plan)}, but it must be a text such as plan 0 1 plan 0 2.")
    try:
        return Parsed(task, format_named("wall-list").parse_response(plan.split(), height=height, width=width))
    except UserError as error:
        raise UserError(f"plan: {error}") from None


def _rows_of_sides(value: dict[str, Any]) -> list[list[int]]:
    """Return the field `cells`, or an empty list if there is none."""
    rows: list[list[int]] = value.get("cells", [])
    rectangle = isinstance(rows, list) and all(isinstance(row, list) and len(row) == len(rows[0]) for row in rows)
    if not rectangle or not all(type(sides) is int and 0 <= sides <= WALL for row in rows for sides in row):
        raise UserError(f"cells must be rows of equal length, each a list of numbers from 0 to {WALL}.")
    return rows


def _graph_task(value: dict[str, Any]) -> Task:
    """Return the task of a path-star graph: edges [[a, b], ...] between nodes, a start and a goal."""
    edges = value["edges"]
    ends: list[Any] = [value.get(key) for key in ("start", "goal")]
    pairs = isinstance(edges, list) and all(isinstance(edge, list) and len(edge) == 2 for edge in edges)
    nodes = [*(node for edge in edges for node in edge), *ends] if pairs else []
    if not pairs or not edges or not all(type(node) is int for node in nodes):
        raise UserError("a graph needs edges [[a, b], ...], a start and a goal, all of them node numbers.")
    labels = value.get("labels", 1 + max(nodes))
    if type(labels) is not int:
        raise UserError(f"labels is {_as_json(labels)}, but it must be the number of possible nodes.")
    graph = PathStar.from_pairs(labels, [(a, b) for a, b in edges])
    for node in ends:
        if not any(node in edge for edge in edges):
            raise UserError(f"node {node} is not in the graph.")
    return Task(graph, (0, ends[0]), (0, ends[1]))


def _as_json(value: Any) -> str:
    return quoted(json.dumps(value))
