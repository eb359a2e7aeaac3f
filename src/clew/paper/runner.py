"""Train what a study needs, score it, and write what it measured; what is done already is not done again.

    signal = reproduce([STUDIES["astar"]], Options("smoke", root=Path("somewhere")), say=print)

Every training is a run folder that resumes by itself, every exam is a file, and the result is written in one step, so a
kill at any moment costs the work since the last checkpoint. SIGTERM and Ctrl-C save and leave. Several processes
(torchrun) train together, and each scores some of the trained models. The three parts can also be done one by one, as
the jobs of a cluster do:

    train_run(run, place); score_run(run, place); collect(study, options, say=print)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clew.data.loader import make_dataset
from clew.errors import UserError
from clew.files import read_json, write_json
from clew.paper.estimate import fitted
from clew.paper.place import Place, batches_of, only_one
from clew.paper.recipes import parameters_of
from clew.paper.score import exam_scores, is_scored, training_mazes
from clew.paper.shrink import HELD_OUT, shrunken
from clew.paper.study import Exam, Run, Scale, Study
from clew.paper.write import write_result
from clew.provenance import provenance
from clew.training.callbacks import RunEnd
from clew.training.config import Budget
from clew.training.distributed import World, joined_world
from clew.training.held_out import evaluator_on, held_out_evaluator
from clew.training.progress import ProgressDisplay
from clew.training.run_folder import METRICS_FILE
from clew.training.train import train

FINISHED = "finished.json"


@dataclass(frozen=True)
class Options:
    """What the user asks for."""

    scale: Scale
    root: Path = Path()
    seeds: int | None = None  # None: as many as the study wants
    minutes: float | None = None  # of each training, instead of its own budget
    threads: int | None = None
    micro_batch: int | None = None
    timeout_hours: float = 4.0  # that one of several processes waits for the others

    @property
    def place(self) -> Place:
        return Place(self.root, self.scale)

    def command(self, study: Study) -> str:
        """The command that gives a study's numbers again."""
        words = ["clew", "reproduce", study.name, "--scale", self.scale, "--seeds", str(seeds_of(study, self))]
        if self.minutes is not None:
            words += ["--minutes", f"{self.minutes:g}"]
        if self.threads is not None:
            words += ["--threads", str(self.threads)]
        if self.micro_batch is not None:
            words += ["--micro-batch", str(self.micro_batch)]
        return " ".join(words)


def runs_of(study: Study, options: Options) -> list[Run]:
    """All trainings of a study, one for each seed."""
    runs = study.runs("paper" if options.scale == "paper" else "laptop")
    if options.scale == "smoke":
        runs = [smoke(run) for run in runs]
    if options.minutes is not None:
        runs = [replace(run, config=replace(run.config, budget=Budget(minutes=options.minutes))) for run in runs]
    if options.threads is not None:
        runs = [replace(run, config=replace(run.config, threads=options.threads)) for run in runs]
    if options.micro_batch is not None:
        runs = [replace(run, config=replace(run.config, micro_batch=options.micro_batch)) for run in runs]
    runs = [replace(run, config=replace(run.config, timeout_hours=options.timeout_hours)) for run in runs]
    pairs = [(seed, run) for seed in range(seeds_of(study, options)) for run in runs]
    return [options.place.settled(run.seeded(seed)) for seed, run in pairs if run.seeds is None or seed < run.seeds]


def unique_runs(studies: Sequence[Study], options: Options) -> dict[Path, Run]:
    """The trainings of all studies by their folders; studies that ask for the same one share it.

    It has the exams of all of them.
    """
    found: dict[Path, Run] = {}
    for study in studies:
        for run in runs_of(study, options):
            other = found.setdefault(options.place.run(run), run)
            found[options.place.run(run)] = replace(other, exams=tuple(dict.fromkeys([*other.exams, *run.exams])))
    return found


