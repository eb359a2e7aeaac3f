"""The path lengths of both families of mazes (the paper's figure 2), for which nothing is trained."""

from __future__ import annotations

from typing import Any

import numpy as np

from clew.data.config import DatasetSettings
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.solvers import one_shortest
from clew.paper.results import Report, Result, Table
from clew.paper.study import Scale, square
from clew.viz.charts import Panel, Point, Series

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
    rows = [["family", "size", "mean, cells", "standard deviation", "longest", "mazes with one shortest path, %"]]
    series, pictures = [], []
    for family, (name, _) in FAMILIES.items():
        lengths = [each for each in result.measured["path_lengths"] if each["family"] == family]
        for each in lengths:
            numbers = [f"{each['mean']:.1f}", f"{each['standard_deviation']:.1f}", str(each["longest"])]
            rows.append([name, square(each["size"]), *numbers, f"{100 * each['one_shortest']:.1f}"])
        series.append(Series(name, [Point(square(e["size"]), e["mean"], e["standard_deviation"]) for e in lengths]))
        task, path = generate(family, EXAMPLE_SIZE, EXAMPLE_SIZE, seed=0, first=0, count=1, split="test")[0]
        pictures.append((task, path, None, f"{name} maze, {square(EXAMPLE_SIZE)}"))
    panel = Panel("path lengths, bars of one standard deviation", "size", "cells", series, percent=False)
    return Report([Table("path lengths of held-out mazes", rows)], [panel], [pictures])
