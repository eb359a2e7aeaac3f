"""Minutes of training until a model solves 50, 90 and 99 % of held-out mazes (`clew bench time-to-accuracy`).

Four ways to learn DFS mazes of one size, trained one after the other on the same machine for the same minutes:

- the paper's encoder-decoder, MLM-U, on the text of edges, with the paper's recipe;
- the paper's decoder-only model, next token, on the same text, with the paper's recipe;
- the grid-pointer, MLM-U, on cells;
- next token on cells, with the same recipe as the grid-pointer.

Each is a normal run folder in the work folder. A run that was interrupted is gone on with, and one that is done is only
read, so the benchmark can be made in pieces; all on one machine, or the minutes mean nothing.

The score is the exact path, decoded from left to right, for all four. Time spent on evaluation does not count. All
train on fresh mazes and never see one twice. (The paper's runs see the same 100,000 again and again, but in the
minutes that a laptop has, its models do not come to the end of them once.)
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from clew.benchmarks.contestants import Contestant, contestants
from clew.benchmarks.exact_score import exact_evaluator
from clew.errors import UserError
from clew.evaluation.intervals import share
from clew.files import read_json, write_json
from clew.models.build import build_model, count_parameters
from clew.objectives.config import build_objective
from clew.report.provenance import provenance
from clew.training.checkpoint import CONFIG_FILE, load_config
from clew.training.config import TrainConfig
from clew.training.distributed import World
from clew.training.loop import train
from clew.training.observer import LinePrinter
from clew.training.run_folder import METRICS_FILE
from clew.training.sources import build_source
from clew.training.step import accumulate_gradient, draw_part

METHODS = {
    "paper-mlmu": "the paper's MLM-U on text",
    "paper-next": "the paper's next token on text",
    "grid-pointer": "grid-pointer",
    "grid-next-token": "next token on the grid",
}
TARGETS = (0.5, 0.9, 0.99)
POINTS = 15  # evaluations in a run, about
MACHINE_FILE = "machine.json"


@dataclass(frozen=True)
class Point:
    """Scores after some minutes of training."""

    minutes: float
    step: int
    exact: float


@dataclass(frozen=True)
class Curve:
    """What one training reached, and when."""

    method: str
    model_size: str | None
    size: int
    parameters: int
    steps: int
    mazes: int  # trained on
    minutes: float
    gigaflops: float  # useful operations a second, on average: two that differ much met a busy machine or a slow form
    minutes_to: dict[str, float | None]  # "50 %": when it was first reached; None if it was not
    final: dict[str, float]  # the last score with its 95 % interval
    points: list[Point]


@dataclass(frozen=True)
class Report:
    """All that was measured."""

    provenance: dict[str, Any]
    began: str  # when the first run of the work folder began
    minutes_each: float
    held_out: int
    threads: int
    curves: list[Curve]

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


class Interrupted(Exception):
    """A signal stopped a run after it was saved."""

    def __init__(self, signal: int) -> None:
        super().__init__(signal)
        self.signal = signal


def measure(
    sizes: Sequence[int],
    minutes: float,
    paper_models: Sequence[str],
    work: Path,
    command: str,
    say: Callable[[str], None],
    held_out: int = 300,
    seed: int = 0,
) -> Report:
    """Train all four, or what is left of them, and read what they reached."""
    return measure_all(contestants(sizes, minutes, paper_models, held_out, seed), work, command, say)


def measure_all(
    found: Sequence[Contestant], work: Path, command: str, say: Callable[[str], None], points: int | None = None
) -> Report:
    """The same for any trainings of the same minutes, with about so many evaluations in each."""
    work.mkdir(parents=True, exist_ok=True)
    first = found[0].config
    assert first.budget.minutes is not None
    told = provenance(command, seeds=[first.seed])
    began = check_machine(work / MACHINE_FILE, told)
    curves = []
    for contestant in found:
        say(contestant.name)
        run(contestant, work / contestant.name, points)
        curves.append(curve(contestant, work / contestant.name))
    return Report(told, began, first.budget.minutes, first.held_out, torch.get_num_threads(), curves)


def check_machine(file: Path, told: dict[str, Any]) -> str:
    """Remember the machine of the first piece and refuse another one; when the first piece began."""
    if not file.exists():
        write_json(file, {name: told[name] for name in ("cpu", "cores", "date")})
    first = read_json(file)
    if not isinstance(first, dict) or not {"cpu", "cores", "date"} <= first.keys():
        raise UserError(f"{file} does not say which machine the runs beside it were made on; use a new --work folder.")
    if (first["cpu"], first["cores"]) != (told["cpu"], told["cores"]):
        raise UserError(
            f"{file.parent} was begun on another machine ({first['cores']} x {first['cpu']}), whose minutes cannot be "
            "compared with this one's; use a new --work folder."
        )
    return str(first["date"])


def run(contestant: Contestant, folder: Path, points: int | None = None) -> None:
    """Train a contestant, or go on with it; it is scored about so many times."""
    config = contestant.config
    assert config.budget.minutes is not None
    if (folder / CONFIG_FILE).exists():
        before = load_config(folder)
        if before.held_out != config.held_out:
            raise UserError(
                f"{folder} is scored on {before.held_out} mazes and not on {config.held_out}; use the same --held-out, "
                "or a new --work folder."
            )
        every = before.evaluate_every
    else:
        every = max(1, round(60 * config.budget.minutes / (points or POINTS) / seconds_a_step(config)))
    config = replace(config, evaluate_every=every, checkpoint_every=every)
    end = train(config, folder, evaluate=exact_evaluator(config), observers=[LinePrinter()])
    if end.reason == "signal":
        raise Interrupted(end.signal)


def seconds_a_step(config: TrainConfig, steps: int = 3) -> float:
    """About how long a step takes, to place the evaluations; nothing that is measured depends on it."""
    source, objective, model = build_source(config), build_objective(config.objective), build_model(config.model, 0)
    took = []
    for step in range(steps):
        began = time.perf_counter()
        part = draw_part(source.batch(step), objective, 0, step, source.rows(step), World())
        accumulate_gradient(model, part, World(), micro_batch=config.micro_batch, precision=config.precision, scale=1.0)
        took.append(time.perf_counter() - began)
    return min(took)


def curve(contestant: Contestant, folder: Path) -> Curve:
    """What the run folder tells."""
    lines = [json.loads(line) for line in (folder / METRICS_FILE).read_text(encoding="utf-8").splitlines()]
    points = [
        Point(line["elapsed"] / 60, line["step"], line["scores"]["exact"])
        for line in lines
        if line["kind"] == "evaluation"
    ]
    steps = [line for line in lines if line["kind"] == "step"]
    last = share(round(points[-1].exact * contestant.config.held_out), contestant.config.held_out)
    return Curve(
        method=contestant.method,
        model_size=contestant.model_size,
        size=contestant.size,
        parameters=count_parameters(build_model(contestant.config.model, 0)),
        steps=steps[-1]["step"],
        mazes=steps[-1]["mazes"],
        minutes=points[-1].minutes,
        gigaflops=operations(steps) / steps[-1]["elapsed"] / 1e9,
        minutes_to={f"{target:.0%}": minutes_to(points, target) for target in TARGETS},
        final={"exact": last.share, "low": last.low, "high": last.high},
        points=points,
    )


def operations(steps: Sequence[dict[str, Any]]) -> float:
    """The useful operations of a run; each line of its metrics gives the rate since the line before."""
    began = [0.0, *(line["elapsed"] for line in steps)]
    parts = [line["flops_per_second"] * (line["elapsed"] - b) for b, line in zip(began[:-1], steps, strict=True)]
    return float(sum(parts))


def minutes_to(points: Sequence[Point], target: float) -> float | None:
    """When a score was first reached, at an evaluation; None if it never was."""
    return next((point.minutes for point in points if point.exact >= target), None)


def plot(curves: Sequence[Curve], file: Path) -> None:
    """Draw accuracy against minutes of training, a panel for each size of maze."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes = sorted({each.size for each in curves})
    figure, panels = plt.subplots(1, len(sizes), figsize=(5 * len(sizes), 4), squeeze=False, layout="constrained")
    for axes, size in zip(panels[0], sizes, strict=True):
        for each in (each for each in curves if each.size == size):
            minutes, exact = [p.minutes for p in each.points], [100 * p.exact for p in each.points]
            axes.plot(minutes, exact, marker=".", label=label(each))
        for target in TARGETS:
            axes.axhline(100 * target, color="grey", linewidth=0.5, linestyle=":")
        axes.set(title=f"{size}x{size} DFS mazes", xlabel="minutes of training", ylabel="exact paths, %")
        axes.set(xlim=0, ylim=(-2, 102))
        axes.legend(fontsize="small")
    figure.savefig(file, dpi=150)
    plt.close(figure)


def label(curve: Curve) -> str:
    """A method in words, with its number of parameters."""
    return f"{METHODS[curve.method]}, {curve.parameters / 1e6:.2g}M"


def table(report: Report) -> str:
    """The report as lines of text."""
    lines = []
    for each in report.curves:
        reached = ", ".join(
            f"{target} {'not reached' if minutes is None else f'after {minutes:.1f} min'}"
            for target, minutes in each.minutes_to.items()
        )
        exact = f"{each.final['exact']:.1%} ({each.final['low']:.1%} to {each.final['high']:.1%})"
        size = f"{each.model_size}, " if each.model_size else ""
        lines.append(
            f"{each.size}x{each.size} {each.method} ({size}{each.parameters:,} parameters): {reached}; {exact} after "
            f"{each.minutes:.1f} min, {each.steps:,} steps and {each.mazes:,} mazes"
        )
    return "\n".join(lines)
