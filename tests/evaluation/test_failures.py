"""Each failure class on a path drawn by hand."""

import pytest

from clew.evaluation.scores import FAILURES, GRAPH_FAILURES, classify, failure_classes
from clew.mazes.maze import PathStar, Task
from clew.tokenization.drawings import parse_drawing

# A perfect maze: the way from S to G goes along the top, down the right side and back along the middle.
PERFECT = """
+--+--+--+
|S       |
+--+--+  +
|G       |
+  +--+--+
|        |
+--+--+--+
"""
TRUE = [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)]

# Two ways around a block of the same length, and a longer one below.
WALLS = """
S..
.#.
..G
...
"""


def task_of(drawing):
    return parse_drawing(drawing.strip("\n").splitlines()).task


@pytest.mark.parametrize(
    ("name", "predicted"),
    [
        (None, TRUE),
        ("unparsable", None),
        ("unparsable", []),
        ("diagonal or gap", [(0, 0), (0, 1), (1, 2), (1, 1), (1, 0)]),
        ("diagonal or gap", [(0, 0), (0, 2), (1, 2), (1, 1), (1, 0)]),
        ("diagonal or gap", [(0, 0), (0, 1), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)]),
        ("diagonal or gap", [(0, 0), (0, -1), (1, 0)]),
        ("through a wall", [(0, 0), (1, 0)]),
        ("wrong turn, then back", [*TRUE, (2, 0), (1, 0)]),
        ("wrong turn, then back", [(0, 0), (0, 1), (0, 0), (0, 1), (0, 2), (1, 2)]),
        ("short of the goal", TRUE[:-1]),
        ("short of the goal", TRUE[:1]),
        ("wrong end", [*TRUE, (2, 0), (2, 1)]),
        ("wrong end", [*TRUE, (2, 0), (2, 1), (2, 0)]),
        ("wrong end", TRUE[1:]),
    ],
)
def test_in_a_perfect_maze(name, predicted):
    assert classify(task_of(PERFECT), TRUE, predicted) == name


@pytest.mark.parametrize(
    ("name", "predicted"),
    [
        ("equally short", [(0, 0), (1, 0), (2, 0), (2, 1), (2, 2)]),
        ("longer path", [(0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2), (2, 2)]),
        ("short of the goal", [(0, 0), (1, 0), (2, 0), (2, 1)]),
        ("wrong end", [(0, 0), (1, 0), (2, 0), (3, 0)]),
        ("through a wall", [(0, 0), (0, 1), (1, 1), (2, 1), (2, 2)]),
        ("wrong turn, then back", [(0, 0), (0, 1), (0, 0), (1, 0), (2, 0), (2, 1), (2, 2)]),
    ],
)
def test_among_wall_cells(name, predicted):
    assert classify(task_of(WALLS), [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2)], predicted) == name


def test_every_class_has_its_sentence():
    assert len(FAILURES) == 8
    assert all(sentence and not sentence.endswith(".") for sentence in FAILURES.values())


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        (None, [3, 2, 6]),
        ("unparsable", []),
        ("wrong arm", [3, 5, 1]),
        ("wrong arm", [3, 5, 6]),  # into the wrong arm, then to the goal as if it were the right one
        ("wrong arm", [3, 5, 3, 2, 6]),
        ("no such edge", [3, 6]),
        ("no such edge", [3, 2, 1]),
        ("no such edge", [3, 99, 6]),
        ("wrong end", [3, 2]),
        ("wrong end", [3]),
        ("wrong end", [2, 6]),
        ("longer path", [3, 2, 3, 2, 6]),
    ],
)
def test_in_a_path_star_graph(name, labels):
    graph = PathStar.from_pairs(8, [(3, 5), (5, 1), (3, 2), (2, 6)])
    task, true = Task(graph, (0, 3), (0, 6)), [(0, 3), (0, 2), (0, 6)]
    assert classify(task, true, [(0, label) for label in labels]) == name
    assert name is None or name in GRAPH_FAILURES


def test_the_classes_are_those_of_the_tasks():
    graph = Task(PathStar.from_pairs(2, [(0, 1)]), (0, 0), (0, 1))
    maze = task_of(PERFECT)
    assert failure_classes([]) == failure_classes([maze]) == FAILURES
    assert failure_classes([graph]) == GRAPH_FAILURES
    assert set(failure_classes([graph, maze])) == {*FAILURES, *GRAPH_FAILURES}
