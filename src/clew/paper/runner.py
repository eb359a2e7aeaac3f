"""Run studies: train, evaluate, and write the result; finished parts are not repeated.

    signal = reproduce([STUDIES["astar"]], Options("smoke", root=Path("somewhere")), say=print)

Files below the root:

    runs/reproduce/SCALE/RUN/      a run folder of clew.training, finished.json when it is done, and scores/
    data/                          the datasets
    results/NAME/SCALE.json        the result of a study, and SCALE.png beside it

A run folder is named after its settings only, so studies that ask for the same training share it. Every training
resumes by itself, every evaluation is a file, and the result is written in one step, so a kill costs the work since the
last checkpoint. SIGTERM and Ctrl-C save and stop. Several processes (torchrun) train together, and each evaluates some
of the trained models. The jobs of a cluster call the three parts one by one:

    train_run(run, options); score_run(run, options); collect(study, options, say=print)
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clew.data.config import DataConfig
from clew.data.loader import make_dataset
from clew.errors import UserError, is_quiet
from clew.files import read_json, write_json
from clew.paper.estimate import fit_micro_batch
from clew.paper.page import write_result
from clew.paper.scoring import digest, evaluation_scores, is_scored, training_mazes
from clew.paper.study import RunSpec, Scale, Study, parameters_of
from clew.provenance import provenance
from clew.training.callbacks import RunEnd
from clew.training.config import Budget
from clew.training.distributed import World, joined_world
from clew.training.held_out import evaluator_on, held_out_evaluator
from clew.training.progress import ProgressDisplay
from clew.training.run_folder import METRICS_FILE
from clew.training.train import train

if sys.platform != "win32":
    import fcntl

FINISHED, CORE_SECONDS = "finished.json", "core-seconds.json"
# Where a run is computed does not change what it is.
MACHINE_FIELDS = ("device", "parallel", "threads", "compile", "micro_batch", "timeout_hours")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """The options of `clew reproduce`, and the files that follow from them."""

    scale: Scale
    root: Path = Path()
    seeds: int | None = None  # None: as many as the study has by default
    minutes: float | None = None  # of each training, instead of its own budget
    threads: int | None = None
    micro_batch: int | None = None
    timeout_hours: float = 4.0  # that one of several processes waits for the others

    def command(self, study: Study) -> str:
        """Return the command that measures a study's numbers again."""
        words = ["clew", "reproduce", study.name, "--scale", self.scale, "--seeds", str(self.seeds_of(study))]
        for name in ("minutes", "threads", "micro_batch"):
            if (value := getattr(self, name)) is not None:
                words += [f"--{name.replace('_', '-')}", f"{value:g}"]
        return " ".join(words)

    def seeds_of(self, study: Study) -> int:
        """Return how many seeds each training has."""
        return self.seeds or study.seeds.get(self.scale, 1)

    def run_folder(self, run: RunSpec) -> Path:
        """Return the folder of a run."""
        data, config = run.config.data, run.config.to_json()
        settings = {name: value for name, value in config.items() if name not in MACHINE_FIELDS}
        settings["data"] = settings["data"] | {"folder": "", "batches": batches_of(data)}
        words = [data.family, str(data.sizes[-1]), data.format, run.config.objective.name, f"seed{run.config.seed}"]
        name = "-".join([*words, digest([settings, run.train_mazes])])
        return self.root / "runs" / "reproduce" / self.scale / name

    def result_file(self, study: str) -> Path:
        """Return the result of a study."""
        return self.root / "results" / study / f"{self.scale}.json"

    def is_trained(self, run: RunSpec) -> bool:
        """Return whether a run has been trained to its end."""
        return (self.run_folder(run) / FINISHED).exists()

    def is_scored(self, run: RunSpec) -> bool:
        """Return whether a run has been trained and evaluated."""
        folder = self.run_folder(run)
        return self.is_trained(run) and all(is_scored(folder, evaluation) for evaluation in run.evaluations)

    def configured(self, run: RunSpec) -> RunSpec:
        """Return the run with these options, and its dataset below the root."""
        config = replace(run.config, timeout_hours=self.timeout_hours)
        if self.minutes is not None:
            config = replace(config, budget=Budget(minutes=self.minutes))
        if self.threads is not None:
            config = replace(config, threads=self.threads)
        if self.micro_batch is not None:
            config = replace(config, micro_batch=self.micro_batch)
        data = config.data
        if data.source == "dataset":
            folder = self.root / "data" / data.dataset_folder.name
            if self.scale != "paper":  # the paper's datasets are those of its configs
                folder = folder.with_name(f"{replace(data, folder='').dataset_folder.name}-{data.mazes}")
            config = replace(config, data=replace(data, folder=str(folder)))
        return replace(run, config=config)


