"""`make demo`, or `clew demo`: generate and solve mazes, train three models from nothing, evaluate shipped ones.

    run(Settings(folder=Path("demo"), minutes=2), Console(highlight=False), command="clew demo")

A cell network is trained on 10x10 mazes, and MLM-U and next token on path-star graphs, where only the first step off
the centre is a choice; each is an ordinary run in a folder of its own. FOLDER/demo.html shows all numbers, and mazes
that were solved and missed. The demo always starts anew.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from rich.columns import Columns
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from clew.errors import UserError
from clew.evaluation.scores import Evaluation
from clew.mazes.generate import generate
from clew.mazes.maze import Path as MazePath
from clew.mazes.maze import Task, TaskBatch
from clew.mazes.solvers import astar, bfs_path, num_shortest
from clew.paper.named_configs import config_named
from clew.provenance import provenance
from clew.registry import shipped_models
from clew.tokenization.drawings import draw_ascii
from clew.trained import TrainedModel, load
from clew.training.callbacks import ProgressDisplay
from clew.training.checkpoint import CHECKPOINTS, CONFIG_FILE
from clew.training.config import Budget
from clew.training.run_folder import RunFolder
from clew.training.train import Run, train
from clew.viz.pages import HEAD, DemoPage, Trial, write_demo_page
from clew.viz.picture import save_picture

FAMILIES = {"dfs": "DFS", "astar": "A*"}
SHIPPED = ("cells-dfs", "cells-astar")
CELLS = ("just trained", "cells-dfs-10", "trained-by-demo")  # name on the page, config, folder of the run
STARS = (
    ("MLM-U", "star-2x4-mlmu-sampler", "trained-by-demo-mlmu"),
    ("next token", "star-2x4-next", "trained-by-demo-next"),
)

# One pass shows what the network has learned; repair is a search, which solves perfect mazes with any labels.
ONE_PASS = "one-pass"


@dataclass(frozen=True)
class Size:
    """Tasks of one size: how many, and how many at once; the time is checked after each batch."""

    side: int
    mazes: int
    batch: int


GROWING = (Size(5, 500, 250), Size(10, 500, 100), Size(15, 200, 50), Size(20, 200, 25), Size(30, 100, 5))


@dataclass(frozen=True)
class Settings:
    """How much the demo does, and where."""

    folder: Path = Path("demo")
    minutes: float = 2.0  # of training the cell network
    star_minutes: float = 1.0  # of training each model of the path-star pair
    seconds: float = 75.0  # for the mazes of growing size, all models together
    seed: int = 1  # of the mazes that are solved; training chooses its best weights on mazes of another seed
    weights: tuple[str, ...] = ()  # models for the mazes of growing size; by default the shipped ones
    first: Size = Size(20, 2_000, 4)  # the first mazes of each family; four are drawn
    learnt: Size = Size(10, 500, 50)
    stars: Size = Size(0, 1_000, 500)
    growing: tuple[Size, ...] = GROWING


Turn = tuple[TrainedModel, Size, float]


class Stopped(Exception):
    """A signal arrived during a training."""

    def __init__(self, signal: int) -> None:
        super().__init__(f"signal {signal}")
        self.signal = signal


def run(settings: Settings, console: Console, command: str) -> None:
    """Run everything and write the page."""
    began = time.perf_counter()
    models = load_models(settings.weights)  # first, so that a wrong name is reported at once
    settings.folder.mkdir(parents=True, exist_ok=True)
    console.print("[bold]Clew[/]: mazes of two families, generated, solved and drawn.\n")
    first_mazes(settings, console)
    console.print(f"[bold]A cell network learns 10x10 mazes[/] in {settings.minutes:g} minutes.\n")
    now = learn(CELLS, settings.minutes, settings.folder, console)
    trials = [solve(now, settings.learnt, settings.seed, console, decoder=ONE_PASS)]
    console.print(
        f"\n[bold]MLM-U and next token learn path-star graphs[/] of two arms, {settings.star_minutes:g} minutes each.\n"
    )
    pair = [learn(star, settings.star_minutes, settings.folder, console) for star in STARS]
    trials += [solve(model, settings.stars, settings.seed, console) for model in pair]
    console.print("\n[bold]Models that trained for longer[/], and mazes of growing size.\n")
    for model, size, until in turns(models, settings.growing, settings.seconds):
        trials.append(solve(model, size, settings.seed, console, until, ONE_PASS))

    console.print(Padding(accuracy_table(trials), (1, 0)))
    page = settings.folder / "demo.html"
    notes = [f"{each.name}: {each.parameters:,} parameters, trained on {each.tasks}." for each in [now, *pair, *models]]
    minutes = (settings.minutes, settings.star_minutes, settings.star_minutes)
    notes.append(f"The first three were trained by this command, for {', '.join(f'{m:g}' for m in minutes)} minutes.")
    lines = [line for line in Run(settings.folder / CELLS[2]).metrics if line["kind"] == "evaluation"]
    curve = [(line["elapsed"] / 60, line["scores"]["exact"]) for line in lines]
    write_demo_page(page, DemoPage(provenance(command, [settings.seed]), trials, curve, notes))
    console.print(
        f"All in {time.perf_counter() - began:.0f} s. Solved and missed mazes: [bold]{page}[/]\n"
        f"Next: clew evaluate {settings.folder / CELLS[2]} --decoder all --report report.html, or clew --help.",
        soft_wrap=True,
    )


def first_mazes(settings: Settings, console: Console) -> None:
    """Generate mazes of both families, check their paths, draw some to a file and some on the console."""
    side, count, drawn = settings.first.side, settings.first.mazes, settings.first.batch
    with _step(console, f"Generating {2 * count:,} mazes of {side}x{side} cells, half of them DFS, half A*"):
        batches = {family: _mazes(family, side, count) for family in FAMILIES}
    with _step(console, "Solving them exactly, by BFS and by A*, to check the stored paths"):
        unique = {family: one_shortest(batch) for family, batch in batches.items()}
    for family, batch in batches.items():
        console.print(
            f"  {FAMILIES[family]:4}paths of {batch.length_N.mean():.0f} cells on average, {batch.length_N.max()} at "
            f"most; {unique[family]:.0%} of the mazes have one shortest path only",
            soft_wrap=True,
        )
    picture = settings.folder / "mazes.png"
    with _step(console, f"Drawing {2 * drawn} of them to {picture}"):
        titled = [(batch[i], f"{FAMILIES[f]} {side}x{side}") for f, batch in batches.items() for i in range(drawn)]
        save_picture(picture, [(*pair, None, f"{title}, {len(pair[1])} cells") for pair, title in titled], drawn)
    small = [_mazes(family, 8, 1)[0] for family in FAMILIES]
    console.print(Padding(Columns([coloured(*pair) for pair in small], padding=(0, 6)), (1, 2)))


def _mazes(family: str, side: int, count: int) -> TaskBatch:
    return generate(family, side, side, seed=2, first=0, count=count, split="test")


def one_shortest(batch: TaskBatch) -> float:
    """Check every stored path's length against BFS and A*; return the share of mazes with one shortest path."""
    for task, stored in batch:
        assert len(bfs_path(task) or []) == len(astar(task).path or []) == len(stored)
    return sum(num_shortest(task) == 1 for task, _ in batch) / len(batch)


