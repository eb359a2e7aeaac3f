"""What makes a path wrong, valid or shortest."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.mazes.generate import generate
from clew.mazes.maze import Maze, Task, TaskBatch
from clew.mazes.solvers import check_batch, is_shortest, is_valid, path_problem

# .#.
# ...   and the side between (2, 0) and (2, 1) is closed
# ...
CELLS = Maze.from_walls(3, 3, [(0, 1)]).cells.copy()
CELLS[2, 0] &= ~np.uint8(8)
CELLS[2, 1] &= ~np.uint8(4)
TASK = Task(Maze(CELLS), (0, 0), (0, 2))
SHORTEST = [(0, 0), (1, 0), (1, 1), (1, 2), (0, 2)]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ([], "the path is empty."),
        ([(1, 0), (1, 1)], "the path begins at (1, 0), not at the start (0, 0)."),
        ([(0, 0), (-1, 0)], "step 1 goes from (0, 0) to (-1, 0), outside the maze."),
        ([(0, 0), (0, 3)], "step 1 goes from (0, 0) to (0, 3), outside the maze."),
        ([(0, 0), (1, 1), (0, 2)], "step 1 goes from (0, 0) to (1, 1), which is not a neighbour."),
        ([(0, 0), (1, 0), (1, 2)], "step 2 goes from (1, 0) to (1, 2), which is not a neighbour."),
        ([(0, 0), (0, 0), *SHORTEST[1:]], "step 1 goes from (0, 0) to (0, 0), which is not a neighbour."),
        ([(0, 0), (0, 1), (0, 2)], "step 1 goes from (0, 0) to (0, 1), a wall cell."),
        ([(0, 0), (1, 0), (2, 0), (2, 1)], "step 3 goes from (2, 0) to (2, 1) through a wall."),
        (SHORTEST[:-1], "the path ends at (1, 2), not at the goal (0, 2)."),
        ([(0, 0)], "the path ends at (0, 0), not at the goal (0, 2)."),
    ],
)
def test_the_first_problem_is_named(path, problem):
    assert path_problem(TASK, path) == problem
    assert not is_valid(TASK, path)
    assert not is_shortest(TASK, path)


def test_a_shortest_path_and_a_detour():
    assert path_problem(TASK, SHORTEST) is None
    assert is_shortest(TASK, SHORTEST)
    detour = [*SHORTEST[:2], (2, 0), *SHORTEST[1:]]  # goes back over (1, 0)
    assert is_valid(TASK, detour)
    assert not is_shortest(TASK, detour)


def test_a_path_of_one_cell():
    assert is_shortest(Task(TASK.maze, (1, 1), (1, 1)), [(1, 1)])


@pytest.mark.parametrize("family", ["dfs", "astar", "percolation"])
def test_every_single_step_is_checked_like_a_single_path(family):
    """All pairs of cells as a path of two: through walls, across the border to the next row, anywhere."""
    task, _ = generate(family, 5, 5, seed=0, first=0, count=1, split="any")[0]
    free = [(row, col) for row in range(5) for col in range(5) if not task.maze.is_wall((row, col))]
    pairs = [(a, b) for a in free for b in free]
    batch = TaskBatch.from_tasks([Task(task.maze, a, b) for a, b in pairs], [[a, b] for a, b in pairs])
    valid, shortest = check_batch(batch)
    assert valid.tolist() == shortest.tolist() == [task.maze.is_open(a, b) for a, b in pairs]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["dfs", "astar", "percolation"]), st.integers(0, 10_000), st.data())
def test_batches_are_checked_like_single_paths(family, first, data):
    """Paths with a cell changed, left out, or put in; also cells that do not exist."""
    batch = generate(family, 5, 6, seed=0, first=first, count=4, split="any")
    paths = []
    for i in range(len(batch)):
        path = batch.path_of(i).tolist()
        position = data.draw(st.integers(0, len(path) - 1))
        change = data.draw(st.sampled_from(["none", "change", "leave out", "put in", "empty", "back and forth"]))
        cell = data.draw(st.integers(-3, 40))
        if change == "change":
            path[position] = cell
        elif change == "leave out":
            del path[position]
        elif change == "put in":
            path.insert(position, cell)
        elif change == "empty":
            path = []
        elif change == "back and forth":
            path[1:1] = [path[1], path[0]]
        paths.append(path)
    changed = TaskBatch(
        batch.cells_NHW,
        batch.start_N,
        batch.goal_N,
        np.array([cell for path in paths for cell in path], dtype=np.int32),
        np.cumsum([0] + [len(path) for path in paths]).astype(np.int64),
    )
    valid, shortest = check_batch(changed)
    for i, (task, path) in enumerate(changed):
        assert valid[i] == is_valid(task, path)
        assert shortest[i] == is_shortest(task, path)
