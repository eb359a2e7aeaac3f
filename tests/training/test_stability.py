"""What counts as a bad step."""

from __future__ import annotations

import math

import pytest

from clew.training.step import NEEDED, REMEMBERED, GradientWatch


def watched(count: int, norm: float = 2.0) -> GradientWatch:
    watch = GradientWatch(explosion=1000, floor=1.0)
    for _ in range(count):
        watch.remember(norm)
    return watch


@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (math.inf, 1.0), (1.0, math.nan), (1.0, math.inf)])
def test_what_is_not_finite_is_bad_at_once(loss: float, norm: float) -> None:
    assert watched(0).problem(loss, norm) is not None


def test_an_explosion_needs_something_usual() -> None:
    assert watched(NEEDED - 1).problem(1.0, 1e9) is None
    assert watched(NEEDED).problem(1.0, 1e9) == "the norm of the gradient is 1e+09, where 2 was usual"
    assert watched(NEEDED).problem(1.0, 2000.0) is None
    assert watched(NEEDED).problem(1.0, 2001.0) is not None


def test_a_single_large_norm_does_not_become_usual() -> None:
    watch = watched(REMEMBERED)
    watch.remember(1900.0)
    assert watch.problem(1.0, 2001.0) is not None


@pytest.mark.parametrize("usual", [0.0, 3e-5])
def test_a_converged_run_is_not_stopped(usual: float) -> None:
    """A model that solves nearly everything has tiny gradients, until it meets a maze that it does not solve."""
    assert watched(NEEDED, norm=usual).problem(1.0, 50.0) is None
    assert watched(NEEDED, norm=usual).problem(1.0, 1001.0) is not None


def test_state_and_back() -> None:
    watch = watched(REMEMBERED + 5)
    again = GradientWatch(1000, 1.0)
    again.load_state(watch.state())
    assert again.state() == watch.state()
    assert len(again.norms) == REMEMBERED
