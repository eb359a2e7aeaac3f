"""evaluate_tasks with models whose state are known; leakage; embedding."""

import numpy as np
import pytest

from clew.data.config import DatasetSettings
from clew.data.dataset import open_dataset, task_problems
from clew.data.writer import write_dataset
from clew.errors import UserError
from clew.evaluation.tasks import check_leakage, embed, training_layouts
from clew.mazes.generate import generate
from clew.mazes.layouts import is_held_out, layout_hashes
from clew.mazes.maze import EAST, SOUTH, Maze
from clew.mazes.solvers import check_batch, num_shortest


def tasks_of(count=6, side=5, family="dfs", which="test"):
    return generate(family, side, side, seed=0, first=0, count=count, split=which, workers=1)


def test_held_out_mazes_do_not_leak_and_training_mazes_do():
    assert check_leakage([tasks_of(50)]).perhaps_trained == 0
    leak = check_leakage([tasks_of(20), tasks_of(30, which="train")])
    assert (leak.mazes, leak.perhaps_trained, leak.exact) == (50, 30, False)
    assert "may be too good" in str(leak)
    assert str(check_leakage([tasks_of(3)])) == "none of the 3 mazes has a layout that was trained on."


def test_leakage_against_a_training_set(tmp_path):
    write_dataset(DatasetSettings("dfs", 5, 5, 0, {"train": 40, "test": 5}), tmp_path / "set")
    dataset = open_dataset(tmp_path / "set")
    layouts = training_layouts(dataset)
    trained = dataset.split("train")[:7]
    assert check_leakage([trained], layouts).perhaps_trained == 7
    assert check_leakage([dataset.split("test")[:5]], layouts).perhaps_trained == 0
    assert check_leakage([tasks_of(5, which="train")], layouts[:0]).perhaps_trained == 0


@pytest.mark.parametrize(("height", "width"), [(8, 8), (5, 9), (9, 5)])
def test_embedded_mazes_keep_their_path_and_stay_perfect(height, width):
    tasks = tasks_of(5)
    larger = embed(tasks, height, width, seed=3)
    assert larger.cells_NHW.shape == (5, height, width)
    valid, shortest = check_batch(larger)
    assert valid.all()
    assert shortest.all()
    edges = ((larger.cells_NHW & EAST) != 0).sum((1, 2)) + ((larger.cells_NHW & SOUTH) != 0).sum((1, 2))
    assert edges.tolist() == [height * width - 1] * 5
    for i in range(5):
        assert larger[i][1] == tasks[i][1]
        assert num_shortest(larger[i][0]) == 1
        inside = larger.cells_NHW[i, :5, :5].copy()
        assert (inside & ~tasks.cells_NHW[i]).astype(bool).sum() == 1, "one passage leads out"
        assert not (tasks.cells_NHW[i] & ~inside).any()
    assert is_held_out(layout_hashes(larger.cells_NHW)).all()
    assert np.array_equal(larger.cells_NHW, embed(tasks, height, width, seed=3).cells_NHW)
    assert not np.array_equal(larger.cells_NHW, embed(tasks, height, width, seed=4).cells_NHW)


@pytest.mark.parametrize(("height", "width"), [(8, 8), (5, 9), (9, 5)])
def test_cut_off_mazes_keep_their_path_and_have_no_passage_to_the_rest(height, width):
    tasks = tasks_of(20)
    larger = embed(tasks, height, width, seed=3, embedding="cut-off")
    valid, shortest = check_batch(larger)
    assert valid.all()
    assert shortest.all()
    assert np.array_equal(larger.cells_NHW[:, :5, :5], tasks.cells_NHW)
    assert [path for _, path in larger] == [path for _, path in tasks]
    for cells in larger.cells_NHW:
        reached = bfs_reached(cells)
        assert reached == {(row, col) for row in range(5) for col in range(5)}
        assert (cells != 0).sum() > 25, "the rest is a maze too"
    assert not any(bad_N.any() for _, _, bad_N in task_problems(larger))
    assert is_held_out(layout_hashes(larger.cells_NHW)).all()
    assert np.array_equal(larger.cells_NHW, embed(tasks, height, width, seed=3, embedding="cut-off").cells_NHW)
    first = embed(tasks.select(np.arange(3)), height, width, seed=3, embedding="cut-off")
    assert np.array_equal(larger.cells_NHW[:3], first.cells_NHW)


def bfs_reached(cells):
    """The cells that the upper left one is connected with."""
    maze, found, todo = Maze(cells), {(0, 0)}, [(0, 0)]
    while todo:
        new = [cell for cell in maze.neighbours(todo.pop()) if cell not in found]
        found.update(new)
        todo += new
    return found


@pytest.mark.parametrize("shape", [(5, 5), (4, 9)])
def test_a_size_that_is_not_larger_is_refused(shape):
    with pytest.raises(UserError, match="give a larger size"):
        embed(tasks_of(), *shape, seed=0)
