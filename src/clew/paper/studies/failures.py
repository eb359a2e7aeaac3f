"""How models fail: galleries, the share of each class of failure, and the share of parse errors on A* mazes.

The paper's galleries are of MLM-U on DFS 30x30, next token on DFS 30x30 and 10x10, and MLM-U on A* 20x20 and 30x30.
"""

from __future__ import annotations

from dataclasses import replace

from clew.evaluation.failures import FAILURES
from clew.evaluation.intervals import Proportion, proportion
from clew.paper.examples import drawn_examples
from clew.paper.recipes import MLMU, NEXT, OBJECTIVES, RunScale, dfs_run, square
from clew.paper.result import Result
from clew.paper.studies.astar import astar_run
from clew.paper.study import Claim, Finding, Run, Show, Study, Table
from clew.paper.verdict import NOT_MEASURED, concluded
from clew.viz.charts import Panel, Point, Series
from clew.viz.drawing import Picture

DFS, ASTAR = "DFS", "A*"
# Mazes that the other studies train on, so that nothing is trained for this one alone: the smaller and the larger side.
SIZES = {"laptop": {DFS: (4, 5), ASTAR: (4, 5)}, "paper": {DFS: (10, 30), ASTAR: (20, 30)}}
GALLERIES = ((DFS, MLMU, 1), (DFS, NEXT, 1), (DFS, NEXT, 0), (ASTAR, MLMU, 0), (ASTAR, MLMU, 1))  # last: which side
EXAMPLES = 4  # of each gallery
SHORT_CUTS = ("diagonal or gap", "through a wall")  # what no walker could do
PARSE_ERROR = "unparsable"
ABOUT_HALF = (0.4, 0.6)


def runs(scale: RunScale) -> list[Run]:
    found = []
    for family, sizes in SIZES[scale].items():
        for size in sizes:
            for objective in OBJECTIVES:
                run = dfs_run(scale, objective, size) if family == DFS else astar_run(scale, objective, size)
                exams = tuple(replace(exam, failures=EXAMPLES) for exam in run.exams)
                labels = {"family": family, "objective": objective, "size": square(size)}
                found.append(replace(run, labels=labels, exams=exams, seeds=None))
    return found


def counts(result: Result, **labels: str) -> dict[str, int]:
    """How many failures of which class there are, over all seeds."""
    found = [scores["failures"] for scores in result.scores(**labels)]
    return {name: sum(each[name] for each in found) for name in FAILURES}


def share_of(result: Result, *names: str, **labels: str) -> Proportion:
    """Of all failures, the share of these classes."""
    found = counts(result, **labels)
    return proportion(sum(found[name] for name in names), sum(found.values()))


def show(result: Result) -> Show:
    tables, panels = [], []
    for family in result.values("family"):
        for size in result.values("size", family=family):
            labels = {"family": family, "size": size}
            objectives = result.values("objective", **labels)
            shares = {o: {name: share_of(result, name, objective=o, **labels) for name in FAILURES} for o in objectives}
            rows = [["class", *objectives, "what it is"]]
            for name, words in FAILURES.items():
                rows.append([name, *(f"{100 * shares[o][name].share:.1f}" for o in objectives), words])
            rows.append(
                ["exact paths of all mazes", *(str(result.mean(objective=o, **labels)) for o in objectives), ""]
            )
            tables.append(Table(f"{family} {size}, % of the failures", rows))
            series = [Series(o, [Point(n, 100 * each.share) for n, each in shares[o].items()]) for o in objectives]
            panels.append(Panel(f"{family} {size}", "", "% of the failures", series))
    if ASTAR in result.values("family"):
        tables.append(parse_errors(result))
    return Show(tables, panels, galleries(result))


