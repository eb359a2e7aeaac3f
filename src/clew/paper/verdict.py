"""Verdicts on claims: reproduced, contradicted or inconclusive, from converged runs and paired tests.

    mlmu = Side("MLM-U", result.entries(objective="MLM-U", size="4x4"))            # one run a seed
    baseline = Side("next token", result.entries(objective="next token", size="4x4"))
    claim = Claim("MLM-U solves more held-out mazes", "10x10: 100 against 45.2", task="DFS 4x4", main="accuracy")
    verdict(claim, mlmu, baseline)                                                 # a Finding

Every verdict of every study goes through `concluded`, so the rules are here and nowhere else:

- **inconclusive** if any run that the claim rests on did not converge, whatever the numbers are. The finding names
  those runs, and does not repeat their numbers.
- **reproduced** if all runs converged and the outcome is the paper's; **contradicted** if all runs converged and the
  outcome is the opposite.
- **inconclusive** if the intervals overlap, or the seeds disagree.

A run has converged if its held-out accuracy gained less than one percentage point (FLAT) over the last quarter of its
training, measured in mazes seen. The gain is the median slope between any two evaluations of that quarter (the
Theil-Sen estimate) times its length, so a single noisy evaluation decides nothing. Fewer than MIN_POINTS evaluations in
the last quarter count as not converged. A run that holds out nothing, to learn its training mazes by heart, is judged
by its training accuracy. A learning rate that falls to zero flattens every curve, and both objectives may stay on a
plateau for long, so a run that is far too short can pass. Findings therefore also say how many times the mazes of the
other run's convergence each run was trained for.

Two models on the same mazes are compared by the exact McNemar test at the level ALPHA, for each seed; a verdict needs
the same significant sign in every seed. Where the best of k alternatives is taken, the level is ALPHA / k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any

from clew.evaluation.intervals import PairedDifference, paired_difference
from clew.paper.result import Entry, Mean, Result, mean_over, run_name
from clew.paper.study import HELD_OUT, Claim, Finding, Verdict

LAST_QUARTER, MIN_POINTS, FLAT = 0.75, 5, 0.01
ALPHA = 0.05
NEARLY_ALL = 0.98
NOT_MEASURED = "it was not measured."
_Z = 1.959964  # the normal distribution's 97.5 % point
_NAMED = 3  # runs that a sentence names before it says how many others there are


@dataclass(frozen=True)
class Convergence:
    """The end of a training curve."""

    mazes: float  # seen in the whole training
    points: int  # evaluations in the last quarter
    gain: float | None = None  # of accuracy over the last quarter; None if there are fewer than MIN_POINTS
    level: float | None = None  # the mean accuracy of the last quarter
    reached: float | None = None  # mazes seen at the first evaluation within FLAT of that level

    @property
    def problem(self) -> str | None:
        """Why the run has not converged; None if it has."""
        if self.gain is None:
            return f"has {self.points} of the {MIN_POINTS} evaluations needed in the last quarter of its training"
        if self.gain >= FLAT:
            return f"gained {100 * self.gain:.1f} points over the last quarter of its training"
        return None


def convergence(curve: Sequence[dict[str, float]]) -> Convergence:
    """Return what the curve of a run says about its convergence."""
    score = "exact" if any("exact" in point for point in curve) else "train-exact"
    points = sorted((point["mazes"], point[score]) for point in curve if score in point)
    if not points:
        return Convergence(0, 0)
    end = points[-1][0]
    last = [(mazes, accuracy) for mazes, accuracy in points if mazes >= LAST_QUARTER * end]
    if len(last) < MIN_POINTS:
        return Convergence(end, len(last))
    level = sum(accuracy for _, accuracy in last) / len(last)
    slope = median((b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(last, 2) if b[0] > a[0])
    reached = next(mazes for mazes, accuracy in points if accuracy >= level - FLAT)
    return Convergence(end, len(last), slope * (1 - LAST_QUARTER) * end, level, reached)


def has_converged(run: Entry) -> bool:
    """Whether a run of a result has converged."""
    return convergence(run["curve"]).problem is None


def converged_only(result: Result) -> Result:
    """The result without the runs that did not converge."""
    return Result(result.value | {"runs": [run for run in result.runs if has_converged(run)]})


@dataclass(frozen=True)
class Side:
    """One side of a comparison: runs that differ in their seeds alone, and which of their exams is compared."""

    name: str
    runs: Sequence[Entry]
    exam: str = HELD_OUT

    @property
    def mean(self) -> Mean | None:
        """The share of exact paths, over the seeds."""
        return mean_over(self.runs, "exact", self.exam)

    def solved(self) -> dict[int, list[bool]]:
        """Which mazes were solved exactly, by seed; a seed without an outcome for each maze is left out."""
        found = {}
        for run in self.runs:
            scores: dict[str, Any] = run["exams"].get(self.exam, {})
            if "missed" in scores:
                missed = set(scores["missed"])
                found[run["seed"]] = [maze not in missed for maze in range(scores["mazes"])]
        return found


def verdict(claim: Claim, better: Side, baseline: Side) -> Finding:
    """Judge a claim that one side solves more mazes than the other, on the same mazes in the same order."""
    pairs = paired(better, baseline)
    if not pairs:
        return Finding(claim, "inconclusive", "", NOT_MEASURED)
    outcome = _outcome(pairs, ALPHA)
    ours = f"{better.name} {better.mean}, {baseline.name} {baseline.mean}"
    if outcome is None:
        because = _undecided(pairs, better, baseline)
    else:
        name = better.name if outcome else baseline.name
        because = f"{name} solves {_points(pairs)}"
    runs = _together(better, baseline)
    if len(runs) > max(len(better.runs), len(baseline.runs)):
        because = f"{because}; {_followed(better, baseline)}"
    return concluded(claim, runs, outcome, ours, f"{because}.")


def concluded(claim: Claim, runs: Sequence[Entry], outcome: bool | None, ours: str, because: str) -> Finding:
    """Return the finding on a claim that rests on these runs.

    `outcome` is whether the numbers agree with the paper; None if they do not decide it.
    """
    names = tuple(run_name(run) for run in runs)
    problems = {run_name(run): problem for run in runs if (problem := convergence(run["curve"]).problem)}
    if problems:
        told = [f"{name}: {problem}" for name, problem in list(problems.items())[:_NAMED]]
        more = [f"and {len(problems) - _NAMED} more"] * (len(problems) > _NAMED)
        words = f"{len(problems)} of {len(runs)} runs did not converge ({'; '.join([*told, *more])})."
        return Finding(claim, "inconclusive", "", words, names, tuple(problems))
    word: Verdict = "inconclusive" if outcome is None else "reproduced" if outcome else "contradicted"
    return Finding(claim, word, ours, because, names)


def paired(a: Side, b: Side) -> list[PairedDifference]:
    """The difference of two sides for each seed that both have, over the mazes that both were given."""
    ours, theirs = a.solved(), b.solved()
    found = []
    for seed in sorted(ours.keys() & theirs.keys()):
        both = list(zip(ours[seed], theirs[seed], strict=False))
        found.append(paired_difference(sum(x > y for x, y in both), sum(x < y for x, y in both), len(both)))
    return found


def verdict_on_differences(claim: Claim, what: str, larger: tuple[Side, Side], smaller: tuple[Side, Side]) -> Finding:
    """Judge a claim that one difference of two sides, such as the gain of a larger model, is larger than another.

    Sides with the same exam are compared maze by maze; sides with different exams count as independent samples.
    """
    sides = (*larger, *smaller)
    known = [side.solved() for side in sides]
    seeds = sorted(set.intersection(*(set(each) for each in known)))
    if not seeds:
        return Finding(claim, "inconclusive", "", NOT_MEASURED)
    intervals = [_contrast(sides, [each[seed] for each in known]) for seed in seeds]
    signs = {1 if low > 0 else -1 if high < 0 else 0 for low, high in intervals}
    outcome = None if len(signs) > 1 or signs == {0} else signs == {1}
    gains = [100 * (_share(a.mean) - _share(b.mean)) for a, b in (larger, smaller)]
    ours = f"{what}: {larger[0].name} {gains[0]:.1f} points, {smaller[0].name} {gains[1]:.1f} points"
    bounds = ", ".join(f"{100 * low:.1f} to {100 * high:.1f}" for low, high in intervals)
    because = f"the difference of the two is {gains[0] - gains[1]:.1f} points (95 % interval {bounds})."
    return concluded(claim, _together(*sides), outcome, ours, because)


def verdict_on_best(claim: Claim, base: Side, others: Sequence[Side], *, base_is_best: bool) -> Finding:
    """Judge a claim that `base` is the best of all sides, or (with base_is_best=False) that another one is better."""
    others = [side for side in others if paired(side, base)]
    if not others:
        return Finding(claim, "inconclusive", "", NOT_MEASURED)
    best = max(others, key=lambda side: _share(side.mean))
    outcomes = {side.name: _outcome(paired(side, base), ALPHA / len(others)) for side in others}
    ours = f"{base.name}: {base.mean}; best other, {best.name}: {best.mean}"
    outcome: bool | None = None
    if outcomes[best.name]:
        outcome, because = not base_is_best, f"{best.name} solves {_points(paired(best, base))}."
    elif all(each is False for each in outcomes.values()):
        outcome, because = base_is_best, f"{base.name} solves more than each of the {len(others)} others."
    else:
        because = f"the differences to the {len(others)} others are not all significant."
    return concluded(claim, _together(base, *others), outcome, ours, because)


def _outcome(pairs: Sequence[PairedDifference], alpha: float) -> bool | None:
    """Whether the first side is better in every seed (True), worse in every seed (False), or neither."""
    signs = {math.copysign(1, pair.difference) if pair.p < alpha else 0 for pair in pairs}
    return None if len(signs) > 1 or signs == {0} else signs == {1.0}


def _contrast(sides: Sequence[Side], solved: Sequence[list[bool]]) -> tuple[float, float]:
    """The 95 % interval of (first - second) - (third - fourth)."""
    value = variance = 0.0
    for exam in dict.fromkeys(side.exam for side in sides):
        terms = zip((1, -1, -1, 1), sides, solved, strict=True)
        signed = [[sign * x for x in each] for sign, side, each in terms if side.exam == exam]
        sums = [sum(row) for row in zip(*signed, strict=False)]
        mean = sum(sums) / len(sums)
        value += mean
        variance += sum((x - mean) ** 2 for x in sums) / len(sums) ** 2
    half = _Z * math.sqrt(variance)
    return value - half, value + half


def _points(pairs: Sequence[PairedDifference]) -> str:
    """How many more mazes the better side solves, with intervals and p-values."""
    size = abs(sum(pair.difference for pair in pairs)) / len(pairs)
    bounds = [(pair.low, pair.high) if pair.difference > 0 else (-pair.high, -pair.low) for pair in pairs]
    low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    seeds = "" if len(pairs) == 1 else f" on average, and more in each of {len(pairs)} seeds"
    return f"{100 * size:.1f} points more{seeds} ({_tested(pairs, low, high)})"


def _undecided(pairs: Sequence[PairedDifference], a: Side, b: Side) -> str:
    """Why the outcomes of two sides do not decide a claim."""
    low, high = min(pair.low for pair in pairs), max(pair.high for pair in pairs)
    if len({pair.difference > 0 for pair in pairs if pair.p < ALPHA}) > 1:
        words = "the seeds contradict each other"
    elif min(_share(a.mean), _share(b.mean)) > NEARLY_ALL:
        words = "both solve nearly all mazes, and the intervals overlap"
    else:
        words = "the intervals overlap"
    return f"{words} ({_tested(pairs, low, high)})"


def _tested(pairs: Sequence[PairedDifference], low: float, high: float) -> str:
    p = max(pair.p for pair in pairs)
    words = "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}" if len(pairs) == 1 else f"p up to {p:.2g}"
    return f"95 % interval {100 * low:.1f} to {100 * high:.1f}, McNemar {words}, {pairs[0].count:,} mazes"


def _followed(a: Side, b: Side) -> str:
    """How far each side was trained past the convergence of the other."""
    words = []
    for side, other in ((a, b), (b, a)):
        ends = [convergence(run["curve"]) for run in side.runs]
        reached = [convergence(run["curve"]).reached or 0 for run in other.runs]
        if ends and reached and max(reached) > 0:
            times = min(end.mazes for end in ends) / max(reached)
            words.append(f"{side.name} was trained for {times:.1f} times the mazes after which {other.name} converged")
    return ", ".join(words)


def _together(*sides: Side) -> list[Entry]:
    """The runs of all sides, each once."""
    return list({id(run): run for side in sides for run in side.runs}.values())


def _share(mean: Mean | None) -> float:
    return mean.value if mean else 0.0
