"""Tasks from files and texts, whatever they are written in, and tasks written for other libraries.

    for read in iter_tasks("mazes.txt"):      # or "-" for standard input
        read.task, read.path, read.line
    write_maze("hrm", task, path)

The kind of a file is seen from its first line, and all its mazes are of that kind; docs/data.md has an example of each.
Drawings and AlphaMaze texts have several lines and are separated by empty ones, all other mazes stand on a line. A line
of token text may also be written with labels, or reversed. Nothing is read further than needed.

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
from contextlib import suppress
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

_BLOCKS = ("drawing", "alphamaze")  # kinds of several lines, separated by empty ones
KIND_OF_WORD = {ADJLIST_START: "edge-list", "bos": "wall-list", "start": "wall-list", GRID_START: "grid"}
_JSON_KEYS = ("width", "height", "start", "goal", "walls")
_SIDE = "(?:up|down|left|right)"
_ALPHAMAZE = re.compile(
    rf"<\|(\d{{1,4}})-(\d{{1,4}})\|><\|(no|{_SIDE}(?:_{_SIDE})*)_wall\|><\|(blank|origin|target)\|>"
)
_ALPHAMAZE_SIDES = dict(zip(("up", "down", "left", "right"), SIDES, strict=True))

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
    number = first = 0
    for number, (kind, line, lines) in enumerate(_mazes_of(stream), start=1):
        first = first or (line if kind else 0)
        try:
            yield ReadTask(**vars(_parse(kind, lines, line, first)), kind=kind, line=line, number=number)
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


def _mazes_of(stream: BinaryIO) -> Iterator[tuple[str, int, list[str]]]:
    """Yield the kind, the first line and the lines of each maze of a file; before a row of CSV stands its head.

    A line of spaces between two drawings is passed with both: it may be a row of free cells. What begins with a line of
    no known kind ends at an empty line, or at a maze that is one line; its kind is "".
    """
    kind, head, block, rows, number = "", "", list[str](), 0, 0
    is_unknown = is_in_unknown = False
    for (number, line), (_, after) in pairwise(chain(_lines_of(stream), [(0, "")])):
        if not line.strip():
            is_in_unknown = False
            spaces = [line] * bool(line)
            if rows:
                yield kind, number - rows, block + spaces
            block, rows = spaces, 0
            continue
        if not kind:
            with suppress(UserError):
                kind = _kind_of(line, number)
            if not kind or (is_in_unknown and kind in _BLOCKS):
                if not is_unknown:
                    yield "", number, [line]
                kind, block, is_unknown, is_in_unknown = "", [], True, True
                continue
            # A line of a drawing may look like a whole maze, but then the other has neither S nor G.
            is_wide = min(len(line), len(after)) > MAX_DRAWING_LINES
            if kind == "hrm" and after.strip() and not is_wide and not {"S", "G"} & {*after}:
                kind = "drawing"
            elif kind == "drawing" and _is_hrm(after) and (is_wide or {"S", "G"} & {*line}):
                kind = "hrm"
            if kind == "csv":
                head = line
                continue
        if kind not in _BLOCKS:
            yield kind, number, [head, line] if head else [line]
            continue
        rows += 1
        if rows <= MAX_DRAWING_LINES + 1:
            block.append(line)
    if rows:
        yield kind, number + 1 - rows, block


def _kind_of(line: str, number: int) -> str:
    if "\0" in line:
        raise UserError(f"line {number} is not text in UTF-8: give mazes as text, not a binary file.")
    text = line.strip()
    word = text.split(maxsplit=1)[0]
    if word in KIND_OF_WORD:
        return KIND_OF_WORD[word]
    if text.startswith("{"):
        return "json"
    if text.startswith("<|"):
        return "alphamaze"
    if text.startswith("[") and '"' in text:
        return "token-list"
    if text.startswith("[[") and text.endswith("]]"):
        return "grid-list"
    if _is_hrm(line):
        return "hrm"
    if word.isdecimal() and "|" in line:
        return "path-star"
    if "question" in (name.strip(' "') for name in text.lower().split(",")):
        return "csv"
    if 2 * sum(character in drawings.DRAWING_CHARACTERS for character in text) > len(text):
        return "drawing"  # which names the character that does not belong to it
    raise UserError(
        f"line {number} begins with {quoted(text)}, which is none of what Clew reads: a drawing, edge-list, wall-list, "
        "grid, path-star, HRM or AlphaMaze text, a list of tokens, CSV or JSON."
    )


def _is_hrm(line: str) -> bool:
    side = math.isqrt(len(line))
    ends = line.count("S") == line.count("G") == 1
    return side >= 4 and side * side == len(line) and ends and set(line) <= set("# SGo")


def _parse(kind: str, lines: list[str], first_line: int, first_of_file: int) -> Parsed:
    """Return the task of one maze; UserError if it is of another kind than the file."""
    if not kind:
        _kind_of(lines[0], first_line)
    if kind == "csv" and "\0" not in lines[-1]:
        return _parse_csv_row(*lines)
    for number, line in enumerate(filter(str.strip, lines[kind == "csv" :]), first_line):
        if kind == "drawing" and not line.strip().startswith(("{", "<|", "\0", *KIND_OF_WORD)):
            continue  # it names the character that is no part of it
        if (found := _kind_of(line, number)) != kind:
            if kind == "hrm" and found == "drawing":
                problem = f"the line of {counted(len(line), 'character')} is no HRM maze"
                raise UserError(f"{problem}: that is side * side of #, space and o, with one S and one G.")
            where = f"line {number} is of the kind {found}, but line {first_of_file} of the kind {kind}"
            raise UserError(f"{where}: put each kind into a file of its own.")
    if len(lines) > MAX_DRAWING_LINES and sum(map(bool, map(str.strip, lines))) > MAX_DRAWING_LINES:
        where = f"line {first_line + MAX_DRAWING_LINES}"
        raise UserError(f"{where}: the {kind} has more lines than a maze of {MAX_SIDE} rows.")
    if kind == "drawing":
        return drawings.parse_drawing(lines, first_line)
    if kind == "alphamaze":
        return _parse_alphamaze("".join(lines))
    return _LINE_PARSERS.get(kind, _parse_tokens)(lines[0])


def _parse_tokens(line: str) -> Parsed:
    """Return the task of token text, or of a JSON list of tokens."""
    value = _json(line) if line.strip().startswith("[") else line.split()
    if not isinstance(value, list) or not all(isinstance(token, str | int) for token in value):
        raise UserError("the list of tokens must hold words and numbers only.")
    tokens = [str(token) for token in value]
    word = tokens[0] if tokens else ""
    name = KIND_OF_WORD.get(word, "path-star" if word.isdecimal() else "wall-list")
    if name == "grid" and not {*LABELS}.isdisjoint(tokens):
        name = "cell-labels"
    parsed = format_named(name).parse(tokens)
    if name == "path-star" and parsed.path and parsed.path[0] == parsed.task.goal:
        return replace(parsed, path=parsed.path[::-1])  # path-star-reversed
    return parsed


def _parse_grid_list(line: str) -> Parsed:
    """Return the task of a 0/1 grid that is a JSON list of rows."""
    rows = _json(line)
    if not all(isinstance(row, list) and row and all(item in (0, 1, 2, 3) for item in row) for row in rows):
        raise UserError("a list must hold rows of 0 for free cells, 1 for walls, 2 for the start and 3 for the goal.")
    return drawings.parse_drawing(["".join(str(int(item)) for item in row) for row in rows])


def _parse_hrm(line: str) -> Parsed:
    side = math.isqrt(len(line))
    return drawings.parse_rows([line[side * row : side * (row + 1)] for row in range(side)])


def _parse_csv_row(head: str, line: str) -> Parsed:
    """Return the maze in the column `question`, with the path that the column `answer` marks."""
    try:
        names, values = (next(csv.reader([text]), []) for text in (head, line))
    except csv.Error as error:
        raise UserError(f"the row of CSV cannot be read: {error}.") from None
    row = dict(zip([name.strip().lower() for name in names], values, strict=False))
    parsed = []
    for name in ("question", "answer") if "o" in row.get("answer", "") else ("question",):  # a set may have no answers
        if not _is_hrm(row.get(name, "")):
            raise UserError(f"the {name} is not a square maze of #, spaces, S and G: {quoted(row.get(name, ''))}.")
        parsed.append(_parse_hrm(row[name]))
    if parsed[0].task != parsed[-1].task:
        raise UserError("the answer is that of another maze than the question.")
    return parsed[-1]


def _parse_alphamaze(text: str) -> Parsed:
    found = _ALPHAMAZE.findall(text)
    rest = _ALPHAMAZE.sub("", text).strip()
    if not found or rest:
        raise UserError(f"the AlphaMaze text cannot be read at {quoted(rest)}; give <|row-column|>, walls and role.")
    height, width = 1 + max(int(cell[0]) for cell in found), 1 + max(int(cell[1]) for cell in found)
    check_shape(height, width)
    if len({cell[:2] for cell in found}) != len(found) or len(found) != height * width:
        raise UserError(f"the AlphaMaze text gives {len(found)} cells of a maze of {height} rows and {width} columns.")
    cells, ends = np.zeros((height, width), dtype=np.uint8), []
    for row, column, walls, role in found:
        cell = int(row), int(column)
        cells[cell] = sum(side for word, side in _ALPHAMAZE_SIDES.items() if word not in walls.split("_"))
        if role != "blank":
            ends.append((role, cell))
    if [role for role, _ in sorted(ends)] != ["origin", "target"]:
        raise UserError("the AlphaMaze text must have one <|origin|> and one <|target|>.")
    return Parsed(Task(Maze(cells), *(cell for _, cell in sorted(ends))), None)


def parse_json_task(line: str) -> Parsed:
    """Return the task of a line of JSON, or raise a UserError that names what is wrong."""
    value = _json(line)
    if not isinstance(value, dict):
        raise UserError("a maze must be a JSON object {...}.")
    if "edges" in value:
        return _parse_graph(value)
    rows = _rows_of_sides(value)
    if missing := [key for key in (("start", "goal") if rows else _JSON_KEYS) if key not in value]:
        raise UserError(f"the JSON lacks {', '.join(missing)}: a maze needs {', '.join(_JSON_KEYS)}.")
    height, width = (len(rows), len(rows[0])) if rows else (value["height"], value["width"])
    for key, side in (("height", height), ("width", width)):
        if type(side) is not int:  # bool is an int too
            raise UserError(f"{key} is {_as_json(side)}, but it must be a whole number.")
    check_shape(height, width)

    def cell(item: Any, name: str) -> Cell:
        if not isinstance(item, list) or [type(i) for i in item] != [int, int]:
            raise UserError(f"{name} is {_as_json(item)}, but it must be a cell [x,y].")
        x, y = item
        if not (0 <= x < width and 0 <= y < height):
            raise UserError(f"{name} is [{x},{y}], which lies outside the maze of width {width} and height {height}.")
        return y, x

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


def _parse_graph(value: dict[str, Any]) -> Parsed:
    """Return the task of a path-star graph: edges [[a, b], ...] between nodes, a start, a goal, maybe a path."""
    edges, path = value["edges"], value.get("path") or []
    ends: list[Any] = [value.get(key) for key in ("start", "goal")]
    pairs = isinstance(edges, list) and all(isinstance(edge, list) and len(edge) == 2 for edge in edges)
    nodes = [node for edge in edges for node in edge] if pairs else []
    if not nodes or not isinstance(path, list) or not all(type(node) is int for node in [*nodes, *ends, *path]):
        raise UserError("a graph needs edges [[a, b], ...], a start and a goal, all of them node numbers.")
    labels = value.get("labels", 1 + max([*nodes, *path]))
    if type(labels) is not int:
        raise UserError(f"labels is {_as_json(labels)}, but it must be the number of possible nodes.")
    if missing := [node for node in ends if node not in nodes]:
        raise UserError(f"node {missing[0]} is not in the graph.")
    graph = PathStar.from_pairs(labels, [(a, b) for a, b in edges])
    return Parsed(Task(graph, (0, ends[0]), (0, ends[1])), [(0, node) for node in path] or None)


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        where = f"at character {error.pos + 1} ({error.msg})"
        raise UserError(f"the JSON is broken {where}; each line must hold one whole object.") from None
    except (RecursionError, ValueError):  # a number with thousands of digits
        raise UserError("the JSON is nested too deeply, or holds a number that is too large.") from None


def _as_json(value: Any) -> str:
    return quoted(json.dumps(value))


# Other lines are token text.
_LINE_PARSERS = {"json": parse_json_task, "hrm": _parse_hrm, "grid-list": _parse_grid_list}


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


def _write_tokens(task: Task, path: Path | None) -> str:
    return json.dumps([*prompt_tokens(task), *plan_tokens(path or [])])


def _write_hrm(task: Task, path: Path | None) -> str:
    if task.maze.height != task.maze.width:
        raise UserError("a line of HRM does not tell the size, so it is for square mazes only; use block.")
    marks = dict.fromkeys(path or (), "o") | {task.start: "S", task.goal: "G"}
    return drawings.draw_cells(task, marks, " ", "#").replace("\n", "")


def _write_csv(task: Task, path: Path | None) -> str:
    return f"question,answer\n{_write_hrm(task, None)},{_write_hrm(task, path) if path else ''}"


def _write_binary(task: Task, path: Path | None) -> str:
    return drawings.draw_cells(task, {task.start: "S", task.goal: "G"}, "0", "1")


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
    "binary": _write_binary,
    "hrm": _write_hrm,
    "csv": _write_csv,
    "alphamaze": _write_alphamaze,
    "token-list": _write_tokens,
    "json": _write_json,
}
WRITTEN_KINDS = (*_WRITERS, *FORMATS)
