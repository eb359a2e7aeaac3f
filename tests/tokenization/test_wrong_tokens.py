"""A wrong token is named by its number and text, with what was expected there."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import UserError
from clew.mazes.maze import Maze, PathStar, Task
from clew.tokenization.format import FORMATS, format_named

EDGES = "<ADJLIST_START> (0,0) (0,1) ; (1,1) (0,1) ; <ADJLIST_END>"
ENDS = "<ORIGIN_START> (0,0) <ORIGIN_END> <TARGET_START> (1,1) <TARGET_END>"
PATH = "<PATH_START> (0,0) (0,1) (1,1) <PATH_END>"
GRID = "<GRID_START> start:E SW / - goal:N / # - <GRID_END>"
CELL = r"a cell from \(0,0\) to \(1,1\)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text ends after token 0, but <ADJLIST_START> must follow"),
        ("(0,0)", r"token 1 is '\(0,0\)', but <ADJLIST_START> is expected"),
        ("<ADJLIST_START> (0,0", rf"token 2 is '\(0,0', but <ADJLIST_END> or {CELL}"),
        ("<ADJLIST_START> (0,5)", rf"token 2 is '\(0,5\)', but <ADJLIST_END> or {CELL}"),
        ("<ADJLIST_START> (00,0)", r"token 2 is '\(00,0\)'"),
        ("<ADJLIST_START> (\u0660,0)", r"token 2 is "),
        ("<ADJLIST_START> (0,0) ;", rf"token 3 is ';', but <--> or {CELL}"),
        ("<ADJLIST_START> (0,0) (1,1) ;", r"token 3 is \(1,1\), which is no neighbour of \(0,0\)"),
        ("<ADJLIST_START> (0,0) (0,1) (1,1)", r"token 4 is '\(1,1\)', but ; is expected"),
        (EDGES, "ends after token 8, but <ORIGIN_START>"),
        (f"{EDGES} <ORIGIN_START> <ORIGIN_END>", f"token 10 is '<ORIGIN_END>', but {CELL}"),
        (f"{EDGES} <ORIGIN_START> (0,0) (0,0)", "token 11 .* but <ORIGIN_END>"),
        (f"{EDGES} <ORIGIN_START> (0,0) <ORIGIN_END> {PATH}", "token 12 is '<PATH_START>', but <TARGET_START>"),
        (f"{EDGES} {ENDS} (0,0)", r"token 15 is '\(0,0\)', but the end of the text or <PATH_START>"),
        (f"{EDGES} {ENDS} <PATH_START> <PATH_END>", f"token 16 is '<PATH_END>', but {CELL}"),
        (f"{EDGES} {ENDS} <PATH_START> (0,0)", f"ends after token 16, but <PATH_END> or {CELL}"),
        (f"{EDGES} {ENDS} <PATH_START> (0,0) [PAD] (0,1) <PATH_END>", r"token 17 is '\[PAD\]'"),
        (f"{EDGES} {ENDS} {PATH} ;", "token 20 is ';', but the end of the text"),
        (f"<ADJLIST_START> {'x' * 1000}", "token 2 is 'x{37}[.]{3}'"),
    ],
)
def test_edge_list(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        format_named("edge-list").parse(text.split(), height=2, width=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends after token 0, but bos or start must follow"),
        ("goal 0 1", "token 1 is 'goal', but bos or start"),
        ("start 0", "ends after token 2, but a y from 0 to 3 must follow"),
        ("start 3 0", "token 2 is '3', but an x from 0 to 2"),
        ("start 0 4", "token 3 is '4', but a y from 0 to 3"),
        ("start -1 0", "token 2 is '-1'"),
        ("start 01 0", "token 2 is '01'"),
        ("start ² 0", "token 2 is '²'"),
        ("start 0 0 wall 1 1", "token 4 is 'wall', but goal"),
        ("start 0 0 goal 1 1 wall 0 0", r"the start \(0, 0\) is a wall cell"),
        ("start 0 0 goal 1 1 wall 1 1", r"the goal \(1, 1\) is a wall cell"),
        (
            "start 0 0 goal 1 1 wal 2 2",
            "token 7 is 'wal', but wall, <PATH_START>, the end of the text, bos, create, close or plan is",
        ),
        ("bos start 0 0 goal 1 1 plan 2 2", "token 8 is 'plan', but wall or eos"),
        (
            "start 0 0 goal 1 1 <PATH_START> wall 2 2",
            "token 8 is 'wall', but the end of the text, bos, create, close or plan",
        ),
        ("start 0 0 goal 1 1 create 0 0 c0 2", "token 11 is '2', but a cost from c0"),
        ("start 0 0 goal 1 1 create 0 0 c00 c2", "token 10 is 'c00', but a cost"),
        ("start 0 0 goal 1 1 create 0 0 c0 c2", "ends after token 11, but create, close or plan"),
        ("start 0 0 goal 1 1 plan 0 0 create 0 0 c0 c2", "token 10 is 'create', but plan or the end"),
        ("start 0 0 goal 1 1 bos plan 0 0", "ends after token 10, but plan or eos"),
        ("bos start 0 0 goal 1 1 eos <PATH_START> bos plan 0 0 eos eos", "token 15 is 'eos', but the end"),
    ],
)
def test_wall_list(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        format_named("wall-list").parse(text.split(), height=4, width=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("start:E", "token 1 is 'start:E', but <GRID_START>"),
        ("<GRID_START> / ", "row 1 of the text has 0 cells|ends after token 2"),
        ("<GRID_START> ES", "token 2 is 'ES', but <GRID_END>, / or a cell such as SE"),
        ("<GRID_START> start:#", "token 2 is 'start:#'"),
        (
            "<GRID_START> start:E W / -",
            "ends after token 5, but <GRID_END>, / or a cell such as SE, start:N, - or # must follow",
        ),
        ("<GRID_START> start:E W / - / ", "ends after token 6"),
        ("<GRID_START> start:E W / - - - <GRID_END>", "row 2 of the text has 3 cells, but 2 are expected"),
        ("<GRID_START> start:E W / - start:- <GRID_END>", "2 cells of the text are marked start"),
        ("<GRID_START> start+goal:E W / - goal:- <GRID_END>", "2 cells of the text are marked goal"),
        ("<GRID_START> start:E W / - - <GRID_END>", "0 cells of the text are marked goal"),
        ("<GRID_START> goal:E W / - - <GRID_END>", "0 cells of the text are marked start"),
        ("<GRID_START> start:E goal:- / - - <GRID_END>", "open on the opposite side"),
        ("<GRID_START> start:- goal:- / - - <GRID_END> (0,0)", "token 8 .* but the end of the text or <PATH_START>"),
        ("<GRID_START> start:- goal:- / - - <GRID_END> <PATH_START> (0,2)", r"token 9 .* to \(1,1\)"),
        ("<GRID_START> start:- goal:- <GRID_END>", "1 row and 2 columns"),
    ],
)
def test_grid(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        format_named("grid").parse(text.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends after token 0, but a node from 0 to 7 must follow"),
        ("3 x", "token 2 is 'x', but a node from 0 to 7"),
        ("3 8 |", "token 2 is '8', but a node from 0 to 7"),
        ("3 05 |", "token 2 is '05'"),
        ("3 5 5 1 |", r"token 3 is '5', but \|, the end of the text or <PATH_START>"),
        ("3 5 | 5 1 | 3", "ends after token 7, but a node"),
        ("3 5 | 5 1 | 3 1 <PATH_START> <PATH_END>", "token 10 is '<PATH_END>', but a node"),
        ("3 5 | 5 1 | 3 1 <PATH_START> 3 |", r"token 11 is '\|', but <PATH_END> or a node from 0 to 7"),
        ("3 5 | 5 1 | 3 1 <PATH_START> 3 <PATH_END> 5", "token 12 is '5', but the end of the text"),
        ("3 5 | 5 1 | 2 1 <PATH_START>", "the start 2 is on no edge"),
        ("3 5 | 5 1 | 3 2 <PATH_START>", "the goal 2 is on no edge"),
        ("3 5 | 2 5 | 3 5", "to node 5 from 3 and from 2"),
        ("3 5 | 2 1 | 3 5", "lead away from one centre"),
    ],
)
def test_path_star(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        format_named("path-star").parse(text.split(), width=8)


def test_formats_refuse_what_they_cannot_write() -> None:
    maze = Task(Maze.from_walls(2, 2, []), (0, 0), (0, 1))
    graph = Task(PathStar.from_pairs(2, [(0, 1)]), (0, 0), (0, 1))
    with pytest.raises(UserError, match="path-star text is for path-star graphs"):
        format_named("path-star").encode(maze, None)
    with pytest.raises(UserError, match="path-star text is for path-star graphs"):
        format_named("path-star").vocabulary(3, 3)
    for name in ("edge-list", "wall-list", "grid"):
        with pytest.raises(UserError, match="path-star"):
            format_named(name).encode(graph, None)


def test_grid_holds_against_a_size_that_is_given() -> None:
    assert format_named("grid").parse(GRID.split(), height=3, width=2).task.maze.cells.shape == (3, 2)
    with pytest.raises(UserError, match="3 rows, but a maze of 2 rows"):
        format_named("grid").parse(GRID.split(), height=2)
    with pytest.raises(UserError, match="row 1 of the text has 2 cells, but 3 are expected"):
        format_named("grid").parse(GRID.split(), width=3)


def test_the_smallest_size_is_taken_where_none_is_given() -> None:
    walls = format_named("wall-list").parse(["start", "0", "0", "goal", "3", "1", "wall", "2", "0"])
    assert walls.task == Task(Maze.from_walls(4, 4, [(0, 2)]), (0, 0), (1, 3))
    edges = format_named("edge-list").parse(f"<ADJLIST_START> (0,1) (0,2) ; <ADJLIST_END> {ENDS}".split())
    assert edges.task.maze.cells.shape == (2, 3)
    one_cell = format_named("wall-list").parse(["start", "0", "0", "goal", "0", "0"])
    assert one_cell.task.maze.cells.shape == (2, 2)


def test_the_connector_of_maze_dataset_is_read() -> None:
    with_connector = f"{EDGES} {ENDS} {PATH}".replace(") (0,1) ;", ") <--> (0,1) ;")
    assert with_connector.count("<-->") == 2
    form = format_named("edge-list")
    assert form.parse(with_connector.split()) == form.parse(f"{EDGES} {ENDS} {PATH}".split())


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_damaged_texts_never_raise_anything_else(name: str, data: st.DataObject) -> None:
    form = format_named(name)
    task, path = Task(Maze.from_walls(3, 3, [(1, 1)]), (0, 0), (2, 2)), [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2)]
    if name.startswith("path-star"):
        task, path = Task(PathStar.from_pairs(4, [(0, 1), (0, 2), (2, 3)]), (0, 0), (0, 3)), [(0, 0), (0, 2), (0, 3)]
    tokens = form.encode(task, path, seed=1).tokens
    known = form.vocabulary(1 if name.startswith("path-star") else 3, 4).tokens
    words = st.sampled_from([*known, "", "x", "(1,", "999", "c99999999"])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(tokens) - 1))
        tokens[place : place + data.draw(st.integers(0, 2))] = data.draw(st.lists(words, max_size=2))
        if not tokens:
            break
    message = "."
    try:
        form.parse(tokens)
    except UserError as error:
        message = str(error)
    assert re.fullmatch(r"[^\n]*\.", message)
