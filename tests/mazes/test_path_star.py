"""Path-star graphs: what is drawn, the split, and the exact checks."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from clew.errors import UserError
from clew.mazes.generate import describe_tasks, generate
from clew.mazes.generators import StarShape, star_shape
from clew.mazes.layouts import is_held_out, layout_hashes
from clew.mazes.maze import ABSENT, MAX_LABELS, Maze, PathStar, Task, TaskBatch, layout_problems, maze_of
from clew.mazes.solvers import astar, bfs_path, check_batch, is_shortest, num_shortest, path_problem

STAR = PathStar.from_pairs(8, [(3, 5), (5, 1), (3, 2), (2, 6)])


def nodes(*labels: int) -> list[tuple[int, int]]:
    return [(0, label) for label in labels]


def draw(
    family: str = "path-star-3x4", labels: int = 12, *, seed=0, first=0, count=1, split="any", **more
) -> TaskBatch:
    return generate(family, 1, labels, seed=seed, first=first, count=count, split=split, **more)


@pytest.mark.parametrize(("arms", "length", "labels"), [(2, 4, 7), (2, 5, 50), (5, 4, 16), (3, 2, 4), (10, 8, 255)])
def test_every_graph_is_a_star_with_its_path(arms: int, length: int, labels: int) -> None:
    batch = draw(f"path-star-{arms}x{length}", labels, count=200)
    assert batch.cells_NHW.shape == (200, 1, labels)
    for i in range(200):
        task, path = batch[i]
        assert isinstance(task.maze, PathStar)
        branches = task.maze.branches()
        assert len(branches) == arms
        assert {len(branch) for branch in branches} == {length}
        assert {branch[0] for branch in branches} == {task.start}
        assert len(task.maze.edges()) == arms * (length - 1) == labels - len(task.maze.walls()) - 1
        assert path in branches
        assert path[-1] == task.goal
    assert all(checked.all() for checked in check_batch(batch))


def test_labels_centres_and_goals_are_uniform() -> None:
    batch = draw("path-star-2x3", 8, count=8000)
    for cell_N in (batch.start_N, batch.goal_N):
        counts = np.bincount(cell_N, minlength=8)
        assert (np.abs(counts - 1000) < 150).all()  # 5 standard deviations


def test_a_graph_depends_on_seed_index_and_side_alone() -> None:
    whole = draw(count=3000, split="train", workers=1)
    for same in (draw(count=3000, split="train", workers=3), draw(count=3000, split="train")):
        assert np.array_equal(whole.cells_NHW, same.cells_NHW)
        assert np.array_equal(whole.path, same.path)
    order = np.array([2999, 0, 17])
    some = generate("path-star-3x4", 1, 12, index_N=order, seed=0, split="train")
    assert np.array_equal(some.cells_NHW, whole.cells_NHW[order])
    assert np.array_equal(some.goal_N, whole.goal_N[order])
    assert not np.array_equal(draw(seed=1, count=5).cells_NHW, draw(count=5).cells_NHW)


def test_no_graph_is_on_both_sides() -> None:
    train, test = (draw("path-star-2x4", 7, count=4000, split=split).cells_NHW for split in ("train", "test"))
    assert not is_held_out(layout_hashes(train)).any()
    assert is_held_out(layout_hashes(test)).all()
    graphs = [{cells.tobytes() for cells in split} for split in (train, test)]
    assert not graphs[0] & graphs[1]
    assert sum(map(len, graphs)) > 2000  # of the 7! / 2 there are


def test_the_hash_is_of_the_edges_alone() -> None:
    fewer = STAR.cells[:, :7]
    assert layout_hashes(fewer[None]) == layout_hashes(STAR.cells[None])
    pairs = [(3, 5), (5, 1), (3, 2), (2, 6)]
    others = [
        PathStar.from_pairs(8, [*pairs[:3], (2, 7)]),
        PathStar.from_pairs(8, [(5, 3), *pairs[1:2], (3, 2), (2, 6)]),
    ]
    assert len({int(layout_hashes(each.cells[None])[0]) for each in (STAR, *others)}) == 3


def test_names_of_families() -> None:
    assert star_shape("path-star-2x5") == StarShape(2, 5)
    assert StarShape(2, 5).nodes == 9
    assert star_shape("dfs") is None
    assert describe_tasks("path-star-2x5", 1, 9) == "path-star-2x5 graphs with 9 labels"
    assert describe_tasks("dfs", 5, 5) == "dfs mazes of 5x5"


@pytest.mark.parametrize(
    ("family", "shape", "says"),
    [
        ("path-star", (1, 9), "is named path-star-ARMSxLENGTH"),
        ("path-star-2", (1, 9), "is named path-star-ARMSxLENGTH"),
        ("path-star-02x5", (1, 9), "is named path-star-ARMSxLENGTH"),
        ("path-star-1x5", (1, 9), "at least 2 arms"),
        ("path-star-2x1", (1, 9), "a length of 2"),
        ("path-star-2x5", (3, 9), "not 3 rows"),
        ("path-star-2x5", (1, 8), "8 labels are too few for the 9 nodes"),
        ("path-star-2x5", (1, 256), "use 2 to 255"),
        ("path-star-2x2", (1, 3), "there are too few such graphs"),
        ("stars", (1, 9), "choose one of dfs, .*path-star-ARMSxLENGTH"),
    ],
)
def test_what_cannot_be_drawn_is_named(family: str, shape: tuple[int, int], says: str) -> None:
    with pytest.raises(UserError, match=says):
        generate(family, *shape, seed=0, first=0, count=50, split="test")


def test_a_graph_is_a_maze_of_one_row() -> None:
    assert STAR.edges() == [((0, 5), (0, 1)), ((0, 3), (0, 2)), ((0, 3), (0, 5)), ((0, 2), (0, 6))]
    assert sorted(STAR.neighbours((0, 3))) == nodes(2, 5)
    assert STAR.is_open((0, 5), (0, 3))
    assert not STAR.is_open((0, 5), (0, 2))
    assert not STAR.is_open((0, 3), (0, 3))
    assert not STAR.is_open((0, 3), (0, 99))
    assert STAR.walls() == nodes(0, 4, 7)
    assert STAR.branches() == [nodes(3, 5, 1), nodes(3, 2, 6)]
    assert maze_of(STAR.cells) == STAR
    assert isinstance(maze_of(STAR.cells), PathStar)
    assert not isinstance(maze_of(Maze.from_walls(2, 2, []).cells), PathStar)


def test_the_path_between_any_two_nodes() -> None:
    task = Task(STAR, (0, 1), (0, 6))
    assert bfs_path(task) == astar(task).path == nodes(1, 5, 3, 2, 6)
    assert num_shortest(task) == 1
    assert bfs_path(Task(STAR, (0, 5), (0, 5))) == nodes(5)
    assert bfs_path(Task(STAR, (0, 1), (0, 5))) == nodes(1, 5)


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (nodes(3, 2, 6), None),
        (nodes(3, 5, 3, 2, 6), None),
        (nodes(3, 2), "the path ends at 2, not at the goal 6."),
        (nodes(2, 6), "the path begins at 2, not at the start 3."),
        (nodes(3, 5, 6), "step 2 goes from 5 to 6, but no edge joins them."),
        (nodes(3, 0), "step 1 goes from 3 to 0, but no edge joins them."),
        (nodes(3, 99), "step 1 goes from 3 to 99, but no edge joins them."),
    ],
)
def test_what_is_wrong_with_a_path(path: list[tuple[int, int]], problem: str | None) -> None:
    task = Task(STAR, (0, 3), (0, 6))
    assert path_problem(task, path) == problem
    assert is_shortest(task, path) == (path == nodes(3, 2, 6))


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ([(0, 1), (2, 1)], "to node 1 from 0 and from 2"),
        ([(0, 0)], "to node 0 from 0 and from 0"),
        ([(0, 9)], "node 9 is not among the 8 labels"),
        ([(0, 1), (1, 0)], "one centre without cycles"),
        ([(0, 1), (2, 3)], "one centre without cycles"),
        ([], "one centre without cycles"),
    ],
)
def test_what_is_no_tree_is_refused(pairs: list[tuple[int, int]], says: str) -> None:
    with pytest.raises(UserError, match=says):
        PathStar.from_pairs(8, pairs)


def test_layouts_that_are_no_graphs_are_found() -> None:
    good = STAR.cells
    absent, cycle, outside = good.copy(), good.copy(), good.copy()
    absent[0, 6] = 4  # a node that is not there
    cycle[0, 3] = 1
    outside[0, 6] = 100
    layouts = np.stack([good, absent, cycle, outside, np.full_like(good, ABSENT)])
    assert layout_problems(layouts).tolist() == [False, True, True, True, True]
    with pytest.raises(UserError, match="one row of labels"):
        PathStar(np.zeros((2, 2), np.uint8))
    with pytest.raises(UserError, match=f"2 to {MAX_LABELS}"):
        PathStar(np.zeros((1, 1), np.uint8))


def test_every_arm_is_the_goal_s_as_often() -> None:
    batch = draw("path-star-5x3", 11, count=3000)
    places: Counter[int] = Counter()
    for i in range(3000):
        task, path = batch[i]
        ends = sorted(branch[-1] for branch in task.maze.branches())
        places[ends.index(path[-1])] += 1
    assert all(abs(count - 600) < 110 for count in places.values())
    assert len(places) == 5


def test_a_batch_is_checked_as_its_tasks_are() -> None:
    """Walks through the graphs, some of them broken, turned back, cut short, empty or outside."""
    batch = draw("path-star-3x4", 12, count=400)
    chance = np.random.default_rng(0)
    tasks, paths = [], []
    for i in range(400):
        task, path = batch[i]
        position = int(chance.integers(len(path)))
        changed = [
            path,
            path[:position],
            [*path[: position + 1], *path[position:]],
            [*path[: position + 1], *path[max(0, position - 1) :]],
            [*path[:position], (0, int(chance.integers(12))), *path[position + 1 :]],
            path[::-1],
        ][int(chance.integers(6))]
        tasks.append(task)
        paths.append(changed)
    walks = TaskBatch.from_tasks(tasks, paths)
    valid_N, shortest_N = check_batch(walks)
    assert valid_N.tolist() == [path_problem(*pair) is None for pair in zip(tasks, paths, strict=True)]
    assert shortest_N.tolist() == [is_shortest(*pair) for pair in zip(tasks, paths, strict=True)]
    assert 0 < shortest_N.sum() < valid_N.sum() < 400
    outside = dataclasses.replace(walks, path=np.where(walks.path == walks.path[0], 255, walks.path).astype(np.int32))
    assert not check_batch(outside)[0][0]
