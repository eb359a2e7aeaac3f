"""BFS, A* and its trace, and the number of shortest paths."""

import json
import re
from math import comb
from pathlib import Path

import numpy as np
import plain_astar
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.maze import Maze, Task, TaskBatch
from clew.mazes.solvers import (
    CLOSE,
    CREATE,
    MAX_EVENTS_PER_CELL,
    Event,
    astar,
    bfs_path,
    is_shortest,
    num_shortest,
    trace_batch,
)

GOLDEN = Path(__file__).parents[1] / "golden"


@st.composite
def tasks(draw, max_side=8, closed=True):
    """Tasks on wall mazes and on passage mazes, many without a way through."""
    height, width = draw(st.integers(2, max_side)), draw(st.integers(2, max_side))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if draw(st.booleans()):
        solid = rng.random((height, width)) < draw(st.sampled_from([0.0, 0.2, 0.4] if closed else [0.0, 0.2]))
        solid[0, 0] = False
        maze = Maze.from_walls(height, width, [(int(r), int(c)) for r, c in np.argwhere(solid)])
    else:
        open_field = Maze.from_walls(height, width, []).edges()
        maze = Maze.from_edges(height, width, [edge for edge in open_field if rng.random() < 0.7])
    free = [(r, c) for r in range(height) for c in range(width) if not maze.is_wall((r, c))]
    return Task(maze, draw(st.sampled_from(free)), draw(st.sampled_from(free)))


def distances(task):
    """Steps from the start to each cell that can be reached, by plain waves."""
    found, wave = {task.start: 0}, [task.start]
    while wave:
        wave = [there for here in wave for there in task.maze.neighbours(here) if there not in found]
        wave = list(dict.fromkeys(wave))
        found |= {cell: max(found.values()) + 1 for cell in wave}
    return found


def golden_tasks():
    for line in (GOLDEN / "astar.jsonl").read_text().splitlines():
        record = json.loads(line)
        maze = Maze.from_walls(record["height"], record["width"], [(y, x) for x, y in record["walls"]])
        start, goal = ((y, x) for x, y in (record["start"], record["goal"]))
        yield Task(maze, start, goal), record["trace"], record["plan"]


def trace_text(trace):
    return " ".join(f"{kind} {col} {row} c{g} c{h}" for kind, (row, col), g, h in trace)


def test_all_golden_traces_and_plans():
    count = 0
    for task, trace, plan in golden_tasks():
        result = astar(task)
        assert trace_text(result.trace) == trace
        assert " ".join(f"plan {col} {row}" for row, col in result.path) == plan
        count += 1
    assert count == 171


@pytest.mark.parametrize(("name", "side"), [("dfs-5.txt", 5), ("dfs-10.txt", 10)])
def test_golden_dfs_paths_are_the_only_ones(name, side):
    lines = (GOLDEN / name).read_text().splitlines()
    assert len(lines) > 10
    for line in lines:
        maze_text, path_text = line.split("<PATH_START>")
        edges_text, ends_text = maze_text.split("<ADJLIST_END>")
        cells = [
            [(int(r), int(c)) for r, c in re.findall(r"\((\d+),(\d+)\)", text)] for text in (edges_text, ends_text)
        ]
        edges = list(zip(cells[0][::2], cells[0][1::2], strict=True))
        task = Task(Maze.from_edges(side, side, edges), *cells[1])
        path = [(int(r), int(c)) for r, c in re.findall(r"\((\d+),(\d+)\)", path_text)]
        # side * side - 1 passages that join all cells: a tree, which has one path between two cells.
        assert len(task.maze.edges()) == side * side - 1
        assert len(distances(task)) == side * side
        assert bfs_path(task) == astar(task).path == path
        assert num_shortest(task) == 1


@settings(max_examples=150, deadline=None)
@given(tasks())
def test_solvers_find_shortest_paths_or_none(task):
    steps = distances(task).get(task.goal)
    for path in (bfs_path(task), astar(task).path):
        if steps is None:
            assert path is None
        else:
            assert len(path) == steps + 1
            assert is_shortest(task, path)


