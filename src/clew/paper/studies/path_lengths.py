"""Path lengths of both families of mazes: the paper's figure 2. Nothing is trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from clew.data.config import DatasetSettings
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.solvers import one_shortest
from clew.paper.results import Result
from clew.paper.study import Scale, Study, square
from clew.paper.tables import Report, Table
from clew.paper.verdict import Claim, Finding, concluded
from clew.viz.charts import Panel, Point, Series

SIZES, COUNT = (10, 20, 30), 2_000
FAMILIES = {"astar": ("A*", "#5b8bd0"), "dfs": ("DFS", "#e2804f")}  # in the paper's order: its name and its colour
EXAMPLE_SIZE = 10


@dataclass(frozen=True)
class PathLengths:
    """The numbers of cells of the paths of one kind of maze, both ends counted."""

    family: str
    size: int
    count: int
    mean: float
    standard_deviation: float
    shortest: int
    median: float
    longest: int
    one_shortest: float  # the share of mazes with one shortest path only


def measure(family: str, size: int, count: int = COUNT, seed: int = 0) -> PathLengths:
    """Return the path lengths of `count` held-out mazes."""
    if count < 2:
        raise UserError(f"{count} mazes have no standard deviation; use at least 2.")
    # As in the test split of a dataset; the families without wall cells take no notice of the draws.
    draws = DatasetSettings(family, size, size, seed, {"train": 1, "test": count}).test_draws
    batch = generate(family, size, size, seed=seed, first=0, count=count, split="test", draws=draws)
    length_N = batch.length_N
    return PathLengths(
        family=family,
        size=size,
        count=count,
        mean=round(float(length_N.mean()), 3),
        standard_deviation=round(float(length_N.std(ddof=1)), 3),
        shortest=int(length_N.min()),
        median=float(np.median(length_N)),
        longest=int(length_N.max()),
        one_shortest=float(one_shortest(batch).mean()),
    )


def measured(scale: Scale) -> dict[str, Any]:
    """Return the lengths; laptop and paper scale measure the same, in seconds."""
    sizes, count = ((4, 5), 20) if scale == "smoke" else (SIZES, COUNT)
    return {"path_lengths": [asdict(measure(family, size, count)) for family in FAMILIES for size in sizes]}


def lengths_of(result: Result) -> list[PathLengths]:
    return [PathLengths(**each) for each in result.measured["path_lengths"]]


def report(result: Result) -> Report:
    lengths = lengths_of(result)
    head = ["family", "size", "mean, cells", "standard deviation", "longest", "mazes with one shortest path, %"]
    rows = [
        [
            FAMILIES[each.family][0],
            square(each.size),
            f"{each.mean:.1f}",
            f"{each.standard_deviation:.1f}",
            str(each.longest),
            f"{100 * each.one_shortest:.1f}",
        ]
        for each in lengths
    ]
    series = [
        Series(name, [Point(square(e.size), e.mean, e.standard_deviation) for e in lengths if e.family == family])
        for family, (name, _) in FAMILIES.items()
    ]
    pictures = []
    for family, (name, _) in FAMILIES.items():
        task, path = generate(family, EXAMPLE_SIZE, EXAMPLE_SIZE, seed=0, first=0, count=1, split="test")[0]
        pictures.append((task, path, None, f"{name} maze, {square(EXAMPLE_SIZE)}"))
    panel = Panel("path lengths, bars of one standard deviation", "size", "cells", series, percent=False)
    return Report([Table("path lengths of held-out mazes", [head, *rows])], [panel], [pictures])


def findings(result: Result) -> list[Finding]:
    lengths = {(each.family, each.size): each for each in lengths_of(result)}
    size = max(size for _, size in lengths)
    dfs, astar = lengths["dfs", size], lengths["astar", size]
    ours = f"{square(size)}: DFS {dfs.mean:.1f}, A* {astar.mean:.1f} cells"
    unique = f"one shortest path: DFS {100 * dfs.one_shortest:.0f} %, A* {100 * astar.one_shortest:.1f} % of the mazes"
    task = f"DFS and A* {square(size)}"
    longer = Claim("paths of DFS mazes are longer than those of A* mazes", "a figure", task)
    several = Claim("DFS mazes have one path, A* mazes may have several shortest ones", "said, not measured", task)
    why = "so an exact match on A* mazes is mostly a test of the tie-break; shortest paths are reported beside it."
    return [
        concluded(longer, [], dfs.mean > astar.mean, ours, f"they are {dfs.mean / astar.mean:.1f} times as long."),
        concluded(several, [], dfs.one_shortest == 1 and astar.one_shortest < 1, unique, why),
    ]


PATH_LENGTHS = Study(
    name="path-lengths",
    title="Path lengths of both families",
    source="figure 2",
    question="How long are the paths of DFS and of A* mazes?",
    paper="The paths of DFS mazes are several times as long as those of A* mazes of the same size, and vary more.",
    tables=[report],
    claims=[findings],
    measure=measured,
)
