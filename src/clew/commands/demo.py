"""`clew demo`, or `make demo`: generate and solve mazes, train three models from nothing, evaluate shipped ones."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from clew.commands import announce_compilation, format_table, typed_command
from clew.errors import UsageError, UserError, printable
from clew.registry import model_folder

if TYPE_CHECKING:
    from clew.evaluation.scores import Evaluation
    from clew.mazes.maze import TaskBatch
    from clew.trained import TrainedModel
    from clew.viz.charts import Panel

FAMILIES = {"dfs": "DFS", "astar": "A*"}
SHIPPED = ("cells-dfs", "cells-astar")
# Name on the page, config, and folder of the run.
CELLS = ("just trained", "cells-dfs-10", "trained-by-demo")
MLMU = ("MLM-U", "star-2x5-mlmu-sampler", "trained-by-demo-mlmu")
NEXT = ("next token", "star-2x5-next", "trained-by-demo-next")
FIRST_SIZE, FIRST_MAZES, DRAWN = 20, 2_000, 4
MAZES, GRAPHS = 500, 1_000  # that the trained models solve
# One pass shows what the network has learned; repair is a search, which solves perfect mazes with any labels.
ONE_PASS = "one-pass"
HEAD = ["model", "mazes", "exact", "exact %", "95 %", "shortest %", "passes", "ms"]


class Trial(NamedTuple):
    """A model's evaluation on tasks of one kind and size."""

    tasks: str  # such as `DFS 10x10`
    size: int | None  # None for tasks without a size
    evaluation: Evaluation


