"""Scores counted by hand."""

import pytest

from clew.evaluation.scores import Evaluation, Outcome, Token
from clew.mazes.maze import Maze, Task

CORRIDOR = Maze.from_edges(2, 6, [((0, i), (0, i + 1)) for i in range(5)])


def outcome(length, predicted_length, confidences=(0.95,)):
    """A corridor of which the prediction walks only so many cells (0: nothing that can be read)."""
    path = [(0, i) for i in range(length)]
    predicted = path[:predicted_length] or None
    right = length + 1 if predicted == path else predicted_length
    tokens = [Token(confidences[i % len(confidences)], i < right) for i in range(max(predicted_length, right))]
    return Outcome(Task(CORRIDOR, (0, 0), (0, length - 1)), path, predicted, None, tokens, length + 1, passes=length)


FOUR = Evaluation("m", "d", (outcome(3, 3), outcome(3, 2), outcome(5, 5), outcome(6, 0)), seconds=2.0)


def test_counted_by_hand():
    scores = FOUR.scores
    assert (scores.mazes, scores.exact.hits, scores.valid.hits, scores.shortest.hits) == (4, 2, 2, 2)
    assert scores.unparsable.hits == 1
    # true tokens 4 + 4 + 6 + 7, right ones 4 + 2 + 6 + 0
    assert (scores.per_token.hits, scores.per_token.count) == (12, 21)
    assert scores.passes == pytest.approx(17 / 4)
    assert {name: n for name, n in FOUR.failures().items() if n} == {"short of the goal": 1, "unparsable": 1}


def test_by_length():
    bins = FOUR.by_length()
    assert [(each.low, each.high, each.scores.mazes, each.scores.exact.hits) for each in bins] == [
        (3, 3, 2, 1),
        (5, 5, 1, 1),
        (6, 6, 1, 0),
    ]


def test_bins_are_few_and_hold_every_maze():
    many = Evaluation("m", "d", tuple(outcome(2, 2) for _ in range(3)), 1.0)
    assert [each.scores.mazes for each in many.by_length()] == [3]
    assert Evaluation("m", "d", (), 0.0).by_length() == []


def test_calibration():
    sure = Evaluation("m", "d", (outcome(4, 4, confidences=(1.0, 0.15)),), 1.0)
    bins = sure.calibration()
    assert [(each.low, each.high, each.right.count) for each in bins] == [(0.1, 0.2, 2), (0.9, 1.0, 3)]
    assert bins[0].confidence == pytest.approx(0.15)
    assert all(each.right.share == 1.0 for each in bins)


def test_as_json():
    value = FOUR.to_json()
    assert value["exact"]["share"] == 0.5
    assert value["seconds_per_maze"] == 0.5
    assert [each["mazes"] for each in value["by_length"]] == [2, 1, 1]
