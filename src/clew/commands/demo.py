"""`clew demo`, or `make demo`: generate and solve mazes, train three models from nothing, evaluate shipped ones."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import clew
from clew.commands import print_line, typed_command
from clew.commands.evaluate import scores_table
from clew.errors import report_error
from clew.evaluation.scores import Evaluation
from clew.mazes.solvers import astar, bfs_path, num_shortest
from clew.provenance import provenance
from clew.training.callbacks import curve
from clew.training.config import TrainConfig
from clew.viz.charts import Panel, Point, Series
from clew.viz.pages import Page, percent_point, write_page

if TYPE_CHECKING:
    from clew.trained import TrainedModel

FAMILIES = {"dfs": "DFS", "astar": "A*"}
SHIPPED = ("cells-dfs", "cells-astar")
# Name on the page, config, and folder of the run.
CELLS = ("just trained", "cells-dfs-10", "trained-by-demo")
MLMU = ("MLM-U", "star-2x5-mlmu-sampler", "trained-by-demo-mlmu")
NEXT = ("next token", "star-2x5-next", "trained-by-demo-next")
TRAINED = (CELLS, MLMU, NEXT)
FIRST_SIZE, FIRST_MAZES = 20, 2_000
MAZES, GRAPHS = 500, 1_000  # that the trained models solve


def demo(
    *,
    out: Path = Path("demo"),  # the folder for the page and the runs
    minutes: float = 2.0,  # of training a cell network on 10x10 mazes
    star_minutes: float = 1.0,  # of training MLM-U on path-star graphs, and of training next token on them
    sizes: tuple[int, ...] = (5, 10, 20, 30),  # rows and columns of the mazes that trained models solve
    seed: int = 1,  # which held-out mazes are solved
) -> None:
    """Generate and solve mazes, train small models from nothing, and evaluate trained ones on mazes of growing size.

    Takes some six minutes on two cores with the defaults. A table of accuracy is printed, and OUT/demo.html shows
    mazes that were solved and missed. Given again, it starts anew.
    """
    out.mkdir(parents=True, exist_ok=True)
    often = {"evaluate_every": 100, "checkpoint_every": 100}
    configs = [clew.config(each[1], minutes=star_minutes if each != CELLS else minutes, **often) for each in TRAINED]
    models = [clew.load(name) for name in SHIPPED]

    began = time.perf_counter()
    show_mazes(seed)
    print_line(f"A cell network learns 10x10 mazes in {minutes:g} minutes.")
    print_line(f"Then MLM-U and next token learn path-star graphs of 2 arms of 5, {star_minutes:g} minutes each.")
    trained = [learn(name, config, out / folder) for (name, _, folder), config in zip(TRAINED, configs, strict=True)]
    print_line("These models, and those that trained for longer, solve held-out mazes.")
    trials = [(trained[0], 10, MAZES), (trained[1], 0, GRAPHS), (trained[2], 0, GRAPHS)]
    trials += [(model, size, min(200, 20_000 // size**2)) for model in models for size in sizes]
    evaluations, by_size = [], dict[str, list[Point]]()
    for model, size, count in trials:
        evaluations.append(solve(model, size, count, seed))
        if size:
            by_size.setdefault(model.name, []).append(percent_point(float(size), evaluations[-1].exact))
    print(f"\n{scores_table(evaluations)}\n")

    notes = [f"{each.name}: {each.parameters:,} parameters, trained on {each.tasks}." for each in [*trained, *models]]
    notes += ["No maze here was trained on. A* mazes often have several shortest paths."]
    notes += [f"This command trained the first for {minutes:g} minutes, the next two for {star_minutes:g} each."]
    learned = Series("", [Point(*each) for each in curve(out / CELLS[2], "exact", "mazes")])
    sizes_of = [Series(*each) for each in by_size.items()]
    panels = [
        Panel("Exact path, by size of the maze", "cells a side", "exact %", sizes_of),
        Panel("The cell network trained here, on held-out mazes", "mazes seen in training", "exact %", [learned]),
    ]
    title = "Clew: a model that learns to plan, and mazes of growing size"
    page = Page(title, evaluations, provenance(typed_command(), [seed]), notes, panels)
    write_page(out / "demo.html", page)
    print_line(f"All in {time.perf_counter() - began:.0f} s. Solved and missed mazes: {out / 'demo.html'}")
    print_line(f"Next: clew evaluate {out / CELLS[2]} --decoder all --report report.html, or clew --help.")


def show_mazes(seed: int) -> None:
    """Generate mazes of both families, solve them exactly and print a small one of each."""
    for family, name in FAMILIES.items():
        began = time.perf_counter()
        batch = clew.generate(family, FIRST_SIZE, FIRST_MAZES, seed=seed, split="test")
        for task, path in batch:
            assert len(bfs_path(task) or []) == len(astar(task).path or []) == len(path)
        unique = sum(num_shortest(task) == 1 for task, _ in batch) / len(batch)
        print_line(
            f"{FIRST_MAZES:,} {name} mazes of {FIRST_SIZE}x{FIRST_SIZE} cells, generated and solved by BFS and A* in "
            f"{time.perf_counter() - began:.1f} s: paths of {batch.length_N.mean():.0f} cells on average, "
            f"{batch.length_N.max()} at most; {unique:.0%} of the mazes have one shortest path only."
        )
        print(f"\n{clew.solve(clew.generate(family, 8, seed=seed, split='test')[0][0])}\n", flush=True)


def learn(name: str, config: TrainConfig, folder: Path) -> TrainedModel:
    """Train a model, and return it with its name; a run of an earlier demo is removed."""
    if (folder / "config.json").exists():
        shutil.rmtree(folder)
    run = clew.train(config, folder)
    if run.end.reason == "signal":
        sys.exit(report_error("stopped; the same command starts anew.", 128 + run.end.signal))
    model: TrainedModel = replace(run.model, name=name)
    return model


def solve(model: TrainedModel, size: int, count: int, seed: int) -> Evaluation:
    """Evaluate a model on held-out mazes of a size, or, if that is 0, on graphs like those of its training."""
    kind = FAMILIES.get(model.family, model.family.replace("path-star-", "star "))
    # One pass shows what the network has learned; repair is a search, which solves perfect mazes with any labels.
    found = model.evaluate(size=size or None, n=count, seed=seed, decoder="one-pass" if size else None)
    found = replace(found, name=f"{model.name}: {kind} {size}x{size}" if size else f"{model.name}: {kind}")
    print_line(f"{found.name}: {found.exact.hits:,} of {found.exact.count:,} exact, {found.seconds:.1f} s")
    return found
