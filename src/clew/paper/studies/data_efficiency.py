"""Accuracy against the number of training mazes: the paper's figure of data efficiency, two sizes."""

from __future__ import annotations

from clew.paper.configs import paper
from clew.paper.recipes import (
    MLMU,
    NEXT,
    OBJECTIVES,
    RunScale,
    laptop_run,
    laptop_text,
    paper_run,
    side_of,
    square,
)
from clew.paper.result import Result
from clew.paper.study import Claim, Finding, Run, Show, Study
from clew.paper.tell import EXACT, pivot, point
from clew.paper.verdict import ALPHA, NOT_MEASURED, concluded, paired
from clew.viz.charts import Panel, Series

SIZES = {"laptop": (4,), "paper": (5, 10)}
COUNTS = {"laptop": (2_000, 6_000, 20_000, 60_000), "paper": (25_000, 50_000, 75_000, 100_000)}
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
        return paper_run(labels, paper("dfs", size, OBJECTIVES[objective], mazes=count, epochs=2000))
    return laptop_run(labels, laptop_text(objective, size, mazes=count))


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
    return [_finding(result, size) for size in result.values("size")]


def _finding(result: Result, size: str) -> Finding:
    text = "MLM-U needs fewer training mazes than next token for the same accuracy"
    claim = Claim(text, "a quarter: 25,000 of 5x5 against 100,000", f"DFS {size}", main="data")
    means = [result.mean(size=size, objective=NEXT, mazes=mazes) for mazes in result.values("mazes")]
    known = [mean.value for mean in means if mean]
    if not known:
        return Finding(claim, "inconclusive", "", NOT_MEASURED)
    # What next token reaches at best is an accuracy that one of the two surely has.
    target = NEAR * max(known)
    mlmu, plain = (enough(result, objective, size, target) for objective in (MLMU, NEXT))
    ours = f"to {100 * target:.0f} %: MLM-U {_words(mlmu)}, next token {_words(plain)}"
    assert plain is not None
    outcome: bool | None = None
    if mlmu is None:
        outcome, because = False, "MLM-U does not get there with any number tried."
    elif mlmu == plain:
        because = "both need as many, of the numbers tried."
    elif not _ahead(result, size, min(mlmu, plain), first=MLMU if mlmu < plain else NEXT):
        because = "with the smaller of the two numbers the intervals of both objectives overlap."
    else:
        outcome = mlmu < plain
        name, times = (MLMU, plain / mlmu) if outcome else (NEXT, mlmu / plain)
        because = f"{name} needs {times:g} times fewer."
    return concluded(claim, result.entries(size=size), outcome, ours, because)


def _ahead(result: Result, size: str, count: int, first: str) -> bool:
    """Whether an objective solves more mazes than the other after training on so many, in every seed."""
    sides = [side_of(result, o, size=size, mazes=f"{count:,}") for o in (first, MLMU if first == NEXT else NEXT)]
    pairs = paired(sides[0], sides[1])
    return bool(pairs) and all(pair.difference > 0 and pair.p < ALPHA for pair in pairs)


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
