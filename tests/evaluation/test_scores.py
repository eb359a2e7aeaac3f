"""Scores counted by hand, and intervals against known numbers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.evaluation.intervals import mcnemar, paired_difference, proportion, token_proportion
from clew.evaluation.scores import Evaluation, Outcome, Token
from clew.mazes.maze import Maze, Task

CORRIDOR = Maze.from_edges(2, 6, [((0, i), (0, i + 1)) for i in range(5)])


def outcome(length, predicted_length, confidences=(0.95,)):
    """A corridor of which the prediction walks only so many cells (0: nothing that can be read)."""
    path = [(0, i) for i in range(length)]
    predicted = path[:predicted_length] or None
    right = length + 1 if predicted == path else predicted_length
    said = [Token(confidences[i % len(confidences)], i < right) for i in range(max(predicted_length, right))]
    return Outcome(Task(CORRIDOR, (0, 0), (0, length - 1)), path, predicted, None, said, length + 1, passes=length)


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


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (50, 100, 0.4038, 0.5962), (1, 2000, 0.0001, 0.0028)],
)
def test_wilson(hits, count, low, high):
    assert proportion(hits, count).low == pytest.approx(low, abs=5e-5)
    assert proportion(hits, count).high == pytest.approx(high, abs=5e-5)


@given(st.integers(0, 500), st.integers(0, 500))
@settings(max_examples=60, deadline=None)
def test_an_interval_holds_its_share(hits, more):
    found = proportion(hits, hits + more)
    assert 0 <= found.low <= found.share <= found.high <= 1


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), min_size=1, max_size=9))
@settings(max_examples=60, deadline=None)
def test_an_interval_of_tokens_holds_its_share(pairs):
    counts = [hits + more for hits, more in pairs]
    found = token_proportion([hits for hits, _ in pairs], counts)
    assert 0 <= found.low <= found.share <= found.high <= 1


def test_tokens_of_one_maze_count_as_one_trial():
    """Ten mazes wholly right or wholly wrong say as much as ten tokens, not as a thousand."""
    whole = token_proportion([100] * 5 + [0] * 5, [100] * 10)
    assert whole.high - whole.low > 0.5


def test_of_nothing_nothing_is_known():
    assert (proportion(0, 0).low, proportion(0, 0).high) == (0.0, 1.0)
    assert token_proportion([], []).high == 1.0


@pytest.mark.parametrize(
    ("only_a", "only_b", "p"), [(0, 10, 2 / 2**10), (10, 0, 2 / 2**10), (3, 15, 1976 / 2**18), (5, 5, 1.0), (0, 0, 1.0)]
)
def test_mcnemar_is_the_exact_binomial_test(only_a, only_b, p):
    assert mcnemar(only_a, only_b) == pytest.approx(p)


def test_a_paired_difference_is_that_of_the_two_shares():
    found = paired_difference(only_a=12, only_b=2, count=100)
    assert found.difference == pytest.approx(0.1)
    # Agresti and Min, by hand: (12.5 - 2.5) / 102 and 1.96 sqrt(15 - 100 / 102) / 102 to either side.
    assert (found.low, found.high) == (pytest.approx(0.0261, abs=5e-5), pytest.approx(0.1700, abs=5e-5))
    assert found.p == mcnemar(12, 2)
    assert paired_difference(0, 0, 10).high == pytest.approx(0.1633, abs=5e-5)  # ten equal outcomes do not prove much
    assert paired_difference(10, 0, 10).high == 1.0
