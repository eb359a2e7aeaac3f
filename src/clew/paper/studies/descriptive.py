"""Studies for which nothing is trained: how models fail, and the path lengths of both families of mazes.

The paper's galleries are of MLM-U on DFS 30x30, next token on DFS 30x30 and 10x10, and MLM-U on A* 20x20 and 30x30.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from clew.data.config import DatasetSettings
from clew.errors import UserError
from clew.evaluation.scores import FAILURES, Proportion, proportion
from clew.mazes.generate import generate
from clew.mazes.solvers import one_shortest
from clew.paper.results import HELD_OUT, Report, Result, Table, gallery
from clew.paper.studies.objectives import astar_run
from clew.paper.study import MLMU, NEXT, OBJECTIVES, RunScale, RunSpec, Scale, Study, dfs_run, square
from clew.paper.verdict import Claim, Finding, concluded, not_measured
from clew.viz.charts import Panel, Point, Series

DFS, ASTAR = "DFS", "A*"
# The smaller and the larger side; other studies train on these mazes.
FAILURE_SIZES = {"laptop": {DFS: (4, 5), ASTAR: (4,)}, "paper": {DFS: (10, 30), ASTAR: (20, 30)}}
GALLERIES = ((DFS, MLMU, 1), (DFS, NEXT, 1), (DFS, NEXT, 0), (ASTAR, MLMU, 0), (ASTAR, MLMU, 1))  # last: which side
EXAMPLES = 4  # of each gallery
SHORT_CUTS = ("diagonal or gap", "through a wall")
PARSE_ERROR = "unparsable"
ABOUT_HALF = (0.4, 0.6)


def failure_runs(scale: RunScale) -> list[RunSpec]:
    found = []
    for family, sizes in FAILURE_SIZES[scale].items():
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
        title, objectives = " ".join(labels.values()), result.values("objective", **labels)
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
    sizes = FAILURE_SIZES["paper" if result.scale == "paper" else "laptop"]
    found = []
    for family, objective, which in GALLERIES:
        if which == len(sizes[family]):
            continue
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


def astar_failures(result: Result) -> list[Finding]:
    """Judge what the paper says of MLM-U's failures on A* mazes: other shortest paths, and parse errors."""
    ties_found, errors_found = [], []
    low, high = ABOUT_HALF
    for size in result.values("size", family=ASTAR):
        labels, task = {"family": ASTAR, "size": size, "objective": MLMU}, f"A* {size}"
        runs = result.entries(**labels)
        ties, errors = (share_of(result, name, **labels) for name in ("equally short", PARSE_ERROR))
        text = "some of MLM-U's failures on A* mazes are other shortest paths"
        claim = Claim(text, "two of four drawn failures on 20x20", task)
        because = "they count as failures only because another shortest path was stored."
        outcome = ties.hits > 0 if ties.count else None
        ties_found.append(concluded(claim, runs, outcome, f"{ties} of its failures", because))
        claim = Claim("about half of MLM-U's failures on A* mazes are parse errors", "about half, on 20x20", task)
        if not errors.count:
            errors_found.append(not_measured(claim))
            continue
        inside, outside = low <= errors.low and errors.high <= high, errors.high < low or errors.low > high
        outcome = True if inside else False if outside else None
        words = "wholly inside" if inside else "wholly outside of" if outside else "neither inside nor outside of"
        because = f"the interval is {words} {100 * low:.0f} to {100 * high:.0f} %."
        errors_found.append(concluded(claim, runs, outcome, f"{errors} of {errors.count} failures", because))
    return [*ties_found, *errors_found]


FAILURES_STUDY = Study(
    name="failures",
    title="Failures",
    source="appendix, figures of failures, and figure 6, right",
    question="When a model fails, what is wrong with its path?",
    paper="MLM-U mostly takes a wrong turn or two; next token backtracks, goes through walls and ends in wrong places; "
    "about half of MLM-U's failures on A* mazes are parse errors.",
    runs=failure_runs,
    tables=[class_report, parse_errors, galleries],
    claims=[short_cuts, astar_failures],
    notes=(
        "Red is the true path, amber arrows the prediction, purple where the maze has no such step. Parse errors "
        "cannot be drawn.",
    ),
)

