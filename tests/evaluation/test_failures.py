"""Each failure class on a path drawn by hand."""

import pytest

from clew.evaluation.failures import FAILURES, classify
from clew.text.ascii import parse_ascii

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
    return parse_ascii(drawing.strip("\n").splitlines()).task


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
