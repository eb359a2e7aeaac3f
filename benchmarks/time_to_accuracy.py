"""Minutes of one core to 50, 90 and 99 % exact paths on held-out 10x10 mazes of both families.

    python benchmarks/time_to_accuracy.py                # six trainings of 10 minutes; results/time-to-accuracy.json
    python benchmarks/time_to_accuracy.py --minutes 0.05 --held-out 5 --text-model tiny --work w --out x.json

Three methods: the cell network trained with MLM-U, the same network trained with next token, and the paper's
encoder-decoder on text with the paper's recipe (on fresh mazes, in float32). Each trains with one thread for the same
minutes of CPU time, without the time of its evaluations; other programs on the machine do not change that clock. The
same command continues after a stop.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import tyro
from torch import Tensor, nn
from work import FAMILIES, command_line, save

from clew.data.config import DataConfig
from clew.data.loader import build_loader, held_out_tasks
from clew.decoding.codec import Codec, DecodingState, Step
from clew.decoding.text_decoders import LeftToRight
from clew.errors import UserError, guarded
from clew.evaluation.evaluate import evaluate_tasks
from clew.evaluation.scores import proportion
from clew.files import read_json, write_json
from clew.mazes.maze import TaskBatch
from clew.models.build import build_model, count_parameters
from clew.models.config import SIZES, EncoderDecoderConfig, Model
from clew.objectives.config import ObjectiveConfig
from clew.paper.named_configs import SMALL_SIZES, cells, config_named
from clew.provenance import provenance
from clew.training import train as training
from clew.training.callbacks import METRICS_FILE, ProgressDisplay
from clew.training.checkpoint import CONFIG_FILE, load_config
from clew.training.config import Budget, TrainConfig
from clew.training.distributed import World
from clew.training.train import Trainer, local_batch, train, training_decoder

SIDE = 10
TARGETS = (0.5, 0.9, 0.99)
POINTS = 15  # evaluations of a run, about
AT_ONCE = 100  # mazes decoded at once
STEPS_A_MINUTE = 250  # of the cell network: sizes grow over the first 40 % of the run
METHODS = {
    "cells": "cell network, MLM-U",
    "cells-next": "cell network, next token",
    "text": "the paper's MLM-U on text",
}
TEXT = {"dfs": ("edge-list", "paper-dfs-10-mlmu-8m"), "astar": ("wall-list", "paper-astar-10-mlmu-8m")}


class Interrupted(Exception):
    """A signal stopped a run after it was saved."""


def main(
    minutes: float = 10.0,
    held_out: int = 500,
    text_model: str = "8m",
    work: Path = Path("runs/time-to-accuracy"),
    out: Path = Path("results/time-to-accuracy.json"),
    seed: int = 0,
) -> None:
    """Train all, or what is left of them, and read what they reached.

    Args:
        minutes: of CPU time for each training, without evaluation.
        held_out: mazes of each evaluation.
        text_model: size of the text model: tiny, 3m or 8m (the paper's).
        work: the folder of the runs.
        out: the file.
        seed: of the weights and the training mazes.
    """
    if not 0 < minutes <= 10_000 or held_out < 1:
        raise UserError("give --minutes a number above 0 and up to 10,000, and --held-out 1 or more.")
    if text_model not in SIZES:
        raise UserError(f"there is no text model {text_model!r}; use one of {', '.join(SIZES)}.")
    torch.set_num_threads(1)
    training.now = time.process_time  # the run's minutes become those of the CPU
    origin = provenance(command_line(), [seed])
    work.mkdir(parents=True, exist_ok=True)
    check_machine(work / "machine.json", origin)
    curves = []
    for family in FAMILIES:
        for method in METHODS:
            config = config_of(method, family, minutes, text_model)
            config = replace(config, held_out=held_out, seed=seed, threads=1, log_every=10)
            folder = work / "-".join([family, method, *([text_model] if method == "text" else []), f"{minutes:g}min"])
            print(f"training: {folder.name}", file=sys.stderr)
            try:
                run(config, folder)
            except Interrupted:
                sys.exit("saved and stopped; the same command continues.")
            curves.append({"family": family, "method": method} | curve(config, folder))
            save(out, {"provenance": origin, "minutes_each": minutes, "held_out": held_out, "curves": curves})


def config_of(method: str, family: str, minutes: float, text_model: str) -> TrainConfig:
    """The training of a method on mazes of a family, up to 10x10."""
    if method == "text":
        form, recipe = TEXT[family]
        config = config_named(recipe)
        width, heads, depth = SIZES[text_model]
        assert isinstance(config.model, EncoderDecoderConfig)
        return replace(
            config,
            data=DataConfig(family=family, sizes=(SIDE,), format=form),  # type: ignore[arg-type]
            model=replace(config.model, width=width, heads=heads, encoder_depth=depth // 2, decoder_depth=depth // 2),
            budget=Budget(minutes=minutes),
            precision="fp32",
            micro_batch=16,  # to save memory
        )
    sizes = tuple(size for size in SMALL_SIZES if size <= SIDE)
    config = replace(cells(family, sizes, round(STEPS_A_MINUTE * minutes) or 1), budget=Budget(minutes=minutes))
    return replace(config, objective=ObjectiveConfig("next-token")) if method == "cells-next" else config


def check_machine(file: Path, origin: dict[str, Any]) -> None:
    """Refuse to continue on another machine: its minutes cannot be compared."""
    machine = {name: origin[name] for name in ("cpu", "cores")}
    if not file.exists():
        write_json(file, machine)
    if read_json(file) != machine:
        raise UserError(f"{file.parent} was begun on another machine; use a new --work folder.")


def run(config: TrainConfig, folder: Path) -> None:
    """Train, or continue a run; it is evaluated about POINTS times."""
    assert config.budget.minutes is not None
    if (folder / CONFIG_FILE).exists():
        before = load_config(folder)
        if before.held_out != config.held_out:
            raise UserError(f"{folder} is scored on {before.held_out} mazes; use the same --held-out, or a new --work.")
        every = before.evaluate_every
    else:
        every = max(1, round(60 * config.budget.minutes / POINTS / seconds_a_step(config)))
    config = replace(config, evaluate_every=every, checkpoint_every=every)
    end = train(config, folder, evaluate=exact_evaluator(config), callbacks=[ProgressDisplay()]).end
    if end.reason == "signal":
        raise Interrupted


def seconds_a_step(config: TrainConfig, steps: int = 3) -> float:
    """About how long a step of the largest mazes takes, to place the evaluations."""
    config = replace(config, data=replace(config.data, sizes=config.data.sizes[-1:]))
    loader = build_loader(config.data, config.batch_size, config.seed)
    state = Trainer(config, World())
    took = []
    for step in range(steps):
        began = time.process_time()
        part = local_batch(loader.batch(step), state.objective, 0, step, loader.batch_size(step), World())
        state.compute_gradient(part)
        took.append(time.process_time() - began)
    return min(took)


@dataclass(frozen=True)
class UntilWrong:
    """Left to right; a maze ends at its first wrong token, since its path cannot be exact any more."""

    def steps(self, model: Model, state: DecodingState, row_N: Tensor) -> Iterator[Step]:
        assert state.codec is not None
        assert state.tasks is not None
        truth_BR = torch.full(state.token_BR.shape, -1)
        known_BR, _ = state.codec.truth(state.tasks)
        truth_BR[:, : known_BR.shape[1]] = known_BR
        for step in LeftToRight().steps(model, state, row_N):
            yield step
            wrong_F = truth_BR[step.row_F.cpu(), step.position_F.cpu()] != step.token_F.cpu()
            state.length_B[step.row_F[wrong_F.to(step.row_F.device)]] = 0


def exact_evaluator(config: TrainConfig) -> Callable[[nn.Module], dict[str, float]]:
    """Return the function that the training loop calls: the exact-path accuracy on held-out 10x10 mazes."""
    (tasks,) = held_out_tasks(replace(config.data, sizes=config.data.sizes[-1:]), config.held_out)
    codec = Codec.of(config.data.format, tasks.height, tasks.width)
    return lambda model: {"exact": exact_solved(model, config, codec, tasks) / len(tasks)}


def exact_solved(model: Model, config: TrainConfig, codec: Codec, tasks: TaskBatch) -> int:
    """Return how many of these mazes the model solves exactly."""
    decoder = training_decoder(config) if codec.vocabulary is None else UntilWrong()
    return evaluate_tasks(model, codec, tasks, decoder, AT_ONCE, seed=config.data.seed).exact.hits


def curve(config: TrainConfig, folder: Path) -> dict[str, Any]:
    """What a run reached, and when."""
    lines = [json.loads(line) for line in (folder / METRICS_FILE).read_text(encoding="utf-8").splitlines()]
    points = [
        {"minutes": line["elapsed"] / 60, "step": line["step"], "exact": line["scores"]["exact"]}
        for line in lines
        if line["kind"] == "evaluation"
    ]
    last_step = [line for line in lines if line["kind"] == "step"][-1]
    last = proportion(round(points[-1]["exact"] * config.held_out), config.held_out)
    return {
        "parameters": count_parameters(build_model(config.model, 0)),
        "steps": last_step["step"],
        "mazes": last_step["mazes"],
        "minutes_to": {
            f"{target:.0%}": next((p["minutes"] for p in points if p["exact"] >= target), None) for target in TARGETS
        },
        "final": {"exact": last.share, "low": last.low, "high": last.high},
        "points": points,
    }


def tables(report: dict[str, Any]) -> str:
    """A row for each training, for docs/cells.md."""
    targets = [f"{target:.0%}" for target in TARGETS]
    lines = [
        f"{report['minutes_each']:g} minutes of one core each; exact paths of {report['held_out']} held-out 10x10 "
        "mazes:",
        "",
        f"| mazes | model | parameters | {' | '.join(f'minutes to {target}' for target in targets)} | exact % at the "
        "end | trained on |",
        "|---" * (5 + len(targets)) + "|",
    ]
    for each in report["curves"]:
        minutes = ["not reached" if each["minutes_to"][t] is None else f"{each['minutes_to'][t]:.1f}" for t in targets]
        final = {name: f"{100 * value:.1f}" for name, value in each["final"].items()}
        lines.append(
            f"| {FAMILIES[each['family']]} | {METHODS[each['method']]} | {each['parameters']:,} | "
            f"{' | '.join(minutes)} | {final['exact']} ({final['low']} to {final['high']}) | {each['mazes']:,} mazes |"
        )
    return "\n".join(lines) + "\n"


def plot(report: dict[str, Any], file: Path) -> None:
    """Accuracy against minutes, a panel for each family."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, family in zip(figure.subplots(1, len(FAMILIES)), FAMILIES, strict=True):
        for each in (each for each in report["curves"] if each["family"] == family):
            minutes = [point["minutes"] for point in each["points"]]
            exact = [100 * point["exact"] for point in each["points"]]
            axes.plot(minutes, exact, marker=".", label=f"{METHODS[each['method']]}, {each['parameters'] / 1e6:.2g}M")
        for target in TARGETS:
            axes.axhline(100 * target, color="grey", linewidth=0.5, linestyle=":")
        axes.set(title=f"{FAMILIES[family]} 10x10", xlabel="minutes of one core", ylabel="exact paths, %")
        axes.set(xlim=0, ylim=(-2, 102))
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    sys.exit(guarded(lambda: tyro.cli(main)))
