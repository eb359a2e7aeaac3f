"""Texts of other libraries: read, written back, and refused with one sentence."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path as FilePath

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.maze import Maze, Task
from clew.mazes.solvers import bfs_path
from clew.tokenization.read import WRITTEN_KINDS, iter_tasks, tasks_in_text, write_maze

WITHOUT_PATH = ("box", "binary", "alphamaze")
WALL_CELLS = ("binary", "hrm", "csv", "token-list", "wall-list", "wall-list-trace")


@pytest.mark.parametrize("kind", WRITTEN_KINDS)
@settings(max_examples=25, deadline=None)
@given(size=st.integers(5, 12), seed=st.integers(0, 1000))
def test_every_kind_reads_back_what_it_writes(kind: str, size: int, seed: int) -> None:
    family, shape = "astar" if kind in WALL_CELLS else "dfs", (size, size)
    if kind.startswith("path-star"):
        family, shape = "path-star-2x3", (1, 5)
    task, path = generate(family, *shape, seed=seed, first=0, count=1, split="any")[0]
    (read,) = tasks_in_text(write_maze(kind, task, path))
    # Token text of walls tells no size: it is the smallest that holds all cells.
    if kind not in ("token-list", "wall-list", "wall-list-trace") or read.task.maze.cells.shape == shape:
        assert read.task == task
    assert read.path == (None if kind in WITHOUT_PATH else path)


@pytest.mark.parametrize("kind", ["ascii", "block", "json"])
def test_wall_cells(kind: str) -> None:
    task, path = generate("astar", 6, 7, seed=0, first=0, count=1, split="any")[0]
    (read,) = tasks_in_text(write_maze(kind, task, path))
    assert (read.task, read.path) == (task, path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("####\n#S?#\n#G##\n####", "line 2, column 3: '?' is no part"),
        ("#####\n#S X#\n#####", "has no G"),
        ("#####\n#SSG#\n#####", "line 2, column 3: a second S"),
        ("#######\n#S X G#\n#######", "line 1: the marked cells are not one path"),
        ("<|0-0|><|up_wall|><|origin|>junk", "line 1: the AlphaMaze text cannot be read at 'junk'"),
        ("<|0-0|><|side_wall|><|origin|><|0-1|><|no_wall|><|target|>", "line 1: "),
        ('["a", {}]', "line 1: the list of tokens must hold words and numbers only"),
        ('["a"', "line 1: the JSON is broken"),
        ('["bos", "nonsense"]', "line 1: token 2 is 'nonsense'"),
        ("question,answer\n,#SoG            \n", "line 2: the line of"),
        ("question\n" + "x" * 200_000, "line 2: the row of CSV cannot be read"),
        ("question,answer\nnonsense,x\n", "line 2: the line of"),
        ("question,answer\n#S G            ,#SoG           #\n", "line 2: the answer is that of another maze"),
    ],
)
def test_bad_texts_get_one_sentence(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        tasks_in_text(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_kind_that_cannot_express_a_maze_says_so() -> None:
    task, _ = generate("dfs", 5, 5, seed=0, first=0, count=1, split="any")[0]
    for kind in ("hrm", "csv", "binary"):
        with pytest.raises(UserError, match="walls between cells cannot be drawn"):
            write_maze(kind, task)
    walls = Task(Maze.from_walls(3, 4, [(1, 1)]), (0, 0), (2, 2))
    for kind in ("box", "alphamaze"):
        with pytest.raises(UserError, match="wall cells"):
            write_maze(kind, walls)
    with pytest.raises(UserError, match="square mazes only"):
        write_maze("hrm", walls)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="#SGEXo 01│─┌┐└┘+|-<>[]\n█.", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(UserError):
        tasks_in_text(text)


def test_a_csv_file_of_questions_and_answers() -> None:
    task, path = generate("astar", 12, 12, seed=0, first=0, count=1, split="any")[0]
    question, answer = write_maze("hrm", task), write_maze("hrm", task, path)
    with_answers = tasks_in_text(f"source,question,answer,rating\nx,{question},{answer},3\ny,{question},{answer},4\n")
    assert [(read.task, read.path, read.line) for read in with_answers] == [(task, path, 2), (task, path, 3)]
    assert len(tasks_in_text(f'"source","question","answer"\r\n"x","{question}","{answer}"\r\n')) == 1
    (read,) = tasks_in_text(f"question\n{question}\n")
    assert (read.task, read.path) == (task, None)


def test_a_drawing_whose_first_line_could_be_a_whole_hrm_maze() -> None:
    (read,) = tasks_in_text("#S  G  # #     #\n#              #")
    assert (read.kind, read.task.maze.cells.shape) == ("drawing", (2, 16))


@pytest.mark.parametrize(
    ("text", "numbers", "sentence"),
    [
        ("S.G\n...\n\nS?G\n...\n\nS.G\n...", [1, 3], "maze 2, line 4, column 2: '?' is no part of a maze"),
        ("S.G\n...\n\nS..\n...\n\nS.G\n...", [1, 3], "maze 2, line 4: the drawing has no G"),
        ("S.G\n...\n\nS.\udcff\n..G\n\nS.G\n...", [1, 3], "maze 2, line 4 is not text in UTF-8"),
        ("S.G\n...\n\nS.\n" + "..\n" * 600 + "\nS.G\n...", [1, 3], "maze 2, line 515: the drawing has more lines"),
        ("[[2,3],[0,0]]\n[[2,9],[0,0]]\n[[2,3],[0,1]]", [1, 3], "maze 2, line 2, column 5: '9' is no part"),
        ("start 0 0 goal 1 1\nstart 0 x\n\nstart 0 0 goal 1 1", [1, 3], "maze 2, line 2: token 3 is 'x'"),
        (
            "start 0 0 goal 1 1\nhello you\nstart 0 0 goal 1 1",
            [1, 3],
            "maze 2, line 2: token 1 is 'hello', but bos or start",
        ),
        (
            "start 0 0 goal 1 1\n{}\nstart 0 0 goal 1 1",
            [1, 3],
            "maze 2, line 2: token 1 is '{}', but bos or start",
        ),
    ],
)
def test_one_bad_maze_does_not_stop_the_others(
    tmp_path: FilePath, text: str, numbers: list[int], sentence: str
) -> None:
    file, sentences = tmp_path / "mazes", list[str]()
    file.write_text(text, "utf-8", "surrogateescape")
    assert [read.number for read in iter_tasks(file, sentences.append)] == numbers
    assert len(sentences) == 1
    assert sentences[0].startswith(sentence)


def test_hrm_mazes_round_trip_and_are_solved() -> None:
    batch = generate("astar", 10, 10, seed=0, first=0, count=20, split="any")
    text = "\n".join(write_maze("hrm", task, path) for task, path in batch)
    for read, (task, path) in zip(tasks_in_text(text), batch, strict=True):
        assert (read.task, read.path) == (task, path)
        assert len(bfs_path(read.task) or []) == len(path)


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("size", [6, 30])
def test_a_cut_line_of_hrm_does_not_stop_the_others(tmp_path: FilePath, size: int, bad: int) -> None:
    lines = [write_maze("hrm", *task) for task in generate("astar", size, size, seed=0, first=0, count=3, split="any")]
    lines[bad] = lines[bad][:-1]
    file, sentences = tmp_path / "mazes", list[str]()
    file.write_text("\n".join(lines))
    assert [read.number for read in iter_tasks(file, sentences.append)] == [n for n in (1, 2, 3) if n != bad + 1]
    assert sentences[0].startswith(
        f"maze {bad + 1}, line {bad + 1}: the line of {size * size - 1} characters is no HRM"
    )


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
        {"edges": [[0, 1]], "start": 0, "goal": 1, "path": "x"},
    ):
        with pytest.raises(UserError):
            tasks_in_text(json.dumps(value | wrong))