def coloured(task: Task, path: MazePath) -> Text:
    """Return a maze for the terminal, the path in red."""
    drawing = draw_ascii(task, path)
    if task.maze.has_wall_cells_only:  # one character a cell: twice as wide, it looks square
        drawing = "".join({"#": "##", "\n": "\n"}.get(character, f"{character} ") for character in drawing)
    text = Text(drawing, style="grey50")
    for character, style in (("S", "bold white on green"), ("G", "bold black on yellow"), ("#", "grey50 on grey50")):
        text.highlight_words([character], style)
    text.highlight_regex(r"[\^v<>]", "bold red")
    return text


def learn(what: tuple[str, str, str], minutes: float, folder: Path, console: Console) -> TrainedModel:
    """Train a model with a progress display, and load it."""
    name, config, run_name = what
    chosen = replace(config_named(config), budget=Budget(minutes=minutes), evaluate_every=100, checkpoint_every=100)
    forget(folder / run_name)
    end = train(chosen, folder / run_name, callbacks=[ProgressDisplay(console.file)]).end
    if end.reason == "signal":
        raise Stopped(end.signal)
    return replace(load(folder / run_name), name=name)


def forget(folder: Path) -> None:
    """Remove the run of an earlier demo, unless it is being trained right now; other files stay."""
    earlier = RunFolder(folder)
    with earlier.locked():
        if (folder / CONFIG_FILE).exists():
            shutil.rmtree(earlier.path / CHECKPOINTS, ignore_errors=True)
            earlier.metrics.unlink(missing_ok=True)
            (folder / CONFIG_FILE).unlink()  # last, so that a kill in between leaves a run to be forgotten