def demo(
    *,
    out: Path = Path("demo"),
    minutes: float = 2.0,
    star_minutes: float = 1.0,
    sizes: tuple[int, ...] = (5, 10, 20, 30),
    weights: tuple[str, ...] = (),
    seed: int = 1,
) -> None:
    """Generate and solve mazes, train small models from nothing, and evaluate trained ones on mazes of growing size.

    Takes some six minutes on two cores with the defaults. A table of accuracy is printed, and OUT/demo.html shows
    mazes that were solved and missed. Given again, it starts anew.

    Args:
        out: the folder for the pictures, the page and the runs.
        minutes: of training a cell network on 10x10 mazes.
        star_minutes: of training MLM-U on path-star graphs, and of training next token on them.
        sizes: rows and columns of the mazes that trained models solve.
        weights: models that solve them, by name or folder; by default those that come with Clew.
        seed: which held-out mazes are solved.
    """
    for option, value in (("--minutes", minutes), ("--star-minutes", star_minutes)):
        if not 0 < value <= 60:
            raise UsageError(f"{value:g} minutes of training cannot be used; give {option} a number above 0, up to 60.")
    if not 0 <= seed < 2**63:
        raise UsageError(f"the seed {seed} cannot be used; give --seed a whole number from 0 to 2**63 - 1.")
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file; give --out the name of a folder.")
    for name in weights:
        model_folder(name)  # a wrong name is reported before torch is imported

    from clew.provenance import provenance
    from clew.trained import load
    from clew.viz.pages import Page, write_page

    began = time.perf_counter()
    announce_compilation()
    models = [load(name) for name in weights or SHIPPED]
    for model in models:
        if model.codec.vocabulary is not None:
            raise UserError(f"{model.name} reads text of one size; give --weights a model that reads cells.")
    out.mkdir(parents=True, exist_ok=True)
    draw_mazes(out / "mazes.png")
    print(f"\nA cell network learns 10x10 mazes in {minutes:g} minutes.\n", flush=True)
    trained = [learn(CELLS, minutes, out)]
    trials = [solve(trained[0], 10, MAZES, seed)]
    print(f"\nMLM-U and next token learn path-star graphs of 2 arms of 5, {star_minutes:g} minutes each.\n", flush=True)
    for star in (MLMU, NEXT):
        trained.append(learn(star, star_minutes, out))
        trials.append(solve(trained[-1], None, GRAPHS, seed))
    print("\nModels that trained for longer, and mazes of growing size.\n", flush=True)
    trials += [solve(model, size, min(200, 20_000 // size**2), seed) for model in models for size in sizes]
    rows = [HEAD]
    for tasks, _, each in trials:
        exact, interval = each.exact, f"{100 * each.exact.low:.1f} to {100 * each.exact.high:.1f}"
        counts = [f"{exact.hits:,} of {exact.count:,}", f"{100 * exact.share:.1f}", interval]
        cost = [f"{each.scores.passes:.1f}", f"{1000 * each.seconds / len(each):.1f}"]
        rows.append([each.name, tasks, *counts, f"{100 * each.scores.shortest.share:.1f}", *cost])
    print(f"\n{format_table(rows)}\n")

    notes = [f"{each.name}: {each.parameters:,} parameters, trained on {each.tasks}." for each in [*trained, *models]]
    notes.append("No maze here was trained on. A* mazes often have several shortest paths.")
    notes.append(f"This command trained the first for {minutes:g} minutes, the next two for {star_minutes:g} each.")
    # The page names the tasks with each model.
    evaluations = [replace(each, name=f"{each.name}: {tasks}") for tasks, _, each in trials]
    title = "Clew: a model that learns to plan, and mazes of growing size"
    origin = provenance(typed_command(), [seed])
    write_page(out / "demo.html", Page(title, evaluations, origin, notes, charts(trials, out / CELLS[2])))
    print(
        f"All in {time.perf_counter() - began:.0f} s. Solved and missed mazes: {printable(str(out / 'demo.html'))}\n"
        f"Next: clew evaluate {printable(str(out / CELLS[2]))} --decoder all --report report.html, or clew --help."
    )


def charts(trials: Sequence[Trial], run: Path) -> list[Panel]:
    """Return accuracy by size of the maze, and that of the run on held-out mazes by minutes of training."""
    from clew.training.callbacks import read_metrics
    from clew.viz.charts import Panel, Point, Series
    from clew.viz.pages import percent_point

    sizes: dict[str, list[Point]] = {}
    for _, size, evaluation in trials:
        if size is not None:
            sizes.setdefault(evaluation.name, []).append(percent_point(float(size), evaluation.exact))
    lines = [line for line in read_metrics(run) if line["kind"] == "evaluation"]
    learned = [Series("", [Point(line["elapsed"] / 60, 100 * line["scores"]["exact"]) for line in lines])]
    return [
        Panel("Exact path, by size of the maze", "cells a side", "exact %", [Series(*each) for each in sizes.items()]),
        Panel("The cell network trained by this command, on held-out mazes", "minutes of training", "exact %", learned),
    ]


def draw_mazes(picture: Path) -> None:
    """Generate mazes of both families, solve them, draw some to a file and print a small one of each."""
    from clew import generate
    from clew.tokenization.drawings import draw_ascii
    from clew.viz.drawing import save_picture

    drawn = []
    for family, name in FAMILIES.items():
        began = time.perf_counter()
        batch = generate(family, FIRST_SIZE, FIRST_MAZES, seed=2, split="test")
        unique = one_shortest(batch)
        print(
            f"{FIRST_MAZES:,} {name} mazes of {FIRST_SIZE}x{FIRST_SIZE} cells, generated and solved by BFS and A* in "
            f"{time.perf_counter() - began:.1f} s: paths of {batch.length_N.mean():.0f} cells on average, "
            f"{batch.length_N.max()} at most; {unique:.0%} of the mazes have one shortest path only."
        )
        print(f"\n{draw_ascii(*generate(family, 8, seed=2, split='test')[0])}\n", flush=True)
        title = f"{name} {FIRST_SIZE}x{FIRST_SIZE}"
        drawn += [(*batch[i], None, f"{title}, {batch.length_N[i]} cells") for i in range(DRAWN)]
    save_picture(picture, drawn, DRAWN)
    print(f"{printable(str(picture))}: {len(drawn)} of them")


def one_shortest(batch: TaskBatch) -> float:
    """Check every stored path's length against BFS and A*; return the share of mazes with one shortest path."""
    from clew.mazes.solvers import astar, bfs_path, num_shortest

    for task, stored in batch:
        assert len(bfs_path(task) or []) == len(astar(task).path or []) == len(stored)
    return sum(num_shortest(task) == 1 for task, _ in batch) / len(batch)


def learn(what: tuple[str, str, str], minutes: float, out: Path) -> TrainedModel:
    """Train a model with a progress display, and load it; a run of an earlier demo is removed."""
    from clew.paper.named_configs import config_named
    from clew.trained import load
    from clew.training.callbacks import ProgressDisplay
    from clew.training.checkpoint import CONFIG_FILE
    from clew.training.config import Budget
    from clew.training.train import train

    name, config, folder = what[0], config_named(what[1]), out / what[2]
    if (folder / CONFIG_FILE).exists():
        shutil.rmtree(folder)
    config = replace(config, budget=Budget(minutes=minutes), evaluate_every=100, checkpoint_every=100)
    end = train(config, folder, callbacks=[ProgressDisplay()]).end
    if end.reason == "signal":
        print("clew: stopped; the same command starts anew.", file=sys.stderr)
        sys.exit(128 + end.signal)
    return replace(load(folder), name=name)


def solve(model: TrainedModel, size: int | None, count: int, seed: int) -> Trial:
    """Evaluate a model on held-out mazes of a size, or on graphs like those of its training."""
    name = FAMILIES.get(model.family, model.family.replace("path-star-", "star "))
    evaluation = model.evaluate(size=size, n=count, seed=seed, decoder=ONE_PASS if size else None)
    trial = Trial(f"{name} {size}x{size}" if size else name, size, evaluation)
    exact = evaluation.exact
    print(
        f"{model.name}: {trial.tasks}: {exact.hits:,} of {exact.count:,} exact, {evaluation.seconds:.1f} s", flush=True
    )
    return trial
