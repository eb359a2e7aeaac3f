"""Accuracy against the number of training mazes: the paper's figure of data efficiency, two sizes."""

from __future__ import annotations

from clew.experiments.reproduce.recipes import (
    MLMU,
    NEXT,
    OBJECTIVES,
    SHORT,
    RunScale,
    laptop_run,
    laptop_text,
    paper_run,
    square,
)
from clew.experiments.reproduce.result import Result
from clew.experiments.reproduce.study import Finding, Run, Show, Study
from clew.experiments.reproduce.tell import EXACT, NOT_MEASURED, pivot, point
from clew.report.panels import Panel, Series

SIZES = {"laptop": (3, 4), "paper": (5, 10)}
COUNTS = {"laptop": (250, 1000, 4000), "paper": (25_000, 50_000, 75_000, 100_000)}
LAPTOP_STEPS = {3: 150, 4: 250}
NEAR = 0.95  # of the best score: the mazes that reach it are enough


def runs(scale: RunScale) -> list[Run]:
    return [
        _run(scale, objective, size, count)
        for size in SIZES[scale]
        for count in COUNTS[scale]
        for objective in OBJECTIVES
    ]


def _run(scale: RunScale, objective: str, size: int, count: int) -> Run:
    labels = {"objective": objective, "size": square(size), "mazes": f"{count:,}"}
    if scale == "paper":
        return paper_run(labels, f"paper-dfs-{size}-{SHORT[objective]}-8m-{count // 1000}k")
    return laptop_run(labels, laptop_text(objective, size, steps=LAPTOP_STEPS[size], mazes=count))


def show(result: Result) -> Show:
    sizes = result.values("size")
    tables = [pivot(result, f"{EXACT}, {size}, by training mazes", "objective", "mazes", size=size) for size in sizes]
    return Show(tables, [_panel(result, size) for size in sizes])


def _panel(result: Result, size: str) -> Panel:
    series = []
    for objective in result.values("objective"):
        means = [(n, result.mean(objective=objective, size=size, mazes=n)) for n in result.values("mazes")]
        series.append(Series(objective, [point(number(n), mean) for n, mean in means if mean]))
    return Panel(f"held-out {size} mazes", "training mazes", EXACT, series, log_x=True)


def number(words: str) -> int:
    return int(words.replace(",", ""))


def enough(result: Result, objective: str, size: str, target: float) -> int | None:
    """The fewest training mazes with which an objective reaches a share of held-out mazes."""
    for mazes in result.values("mazes"):
        mean = result.mean(objective=objective, size=size, mazes=mazes)
        if mean is not None and mean.value >= target:
            return number(mazes)
    return None


def findings(result: Result) -> list[Finding]:
    return [_finding(result, size).at(size) for size in result.values("size")]


def _finding(result: Result, size: str) -> Finding:
    claim = "MLM-U needs fewer training mazes than next token for the same accuracy"
    paper = "a quarter: 25,000 of 5x5 against 100,000"
    means = [result.mean(size=size, objective=NEXT, mazes=mazes) for mazes in result.values("mazes")]
    known = [mean.value for mean in means if mean]
    if not known:
        return Finding(claim, paper, "", "cannot be told", NOT_MEASURED)
    # What next token reaches at best is a score that one of the two surely has.
    target = NEAR * max(known)
    if target < 0.02:
        return Finding(claim, paper, "", "cannot be told", "next token solves next to no mazes with this budget.")
    mlmu, plain = (enough(result, objective, size, target) for objective in (MLMU, NEXT))
    ours = f"to {100 * target:.0f} %: MLM-U {_words(mlmu)}, next token {_words(plain)}"
    if mlmu is None:
        return Finding(claim, paper, ours, "does not hold", "MLM-U does not get there with any number tried.")
    assert plain is not None
    if mlmu < plain:
        return Finding(claim, paper, ours, "holds", f"MLM-U needs {plain / mlmu:g} times fewer.")
    if mlmu > plain:
        return Finding(claim, paper, ours, "does not hold", f"next token needs {mlmu / plain:g} times fewer.")
    return Finding(claim, paper, ours, "cannot be told", "both need as many, of the numbers tried.")


def _words(count: int | None) -> str:
    return "never" if count is None else f"{count:,} mazes"


STUDY = Study(
    name="data-efficiency",
    title="Data efficiency",
    source="figure 3",
    question="How many training mazes does each objective need?",
    paper="MLM-U solves 5x5 and 10x10 with 25,000 mazes; next token needs 100,000 on 5x5, stays below 50 % on 10x10.",
    runs=runs,
    show=show,
    findings=findings,
    notes=("All runs take as many steps, so fewer mazes are seen more often.",),
)
