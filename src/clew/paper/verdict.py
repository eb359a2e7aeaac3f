"""Verdicts on claims: reproduced, contradicted or inconclusive, from converged runs and paired tests.

    Comparison("MLM-U solves more mazes", "DFS {size}")(result)                    # a Finding for each size
    more([result.arm(objective="MLM-U"), result.arm(objective="next token")])      # an Outcome; None: not measured

The rules are in docs/reproduce.md#verdicts. Every verdict goes through `concluded`: it is inconclusive if any run that
the claim rests on did not converge, and the finding then names those runs and leaves their numbers out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from string import Formatter
from typing import Any, Literal, NamedTuple

from clew.errors import counted
from clew.evaluation.scores import PairedDifference, paired_difference
from clew.paper.results import MLMU, NEXT, X_LABELS, Arm, Entry, Result, run_name

LAST_QUARTER, MIN_POINTS, FLAT = 0.75, 5, 0.01
ALPHA = 0.05
NEARLY_ALL = 0.98
TARGETS = (0.99, 0.95, 0.9, 0.75, 0.5, 0.25, 0.1)  # the highest that all runs reach is compared
CLOSE = 1.1  # times to an accuracy that differ by less than a tenth do not decide
NEAR = 0.95  # of the best score; a training set that reaches it is enough
PAIR = ({"objective": MLMU}, {"objective": NEXT})
Verdict = Literal["reproduced", "contradicted", "inconclusive"]


@dataclass(frozen=True)
class Finding:
    """A claim on one task with its verdict, the numbers behind it, and the runs that it rests on."""

    text: str
    task: str  # such as "DFS 4x4"
    main: str  # the key of the paper's main claim that this is evidence for (clew.paper.page), or empty
    verdict: Verdict
    ours: str  # empty if a run did not converge
    because: str
    runs: tuple[str, ...] = ()  # by run_name
    not_converged: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """What the numbers say."""

    holds: bool | None  # whether they agree with the paper; None if they do not decide it
    ours: str
    because: str


class Convergence(NamedTuple):
    """The end of a training curve."""

    mazes: float  # seen in the whole training
    problem: str | None  # why the run has not converged; None if it has
    reached: float = 0.0  # mazes seen at the first evaluation within FLAT of the mean of the last quarter


def convergence(curve: Sequence[dict[str, float]]) -> Convergence:
    """Return what the curve of a run says about its convergence.

    The gain is the median slope between any two evaluations of the last quarter (Theil-Sen) times its length, so one
    noisy evaluation does not decide. A run without held-out mazes is judged by its training accuracy.
    """
    score = "exact" if any("exact" in point for point in curve) else "train-exact"
    points = sorted((point["mazes"], point[score]) for point in curve if score in point)
    end = points[-1][0] if points else 0.0
    last = [(mazes, accuracy) for mazes, accuracy in points if mazes >= LAST_QUARTER * end]
    during = "the last quarter of its training"
    if len(last) < MIN_POINTS:
        return Convergence(end, f"has {len(last)} of the {MIN_POINTS} evaluations needed in {during}")
    level = sum(accuracy for _, accuracy in last) / len(last)
    slope = median((b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(last, 2) if b[0] > a[0])
    gain = slope * (1 - LAST_QUARTER) * end
    problem = f"gained {100 * gain:.1f} points over {during}" if gain >= FLAT else None
    return Convergence(end, problem, next(mazes for mazes, accuracy in points if accuracy >= level - FLAT))


def has_converged(run: Entry) -> bool:
    return convergence(run["curve"]).problem is None


def converged_only(result: Result) -> Result:
    return Result(result.value | {"runs": [run for run in result.runs if has_converged(run)]})


def converged_seeds(arms: Sequence[Arm]) -> tuple[list[Arm], str]:
    """Return the arms without the seeds in which a run did not converge, and those seeds with the runs in words.

    If no seed is left, all are.
    """
    problems = {
        (run["seed"], run_name(run)): problem
        for arm in arms
        for run in arm.runs
        if (problem := convergence(run["curve"]).problem)
    }
    seeds = {seed for seed, _ in problems}
    kept = [Arm(arm.name, [run for run in arm.runs if run["seed"] not in seeds], arm.evaluation) for arm in arms]
    if not seeds or not all(arm.runs for arm in kept):
        return list(arms), ""
    words = [f"{name}, which {problem}" for (_, name), problem in sorted(problems.items())]
    return kept, f"{counted(len(seeds), 'seed')} ({'; '.join(words)})"


def concluded(text: str, task: str, runs: Sequence[Entry], outcome: Outcome, main: str = "") -> Finding:
    """Return the finding on a claim that rests on these runs."""
    runs = list({id(run): run for run in runs}.values())
    names = tuple(run_name(run) for run in runs)
    if problems := {run_name(run): problem for run in runs if (problem := convergence(run["curve"]).problem)}:
        named = [f"{name}: {problem}" for name, problem in problems.items()]
        named[3:] = [f"and {len(named) - 3} more"] * (len(named) > 3)
        words = f"{len(problems)} of {len(runs)} runs did not converge ({'; '.join(named)})."
        return Finding(text, task, main, "inconclusive", "", words, names, tuple(problems))
    word: Verdict = "reproduced" if outcome.holds else "inconclusive" if outcome.holds is None else "contradicted"
    return Finding(text, task, main, word, outcome.ours, outcome.because, names)


def paired(a: Arm, b: Arm) -> list[PairedDifference]:
    """Return the difference of two arms for each seed that both have, over the mazes that both were given."""
    ours, theirs = ({run["seed"]: run["exams"].get(arm.evaluation, {}) for run in arm.runs} for arm in (a, b))
    found = []
    for seed in sorted(ours.keys() & theirs.keys()):
        both = ours[seed], theirs[seed]
        if all("missed" in scores for scores in both):  # older results lack the outcome of each maze
            count = min(scores["mazes"] for scores in both)
            missed, other = ({maze for maze in scores["missed"] if maze < count} for scores in both)
            found.append(paired_difference(len(other - missed), len(missed - other), count))
    return found


def more(arms: Sequence[Arm]) -> Outcome | None:
    """Judge that the first arm solves more mazes than the second, on the same mazes in the same order."""
    better, baseline = arms
    if not paired(better, baseline):
        return None
    holds, because = _compare(better, baseline)
    if better.runs != baseline.runs:
        because = f"{because}; {_followed(better, baseline)}"
    return Outcome(holds, f"{better.name} {better.mean()}, {baseline.name} {baseline.mean()}", f"{because}.")


def best(arms: Sequence[Arm], *, first: bool) -> Outcome | None:
    """Judge that the first arm solves more mazes than each of the others, or that some other one solves more."""
    base = arms[0]
    others = [arm for arm in arms[1:] if paired(arm, base)]
    if not others:
        return None
    outcomes = {arm.name: _compare(arm, base, ALPHA / len(others)) for arm in others}
    winner = max(others, key=lambda arm: arm.share)
    holds, because = None, f"the differences to the {len(others)} others are not all significant."
    if outcomes[winner.name][0]:
        holds, because = not first, f"{outcomes[winner.name][1]}."
    elif all(is_better is False for is_better, _ in outcomes.values()):
        holds, because = first, f"{base.name} solves more than each of the {len(others)} others."
    return Outcome(holds, f"{base.name}: {base.mean()}; best other, {winner.name}: {winner.mean()}", because)


def faster(arms: Sequence[Arm], *, x: Literal["mazes", "hours"], targets: Sequence[float] = TARGETS) -> Outcome | None:
    """Judge that the first arm is earlier at the highest target that all runs reach, seed by seed."""
    ours, theirs = arms
    if not ours.runs or not theirs.runs:
        return None
    for target in targets:
        early, late = (
            {run["seed"]: Arm(arm.name, [run]).reached(x, target) for run in arm.runs} for arm in (ours, theirs)
        )
        times = [(a, b) for seed in early if (a := early[seed]) is not None and (b := late.get(seed)) is not None]
        if 2 * len(times) == len(ours.runs) + len(theirs.runs):
            break
    else:
        return Outcome(None, "no accuracy that all runs reach", "there is nothing to compare.")
    unit = "mazes" if x == "mazes" else X_LABELS[ours.runs[0]["device"]].removesuffix(" of training")
    digits = 0 if x == "mazes" else 2
    first, second = (sum(each) / len(times) for each in zip(*times, strict=True))
    words = f"to {target:.0%}: {ours.name} {first:,.{digits}f}, {theirs.name} {second:,.{digits}f} {unit}"
    ratios = [b / a for a, b in times]
    if all(ratio > CLOSE for ratio in ratios):
        return Outcome(True, words, f"{ours.name} is {second / first:.2f} times as fast as {theirs.name}.")
    if all(ratio < 1 / CLOSE for ratio in ratios):
        return Outcome(False, words, f"{theirs.name} is {first / second:.2f} times as fast as {ours.name}.")
    return Outcome(None, words, f"they differ by less than {CLOSE - 1:.0%}, or the seeds disagree.")


def fewer_mazes(arms: Sequence[Arm]) -> Outcome | None:
    """Judge that the first arm needs a smaller training set (the label "mazes") for nearly the second's best accuracy.

    That accuracy is one that at least one of the two reaches.
    """
    ours, theirs = (_by_set(arm) for arm in arms)
    if not ours or not theirs:
        return None
    target = NEAR * max(arm.share for arm in theirs.values())
    few, many = (next((count for count, arm in sets.items() if arm.share >= target), None) for sets in (ours, theirs))
    assert many is not None
    first, second = (arm.name for arm in arms)
    holds, because = None, "with the smaller of the two numbers the intervals of both objectives overlap."
    if few is None:
        holds, because = False, f"{first} does not get there with any number tried."
    elif few == many:
        because = "both need as many, of the numbers tried."
    elif few < many and few in theirs and _compare(ours[few], theirs[few])[0]:
        holds, because = True, f"{first} needs {many / few:g} times fewer."
    elif many < few and many in ours and _compare(theirs[many], ours[many])[0]:
        holds, because = False, f"{second} needs {few / many:g} times fewer."
    needed = f"{few:,} mazes" if few else "never"
    return Outcome(holds, f"to {100 * target:.0f} %: {first} {needed}, {second} {many:,} mazes", because)


def _by_set(arm: Arm) -> dict[int, Arm]:
    """Return the runs of an arm by their training set, the smallest first."""
    sizes = sorted({int(run["labels"]["mazes"].replace(",", "")) for run in arm.runs})
    return {n: Arm(arm.name, [run for run in arm.runs if run["labels"]["mazes"] == f"{n:,}"]) for n in sizes}


JUDGES: Mapping[str, Callable[..., Outcome | None]] = {
    each.__name__: each for each in (more, best, faster, fewer_mazes)
}


@dataclass(frozen=True)
class Comparison:
    """A claim that a study tests by comparing arms; called with a result, it gives the findings.

    An arm is given by the labels of its runs, by default MLM-U and next token; the value "*" stands for an arm for each
    other value. There is a finding for each combination of the labels in braces in text and task.
    """

    text: str
    task: str | Mapping[str, str]  # such as "DFS {size}", or one for each scale
    arms: Sequence[dict[str, str]] = PAIR
    where: dict[str, str] = field(default_factory=dict)  # labels of all arms
    judge: str = "more"  # one of JUDGES
    options: Mapping[str, Any] = field(default_factory=dict)  # keywords of the judge
    main: str = ""

    def __call__(self, result: Result) -> list[Finding]:
        # The smoke scale has the tasks of the laptop scale.
        task = self.task if isinstance(self.task, str) else self.task["paper" if result.scale == "paper" else "laptop"]
        found = []
        names = [name for _, name, _, _ in Formatter().parse(self.text + task) if name]
        for each in result.combinations(*names, **self.where):
            labels = self.where | each
            arms, left_out = converged_seeds([result.arm(**labels | own) for own in self._arms(result, labels)])
            if outcome := JUDGES[self.judge](arms, **self.options):
                runs = [run for arm in arms for run in arm.runs]
                if left_out:
                    outcome = outcome._replace(because=f"{outcome.because} Left out: {left_out}.")
                found.append(concluded(self.text.format(**labels), task.format(**labels), runs, outcome, self.main))
        return found

    def _arms(self, result: Result, labels: dict[str, str]) -> Iterator[dict[str, str]]:
        for own in self.arms:
            every = next((name for name, value in own.items() if value == "*"), None)
            if every is None:
                yield own
                continue
            given = [other.get(every) for other in self.arms]
            yield from (own | {every: value} for value in result.values(every, **labels) if value not in given)


def _compare(a: Arm, b: Arm, alpha: float = ALPHA) -> tuple[bool | None, str]:
    """Return whether the first arm is better (True) or worse (False) in every seed, or neither, and why."""
    pairs = paired(a, b)
    signs = [int(math.copysign(pair.p < alpha, pair.difference)) for pair in pairs]
    holds = _agreed(signs)
    if holds is not None:
        points = 100 * abs(sum(pair.difference for pair in pairs)) / len(pairs)
        seeds = "" if len(pairs) == 1 else f" on average, and more in each of {len(pairs)} seeds"
        words = f"{a.name if holds else b.name} solves {points:.1f} points more{seeds}"
    elif {1, -1} <= set(signs):
        words = "the seeds contradict each other"
    else:
        words = "both solve nearly all mazes, and " * (min(a.share, b.share) > NEARLY_ALL) + "the intervals overlap"
    ends = [100 * (-end if holds is False else end) for pair in pairs for end in (pair.low, pair.high)]
    p = max(pair.p for pair in pairs)
    test = "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}" if len(pairs) == 1 else f"p up to {p:.2g}"
    interval = f"95 % interval {min(ends):.1f} to {max(ends):.1f}"
    return holds, f"{words} ({interval}, McNemar {test}, {pairs[0].count:,} mazes)"


def _agreed(signs: Sequence[int]) -> bool | None:
    return signs[0] == 1 if len(set(signs)) == 1 and signs[0] else None


def _followed(a: Arm, b: Arm) -> str:
    """Return how far each arm was trained past the convergence of the other."""
    words = []
    for one, other in ((a, b), (b, a)):
        end = min(convergence(run["curve"]).mazes for run in one.runs)
        if reached := max(convergence(run["curve"]).reached for run in other.runs):
            words.append(
                f"{one.name} was trained for {end / reached:.1f} times the mazes after which {other.name} converged"
            )
    return ", ".join(words)
