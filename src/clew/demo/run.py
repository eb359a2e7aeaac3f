"""The whole demo, within five minutes on two cores.

    run(Settings(folder=Path("demo"), minutes=2), Console(highlight=False), command="clew demo")

Mazes of both families are made, solved exactly and drawn (FOLDER/mazes.png); a cell network learns 10x10 mazes from
random weights (FOLDER/trained-by-demo, an ordinary run); then it and the models that come with Clew solve held-out
mazes. The page FOLDER/demo.html shows what they solved and what they missed. It always begins anew.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.padding import Padding

from clew.demo import first_mazes
from clew.demo.first_mazes import FirstMazes
from clew.demo.growing import GROWING, Size, load_models, solve, turns
from clew.demo.telling import accuracy_table, step
from clew.paper.named_configs import config_named
from clew.provenance import provenance
from clew.trained import TrainedModel, load
from clew.training.callbacks import RunEnd
from clew.training.checkpoint import CONFIG_FILE
from clew.training.config import Budget
from clew.training.progress import ProgressDisplay
from clew.training.run_folder import RunFolder
from clew.training.train import Run, train
from clew.viz.demo_page import DemoPage, Trial, write_demo_page

CONFIG = "cells-dfs-10"
LEARNT = Size(10, 500, 250)
# What is in the folder of this name is removed, so it is one that nobody gives to a run of their own.
RUN_NAME = "trained-by-demo"
TRAINED_NOW = "just trained"


@dataclass(frozen=True)
class Settings:
    """How much the demo does, and where."""

    folder: Path = Path("demo")
    minutes: float = 2.0  # of training
    seconds: float = 75.0  # for the mazes of growing size, all models together
    seed: int = 1  # of the mazes that are solved; training chooses its best weights on mazes of another seed
    weights: tuple[str, ...] = ()  # models for the mazes of growing size; by default those that come with Clew
    first: FirstMazes = field(default_factory=FirstMazes)
    learnt: Size = LEARNT
    growing: tuple[Size, ...] = GROWING


class Stopped(Exception):
    """A signal came while the model was trained."""

    def __init__(self, signal: int) -> None:
        super().__init__(f"signal {signal}")
        self.signal = signal


def run(settings: Settings, console: Console, command: str) -> None:
    """Everything, from the first mazes to the page."""
    began = time.perf_counter()
    models = load_models(settings.weights)  # first, so that a wrong name is told at once
    settings.folder.mkdir(parents=True, exist_ok=True)
    console.print("[bold]Clew[/]: mazes of two families, made, solved and drawn.\n")
    first_mazes.show(settings.first, settings.folder, console)

    console.print(
        f"[bold]A model learns 10x10 mazes from random weights[/], in {settings.minutes:g} minutes of training.\n"
    )
    folder = settings.folder / RUN_NAME
    end = learn(folder, settings.minutes, console)
    if end.reason == "signal":
        raise Stopped(end.signal)
    now = replace(load(folder), name=TRAINED_NOW)
    trials = [_solved(console, now, settings.learnt, settings.seed)]

    if models:
        console.print("\n[bold]Models that trained for longer[/], and mazes of growing size.\n")
    for model, size, until in turns(models, settings.growing, settings.seconds):
        trials.append(_solved(console, model, size, settings.seed, until))

    console.print(Padding(accuracy_table(trials), (1, 0)))
    page = settings.folder / "demo.html"
    origin = provenance(command, [settings.seed])
    write_demo_page(page, DemoPage(origin, trials, curve(folder), _notes([now, *models], settings)))
    console.print(
        f"All in {time.perf_counter() - began:.0f} s. The mazes they solved and missed: [bold]{page}[/]\n"
        f"Next: clew evaluate {folder} --decoder all --report report.html, or clew --help.",
        soft_wrap=True,
    )


def learn(folder: Path, minutes: float, console: Console) -> RunEnd:
    """Train a model in the folder, with a progress display on the console."""
    config = replace(config_named(CONFIG), budget=Budget(minutes=minutes), evaluate_every=100, checkpoint_every=100)
    forget(folder)
    return train(config, folder, callbacks=[ProgressDisplay(console.file)]).end


def forget(folder: Path) -> None:
    """Remove the run of an earlier demo, unless it is being trained right now; whatever else is there stays."""
    earlier = RunFolder(folder)
    with earlier.locked():
        if (folder / CONFIG_FILE).exists():
            shutil.rmtree(earlier.checkpoints, ignore_errors=True)
            earlier.metrics.unlink(missing_ok=True)
            (folder / CONFIG_FILE).unlink()  # last, so that a kill in between leaves a run to be forgotten


def curve(folder: Path) -> list[tuple[float, float]]:
    """Minutes and exact share of each evaluation of a run."""
    return [
        (line["elapsed"] / 60, line["scores"]["exact"]) for line in Run(folder).metrics if line["kind"] == "evaluation"
    ]


def _solved(console: Console, model: TrainedModel, size: Size, seed: int, until: float = float("inf")) -> Trial:
    with step(console, f"{model.name}: {size.side}x{size.side}") as told:
        trial = solve(model, size, seed, until)
        exact = trial.evaluation.scores.exact
        told.append(f"{exact.hits:,} of {exact.count:,} exact")
    return trial


def _notes(models: Sequence[TrainedModel], settings: Settings) -> list[str]:
    sizes = "; ".join(
        f"{model.name}: {model.parameters:,} parameters, trained on mazes of up to {model.height}x{model.width}"
        for model in models
    )
    return [f"{sizes}.", f"The first was trained for {settings.minutes:g} minutes in this very run."]