def parse_errors(result: Result) -> Table:
    """How many of the failures on A* mazes cannot be drawn, since their tokens are no path."""
    rows = [["", "failures", "parse errors", "% of the failures (95 %)"]]
    for size in result.values("size", family=ASTAR):
        for objective in result.values("objective", family=ASTAR, size=size):
            told = share_of(result, PARSE_ERROR, family=ASTAR, size=size, objective=objective)
            row = [f"{objective}, A* {size}", str(told.count), str(told.hits), str(told) if told.count else ""]
            rows.append(row)
    return Table("parse errors among the failures on A* mazes; the paper: about half of MLM-U's", rows)


def galleries(result: Result) -> list[list[Picture]]:
    """Up to four wrong paths of each of the paper's galleries."""
    sizes = SIZES["paper" if result.scale == "paper" else "laptop"]
    found = []
    for family, objective, which in GALLERIES:
        size = square(sizes[family][which])
        title = f"{objective}, {family} {size}: "
        found.append(drawn_examples(result, "held-out", EXAMPLES, title, family=family, objective=objective, size=size))
    return [gallery for gallery in found if gallery]


def findings(result: Result) -> list[Finding]:
    found = []
    for family in result.values("family"):
        for size in result.values("size", family=family):
            found.append(_short_cuts(result, family, size))
            if family == ASTAR:
                found += [_equally_short(result, size), _half_parse_errors(result, size)]
    return found


def _short_cuts(result: Result, family: str, size: str) -> Finding:
    text = "next token goes through walls and over gaps in more of its failures than MLM-U"
    claim = Claim(text, "described, not counted", f"{family} {size}")
    plain, mlmu = (share_of(result, *SHORT_CUTS, family=family, size=size, objective=o) for o in (NEXT, MLMU))
    ours = f"share of the failures: next token {plain}, MLM-U {mlmu}"
    outcome = True if plain.low > mlmu.high else False if plain.high < mlmu.low else None
    because = "the intervals overlap." if outcome is None else "the intervals do not overlap."
    return concluded(claim, result.entries(family=family, size=size), outcome, ours, because)


def _equally_short(result: Result, size: str) -> Finding:
    text = "some of MLM-U's failures on A* mazes are other shortest paths"
    claim = Claim(text, "two of four drawn failures on 20x20", f"A* {size}")
    tie = share_of(result, "equally short", family=ASTAR, size=size, objective=MLMU)
    because = "they count as failures only because another shortest path was stored."
    runs = result.entries(family=ASTAR, size=size, objective=MLMU)
    return concluded(claim, runs, tie.hits > 0 if tie.count else None, f"{tie} of its failures", because)


def _half_parse_errors(result: Result, size: str) -> Finding:
    claim = Claim("about half of MLM-U's failures on A* mazes are parse errors", "about half, on 20x20", f"A* {size}")
    told = share_of(result, PARSE_ERROR, family=ASTAR, size=size, objective=MLMU)
    low, high = ABOUT_HALF
    if not told.count:
        return Finding(claim, "inconclusive", "", NOT_MEASURED)
    outcome = True if low <= told.low and told.high <= high else False if told.high < low or told.low > high else None
    words = {True: "wholly inside", False: "wholly outside of", None: "neither inside nor outside of"}[outcome]
    because = f"the interval is {words} {100 * low:.0f} to {100 * high:.0f} %."
    runs = result.entries(family=ASTAR, size=size, objective=MLMU)
    return concluded(claim, runs, outcome, f"{told} of {told.count} failures", because)


STUDY = Study(
    name="failures",
    title="Failures",
    source="appendix, figures of failures, and figure 6, right",
    question="When a model fails, what is wrong with its path?",
    paper="MLM-U mostly takes a wrong turn or two; next token backtracks, goes through walls and ends in wrong places; "
    "about half of MLM-U's failures on A* mazes are parse errors.",
    runs=runs,
    show=show,
    findings=findings,
    notes=(
        "Red is the true path, amber arrows the prediction, purple where the maze has no such step. Parse errors "
        "cannot be drawn.",
    ),
)