def batches_of(data: DataConfig) -> str:
    """Return how the mazes of a step are chosen; a run that was trained otherwise is another run.

    Before version 0.2, batches of a dataset were "length buckets": mazes of similar length.
    """
    return "fresh mazes" if data.source == "stream" else "shuffled"


def runs_of(study: Study, options: Options) -> list[RunSpec]:
    """Return all trainings of a study, one for each seed."""
    runs = study.runs("paper" if options.scale == "paper" else "laptop")
    if options.scale == "smoke":
        runs = [run.smoke() for run in runs]
    pairs = [(seed, run) for seed in range(options.seeds_of(study)) for run in runs]
    return [options.configured(run.seeded(seed)) for seed, run in pairs if run.seeds is None or seed < run.seeds]


def unique_runs(studies: Sequence[Study], options: Options) -> dict[Path, RunSpec]:
    """Return the trainings of all studies by their folders; a shared one has the evaluations of all its studies."""
    found: dict[Path, RunSpec] = {}
    for study in studies:
        for run in runs_of(study, options):
            folder = options.run_folder(run)
            other = found.setdefault(folder, run)
            found[folder] = replace(other, evaluations=tuple(dict.fromkeys([*other.evaluations, *run.evaluations])))
    return found


def reproduce(studies: Sequence[Study], options: Options, say: Say) -> int:
    """Do what is left of all studies; return the signal that stopped it, or 0."""
    with joined_world("auto", options.timeout_hours) as world:
        for study in studies:
            if signal := train_all(study, options, world, say):
                return signal
            score_all(study, options, world, say)
            world.on_main(partial(collect, study, options, say))
    return 0


def train_all(study: Study, options: Options, world: World, say: Say) -> int:
    """Train what is not finished, small mazes first; return the signal that stopped it, or 0.

    A process that is alone evaluates each model when it is trained, so that --collect can report it before the others.
    """
    runs = sorted(runs_of(study, options), key=lambda run: run.config.data.sizes[-1])
    for number, run in enumerate(runs, start=1):
        if world.is_main and not options.is_trained(run):
            say(f"{study.name}: training {number} of {len(runs)}: {', '.join(run.labels.values())}")
        end = train_run(run, options, world)
        if end.reason == "signal":
            return end.signal
        if world.size == 1:
            score_run(run, options)
    return 0


def train_run(run: RunSpec, options: Options, world: World | None = None) -> RunEnd:
    """Train or resume a run; without a world, as one of torchrun's or Slurm's processes."""
    if world is None:
        with joined_world("auto", run.config.timeout_hours) as joined:
            return train_run(run, options, joined)
    if world.device.type == "cuda":
        memory = torch.cuda.get_device_properties(world.device).total_memory
        run = replace(run, config=fit_micro_batch(run.config, world.size, memory))
    folder = options.run_folder(run)
    with locked(folder) if world.is_main else nullcontext():
        if world.from_main(options.is_trained(run) if world.is_main else None):
            return RunEnd(0, 0.0, "done", None)
        world.on_main(lambda: make_dataset(run.config.data))  # which the evaluator reads
        callbacks = [] if options.scale == "smoke" or is_quiet() else [ProgressDisplay()]
        file, start = folder / CORE_SECONDS, time.process_time()
        before = read_json(file)["seconds"] if file.exists() else 0.0  # of a training that was stopped
        end = train(run.config, folder, evaluate=curve_evaluator(run, world), callbacks=callbacks, world=world).end
        core_seconds = before + time.process_time() - start
        if world.is_main:
            write_json(file, {"seconds": core_seconds})
        if world.is_main and end.reason == "done":
            date = datetime.now(UTC).isoformat(timespec="seconds")
            device = world.device.type
            devices = world.size * (1 if device == "cuda" else run.config.threads or torch.get_num_threads())
            done = {"steps": end.step, "minutes": end.elapsed / 60, "device": device, "devices": devices, "date": date}
            if device == "cpu" and world.size == 1:
                done["core_minutes"] = core_seconds / 60
            write_json(folder / FINISHED, done)
        return end


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other command works on this run, so that two studies at once can share it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_name(f".{folder.name}.lock"), "w") as lock:
        if sys.platform != "win32":
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def curve_evaluator(run: RunSpec, world: World) -> Callable[[nn.Module], dict[str, float]] | None:
    """Return the evaluation during training: of held-out mazes and, where a study wants it, of training mazes."""
    held_out = held_out_evaluator(run.config, world)
    if not run.train_mazes:
        return held_out
    trained = evaluator_on([training_mazes(run.config.data, run.train_mazes)], "train", run.config, world)

    def evaluate(model: nn.Module) -> dict[str, float]:
        scores = held_out(model) if held_out else {}
        return scores | {f"train-{name}": value for name, value in trained(model).items()}

    return evaluate


