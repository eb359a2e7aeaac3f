"""Verdicts: which runs have converged, paired tests over seeds, and three words."""

from __future__ import annotations

from typing import Any

import pytest
from synthetic_results import curve, entry, result, rising, scores

from clew.paper.results import Arm
from clew.paper.verdict import (
    Finding,
    Outcome,
    best,
    concluded,
    converged_only,
    converged_seeds,
    convergence,
    has_converged,
    more,
    paired,
)

CLIMBING = curve([i / 40 for i in range(1, 41)])  # 2.5 points every fortieth of the training


def verdict(a: Arm, b: Arm) -> Finding:
    """Judge that the first arm solves more."""
    outcome = more([a, b])
    assert outcome is not None
    return concluded("A beats B", "DFS 4x4", [*a.runs, *b.runs], outcome)


def side(name: str, *exact: float, points: Any = None) -> Arm:
    """One side with a run for each seed."""
    return Arm(name, [entry({"objective": name}, seed, points, held_out=x) for seed, x in enumerate(exact)])


def test_the_gain_is_that_over_the_last_quarter() -> None:
    found = convergence(CLIMBING)
    assert found.mazes == 40_000
    assert found.problem == "gained 25.0 points over the last quarter of its training"


def test_a_flat_curve_has_converged_and_says_where_it_got_there() -> None:
    found = convergence(rising(0.9, mazes=40_000, half=0.25))
    assert found.problem is None
    assert found.reached == 20_000  # of 1,000 mazes between two evaluations


@pytest.mark.parametrize(("slope", "converged"), [(0.009, True), (0.011, False), (-0.2, True)])
def test_less_than_one_point_is_converged(slope: float, converged: bool) -> None:
    """Slope: gain over the last quarter of a training; a falling accuracy is overfitting, not learning."""
    assert (convergence(curve([0.5 + 4 * slope * i / 40 for i in range(1, 41)])).problem is None) == converged


def test_one_noisy_evaluation_decides_nothing() -> None:
    level = [0.9] * 40
    assert convergence(curve([*level[:-1], 0.93])).problem is None  # the last is 3 points higher by chance
    alternating = [0.9 + (0.02 if i % 2 else -0.02) for i in range(40)]
    assert convergence(curve(alternating)).problem is None


@pytest.mark.parametrize(("points", "enough"), [(0, False), (1, False), (15, False), (16, True)])
def test_the_last_quarter_needs_five_evaluations(points: int, enough: bool) -> None:
    problem = convergence(curve([0.9] * points)).problem
    assert (problem is None) == enough
    assert enough or "of the 5 evaluations needed in the last quarter of its training" in str(problem)


def test_a_run_that_holds_out_nothing_is_judged_by_its_training_accuracy() -> None:
    assert convergence(curve([1.0] * 40, score="train-exact")).problem is None
    both = [p | {"train-exact": 1.0} for p in CLIMBING]
    assert convergence(both).problem is not None


def test_runs_that_did_not_converge_are_left_out() -> None:
    good, bad = entry({"o": "a"}), entry({"o": "b"}, points=CLIMBING)
    assert [has_converged(run) for run in (good, bad)] == [True, False]
    assert converged_only(result(good, bad)).runs == [good]


@pytest.mark.parametrize(
    ("a", "b", "word", "because"),
    [
        ((0.7,), (0.3,), "reproduced", "A solves 40.0 points more (95 % interval 35.5 to 44.1, McNemar p < 0.0001"),
        ((0.3,), (0.7,), "contradicted", "B solves 40.0 points more (95 % interval 35.5 to 44.1"),
        ((0.7, 0.7), (0.3, 0.4), "reproduced", "A solves 35.0 points more on average, and more in each of 2 seeds"),
        (
            (0.5,),
            (0.498,),
            "inconclusive",
            "the intervals overlap (95 % interval -0.4 to 0.8, McNemar p = 1,",
        ),
        ((1.0,), (0.996,), "inconclusive", "both solve nearly all mazes, and the intervals overlap"),
        ((0.7, 0.3), (0.3, 0.7), "inconclusive", "the seeds contradict each other"),
        ((0.7, 0.5), (0.3, 0.5), "inconclusive", "the intervals overlap"),
    ],
)
def test_a_claim_is_judged_seed_by_seed(a: tuple[float], b: tuple[float], word: str, because: str) -> None:
    found = verdict(side("A", *a), side("B", *b))
    assert (found.verdict, found.text, found.task) == (word, "A beats B", "DFS 4x4")
    assert because in found.because
    assert found.runs == tuple(
        f"{name}, seed {seed}" for name, each in (("A", a), ("B", b)) for seed in range(len(each))
    )
    assert found.not_converged == ()