@settings(max_examples=100, deadline=None)
@given(tasks())
def test_the_plain_search_agrees_on_wall_mazes(task):
    if not task.maze.has_wall_cells_only:
        return
    walls = {(col, row) for row, col in task.maze.walls()}
    plan, trace = plain_astar.search(task.maze.width, task.maze.height, walls, task.start[::-1], task.goal[::-1])
    result = astar(task)
    assert [(e.kind, *e.cell[::-1], e.g, e.h) for e in result.trace] == trace
    assert result.path == (plan and [(y, x) for x, y in plan])


@settings(max_examples=150, deadline=None)
@given(tasks())
def test_a_trace_keeps_the_rules_of_astar(task):
    """Closes never sink in f, each closed cell was created last with that g, ties go to the smallest cell."""
    trace = astar(task).trace
    assert trace[0] == Event("create", task.start, 0, trace[0].h)
    assert len(trace) <= MAX_EVENTS_PER_CELL * task.maze.cells.size
    opened: dict = {}
    closed: list = []
    for kind, cell, g, h in trace:
        assert h == abs(cell[0] - task.goal[0]) + abs(cell[1] - task.goal[1])
        if kind == "create":
            assert cell not in closed
            assert opened.get(cell, 10**9) > g + h
            assert not closed or task.maze.is_open(closed[-1], cell)
            opened[cell] = g + h
        else:
            assert opened.pop(cell) == g + h == min([*opened.values(), g + h])
            closed.append(cell)
            assert all(f > g + h or other > cell for other, f in opened.items())
    if (task.goal in closed) is False:
        assert not opened
        assert sorted(closed) == sorted(distances(task))
    else:
        assert closed[-1] == task.goal


@settings(max_examples=100, deadline=None)
@given(tasks(max_side=5))
def test_num_shortest_counts_every_path(task):
    steps = distances(task).get(task.goal)

    def count(cell, left):
        if left == 0:
            return int(cell == task.goal)
        return sum(count(there, left - 1) for there in task.maze.neighbours(cell))

    if steps is not None and steps > 12:
        return  # too many walks to try them all
    assert num_shortest(task) == (0 if steps is None else count(task.start, steps))


@pytest.mark.parametrize("side", [2, 10, 40, 100])
def test_num_shortest_is_exact_past_64_bits(side):
    task = Task(Maze.from_walls(side, side, []), (0, 0), (side - 1, side - 1))
    assert num_shortest(task) == comb(2 * side - 2, side - 1)


def test_a_start_that_is_the_goal():
    task = Task(Maze.from_walls(3, 3, []), (1, 1), (1, 1))
    assert bfs_path(task) == astar(task).path == [(1, 1)]
    assert astar(task).trace == [Event("create", (1, 1), 0, 0), Event("close", (1, 1), 0, 0)]
    assert num_shortest(task) == 1


@pytest.mark.parametrize("workers", [1, 2, None])
def test_trace_batch_is_astar_of_each(workers):
    batch = generate("astar", 9, 11, seed=5, first=0, count=150, split="any")
    event_E4, offset_N1 = trace_batch(batch, workers=workers)
    assert len(offset_N1) == 151
    for i, (task, _) in enumerate(batch):
        expected = [
            [CREATE if kind == "create" else CLOSE, row * 11 + col, g, h]
            for kind, (row, col), g, h in astar(task).trace
        ]
        assert event_E4[offset_N1[i] : offset_N1[i + 1]].tolist() == expected


def test_trace_batch_of_a_closed_maze_and_of_nothing():
    task = Task(Maze.from_walls(3, 3, [(1, 0), (1, 1), (1, 2)]), (0, 0), (2, 2))
    batch = TaskBatch.from_tasks([task], [[(0, 0)]])
    assert len(trace_batch(batch)[0]) == len(astar(task).trace) == 6
    assert len(trace_batch(batch.select(np.array([], dtype=np.int64)))[0]) == 0
    with pytest.raises(UserError, match="0 workers cannot work"):
        trace_batch(batch, workers=0)


def test_large_mazes_and_wide_ones():
    """Past 64 columns and 64 words of bits."""
    for shape in ((255, 255), (2, 255), (255, 2), (70, 130)):
        task = Task(Maze.from_walls(*shape, []), (0, shape[1] - 1), (shape[0] - 1, 0))
        assert len(astar(task).path) == sum(shape) - 1
        batch = generate("percolation", *shape, seed=0, first=0, count=1, split="any")
        task, path = batch[0]
        assert len(bfs_path(task)) == len(path)
        assert path == astar(task).path