def score_all(study: Study, options: Options, world: World, say: Say) -> None:
    """Evaluate the trained runs of a study, each on one of the processes."""
    runs = runs_of(study, options)
    if runs and world.is_main:
        say(f"{study.name}: evaluating {len(runs)} trained models, unless that is done")
    for run in runs[world.rank :: world.size]:
        score_run(run, options)
    world.wait_for_all()


def score_run(run: RunSpec, options: Options) -> None:
    """Do the evaluations of a trained run that are not done."""
    folder = options.run_folder(run)
    with locked(folder):
        for evaluation in run.evaluations:
            evaluation_scores(folder, run, evaluation)


def collect(study: Study, options: Options, say: Say) -> None:
    """Write the result of a study, with its picture, from the runs that have been evaluated."""
    runs = runs_of(study, options)
    done = [run for run in runs if options.is_scored(run)]
    if runs and not done:
        raise UserError(
            f"no training of {study.name} at {options.scale} scale has been evaluated below {options.root.absolute()}; "
            "wait for the jobs, or run the same command without --collect."
        )
    missing = [", ".join([*run.labels.values(), f"seed {run.config.seed}"]) for run in runs if run not in done]
    if missing:
        say(f"{study.name}: {len(missing)} of {len(runs)} runs are not evaluated yet: {'; '.join(missing)}")
    entries = [result_entry(run, options.run_folder(run)) for run in done]
    value = {
        "study": study.name,
        "scale": options.scale,
        "provenance": provenance(options.command(study), list(range(options.seeds_of(study)))),
        "minutes": round(sum(each["minutes"] for each in entries), 3),
        "runs": entries,
        **({"missing": missing} if missing else {}),
        "measured": study.measure(options.scale) if study.measure else {},
    }
    file = options.result_file(study.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_result(study, value, file)
    say(f"{study.name}: {file}")


def result_entry(run: RunSpec, folder: Path) -> dict[str, Any]:
    """Return what the result has of a run."""
    # finished.json of an early version has no device: as many cores as the config says.
    done = {"device": "cpu", "devices": run.config.threads or 1} | read_json(folder / FINISHED)
    config = run.config.to_json()
    config["data"] = config["data"] | {"folder": ""}  # a path of one machine
    return {
        "labels": run.labels,
        "seed": run.config.seed,
        "parameters": parameters_of(run.config.model),
        "steps": done["steps"],
        "minutes": round(done["minutes"], 4),
        # Processor time, with evaluations; minutes also count the time of other work on the machine.
        **({"core_minutes": round(done["core_minutes"], 4)} if "core_minutes" in done else {}),
        "device": done["device"],
        "devices": done["devices"],  # cores or GPUs
        "trained": done["date"],
        "exams": {evaluation.name: evaluation_scores(folder, run, evaluation) for evaluation in run.evaluations},
        "curve": training_curve(folder, done["devices"]),
        "batches": batches_of(run.config.data),
        "config": config,
    }


def training_curve(folder: Path, devices: int) -> list[dict[str, float]]:
    """Return the scores of every evaluation, with the steps, mazes seen, minutes and core or GPU hours until then."""
    lines = [json.loads(line) for line in (folder / METRICS_FILE).read_text(encoding="utf-8").splitlines()]
    mazes = {line["step"]: line["mazes"] for line in lines if line["kind"] == "step"}
    points = []
    for line in lines:
        if line["kind"] == "evaluation":
            # Mazes are logged every few steps; between two lines each step has as many.
            before = max((step for step in mazes if step <= line["step"]), default=0)
            seen = mazes[before] * line["step"] / before if before else 0
            minutes = line["elapsed"] / 60
            point = {"step": line["step"], "mazes": round(seen), "minutes": round(minutes, 4)}
            point["hours"] = round(devices * minutes / 60, 6)
            points.append(point | {name: round(value, 6) for name, value in line["scores"].items()})
    return points
