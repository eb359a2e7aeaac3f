"""How models fail: galleries of both objectives and both families, with the share of each class of failure."""

from __future__ import annotations

from dataclasses import replace

from clew.evaluation.failures import FAILURES
from clew.evaluation.intervals import share
from clew.experiments.reproduce.examples import drawn_examples
from clew.experiments.reproduce.recipes import MLMU, NEXT, OBJECTIVES, RunScale, dfs_run
from clew.experiments.reproduce.result import INTERVAL, Mean, Result
from clew.experiments.reproduce.studies.astar import walls_run
from clew.experiments.reproduce.study import Finding, Run, Show, Study, Table
from clew.experiments.reproduce.tell import compare_differences
from clew.report.panels import Panel, Point, Series

# The largest mazes that the other studies train on, so that nothing is trained for this one alone.
SIZES = {"laptop": (5, 5), "paper": (30, 30)}
EXAMPLES = 2  # of each objective and family
SHORT_CUTS = ("diagonal or gap", "through a wall")  # what no walker could do


def runs(scale: RunScale) -> list[Run]:
    dfs, walls = SIZES[scale]
    found = []
    for objective in OBJECTIVES:
        found.append(_named(dfs_run(scale, objective, dfs), "DFS", objective))
        found.append(_named(walls_run(scale, objective, walls), "A*", objective))
    return found


def _named(run: Run, family: str, objective: str) -> Run:
    exams = tuple(replace(exam, failures=EXAMPLES) for exam in run.exams)
    return replace(run, labels={"family": family, "objective": objective}, exams=exams)


def counts(result: Result, family: str, objective: str) -> dict[str, int]:
    """How many failures of which class there are, over all seeds."""
    found = [scores["failures"] for scores in result.scores(family=family, objective=objective)]
    return {name: sum(each[name] for each in found) for name in FAILURES}


def shares(result: Result, family: str, objective: str) -> dict[str, float]:
    """Of all failures, how many are of which class, in per cent."""
    found = counts(result, family, objective)
    total = sum(found.values())
    return {name: 100 * count / total if total else 0.0 for name, count in found.items()}


def walked_through(result: Result, family: str, objective: str) -> Mean:
    """Of all failures, the share that no walker could do."""
    found = counts(result, family, objective)
    told = share(sum(found[name] for name in SHORT_CUTS), sum(found.values()))
    return Mean(told.share, (told.high - told.low) / INTERVAL, 1)


def show(result: Result) -> Show:
    tables, panels, pictures = [], [], []
    for family in result.values("family"):
        by_objective = {o: shares(result, family, o) for o in result.values("objective", family=family)}
        rows = [["class", *by_objective, "what it is"]]
        for name, words in FAILURES.items():
            rows.append([name, *(f"{by_objective[o][name]:.1f}" for o in by_objective), words])
        solved = [str(result.mean(family=family, objective=o)) for o in by_objective]
        rows.append(["exact paths of all mazes", *solved, ""])
        tables.append(Table(f"{family} mazes, % of the failures", rows))
        series = [Series(o, [Point(name, part) for name, part in by_objective[o].items()]) for o in by_objective]
        panels.append(Panel(f"{family} mazes", "", "% of the failures", series))
        for objective in by_objective:
            title = f"{family}, {objective}: "
            pictures += drawn_examples(result, "held-out", EXAMPLES, title, family=family, objective=objective)
    return Show(tables, panels, pictures)


def findings(result: Result) -> list[Finding]:
    found = []
    for family in result.values("family"):
        broken = {objective: walked_through(result, family, objective) for objective in OBJECTIVES}
        what = "share of the failures"
        claim = "next token goes through walls and over gaps in more of its failures than MLM-U"
        pair = [(objective, broken[objective]) for objective in (NEXT, MLMU)]
        found.append(compare_differences(claim, "described, not counted", what, *pair).at(f"{family} mazes"))
    tie = shares(result, "A*", MLMU)["equally short"]
    found.append(
        Finding(
            "some of MLM-U's failures on A* mazes are other shortest paths",
            "two of four drawn failures on 20x20",
            f"{tie:.0f} % of its failures",
            "holds" if tie > 0 else "does not hold",
            "they count as failures only because another shortest path was stored.",
        )
    )
    return found


STUDY = Study(
    name="failures",
    title="Failures",
    source="appendix, figures of failures, and figure 6, right",
    question="When a model fails, what is wrong with its path?",
    paper="MLM-U mostly takes a wrong turn or two; next token backtracks, goes through walls and ends in wrong places.",
    runs=runs,
    show=show,
    findings=findings,
    notes=("Red is the true path, amber arrows the prediction, purple where the maze has no such step.",),
)
