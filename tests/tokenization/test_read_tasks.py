"""Files of every kind are recognized and read; every file that cannot be read gets one sentence that names the line."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path as FilePath
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.errors import UserError
from clew.mazes.maze import Maze, Task
from clew.tokenization.format import format_named
from clew.tokenization.read import MAX_LINE_BYTES, ReadTask, iter_tasks

TASK = Task(Maze.from_walls(2, 3, [(0, 1)]), (0, 0), (0, 2))
PATH = [(0, 0), (1, 0), (1, 1), (1, 2), (0, 2)]
JSON_TASK = {"width": 3, "height": 2, "start": [0, 0], "goal": [2, 0], "walls": [[1, 0]]}
JSON = json.dumps(JSON_TASK)
EDGE_LIST = format_named("edge-list").encode(TASK, PATH).text
WALL_LIST = "start 0 0 goal 1 1"
DRAWING = "S#G\n..."


def read_tasks(source: str | FilePath) -> list[ReadTask]:
    return list(iter_tasks(source))


def write(folder: FilePath, content: str | bytes) -> FilePath:
    file = folder / "mazes"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


@pytest.mark.parametrize(
    ("content", "kind", "lines"),
    [
        (JSON, "json", [1]),
        (f"\n{JSON}\r\n\n  {JSON}\n", "json", [2, 4]),
        (f"{EDGE_LIST}\n{EDGE_LIST}\n", "edge-list", [1, 2]),
        (WALL_LIST, "wall-list", [1]),
        (f"bos {WALL_LIST} eos\n{WALL_LIST} plan 0 0", "wall-list", [1, 2]),
        (format_named("grid").encode(TASK, None).text, "grid", [1]),
        (DRAWING, "drawing", [1]),
        (
            f"\n\n{DRAWING}\n\n \n{DRAWING}\r\n\r\n+--+--+\r\n|S  G |\r\n+--+--+\r\n|  |  |\r\n+--+--+",
            "drawing",
            [3, 7, 10],
        ),
        ("\ufeff" + DRAWING, "drawing", [1]),
    ],
)
def test_kinds_are_told_apart(tmp_path: FilePath, content: str, kind: str, lines: list[int]) -> None:
    read = read_tasks(write(tmp_path, content))
    assert [task.kind for task in read] == [kind] * len(lines)
    assert [task.line for task in read] == lines


def test_task_and_path_are_what_was_written(tmp_path: FilePath) -> None:
    with_path = json.dumps({**JSON_TASK, "path": [[col, row] for row, col in PATH], "note": "ours"})
    with_plan = json.dumps({**JSON_TASK, "plan": "plan 0 0 plan 0 1 plan 1 1 plan 2 1 plan 2 0", "path": None})
    for content in (with_path, with_plan, format_named("grid").encode(TASK, PATH).text, "S#G\n>>^"):
        (read,) = read_tasks(write(tmp_path, content))
        assert read.task == TASK
        assert read.path == PATH
    (read,) = read_tasks(write(tmp_path, JSON))
    assert (read.task, read.path) == (TASK, None)
    (read,) = read_tasks(write(tmp_path, EDGE_LIST))
    assert read.edges is not None
    assert format_named("edge-list").parse(EDGE_LIST.split()).edges == read.edges


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(JSON.encode())))
    assert read_tasks("-")[0].task == TASK
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO()))
    with pytest.raises(UserError, match="standard input holds no maze"):
        read_tasks("-")


def changed(**changes: object) -> str:
    return json.dumps({**JSON_TASK, **changes})


BAD_FILES = {
    "empty": ("", "mazes holds no maze: it is empty"),
    "blank": ("\n \n\n", "holds no maze: it is empty"),
    "binary": (bytes(range(256)), "line 1 is not text in UTF-8"),
    "zero bytes": (f"{JSON}\n".encode() + b"\0\0\0", "line 2 is not text"),
    "UTF-16": (JSON.encode("utf-16"), "line 1 is not text"),
    "long line": ("x" * 10_000_000, "line 1 is longer than 8,000,000 bytes"),
    "long line of JSON": (f"{JSON}\n" + " " * 10_000_000, "line 2 is longer than 8,000,000 bytes"),
    "garbage": (f"{JSON}\nhello", "line 2: the JSON is broken at character 1"),
    "control characters": ("\x1b[31mred", r"line 1 begins with '\\x1b\[31mred'"),
    "kinds mixed": (f"{JSON}\n{WALL_LIST}", "line 2: the JSON is broken at character 1"),
    "a line in a drawing": (
        f"{DRAWING}\n{EDGE_LIST}",
        "line 3, column 2: 'A' is no part of a maze",
    ),
    "edge list": ("<ADJLIST_START> (0,0) (0,1)", "line 1: the text ends after token 3, but ; must follow"),
    "wall list": (f"{WALL_LIST}\nstart 0 x", "line 2: token 3 is 'x', but a y"),
    "path star": ("3 5 | 3 5 <PATH_START>\n3 5 | x", "line 2: token 4 is 'x', but a node"),
    "drawing": (f"{DRAWING}\n\nS..\n...", "line 4: the drawing has no G"),
    "endless drawing": ("S.\n" * 600, "line 512: the drawing has more lines than a maze of 255 rows"),
    "truncated JSON": (
        f"{JSON}\n{JSON[:-5]}",
        "line 2: the JSON is broken at character .*; each line must hold one whole object",
    ),
    "two on a line": (JSON + JSON, "line 1: the JSON is broken at character .* one whole object"),
    "deep JSON": ('{"walls":' + "[" * 100_000, "line 1: the JSON is (nested too deeply|broken)"),
    "large number": (JSON.replace("3", "9" * 5000), "line 1: the JSON .* holds a number that is too large"),
    "missing keys": ('{"width": 3}', "line 1: the JSON lacks height, start, goal, walls"),
    "side as text": (changed(width="3"), "line 1: width is '\"3\"', but it must be a whole number"),
    "side as float": (changed(height=2.0), "height is '2.0'"),
    "side as bool": (changed(height=True), "height is 'true'"),
    "size": (changed(width=1), "2 rows and 1 column is outside"),
    "huge size": (changed(width=10**12), "between 2 and 255"),
    "start outside": (
        changed(start=[3, 0]),
        r"start is '\[3, 0\]', but it must be a cell \[x,y\] of the maze of width 3 and height 2",
    ),
    "negative start": (changed(start=[-1, 0]), r"start is '\[-1, 0\]', but it must be"),
    "start in a wall": (changed(start=[1, 0]), "line 1: the start .* is a wall cell"),
    "goal no cell": (changed(goal=[1]), r"goal is '\[1\]', but it must be a cell \[x,y\]"),
    "goal of bools": (changed(goal=[True, False]), "goal is"),
    "walls no list": (changed(walls={"x": 1}), "walls is .*, but it must be a list of cells"),
    "wall outside": (changed(walls=[[1, 0], [0, 2]]), r"number 2 of walls is '\[0, 2\]'"),
    "path": (changed(path=[[0, 0], "x"]), "number 2 of path is"),
    "plan no text": (changed(plan=[1]), r"plan is '\[1\]', but it must be a text"),
    "plan": (changed(plan="plan 0 9"), "line 1: plan: token 3 is '9', but a y from 0 to 1"),
    "NaN": (changed(width=float("nan")), "width is 'NaN'"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_get_one_sentence(tmp_path: FilePath, name: str) -> None:
    content, message = BAD_FILES[name]
    with pytest.raises(UserError, match=message) as caught:
        read_tasks(write(tmp_path, content))
    assert re.fullmatch(r"[^\n]{10,300}\.", str(caught.value))


@pytest.mark.parametrize("name", ["missing", ".", "with\0zero"])
def test_files_that_cannot_be_opened(tmp_path: FilePath, name: str) -> None:
    with pytest.raises(UserError, match=r"cannot read .*; give the name of a file, or -\."):
        read_tasks(os.path.join(tmp_path, name))


def test_tasks_before_a_bad_line_come_out(tmp_path: FilePath) -> None:
    tasks = iter_tasks(write(tmp_path, f"{JSON}\n{JSON}\nhello"))
    assert [next(tasks).line, next(tasks).line] == [1, 2]
    with pytest.raises(UserError, match="line 3"):
        next(tasks)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (f"hello\n{JSON}\n{JSON}", [2, 3]),
        (f"hello\nthere\n\n\n{WALL_LIST}", [5]),
        (f"hello\n\n{DRAWING}\n\n{DRAWING}", [3, 6]),
        (f"the first row\n{DRAWING}\n\n{DRAWING}", [5]),  # the drawing may lack a row
        (f"hello\n{DRAWING}", []),
        ("hello\n\nthere\n", []),
    ],
)
def test_mazes_after_an_unknown_first_line_are_read(tmp_path: FilePath, content: str, lines: list[int]) -> None:
    problems: list[str] = []
    found = list(iter_tasks(write(tmp_path, content), problems.append))
    assert [(read.line, read.number) for read in found] == list(zip(lines, [2, 3], strict=False))
    assert len(problems) == 1
    assert problems[0].startswith("maze 1, line 1 begins with")


def test_the_largest_maze_fits_a_line() -> None:
    task = Task(Maze.from_walls(255, 255, []), (0, 0), (254, 254))
    path = [(row, col) for row in range(255) for col in (range(255) if row % 2 == 0 else range(254, -1, -1))]
    assert len(format_named("edge-list").encode(task, path).text) < MAX_LINE_BYTES
    assert len(format_named("wall-list-trace").encode(task, path).text) < MAX_LINE_BYTES


@given(st.binary(max_size=60) | st.text("+-|#.SGB^v<> \n", max_size=60).map(str.encode))
@example(b"+")
@example(b"++\n++\n++")
@example(b"{}")
@settings(max_examples=150, deadline=None)
def test_random_files_never_raise_anything_else(content: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        message = "."
        try:
            read_tasks("-")
        except UserError as error:
            message = str(error)
        assert re.fullmatch(r"[^\n]*\.", message)