SIZES, COUNT = (10, 20, 30), 2_000
FAMILIES = {"astar": ("A*", "#5b8bd0"), "dfs": ("DFS", "#e2804f")}  # in the paper's order: its name and its colour
EXAMPLE_SIZE = 10


def measure(family: str, size: int, count: int = COUNT, seed: int = 0) -> dict[str, Any]:
    """Return the numbers of cells of the paths of `count` held-out mazes, both ends counted."""
    if count < 2:
        raise UserError(f"{count} mazes have no standard deviation; use at least 2.")
    # As in the test split of a dataset; the families without wall cells take no notice of the draws.
    draws = DatasetSettings(family, size, size, seed, {"train": 1, "test": count}).test_draws
    batch = generate(family, size, size, seed=seed, first=0, count=count, split="test", draws=draws)
    length_N = batch.length_N
    return {
        "family": family,
        "size": size,
        "count": count,
        "mean": round(float(length_N.mean()), 3),
        "standard_deviation": round(float(length_N.std(ddof=1)), 3),
        "shortest": int(length_N.min()),
        "median": float(np.median(length_N)),
        "longest": int(length_N.max()),
        "one_shortest": float(one_shortest(batch).mean()),  # the share of mazes with one shortest path only
    }


def measured(scale: Scale) -> dict[str, Any]:
    """Return the lengths; laptop and paper scale measure the same, in seconds."""
    sizes, count = ((4, 5), 20) if scale == "smoke" else (SIZES, COUNT)
    return {"path_lengths": [measure(family, size, count) for family in FAMILIES for size in sizes]}


def length_report(result: Result) -> Report:
    lengths = result.measured["path_lengths"]
    rows = [["family", "size", "mean, cells", "standard deviation", "longest", "mazes with one shortest path, %"]]
    for e in lengths:
        numbers = [f"{e['mean']:.1f}", f"{e['standard_deviation']:.1f}", str(e["longest"])]
        rows.append([FAMILIES[e["family"]][0], square(e["size"]), *numbers, f"{100 * e['one_shortest']:.1f}"])
    series, pictures = [], []
    for family, (name, _) in FAMILIES.items():
        own = [each for each in lengths if each["family"] == family]
        series.append(Series(name, [Point(square(e["size"]), e["mean"], e["standard_deviation"]) for e in own]))
        task, path = generate(family, EXAMPLE_SIZE, EXAMPLE_SIZE, seed=0, first=0, count=1, split="test")[0]
        pictures.append((task, path, None, f"{name} maze, {square(EXAMPLE_SIZE)}"))
    panel = Panel("path lengths, bars of one standard deviation", "size", "cells", series, percent=False)
    return Report([Table("path lengths of held-out mazes", rows)], [panel], [pictures])


def length_findings(result: Result) -> list[Finding]:
    lengths = {(each["family"], each["size"]): each for each in result.measured["path_lengths"]}
    size = max(size for _, size in lengths)
    dfs, astar = (lengths[family, size]["mean"] for family in ("dfs", "astar"))
    dfs_unique, astar_unique = (lengths[family, size]["one_shortest"] for family in ("dfs", "astar"))
    ours = f"{square(size)}: DFS {dfs:.1f}, A* {astar:.1f} cells"
    unique = f"one shortest path: DFS {100 * dfs_unique:.0f} %, A* {100 * astar_unique:.1f} % of the mazes"
    task = f"DFS and A* {square(size)}"
    longer = Claim("paths of DFS mazes are longer than those of A* mazes", "a figure", task)
    several = Claim("DFS mazes have one path, A* mazes may have several shortest ones", "said, not measured", task)
    why = "so an exact match on A* mazes is mostly a test of the tie-break; shortest paths are reported beside it."
    return [
        concluded(longer, [], dfs > astar, ours, f"they are {dfs / astar:.1f} times as long."),
        concluded(several, [], dfs_unique == 1 and astar_unique < 1, unique, why),
    ]


PATH_LENGTHS = Study(
    name="path-lengths",
    title="Path lengths of both families",
    source="figure 2",
    question="How long are the paths of DFS and of A* mazes?",
    paper="The paths of DFS mazes are several times as long as those of A* mazes of the same size, and vary more.",
    tables=[length_report],
    claims=[length_findings],
    measure=measured,
)
