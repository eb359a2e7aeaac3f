"""How models fail: galleries, the share of each class of failure, and the share of parse errors on A* mazes.

The paper's galleries are of MLM-U on DFS 30x30, next token on DFS 30x30 and 10x10, and MLM-U on A* 20x20 and 30x30.
"""

from __future__ import annotations

from dataclasses import replace

from clew.evaluation.scores import FAILURES, Proportion, proportion
from clew.paper.results import HELD_OUT, Result
from clew.paper.studies.accuracy import astar_run
from clew.paper.study import MLMU, NEXT, OBJECTIVES, RunScale, RunSpec, Study, dfs_run, square
from clew.paper.tables import Report, Table, gallery
from clew.paper.verdict import NOT_MEASURED, Claim, Finding, concluded
from clew.viz.charts import Panel, Point, Series

DFS, ASTAR = "DFS", "A*"
# The smaller and the larger side. Other studies train on these mazes, so nothing is trained for this study alone.
SIZES = {"laptop": {DFS: (4, 5), ASTAR: (4, 5)}, "paper": {DFS: (10, 30), ASTAR: (20, 30)}}
GALLERIES = ((DFS, MLMU, 1), (DFS, NEXT, 1), (DFS, NEXT, 0), (ASTAR, MLMU, 0), (ASTAR, MLMU, 1))  # last: which side
EXAMPLES = 4  # of each gallery
SHORT_CUTS = ("diagonal or gap", "through a wall")
PARSE_ERROR = "unparsable"
ABOUT_HALF = (0.4, 0.6)


def runs(scale: RunScale) -> list[RunSpec]:
    found = []
    for family, sizes in SIZES[scale].items():
        for size in sizes:
            for objective in OBJECTIVES:
                run = dfs_run(scale, objective, size) if family == DFS else astar_run(scale, objective, size)
                evaluations = tuple(replace(evaluation, failures=EXAMPLES) for evaluation in run.evaluations)
                labels = {"family": family, "objective": objective, "size": square(size)}
                found.append(replace(run, labels=labels, evaluations=evaluations, seeds=None))
    return found


def share_of(result: Result, *classes: str, **labels: str) -> Proportion:
    """Return the share of these classes among all failures, over all seeds."""
    counts = [scores["failures"] for scores in result.scores(**labels)]
    return proportion(
        sum(each[name] for each in counts for name in classes), sum(each[name] for each in counts for name in FAILURES)
    )


def class_report(result: Result) -> Report:
    """Return a table and a chart of the classes of failures, for each family and size."""
    tables, panels = [], []
    for labels in result.combinations("family", "size"):
        title = " ".join(labels.values())
        objectives = result.values("objective", **labels)
        shares = {
            (o, name): 100 * share_of(result, name, objective=o, **labels).share
            for o in objectives
            for name in FAILURES
        }
        rows = [[name, *(f"{shares[o, name]:.1f}" for o in objectives), words] for name, words in FAILURES.items()]
        exact = ["exact paths of all mazes", *(str(result.mean(objective=o, **labels)) for o in objectives), ""]
        tables.append(Table(f"{title}, % of the failures", [["class", *objectives, "what it is"], *rows, exact]))
        series = [Series(o, [Point(name, shares[o, name]) for name in FAILURES]) for o in objectives]
        panels.append(Panel(title, "", "% of the failures", series))
    return Report(tables, panels)


def parse_errors(result: Result) -> Report:
    """Return how many of the failures on A* mazes cannot be drawn, since their tokens are no path."""
    rows = []
    for labels in result.combinations("size", "objective", family=ASTAR):
        errors = share_of(result, PARSE_ERROR, family=ASTAR, **labels)
        name = f"{labels['objective']}, A* {labels['size']}"
        rows.append([name, str(errors.count), str(errors.hits), str(errors) if errors.count else ""])
    head = ["", "failures", "parse errors", "% of the failures (95 %)"]
    title = "parse errors among the failures on A* mazes; the paper: about half of MLM-U's"
    return Report([Table(title, [head, *rows])] if rows else [])


def galleries(result: Result) -> Report:
    """Return up to four wrong paths of each of the paper's galleries."""
    sizes = SIZES["paper" if result.scale == "paper" else "laptop"]
    found = []
    for family, objective, which in GALLERIES:
        labels = {"family": family, "objective": objective, "size": square(sizes[family][which])}
        title = f"{objective}, {family} {labels['size']}: "
        found.append(gallery(result, HELD_OUT, EXAMPLES, title, **labels))
    return Report(galleries=found)


def short_cuts(result: Result) -> list[Finding]:
    found = []
    for labels in result.combinations("family", "size"):
        text = "next token goes through walls and over gaps in more of its failures than MLM-U"
        claim = Claim(text, "described, not counted", " ".join(labels.values()))
        plain, mlmu = (share_of(result, *SHORT_CUTS, objective=o, **labels) for o in (NEXT, MLMU))
        ours = f"share of the failures: next token {plain}, MLM-U {mlmu}"
        outcome = True if plain.low > mlmu.high else False if plain.high < mlmu.low else None
        because = "the intervals overlap." if outcome is None else "the intervals do not overlap."
        found.append(concluded(claim, result.entries(**labels), outcome, ours, because))
    return found


def equally_short(result: Result) -> list[Finding]:
    found = []
    for size in result.values("size", family=ASTAR):
        text = "some of MLM-U's failures on A* mazes are other shortest paths"
        claim = Claim(text, "two of four drawn failures on 20x20", f"A* {size}")
        labels = {"family": ASTAR, "size": size, "objective": MLMU}
        ties = share_of(result, "equally short", **labels)
        because = "they count as failures only because another shortest path was stored."
        outcome = ties.hits > 0 if ties.count else None
        found.append(concluded(claim, result.entries(**labels), outcome, f"{ties} of its failures", because))
    return found


def half_parse_errors(result: Result) -> list[Finding]:
    found = []
    low, high = ABOUT_HALF
    for size in result.values("size", family=ASTAR):
        text = "about half of MLM-U's failures on A* mazes are parse errors"
        claim = Claim(text, "about half, on 20x20", f"A* {size}")
        labels = {"family": ASTAR, "size": size, "objective": MLMU}
        errors = share_of(result, PARSE_ERROR, **labels)
        if not errors.count:
            found.append(Finding(claim, "inconclusive", "", NOT_MEASURED))
            continue
        inside, outside = low <= errors.low and errors.high <= high, errors.high < low or errors.low > high
        outcome = True if inside else False if outside else None
        words = "wholly inside" if inside else "wholly outside of" if outside else "neither inside nor outside of"
        because = f"the interval is {words} {100 * low:.0f} to {100 * high:.0f} %."
        ours = f"{errors} of {errors.count} failures"
        found.append(concluded(claim, result.entries(**labels), outcome, ours, because))
    return found


FAILURES_STUDY = Study(
    name="failures",
    title="Failures",
    source="appendix, figures of failures, and figure 6, right",
    question="When a model fails, what is wrong with its path?",
    paper="MLM-U mostly takes a wrong turn or two; next token backtracks, goes through walls and ends in wrong places; "
    "about half of MLM-U's failures on A* mazes are parse errors.",
    runs=runs,
    tables=[class_report, parse_errors, galleries],
    claims=[short_cuts, equally_short, half_parse_errors],
    notes=(
        "Red is the true path, amber arrows the prediction, purple where the maze has no such step. Parse errors "
        "cannot be drawn.",
    ),
)