def seeds_of(study: Study, options: Options) -> int:
    """How many times each training is done with other chance."""
    return options.seeds or (1 if options.scale == "smoke" else study.seeds)


def smoke(run: Run) -> Run:
    """The run so small that it takes a moment; what it scores means nothing."""
    config = shrunken(run.config)

    def small(exam: Exam) -> Exam:
        return replace(exam, mazes=HELD_OUT)

    train_mazes = HELD_OUT if run.train_mazes else 0
    return replace(run, config=config, exams=tuple(map(small, run.exams)), train_mazes=train_mazes)


def reproduce(studies: Sequence[Study], options: Options, say: Callable[[str], None]) -> int:
    """Do all studies, or what is left of them; the signal that stopped it, or 0."""
    with joined_world("auto", options.timeout_hours) as world:
        for study in studies:
            if signal := train_all(study, options, world, say):
                return signal
            score_all(study, options, world, say)
            world.on_main(partial(collect, study, options, say))
    return 0


def train_all(study: Study, options: Options, world: World, say: Callable[[str], None]) -> int:
    """The trainings of a study that are not finished yet; the signal that stopped one, or 0."""
    runs = runs_of(study, options)
    for number, run in enumerate(runs, start=1):
        if world.is_main and not finished(run, options.place):
            say(f"{study.name}: training {number} of {len(runs)}: {', '.join(run.labels.values())}")
        end = train_run(run, options.place, world)
        if end.reason == "signal":
            return end.signal
    return 0


def finished(run: Run, place: Place) -> bool:
    """Whether a run has been trained to its end."""
    return (place.run(run) / FINISHED).exists()


def train_run(run: Run, place: Place, world: World | None = None) -> RunEnd:
    """Train a run to its end, or go on with it; without a world, as one of torchrun's or Slurm's processes."""
    if world is None:
        with joined_world("auto", run.config.timeout_hours) as joined:
            return train_run(run, place, joined)
    if world.device.type == "cuda":
        memory = torch.cuda.get_device_properties(world.device).total_memory
        run = replace(run, config=fitted(run.config, world.size, memory))
    with only_one(place.run(run)) if world.is_main else nullcontext():
        end: RunEnd | None = world.from_main(_finished_end(run, place) if world.is_main else None)
        return end or _train(run, place, world)


def _finished_end(run: Run, place: Place) -> RunEnd | None:
    if not finished(run, place):
        return None
    done = read_json(place.run(run) / FINISHED)
    return RunEnd(done["steps"], 60 * done["minutes"], "done", None)


def _train(run: Run, place: Place, world: World) -> RunEnd:
    folder = place.run(run)
    callbacks = [] if place.scale == "smoke" else [ProgressDisplay()]
    world.on_main(lambda: make_dataset(run.config.data))  # from which the mazes of the curve come
    end = train(run.config, folder, evaluate=curve_evaluator(run, world), callbacks=callbacks, world=world).end
    if world.is_main and end.reason == "done":
        date = datetime.now(UTC).isoformat(timespec="seconds")
        device = world.device.type
        devices = world.size * (1 if device == "cuda" else run.config.threads or torch.get_num_threads())
        done = {"steps": end.step, "minutes": end.elapsed / 60, "device": device, "devices": devices, "date": date}
        write_json(folder / FINISHED, done)
    return end


def curve_evaluator(run: Run, world: World) -> Callable[[nn.Module], dict[str, float]] | None:
    """What is scored while a run is trained: held-out mazes and, where they are wanted, training mazes."""
    held_out = held_out_evaluator(run.config, world)
    if not run.train_mazes:
        return held_out
    mazes = training_mazes(run.config.data, run.train_mazes)
    trained = evaluator_on([mazes], "train", run.config, world)

    def evaluate(model: nn.Module) -> dict[str, float]:
        scores = held_out(model) if held_out else {}
        return scores | {f"train-{name}": value for name, value in trained(model).items()}

    return evaluate


