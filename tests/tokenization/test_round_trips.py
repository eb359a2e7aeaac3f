"""Every format writes every maze it can write so that it reads back the same, alone and by the batch.

Shape suffixes: N mazes, T tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_texts import plain_text

from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.maze import Cell, Edge, Maze, Path, PathStar, Task, TaskBatch
from clew.registry import register
from clew.tokenization.drawings import Style, draw_ascii, parse_drawing
from clew.tokenization.format import encode_batch, format_named
from clew.tokenization.tokens import Encoded, Vocabulary

SEEDS = st.integers(0, 2**64 - 1)


@dataclass(frozen=True)
class Case:
    """A task with a walk through open sides that visits no cell twice; it ends anywhere if the goal is out of reach."""

    task: Task
    path: Path


@st.composite
def mazes(draw: st.DrawFn, kind: str, shape: tuple[int, int] | None = None) -> Maze:
    """`passages` has cycles and closed cells, `walls` wall cells alone, `mixed` both; `graph` is a labelled tree."""
    if kind == "graph":
        return draw(graphs(shape[1] if shape else draw(st.integers(2, 20))))
    height, width = shape or (draw(st.integers(2, 7)), draw(st.integers(2, 9)))
    chance = np.random.default_rng(draw(SEEDS))
    solid = chance.random((height, width)) < draw(st.sampled_from([0.0, 0.3, 0.6]))
    if kind == "passages":
        solid[:] = False
    solid[0, 0] = False  # a task needs a free cell
    open_field = Maze.from_walls(height, width, [(int(r), int(c)) for r, c in np.argwhere(solid)])
    if kind == "walls":
        return open_field
    share = draw(st.sampled_from([0.0, 0.4, 0.8, 1.0]))
    kept = [edge for edge in open_field.edges() if chance.random() < share]
    return Maze(Maze.from_edges(height, width, kept).cells | (solid * np.uint8(16)))


@st.composite
def graphs(draw: st.DrawFn, labels: int) -> PathStar:
    """A random tree, of which any node may be the centre."""
    chance = np.random.default_rng(draw(SEEDS))
    order = chance.permutation(labels)[: draw(st.integers(2, labels))].tolist()
    return PathStar.from_pairs(labels, [(order[int(chance.integers(i))], order[i]) for i in range(1, len(order))])


@st.composite
def cases(draw: st.DrawFn, kind: str, shape: tuple[int, int] | None = None) -> Case:
    maze = draw(mazes(kind, shape))
    chance = np.random.default_rng(draw(SEEDS))
    free = [(r, c) for r in range(maze.height) for c in range(maze.width) if not maze.is_wall((r, c))]

    def pick(cells: list[Cell]) -> Cell:
        return cells[int(chance.integers(len(cells)))]

    path = [pick(free)]
    while (onward := [cell for cell in maze.neighbours(path[-1]) if cell not in path]) and chance.random() < 0.9:
        path.append(pick(onward))
    return Case(Task(maze, path[0], path[-1]), path)


KINDS_OF = {
    "edge-list": ["passages"],
    "wall-list": ["walls"],
    "wall-list-trace": ["walls"],
    "grid": ["passages", "walls", "mixed"],
    "path-star": ["graph"],
    "path-star-reversed": ["graph"],
}  # cell-labels cannot write walks that touch themselves: test_cell_labels.py


@pytest.mark.parametrize("name", KINDS_OF)
@given(data=st.data(), seed=SEEDS)
@settings(max_examples=30, deadline=None)
def test_a_task_and_its_path_read_back_the_same(name: str, data: st.DataObject, seed: int) -> None:
    case = data.draw(cases(data.draw(st.sampled_from(KINDS_OF[name]))))
    form, maze = format_named(name), case.task.maze
    size = {"height": maze.height, "width": maze.width}
    written = form.encode(case.task, case.path, seed=seed)
    parsed = form.parse(written.text.split(" "), **size)
    assert (parsed.task, parsed.path) == (case.task, case.path)
    assert form.parse_response(written.response, **size) == case.path
    assert written.response[-1] == form.end_token
    # The prompt alone, with or without what announces the path, is a task without path.
    for prompt in (written.prompt, written.prompt[:-1], form.encode(case.task, None, seed=seed).tokens):
        assert form.parse([*prompt, "[PAD]", "[PAD]"], **size) == form.parse(written.prompt, **size)
        assert form.parse(prompt, **size).path is None
    vocabulary = form.vocabulary(**size)
    assert vocabulary.decode(vocabulary.encode(written.tokens)) == written.tokens


@pytest.mark.parametrize("name", KINDS_OF)
@given(data=st.data(), shape=st.tuples(st.integers(2, 6), st.integers(2, 6)))
@settings(max_examples=15, deadline=None)
def test_a_batch_is_encoded_as_its_tasks_are(name: str, data: st.DataObject, shape: tuple[int, int]) -> None:
    kinds = st.sampled_from([*KINDS_OF[name], "walls"])  # edge-list may write wall cells as closed ones
    if KINDS_OF[name] == ["graph"]:
        shape, kinds = (1, shape[1]), st.just("graph")
    several = data.draw(st.lists(kinds.flatmap(lambda kind: cases(kind, shape)), min_size=1, max_size=4))
    paths = [case.path for case in several]
    if data.draw(st.booleans()):
        paths[-1] = []  # no path: a prompt alone
    batch = TaskBatch.from_tasks([case.task for case in several], paths)
    seed_N = np.array(data.draw(st.lists(SEEDS, min_size=len(several), max_size=len(several))), dtype=np.uint64)
    encoded = encode_batch(name, batch, seed_N)
    form = format_named(name)
    vocabulary = form.vocabulary(*shape)
    assert encoded.tokens_NT.dtype == np.int32
    assert encoded.tokens_NT.shape == (len(batch), encoded.total_length_N.max())
    for i, case in enumerate(several):
        written = form.encode(case.task, paths[i] or None, seed=int(seed_N[i]))
        edges = list(form.parse(written.prompt, height=shape[0], width=shape[1]).edges or [])
        assert (written.prompt, written.response) == plain_text(name, case.task, paths[i], edges)
        total = int(encoded.total_length_N[i])
        assert vocabulary.decode(encoded.tokens_NT[i, :total]) == written.tokens
        assert encoded.prompt_length_N[i] == len(written.prompt)
        assert (encoded.tokens_NT[i, total:] == vocabulary.pad_id).all()


@given(data=st.data(), style=st.sampled_from(["passages", "walls"]))
@settings(max_examples=60, deadline=None)
def test_a_drawing_reads_back_the_same(data: st.DataObject, style: Style) -> None:
    case = data.draw(cases("walls" if style == "walls" else data.draw(st.sampled_from(["passages", "walls", "mixed"]))))
    drawing = draw_ascii(case.task, case.path, style)
    parsed = parse_drawing(drawing.splitlines())
    assert parsed.task == case.task
    # One character a cell cannot show a step from S to G; two characters cannot show a path without a step.
    visible = len(case.path) > (2 if style == "walls" else 1)
    assert parsed.path == (case.path if visible else None)
    assert parse_drawing(draw_ascii(case.task, None, style).splitlines()).path is None
    assert parse_drawing([line.rstrip() for line in drawing.splitlines()]) == parsed  # as editors leave it


def written_edges(maze: Maze, seed: int) -> list[Edge]:
    """The edges in the order of the text with this seed."""
    form, task = format_named("edge-list"), Task(maze, (0, 0), (0, 0))
    return list(form.parse(form.encode(task, None, seed=seed).tokens).edges or ())


@given(maze=mazes("passages"), seed=SEEDS)
@settings(max_examples=30, deadline=None)
def test_edges_are_shuffled_by_the_seed_alone(maze: Maze, seed: int) -> None:
    edges = written_edges(maze, seed)
    assert edges == written_edges(maze, seed)
    assert sorted((min(edge), max(edge)) for edge in edges) == sorted(maze.edges())


def test_edge_orders_and_directions_are_even() -> None:
    maze = Maze.from_walls(2, 2, [])
    first = {edge: 0 for a, b in maze.edges() for edge in ((a, b), (b, a))}
    for seed in range(4000):
        first[written_edges(maze, seed)[0]] += 1
    # Each of the 8 directed passages stands first in 500 of 4000 texts; 5 standard deviations are 105.
    assert all(abs(count - 500) < 105 for count in first.values())


def test_wall_list_refuses_walls_between_cells() -> None:
    task = Task(Maze.from_edges(2, 2, [((0, 0), (0, 1))]), (0, 0), (0, 1))
    batch = TaskBatch.from_tasks([task], [[(0, 0), (0, 1)]])
    for name in ("wall-list", "wall-list-trace"):
        with pytest.raises(UserError, match=r"use edge-list"):
            format_named(name).encode(task, None)
        with pytest.raises(UserError, match=r"maze 0 has walls between cells.* use edge-list"):
            encode_batch(name, batch, np.zeros(1, dtype=np.uint64))


def test_a_batch_needs_a_seed_a_maze() -> None:
    task = Task(Maze.from_walls(2, 2, []), (0, 0), (0, 1))
    with pytest.raises(UserError, match="1 mazes, 2 seeds"):
        encode_batch("grid", TaskBatch.from_tasks([task], [[]]), np.zeros(2, dtype=np.uint64))


@pytest.mark.parametrize("name", KINDS_OF)
def test_a_batch_may_be_empty(name: str) -> None:
    maze = PathStar.from_pairs(2, [(0, 1)]) if KINDS_OF[name] == ["graph"] else Maze.from_walls(2, 2, [])
    task = Task(maze, (0, 0), (0, 1))
    none = TaskBatch.from_tasks([task], [[]]).select(np.zeros(0, dtype=np.int64))
    assert encode_batch(name, none, np.zeros(0, dtype=np.uint64)).tokens_NT.shape == (0, 0)


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(UserError, match=r"'hex': choose one of edge-list, wall-list, wall-list-trace, grid, "):
        format_named("hex")


@register("format", "turns")
class Turns:
    """A format as a plug-in would add it: the cells of a wall maze as one word a row, the path as compass letters."""

    name, end_token = "turns", "."
    steps: ClassVar = {"N": (-1, 0), "S": (1, 0), "W": (0, -1), "E": (0, 1)}

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        words = ["".join(word) for word in product("#-ab", repeat=width)]
        return Vocabulary.of([*words, ":", self.end_token, *self.steps])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Encoded:
        marks = dict.fromkeys(task.maze.walls(), "#") | {task.goal: "b"} | {task.start: "a"}
        rows, cols = range(task.maze.height), range(task.maze.width)
        prompt = ["".join(marks.get((row, col), "-") for col in cols) for row in rows]
        letters = {step: letter for letter, step in self.steps.items()}
        response = [letters[b[0] - a[0], b[1] - a[1]] for a, b in pairwise(path or [])]
        return Encoded([*prompt, ":"], [*response, self.end_token] if path else [])


def test_a_registered_format_is_encoded_task_by_task() -> None:
    batch = generate("astar", 3, 4, seed=0, first=0, count=20, split="any")
    encoded = encode_batch("turns", batch, np.zeros(20, dtype=np.uint64))
    vocabulary = Turns().vocabulary(3, 4)
    for i, (task, path) in enumerate(batch):
        one = Turns().encode(task, path)
        assert vocabulary.decode(encoded.tokens_NT[i, : encoded.total_length_N[i]]) == one.tokens
        assert encoded.prompt_length_N[i] == len(one.prompt) == 4
        assert (encoded.tokens_NT[i, encoded.total_length_N[i] :] == vocabulary.pad_id).all()
    with pytest.raises(UserError, match=r"choose one of edge-list, .*turns, or give --plugin"):
        format_named("turn")
