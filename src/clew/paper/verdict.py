"""Verdicts on claims: reproduced, contradicted or inconclusive, from converged runs and paired tests.

    claim = Claim("MLM-U solves more held-out mazes", "10x10: 100 against 45.2", task="DFS 4x4", main="accuracy")
    verdict(claim, arm(result, objective="MLM-U", size="4x4"), arm(result, objective="next token", size="4x4"))

docs/reproduce.md#verdicts has the rules. Every verdict goes through `concluded`: it is inconclusive if any run that the
claim rests on did not converge, and the finding then names those runs and leaves their numbers out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from typing import Literal

from clew.evaluation.scores import PairedDifference, paired_difference
from clew.paper.results import HELD_OUT, Entry, Mean, Result, mean_over, run_name

LAST_QUARTER, MIN_POINTS, FLAT = 0.75, 5, 0.01
ALPHA = 0.05
NEARLY_ALL = 0.98
_Z = 1.959964  # the normal distribution's 97.5 % point
_NAMED = 3  # runs that a sentence names before it counts the others

Verdict = Literal["reproduced", "contradicted", "inconclusive"]
# The task of a claim: a format string of labels such as "DFS {size}", or one for each scale.
Task = str | Mapping[str, str]


@dataclass(frozen=True)
class Claim:
    """A claim that a study tests on one task."""

    text: str
    paper: str  # what the paper measured
    task: str  # such as "DFS 4x4"
    main: str = ""  # the key of the paper's main claim that this is evidence for: clew.paper.page


@dataclass(frozen=True)
class Finding:
    """A claim with its verdict, the numbers behind it, and the runs that it rests on."""

    claim: Claim
    verdict: Verdict
    ours: str  # empty if a run did not converge
    because: str
    runs: tuple[str, ...] = ()  # by run_name
    not_converged: tuple[str, ...] = ()


def not_measured(claim: Claim) -> Finding:
    """Return the finding on a claim for which a run or an evaluation is missing."""
    return Finding(claim, "inconclusive", "", "it was not measured.")


@dataclass(frozen=True)
class Convergence:
    """The end of a training curve."""

    mazes: float  # seen in the whole training
    points: int  # evaluations in the last quarter
    gain: float | None = None  # of accuracy over the last quarter; None for fewer than MIN_POINTS
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
    """Return what the curve of a run says about its convergence.

    The gain is the median slope between any two evaluations of the last quarter (Theil-Sen) times its length, so one
    noisy evaluation does not decide. A run without held-out mazes is judged by its training accuracy.
    """
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
    return convergence(run["curve"]).problem is None


def converged_only(result: Result) -> Result:
    return Result(result.value | {"runs": [run for run in result.runs if has_converged(run)]})


def concluded(claim: Claim, runs: Sequence[Entry], outcome: bool | None, ours: str, because: str) -> Finding:
    """Return the finding on a claim that rests on these runs.

    `outcome` is whether the numbers agree with the paper; None if they do not decide it.
    """
    names = tuple(run_name(run) for run in runs)
    problems = {run_name(run): problem for run in runs if (problem := convergence(run["curve"]).problem)}
    if problems:
        named = [f"{name}: {problem}" for name, problem in list(problems.items())[:_NAMED]]
        more = [f"and {len(problems) - _NAMED} more"] * (len(problems) > _NAMED)
        words = f"{len(problems)} of {len(runs)} runs did not converge ({'; '.join([*named, *more])})."
        return Finding(claim, "inconclusive", "", words, names, tuple(problems))
    word: Verdict = "inconclusive" if outcome is None else "reproduced" if outcome else "contradicted"
    return Finding(claim, word, ours, because, names)


@dataclass(frozen=True)
class Arm:
    """One arm of a comparison: runs that differ in their seeds alone, and which of their evaluations is compared."""

    name: str
    runs: Sequence[Entry]
    evaluation: str = HELD_OUT

    @property
    def mean(self) -> Mean | None:
        return mean_over(self.runs, "exact", self.evaluation)

    @property
    def share(self) -> float:
        return self.mean.value if self.mean else 0.0

    def solved(self) -> dict[int, list[bool]]:
        """Return which mazes were solved exactly, by seed; a seed without an outcome for each maze is left out."""
        found = {}
        for run in self.runs:
            scores = run["exams"].get(self.evaluation, {})
            if "missed" in scores:
                missed = set(scores["missed"])
                found[run["seed"]] = [maze not in missed for maze in range(scores["mazes"])]
        return found


def arm(result: Result, *, name: str = "", evaluation: str = HELD_OUT, **labels: str) -> Arm:
    """Return the runs with these labels as an arm, named after its last label unless a name is given."""
    return Arm(name or [*labels.values()][-1], result.entries(**labels), evaluation)


def paired(a: Arm, b: Arm) -> list[PairedDifference]:
    """Return the difference of two arms for each seed that both have, over the mazes that both were given."""
    ours, theirs = a.solved(), b.solved()
    found = []
    for seed in sorted(ours.keys() & theirs.keys()):
        both = list(zip(ours[seed], theirs[seed], strict=False))
        found.append(paired_difference(sum(x > y for x, y in both), sum(x < y for x, y in both), len(both)))
    return found


def verdict(claim: Claim, better: Arm, baseline: Arm) -> Finding:
    """Judge a claim that one arm solves more mazes than the other, on the same mazes in the same order."""
    pairs = paired(better, baseline)
    if not pairs:
        return not_measured(claim)
    outcome = _outcome(pairs, ALPHA)
    if outcome is None:
        because = _undecided(pairs, better, baseline)
    else:
        because = f"{better.name if outcome else baseline.name} solves {_points(pairs)}"
    runs = _union(better, baseline)
    if len(runs) > max(len(better.runs), len(baseline.runs)):
        because = f"{because}; {_followed(better, baseline)}"
    return concluded(
        claim, runs, outcome, f"{better.name} {better.mean}, {baseline.name} {baseline.mean}", f"{because}."
    )


def verdict_on_differences(claim: Claim, what: str, larger: tuple[Arm, Arm], smaller: tuple[Arm, Arm]) -> Finding:
    """Judge a claim that one difference of two arms, such as the gain of a larger model, is larger than another.

    Arms with the same evaluation are compared maze by maze; arms with different ones count as independent samples.
    """
    arms = (*larger, *smaller)
    known = [each.solved() for each in arms]
    seeds = sorted(set.intersection(*(set(each) for each in known)))
    if not seeds:
        return not_measured(claim)
    intervals = [_contrast(arms, [each[seed] for each in known]) for seed in seeds]
    signs = {1 if low > 0 else -1 if high < 0 else 0 for low, high in intervals}
    gains = [100 * (a.share - b.share) for a, b in (larger, smaller)]
    ours = f"{what}: {larger[0].name} {gains[0]:.1f} points, {smaller[0].name} {gains[1]:.1f} points"
    bounds = ", ".join(f"{100 * low:.1f} to {100 * high:.1f}" for low, high in intervals)
    because = f"the difference of the two is {gains[0] - gains[1]:.1f} points (95 % interval {bounds})."
    return concluded(claim, _union(*arms), _one_sign(signs), ours, because)


def verdict_on_best(claim: Claim, base: Arm, others: Sequence[Arm], *, base_is_best: bool) -> Finding:
    """Judge a claim that `base` is the best of all arms, or (with base_is_best=False) that another one is better."""
    others = [other for other in others if paired(other, base)]
    if not others:
        return not_measured(claim)
    best = max(others, key=lambda other: other.share)
    outcomes = {other.name: _outcome(paired(other, base), ALPHA / len(others)) for other in others}
    outcome: bool | None = None
    if outcomes[best.name]:
        outcome, because = not base_is_best, f"{best.name} solves {_points(paired(best, base))}."
    elif all(each is False for each in outcomes.values()):
        outcome, because = base_is_best, f"{base.name} solves more than each of the {len(others)} others."
    else:
        because = f"the differences to the {len(others)} others are not all significant."
    ours = f"{base.name}: {base.mean}; best other, {best.name}: {best.mean}"
    return concluded(claim, _union(base, *others), outcome, ours, because)


@dataclass(frozen=True)
class Comparison:
    """A claim that one arm solves more mazes than another; called with a result, it gives the findings.

    `better` and `baseline` are the arguments of `arm`. There is a finding for each combination of the labels `each`.
    """

    text: str
    paper: str
    task: Task
    better: dict[str, str]
    baseline: dict[str, str]
    each: tuple[str, ...] = ()
    where: dict[str, str] = field(default_factory=dict)  # labels of both arms
    main: str = ""

    def __call__(self, result: Result) -> list[Finding]:
        found = []
        for labels in result.combinations(*self.each, **self.where):
            claim = Claim(self.text, self.paper, task_of(self.task, result, labels), self.main)
            arms = (arm(result, **self.where, **labels, **own) for own in (self.better, self.baseline))
            found.append(verdict(claim, *arms))
        return found


@dataclass(frozen=True)
class Best:
    """A claim that one value of a label is the best one, or (with base_is_best=False) that another one is better."""

    text: str
    paper: str
    task: Task
    label: str
    base: str
    base_is_best: bool
    where: dict[str, str] = field(default_factory=dict)

    def __call__(self, result: Result) -> list[Finding]:
        values = [value for value in result.values(self.label, **self.where) if value != self.base]
        base, *others = (arm(result, **self.where, **{self.label: value}) for value in (self.base, *values))
        claim = Claim(self.text, self.paper, task_of(self.task, result))
        return [verdict_on_best(claim, base, others, base_is_best=self.base_is_best)]


def task_of(task: Task, result: Result, labels: Mapping[str, str] | None = None) -> str:
    """Return the task in words; the smoke scale has the tasks of the laptop scale."""
    text = task if isinstance(task, str) else task["paper" if result.scale == "paper" else "laptop"]
    return text.format(**(labels or {}))


def _outcome(pairs: Sequence[PairedDifference], alpha: float) -> bool | None:
    """Return whether the first arm is better in every seed (True), worse in every seed (False), or neither."""
    return _one_sign({int(math.copysign(1, pair.difference)) if pair.p < alpha else 0 for pair in pairs})


def _one_sign(signs: set[int]) -> bool | None:
    return None if len(signs) > 1 or signs == {0} else signs == {1}


def _contrast(arms: Sequence[Arm], solved: Sequence[list[bool]]) -> tuple[float, float]:
    """Return the 95 % interval of (first - second) - (third - fourth)."""
    value = variance = 0.0
    for evaluation in dict.fromkeys(each.evaluation for each in arms):
        terms = zip((1, -1, -1, 1), arms, solved, strict=True)
        signed = [[sign * x for x in mazes] for sign, each, mazes in terms if each.evaluation == evaluation]
        sums = [sum(row) for row in zip(*signed, strict=False)]
        mean = sum(sums) / len(sums)
        value += mean
        variance += sum((x - mean) ** 2 for x in sums) / len(sums) ** 2
    half = _Z * math.sqrt(variance)
    return value - half, value + half


def _points(pairs: Sequence[PairedDifference]) -> str:
    """Return how many more mazes the better arm solves, with intervals and p-values."""
    size = abs(sum(pair.difference for pair in pairs)) / len(pairs)
    bounds = [(pair.low, pair.high) if pair.difference > 0 else (-pair.high, -pair.low) for pair in pairs]
    seeds = "" if len(pairs) == 1 else f" on average, and more in each of {len(pairs)} seeds"
    return f"{100 * size:.1f} points more{seeds} ({_test_words(pairs, bounds)})"


def _undecided(pairs: Sequence[PairedDifference], a: Arm, b: Arm) -> str:
    """Return why the outcomes of two arms do not decide a claim."""
    if len({pair.difference > 0 for pair in pairs if pair.p < ALPHA}) > 1:
        words = "the seeds contradict each other"
    elif min(a.share, b.share) > NEARLY_ALL:
        words = "both solve nearly all mazes, and the intervals overlap"
    else:
        words = "the intervals overlap"
    return f"{words} ({_test_words(pairs, [(pair.low, pair.high) for pair in pairs])})"


def _test_words(pairs: Sequence[PairedDifference], bounds: Sequence[tuple[float, float]]) -> str:
    p, low, high = max(pair.p for pair in pairs), min(low for low, _ in bounds), max(high for _, high in bounds)
    words = "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}" if len(pairs) == 1 else f"p up to {p:.2g}"
    return f"95 % interval {100 * low:.1f} to {100 * high:.1f}, McNemar {words}, {pairs[0].count:,} mazes"


def _followed(a: Arm, b: Arm) -> str:
    """Return how far each arm was trained past the convergence of the other."""
    words = []
    for one, other in ((a, b), (b, a)):
        ends = [convergence(run["curve"]).mazes for run in one.runs]
        reached = [convergence(run["curve"]).reached or 0 for run in other.runs]
        if ends and max(reached, default=0) > 0:
            times = min(ends) / max(reached)
            words.append(f"{one.name} was trained for {times:.1f} times the mazes after which {other.name} converged")
    return ", ".join(words)


def _union(*arms: Arm) -> list[Entry]:
    """Return the runs of all arms, each once."""
    return list({id(run): run for each in arms for run in each.runs}.values())