def score_all(study: Study, options: Options, world: World, say: Callable[[str], None]) -> None:
    """Score the trained runs of a study, each on one of the processes."""
    runs = runs_of(study, options)
    if runs and world.is_main:
        say(f"{study.name}: scoring {len(runs)} trained models, unless they were before")
    for run in runs[world.rank :: world.size]:
        score_run(run, options.place)
    world.wait_for_all()


def score_run(run: Run, place: Place) -> None:
    """Score a trained run in all of its exams, unless that is done."""
    folder = place.run(run)
    with only_one(folder):
        for exam in run.exams:
            exam_scores(folder, run, exam)


def scored(run: Run, place: Place) -> bool:
    """Whether a run has been trained and scored in all of its exams."""
    return finished(run, place) and all(is_scored(place.run(run), exam) for exam in run.exams)


def collect(study: Study, options: Options, say: Callable[[str], None]) -> None:
    """Write the result of a study, with its picture, from the runs that have been scored."""
    runs = runs_of(study, options)
    done = [run for run in runs if scored(run, options.place)]
    if runs and not done:
        raise UserError(
            f"no training of {study.name} at {options.scale} scale has been scored below {options.root.absolute()}; "
            "wait for the jobs, or run the same command without --collect."
        )
    missing = [", ".join([*run.labels.values(), f"seed {run.config.seed}"]) for run in runs if run not in done]
    if missing:
        say(f"{study.name}: {len(missing)} of {len(runs)} runs are not scored yet and left out: {'; '.join(missing)}")
    entries = [entry(run, options.place.run(run)) for run in done]
    value = {
        "study": study.name,
        "scale": options.scale,
        "provenance": provenance(options.command(study), list(range(seeds_of(study, options)))),
        "minutes": round(sum(each["minutes"] for each in entries), 3),
        "runs": entries,
        **({"missing": missing} if missing else {}),
        "measured": study.measure(options.scale) if study.measure else {},
    }
    file = write_result(study, value, options.place)
    say(f"{study.name}: {file}")


def entry(run: Run, folder: Path) -> dict[str, Any]:
    """All that a trained run tells."""
    # Without a device: finished before it was written down, on as many cores as the config says.
    done = {"device": "cpu", "devices": run.config.threads or 1} | read_json(folder / FINISHED)
    config = run.config.to_json()
    config["data"] = config["data"] | {"folder": ""}  # a place on one machine, of no meaning elsewhere
    return {
        "labels": run.labels,
        "seed": run.config.seed,
        "parameters": parameters_of(run.config.model),
        "steps": done["steps"],
        "minutes": round(done["minutes"], 4),
        "device": done["device"],
        "devices": done["devices"],  # cores or GPUs
        "trained": done["date"],
        "exams": {exam.name: exam_scores(folder, run, exam) for exam in run.exams},
        "curve": curve(folder, done["devices"]),
        "batches": batches_of(run.config.data),
        "config": config,
    }


def curve(folder: Path, devices: int) -> list[dict[str, float]]:
    """The scores of every evaluation, with the steps, mazes seen, minutes and core or GPU hours until then."""
    lines = [json.loads(line) for line in (folder / METRICS_FILE).read_text(encoding="utf-8").splitlines()]
    mazes = {line["step"]: line["mazes"] for line in lines if line["kind"] == "step"}
    points = []
    for line in lines:
        if line["kind"] == "evaluation":
            # Steps are told of now and then; between two tellings as many mazes go by in each.
            before = max((step for step in mazes if step <= line["step"]), default=0)
            seen = mazes[before] * line["step"] / before if before else 0
            minutes = line["elapsed"] / 60
            point = {"step": line["step"], "mazes": round(seen), "minutes": round(minutes, 4)}
            point["hours"] = round(devices * minutes / 60, 6)
            points.append(point | {name: round(value, 6) for name, value in line["scores"].items()})
    return points
