"""What a batch of tasks is to Python, and that mazes, tasks and batches draw themselves in a notebook."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from clew.mazes.generate import generate
from clew.mazes.maze import Maze, PathStar, TaskBatch


def batch_of(family: str = "dfs", height: int = 4, width: int = 5, count: int = 12) -> TaskBatch:
    return generate(family, height, width, seed=0, first=0, count=count, split="any")


def test_a_batch_is_a_sequence_of_tasks_and_paths() -> None:
    batch = batch_of()
    assert len(batch) == 12
    task, path = batch[3]
    assert (task.start, task.goal) == (path[0], path[-1])
    assert batch[-1] == batch[11]
    assert list(batch) == [batch[i] for i in range(12)]
    for i in (12, -13):
        with pytest.raises(IndexError):
            batch[i]


def test_a_slice_of_a_batch_is_a_batch() -> None:
    batch = batch_of()
    assert list(batch[2:9:3]) == [batch[2], batch[5], batch[8]]
    assert len(batch[5:5]) == 0
    assert np.array_equal(batch[1:].path, batch.path[batch.offset_N1[1] :])


def test_types_have_a_short_repr() -> None:
    assert repr(batch_of()) == "TaskBatch(12 mazes of 4x5, each with a path)"
    assert repr(batch_of("path-star-2x3", 1, 7)) == "TaskBatch(12 graphs with 7 labels, each with a path)"
    assert repr(Maze.from_walls(2, 3, [])) == "Maze(2x3, 7 edges)"
    assert repr(PathStar.from_pairs(4, [(0, 1), (0, 2)])) == "PathStar(1x4, 2 edges)"


@pytest.mark.parametrize(("family", "shape"), [("dfs", (4, 5)), ("astar", (5, 5)), ("path-star-2x3", (1, 7))])
def test_mazes_tasks_and_batches_draw_themselves(family: str, shape: tuple[int, int]) -> None:
    batch = batch_of(family, *shape)
    task, _ = batch[0]
    drawings = [task.maze._repr_svg_(), task._repr_svg_(), batch._repr_svg_()]
    sizes = [len(list(ElementTree.fromstring(drawing or "").iter())) for drawing in drawings]
    assert sizes[0] < sizes[1] < sizes[2]  # the task has two ends more, the batch eight tasks
    assert batch[:0]._repr_svg_() is None
