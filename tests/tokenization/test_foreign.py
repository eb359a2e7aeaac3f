"""Text formats of other libraries."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.maze import Maze, Task
from clew.tokenization.foreign import drawing_kind, line_kind, parse_foreign, write_foreign
from clew.tokenization.read import tasks_in_text

FAMILY_OF = {"hrm": "astar", "binary": "astar", "token-list": "astar", "block": "dfs", "box": "dfs", "alphamaze": "dfs"}


def lines_of(kind: str, text: str) -> list[str]:
    return [text] if kind in ("hrm", "token-list", "alphamaze") else text.split("\n")


@pytest.mark.parametrize("kind", FAMILY_OF)
@settings(max_examples=25, deadline=None)
@given(size=st.integers(5, 12), seed=st.integers(0, 1000))
def test_every_format_reads_back_what_it_writes(kind: str, size: int, seed: int) -> None:
    task, path = generate(FAMILY_OF[kind], size, size, seed=seed, first=0, count=1, split="any")[0]
    text = write_foreign(kind, task, path)
    lines = lines_of(kind, text)
    assert (line_kind(lines[0]) or drawing_kind(lines)) == kind
    (read,) = tasks_in_text(text)
    assert read.kind == kind
    parsed = parse_foreign(kind, lines)
    assert np.array_equal(parsed.task.maze.cells, task.maze.cells)
    assert (parsed.task.start, parsed.task.goal) == (task.start, task.goal)
    if kind in ("hrm", "block", "token-list"):
        assert parsed.path == path


def test_wall_cells_as_blocks() -> None:
    task, path = generate("astar", 6, 7, seed=0, first=0, count=1, split="any")[0]
    parsed = parse_foreign("block", write_foreign("block", task, path).split("\n"))
    assert np.array_equal(parsed.task.maze.cells, task.maze.cells)
    assert parsed.path == path


def test_maze_dataset_drawing() -> None:
    drawing = ["#######", "#S#   #", "# # # #", "#XXX#E#", "#######"]
    task = parse_foreign("block", [row.replace("X", " ") for row in drawing]).task
    assert (task.maze.height, task.maze.width, task.start, task.goal) == (2, 3, (0, 0), (1, 2))
    assert task.maze.is_open((0, 1), (0, 2))
    assert not task.maze.is_open((0, 0), (0, 1))


def test_full_blocks_indented_by_the_same_amount() -> None:
    drawing = ["    █████", "    █S G█", "    █████"]
    task = parse_foreign("block", drawing).task
    assert task.maze.height in (1, 3)
    assert task.start != task.goal


def test_box_drawing_with_another_cell_width() -> None:
    task = parse_foreign("box", ["┌──┬──┐", "│S │G │", "│  ╵  │", "│     │", "└─────┘"]).task
    assert (task.maze.height, task.maze.width) == (2, 2)
    assert not task.maze.is_open((0, 0), (0, 1))
    assert task.maze.is_open((1, 0), (1, 1))


@pytest.mark.parametrize(
    "rows", [["0 0 1", "2 1 1", "0 0 3"], ["001", "211", "003"], ["[0,0,1],", "[2,1,1],", "[0,0,3]"]]
)
def test_binary_grids(rows: list[str]) -> None:
    task = parse_foreign("binary", rows).task
    assert (task.start, task.goal) == ((1, 0), (2, 2))
    assert task.maze.is_wall((0, 2))
    assert not task.maze.is_wall((2, 1))


@pytest.mark.parametrize(
    ("kind", "lines", "words"),
    [
        ("block", ["####", "#S?#", "#G##", "####"], "line 2, column 3"),
        ("block", ["#####", "#S  #", "#####"], "0 marks for the end"),
        ("block", ["#####", "#SSG#", "#####"], "2 marks for the start"),
        ("block", ["  ###", "#S G#", "#####"], "indented differently"),
        ("block", ["#######", "#S X G#", "#######"], "not one path"),
        ("box", ["┌─┐", "│S│", "│ │", "└─┘"], "odd number"),
        ("box", ["┌───┐", "│ S │", "└───┘"], ""),
        ("alphamaze", ["<|0-0|><|up_wall|><|origin|>junk"], "junk"),
        ("alphamaze", ["<|0-0|><|side_wall|><|origin|><|0-1|><|no_wall|><|target|>"], ""),
        ("token-list", ["[1, {}]"], "words and numbers"),
        ("token-list", ["[1"], "JSON"),
        ("token-list", [json.dumps(["bos", "nonsense"])], ""),
    ],
)
def test_bad_texts_get_one_sentence(kind: str, lines: list[str], words: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_foreign(kind, lines)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_format_that_cannot_express_a_maze_says_so() -> None:
    task, _ = generate("dfs", 5, 5, seed=0, first=0, count=1, split="any")[0]
    with pytest.raises(UserError, match="wall cells only"):
        write_foreign("hrm", task)
    walls = Task(Maze.from_walls(3, 3, [(1, 1)]), (0, 0), (2, 2))
    with pytest.raises(UserError, match="between cells only"):
        write_foreign("box", walls)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["block", "box", "binary", "hrm", "alphamaze", "token-list"]),
    st.text(alphabet="#SGEXo 01│─┌┐└┘+|-<>[]\n█.", max_size=60),
)
def test_any_text_is_read_or_refused(kind: str, text: str) -> None:
    lines = text.split("\n")
    with contextlib.suppress(UserError):
        parse_foreign(kind, lines)


@pytest.mark.parametrize("drawing", ["  #####\n  #S G#\n  #####", "# # # # #\n# S   G #\n# # # # #"])
def test_indented_and_spaced_drawings_are_read_as_drawn(drawing: str) -> None:
    (read,) = tasks_in_text(drawing)
    assert (read.task.maze.height, read.task.maze.width) == (3, 5)
    assert (read.task.start, read.task.goal) == ((1, 1), (1, 3))


@pytest.mark.parametrize("drawing", ["  S #\n  # G", "S   # # G\n#   #    "])
def test_drawings_whose_columns_are_unclear_are_refused(drawing: str) -> None:
    with pytest.raises(UserError, match="column"):
        tasks_in_text(drawing)


def test_a_csv_file_of_questions_and_answers() -> None:
    task, path = generate("astar", 12, 12, seed=0, first=0, count=1, split="any")[0]
    question, answer = write_foreign("hrm", task), write_foreign("hrm", task, path)
    with_answers = tasks_in_text(f"source,question,answer,rating\nx,{question},{answer},3\ny,{question},{answer},4\n")
    assert [read.path for read in with_answers] == [path, path]
    (read,) = tasks_in_text(f"question\n{question}\n")
    assert read.path is None
    assert np.array_equal(read.task.maze.cells, task.maze.cells)
    with pytest.raises(UserError, match="line 2: the question"):
        tasks_in_text("question,answer\nnonsense,x\n")


def test_json_with_open_sides_and_graphs() -> None:
    task, _ = generate("percolation", 5, 6, seed=0, first=0, count=1, split="any")[0]
    value = {"start": task.start[::-1], "goal": task.goal[::-1], "cells": task.maze.cells.tolist()}
    (read,) = tasks_in_text(json.dumps(value))
    assert np.array_equal(read.task.maze.cells, task.maze.cells)
    for wrong in (
        {"cells": [[1], []]},
        {"cells": 3},
        {"cells": [[99]]},
        {"edges": [[1, "a"]]},
        {"edges": [], "start": 0, "goal": 0},
    ):
        with pytest.raises(UserError):
            tasks_in_text(json.dumps(value | wrong))