def load_models(names: Sequence[str]) -> list[TrainedModel]:
    """Load the named models, or else the shipped ones."""
    models = [load(name) for name in names or [name for name in SHIPPED if name in shipped_models()]]
    for model in models:
        if model.codec.vocabulary is not None:
            raise UserError(f"{model.name} reads text of one size; give --weights a model that reads cells.")
    return models


def turns(models: Sequence[TrainedModel], sizes: Sequence[Size], seconds: float) -> Iterator[Turn]:
    """Yield each model with each size and its deadline; later ones share the time that earlier ones leave."""
    end = time.perf_counter() + seconds
    for number, (model, size) in enumerate(pairs := list(product(models, sizes))):
        now = time.perf_counter()
        yield model, size, now + (end - now) / (len(pairs) - number)


def solve(
    model: TrainedModel,
    size: Size,
    seed: int,
    console: Console,
    until: float = float("inf"),
    decoder: str | None = None,
) -> Trial:
    """Solve batch by batch, one batch at least, as long as time.perf_counter() stays below `until`."""
    star = model.family.replace("path-star-", "star ")
    what = f"{FAMILIES.get(model.family, model.family)} {size.side}x{size.side}" if size.side else star
    (tasks,) = model.held_out(size=size.side or None, n=size.mazes, seed=seed)
    parts: list[Evaluation] = []
    took = 0.0
    with _step(console, f"{model.name}: {what}") as words:
        for first in range(0, size.mazes, size.batch):
            began = time.perf_counter()
            if parts and began + took > until:  # the next batch will take as long as the last
                break
            parts.append(model.evaluate(tasks=tasks[first : first + size.batch], decoder=decoder))
            took = time.perf_counter() - began
        outcomes = tuple(outcome for part in parts for outcome in part.outcomes)
        evaluation = replace(parts[0], outcomes=outcomes, seconds=sum(part.seconds for part in parts))
        words.append(f"{evaluation.exact.hits:,} of {evaluation.exact.count:,} exact, ")
    return Trial(what, size.side or None, evaluation)


def accuracy_table(trials: Sequence[Trial]) -> Table:
    """Return the page's table for the terminal."""
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for number, name in enumerate(HEAD):
        table.add_column(name, justify="left" if number < 2 else "right", no_wrap=True)
    for trial in trials:
        table.add_row(*trial.row())
    return table


@contextmanager
def _step(console: Console, what: str) -> Iterator[list[str]]:
    """Print what is done before it is done, and afterwards what is in the list and the seconds."""
    began = time.perf_counter()
    console.print(f"{what} ... ", end="", soft_wrap=True)
    console.file.flush()  # there is no end of line yet that would do it
    words: list[str] = []
    yield words
    console.print(f"{''.join(words)}[green]{time.perf_counter() - began:.1f} s[/]", soft_wrap=True)