def test_a_seed_with_a_run_that_did_not_converge_is_left_out_and_named() -> None:
    a, b = side("A", 0.9, 0.8), side("B", 0.5, 0.4)
    b = Arm("B", [entry({"objective": "B"}, 0, CLIMBING, held_out=0.5), b.runs[1]])
    (kept, other), words = converged_seeds([a, b])
    assert [run["seed"] for run in (*kept.runs, *other.runs)] == [1, 1]
    assert words == "1 seed (B, seed 0, which gained 25.0 points over the last quarter of its training)"
    alone = Arm("B", b.runs[:1])
    assert converged_seeds([a, alone]) == ([a, alone], "")


def test_what_did_not_converge_is_inconclusive_named_and_without_its_numbers() -> None:
    found = verdict(side("A", 0.9), side("B", 0.1, points=CLIMBING))
    assert (found.verdict, found.ours, found.not_converged) == ("inconclusive", "", ("B, seed 0",))
    because = "1 of 2 runs did not converge (B, seed 0: gained 25.0 points over the last quarter of its training)."
    assert found.because == because
    many = verdict(side("A", *[0.9] * 5, points=[]), side("B", *[0.1] * 5))
    assert many.because.startswith("5 of 10 runs did not converge (A, seed 0: has 0 of the 5 evaluations needed")
    assert many.because.endswith("and 2 more).")


def test_a_verdict_says_how_far_each_run_was_followed() -> None:
    quick, slow = rising(0.9, mazes=10_000, half=0.25), rising(0.1, mazes=50_000, half=0.4)
    found = verdict(side("A", 0.9, points=quick), side("B", 0.1, points=slow))
    assert "A was trained for 0.3 times the mazes after which B converged" in found.because  # 10,000 and 36,250
    assert "B was trained for 10.0 times the mazes after which A converged" in found.because  # 50,000 and 5,000


def test_mazes_are_paired() -> None:
    """Eleven mazes more are significant if no others differ, and not if many others do."""
    runs = {name: entry({"o": name}) for name in ("base", "a", "b")}
    for name, missed in (("base", range(30)), ("a", range(19)), ("b", range(50, 69))):
        runs[name]["exams"]["held-out"] = scores(0, 100, missed=list(missed))
    sides = {name: Arm(name, [run]) for name, run in runs.items()}
    assert [(pair.only_a, pair.only_b, pair.count) for pair in paired(sides["a"], sides["base"])] == [(11, 0, 100)]
    assert [(pair.only_a, pair.only_b) for pair in paired(sides["b"], sides["base"])] == [(30, 19)]
    assert verdict(sides["a"], sides["base"]).verdict == "reproduced"
    assert verdict(sides["b"], sides["base"]).verdict == "inconclusive"


def test_two_exams_of_the_same_runs_are_compared_without_following() -> None:
    run = entry({"o": "a"}, held_out=0.5, other=0.9)
    found = verdict(Arm("other", [run], "other"), Arm("left to right", [run]))
    assert (found.verdict, found.runs) == ("reproduced", ("a, seed 0",))
    assert "was trained for" not in found.because


def test_what_was_not_measured_has_no_outcome() -> None:
    known, nothing = side("A", 0.5), Arm("B", [])
    assert more([known, nothing]) is more([known, Arm("B", known.runs, "no such evaluation")]) is None
    assert best([known, nothing], first=True) is None


def test_the_best_of_many_needs_a_smaller_p() -> None:
    def holds(first: bool, *arms: Arm) -> bool | None:
        outcome = best([side("base", 0.5), *arms], first=first)
        assert outcome is not None
        return outcome.holds

    a = side("a", 0.514)  # 7 mazes of 500 that a alone solves: p = 0.016
    assert holds(False, a) is True
    assert holds(False, a, *(side(name, 0.5) for name in "bcd")) is None
    better, worse = side("a", 0.7), side("b", 0.3)
    outcome = best([side("base", 0.5), better, worse], first=True)
    assert outcome is not None
    assert (outcome.holds, outcome.ours) == (False, "base: 50.0; best other, a: 70.0")
    assert holds(True, worse, side("c", 0.2)) is True
    assert holds(False, worse, side("c", 0.2)) is False


def test_an_outcome_is_gated_by_convergence() -> None:
    good, bad = entry({"o": "a"}), entry({"o": "b"}, points=CLIMBING)
    for holds, word in ((True, "reproduced"), (False, "contradicted"), (None, "inconclusive")):
        outcome = Outcome(holds, "numbers", "why.")
        assert concluded("text", "task", [good], outcome).verdict == word
        found = concluded("text", "task", [good, bad], outcome)
        assert (found.verdict, found.ours, found.not_converged) == ("inconclusive", "", ("b, seed 0",))
