"""Confidence intervals against known numbers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.evaluation.scores import paired_difference, proportion, token_proportion


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


def test_intervals_of_no_mazes_are_0_to_1():
    assert (proportion(0, 0).low, proportion(0, 0).high) == (0.0, 1.0)
    assert token_proportion([], []).high == 1.0


@pytest.mark.parametrize(
    ("only_a", "only_b", "p"), [(0, 10, 2 / 2**10), (10, 0, 2 / 2**10), (3, 15, 1976 / 2**18), (5, 5, 1.0), (0, 0, 1.0)]
)
def test_p_is_that_of_the_exact_mcnemar_test(only_a, only_b, p):
    assert paired_difference(only_a, only_b, 100).p == pytest.approx(p)


def test_a_paired_difference_is_that_of_the_two_shares():
    found = paired_difference(only_a=12, only_b=2, count=100)
    assert found.difference == pytest.approx(0.1)
    # Agresti and Min, by hand: (12.5 - 2.5) / 102 and 1.96 sqrt(15 - 100 / 102) / 102 to either side.
    assert (found.low, found.high) == (pytest.approx(0.0261, abs=5e-5), pytest.approx(0.1700, abs=5e-5))
    assert paired_difference(0, 0, 10).high == pytest.approx(0.1633, abs=5e-5)  # ten equal outcomes do not prove much
    assert paired_difference(10, 0, 10).high == 1.0
