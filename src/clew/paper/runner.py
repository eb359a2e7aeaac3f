"""Run studies: train, evaluate, and write the result; finished parts are not repeated.

    signal = reproduce([STUDIES["astar"]], Options("smoke", root=Path("somewhere")), log=print)

Files below the root:

    runs/reproduce/SCALE/RUN/      a run folder of clew.training, finished.json when it is done, and scores/
    data/                          the datasets
    results/NAME/SCALE.json        the result of a study, and SCALE.png beside it

A run folder is named after its settings only, so studies that need the same training share it. A kill costs the work
since the last checkpoint. Several processes (torchrun) train together, and each evaluates some of the trained models.
The jobs of a cluster call train_run, score_run and collect one by one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clew.data.config import DataConfig
from clew.data.loader import held_out_draws, make_dataset, open_matching
from clew.decoding.codec import Codec
from clew.decoding.decode import parse_decoder
from clew.errors import UserError, is_quiet
from clew.evaluation.evaluate import evaluate_tasks
from clew.evaluation.scores import Evaluation, Outcome
from clew.evaluation.tasks import held_out
from clew.files import json_checksum, open_own, read_json, to_plain, write_json
from clew.mazes.maze import PathStar, TaskBatch
from clew.paper.estimate import fit_micro_batch
from clew.paper.page import write_result
from clew.paper.study import EvaluationSpec, RunSpec, Scale, Study, parameters_of
from clew.provenance import provenance
from clew.tokenization.format import format_named
from clew.training.callbacks import ProgressDisplay, RunEnd, read_metrics
from clew.training.checkpoint import load_model
from clew.training.config import Budget, TrainConfig
from clew.training.distributed import World, joined_world
from clew.training.train import evaluator_on, held_out_evaluator, train

if sys.platform != "win32":
    import fcntl

FINISHED, CORE_SECONDS = "finished.json", "core-seconds.json"
# Where a run is computed does not change what it is.
MACHINE_FIELDS = ("device", "parallel", "threads", "compile", "micro_batch", "timeout_hours")
HELD_OUT_SEED = 0  # no training mazes are ever among the held-out ones, whatever their seed
KEPT_FAILURES = 8  # wrong answers in a run's folder
KEPT_SCORES = ["mazes", "precision", "exact", "per_token", "valid", "shortest", "unparsable", "passes"]
KEPT_SCORES += ["seconds_per_maze", "failures"]


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

    def run_folder(self, run: RunSpec) -> Path:
        data, settings = run.config.data, settings_of(run.config)
        words = [data.family, str(data.sizes[-1]), data.format, run.config.objective.name, f"seed{run.config.seed}"]
        name = "-".join([*words, json_checksum([settings, run.train_mazes])[:10]])
        return self.root / "runs" / "reproduce" / self.scale / name

    def result_file(self, study: str) -> Path:
        return self.root / "results" / study / f"{self.scale}.json"

    def seeds_of(self, study: Study) -> int:
        return self.seeds or study.seeds.get(self.scale, 1)

    def is_trained(self, run: RunSpec) -> bool:
        return (self.run_folder(run) / FINISHED).exists()

    def is_scored(self, run: RunSpec) -> bool:
        folder = self.run_folder(run)
        return self.is_trained(run) and all(scores_file(folder, spec).exists() for spec in run.evaluations)

    def configured(self, run: RunSpec) -> RunSpec:
        """Return the run with these options, and its dataset below the root."""
        given = {"threads": self.threads, "micro_batch": self.micro_batch, "timeout_hours": self.timeout_hours}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        if self.minutes is not None:
            changes["budget"] = Budget(minutes=self.minutes)
        data = run.config.data
        if data.source == "dataset":
            folder = self.root / "data" / data.dataset_folder.name
            if self.scale != "paper":  # the paper's datasets are those of its configs
                folder = folder.with_name(f"{replace(data, folder='').dataset_folder.name}-{data.mazes}")
            changes["data"] = replace(data, folder=str(folder))
        return replace(run, config=replace(run.config, **changes))


def settings_of(config: TrainConfig) -> dict[str, Any]:
    """Return what makes a run another run: all settings but those of the machine."""
    settings = {name: value for name, value in config.to_json().items() if name not in MACHINE_FIELDS}
    # A run that was trained otherwise (before version 0.2, on mazes of similar length) is another run.
    batches = "fresh mazes" if config.data.source == "stream" else "shuffled"
    return settings | {"data": settings["data"] | {"folder": "", "batches": batches}}


def runs_of(study: Study, options: Options) -> list[RunSpec]:
    """Return all trainings of a study, one for each seed."""
    runs = study.runs("paper" if options.scale == "paper" else "laptop")
    runs = [run.smoke() for run in runs] if options.scale == "smoke" else runs
    pairs = [(seed, run) for seed in range(options.seeds_of(study)) for run in runs]
    return [options.configured(run.seeded(seed)) for seed, run in pairs if run.seeds is None or seed < run.seeds]


def unique_runs(studies: Sequence[Study], options: Options) -> dict[Path, RunSpec]:
    """Return the trainings of all studies by their folders; a shared one has the evaluations of all its studies."""
    found: dict[Path, RunSpec] = {}
    for run in (run for study in studies for run in runs_of(study, options)):
        folder = options.run_folder(run)
        other = found.setdefault(folder, run)
        found[folder] = replace(other, evaluations=tuple(dict.fromkeys([*other.evaluations, *run.evaluations])))
    return found


def reproduce(studies: Sequence[Study], options: Options, log: Callable[[str], None]) -> int:
    """Do what is left of all studies, small mazes first; return the signal that stopped it, or 0."""
    with joined_world("auto", options.timeout_hours) as world:
        for study in studies:
            runs = sorted(runs_of(study, options), key=lambda run: run.config.data.sizes[-1])
            for number, run in enumerate(runs, start=1):
                if world.is_main and not options.is_trained(run):
                    log(f"{study.name}: training {number} of {len(runs)}: {run.name}")
                end = train_run(run, options, world)
                if end.reason == "signal":
                    return end.signal
                if world.size == 1:  # so that --collect can report it before the others
                    score_run(run, options)
            for run in runs[world.rank :: world.size]:
                score_run(run, options)
            world.wait_for_all()
            world.on_main(partial(collect, study, options, log))
    return 0


def train_run(run: RunSpec, options: Options, world: World | None = None) -> RunEnd:
    """Train or resume a run; without a world, as one of torchrun's or Slurm's processes."""
    if world is None:
        with joined_world("auto", run.config.timeout_hours) as joined:
            return train_run(run, options, joined)
    if cuda := world.device.type == "cuda":
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
            devices = world.size * (1 if cuda else run.config.threads or torch.get_num_threads())
            done = {"steps": end.step, "minutes": end.elapsed / 60, "device": world.device.type, "devices": devices}
            if not cuda and world.size == 1:  # processor time, with evaluations and without other work on the machine
                done["core_minutes"] = core_seconds / 60
            write_json(folder / FINISHED, done | {"date": datetime.now(UTC).isoformat(timespec="seconds")})
        return end


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Wait until no other command works on this run, so that two studies at once can share it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open_own(folder.with_name(f".{folder.name}.lock")) as lock:
        if sys.platform != "win32":
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def curve_evaluator(run: RunSpec, world: World) -> Callable[[nn.Module], dict[str, float]] | None:
    """Return the evaluation during training: of held-out mazes and, where a study wants it, of training mazes."""
    unseen = held_out_evaluator(run.config, world)
    if not run.train_mazes:
        return unseen
    seen = evaluator_on([training_mazes(run.config.data, run.train_mazes)], "train", run.config, world)
    return lambda model: (unseen(model) if unseen else {}) | {f"train-{name}": x for name, x in seen(model).items()}


def training_mazes(data: DataConfig, count: int) -> TaskBatch:
    """Return the first mazes of a run's training set."""
    assert data.mazes is not None, "a stream has no training set"
    return open_matching(data).split("train")[: min(count, data.mazes)]


def score_run(run: RunSpec, options: Options) -> None:
    """Do the evaluations of a trained run that are not done."""
    folder = options.run_folder(run)
    with locked(folder):
        for spec in run.evaluations:
            file = scores_file(folder, spec)
            if not file.exists():
                file.parent.mkdir(exist_ok=True)
                write_json(file, {"exam": to_plain(spec), "scores": _scores(folder, run.config.data, spec)})


def scores_file(folder: Path, spec: EvaluationSpec) -> Path:
    """Return the file of an evaluation, named after all that the scores depend on."""
    return folder / "scores" / f"{json_checksum(to_plain(replace(spec, name='', failures=0)))[:10]}.json"


def _scores(folder: Path, data: DataConfig, spec: EvaluationSpec) -> dict[str, Any]:
    """Evaluate the trained model of a run."""
    model, config = load_model(folder, "last")
    if torch.cuda.is_available():
        model.to("cuda")
    if spec.split == "train":
        seed, tasks = data.seed, [training_mazes(data, spec.mazes)]
    else:
        seed, shape = HELD_OUT_SEED, (spec.size, spec.size) if spec.size else data.shapes[-1]
        draws = held_out_draws(data.family, data.dataset_folder if data.source == "dataset" else None)
        inside: dict[str, Any] = {"embedded_in": spec.embedded_in, "embedding": spec.embedding}
        tasks = held_out(data.family, *shape, count=spec.mazes, seed=seed, draws=draws, **inside)
    codec, decoder = Codec.of(data.format, *data.shapes[-1]), parse_decoder(spec.decoder)
    names: dict[str, Any] = {"precision": config.precision, "decoder_name": spec.decoder, "split": spec.split}
    evaluation = evaluate_tasks(model, codec, tasks, decoder, seed=seed, **names)
    scores = evaluation.to_json()
    return {
        **{name: scores[name] for name in KEPT_SCORES},
        "by_length": [{name: part[name] for name in ("low", "high", "exact")} for part in scores["by_length"]],
        "missed": [number for number, outcome in enumerate(evaluation.outcomes) if not outcome.exact],
        "examples": failure_examples(evaluation, KEPT_FAILURES),
    }


def failure_examples(evaluation: Evaluation, count: int) -> list[dict[str, Any]]:
    """Return wrong answers that can be drawn, of as many classes as there are, each with its maze as text."""
    by_class: dict[str | None, list[Outcome]] = {}
    for outcome in evaluation.outcomes:
        if outcome.failure and outcome.predicted is not None:
            by_class.setdefault(outcome.failure, []).append(outcome)
    # The first of each class, the second of each, ...
    wrong = [outcome for row in zip_longest(*by_class.values()) for outcome in row if outcome is not None]
    found = []
    for outcome in wrong[:count]:
        form = "path-star" if isinstance(outcome.task.maze, PathStar) else "grid"
        text = format_named(form).encode(outcome.task, outcome.path).text
        found.append({"class": outcome.failure, "maze": text, "predicted": to_plain(outcome.predicted)})
    return found


def collect(study: Study, options: Options, log: Callable[[str], None]) -> None:
    """Write the result of a study, with its picture, from the runs that have been evaluated.

    A run that is not below the root, because it was trained on another machine, keeps the entry that the result has.
    """
    runs, file, entries, missing = runs_of(study, options), options.result_file(study.name), [], []
    earlier = read_json(file)["runs"] if file.exists() else []
    for run in runs:
        if options.is_scored(run):
            entries.append(result_entry(run, options.run_folder(run)))
        elif kept := next((entry for entry in earlier if is_entry_of(entry, run)), None):
            entries.append(kept)
        else:
            missing.append(run.name)
    if runs and not entries:
        raise UserError(
            f"no training of {study.name} at {options.scale} scale has been evaluated below {options.root.absolute()}; "
            "wait for the jobs, or run the same command without --collect."
        )
    if missing:
        log(f"{study.name}: {len(missing)} of {len(runs)} runs are not evaluated yet: {'; '.join(missing)}")
    seeds = options.seeds_of(study)
    command = f"clew reproduce {study.name} --scale {options.scale} --seeds {seeds}"
    for name in ("minutes", "threads", "micro_batch"):
        if (given := getattr(options, name)) is not None:
            command += f" --{name.replace('_', '-')} {given:g}"
    value = {
        "scale": options.scale,
        "provenance": provenance(command, list(range(seeds))),
        "minutes": round(sum(each["minutes"] for each in entries), 3),
        "runs": entries,
        **({"missing": missing} if missing else {}),
        "measured": study.measure(options.scale) if study.measure else {},
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    write_result(study, value, file)
    log(f"{study.name}: {file}")


def is_entry_of(entry: dict[str, Any], run: RunSpec) -> bool:
    """Return whether an entry of a result is of this run, with the same labels and settings."""
    try:
        config = TrainConfig.from_json(entry["config"], "the result")
    except UserError:  # settings of an older version
        return False
    evaluated = {spec.name for spec in run.evaluations} <= entry["exams"].keys()
    return evaluated and entry["labels"] == run.labels and settings_of(config) == settings_of(run.config)


def result_entry(run: RunSpec, folder: Path) -> dict[str, Any]:
    """Return what the result has of a run."""
    done = read_json(folder / FINISHED)
    config, exams = run.config.to_json(), {}
    for spec in run.evaluations:
        scores = read_json(scores_file(folder, spec))["scores"]
        exams[spec.name] = scores | {"examples": scores["examples"][: spec.failures]}
    return {
        "labels": run.labels,
        "seed": run.config.seed,
        "parameters": parameters_of(run.config.model),
        **done,  # steps, minutes, core_minutes, device, devices
        "exams": exams,
        "curve": training_curve(folder, done["devices"]),
        "config": config | {"data": config["data"] | {"folder": ""}},  # a path of one machine
    }


def training_curve(folder: Path, devices: int) -> list[dict[str, float]]:
    """Return the scores of every evaluation, with the steps, mazes seen, minutes and core or GPU hours until then."""
    points, mazes_a_step = [], 0.0
    for line in read_metrics(folder):
        if line["kind"] == "step":  # logged every few steps; between two lines each step has as many mazes
            mazes_a_step = line["mazes"] / line["step"]
            continue
        minutes, mazes = line["elapsed"] / 60, round(mazes_a_step * line["step"])
        point = {"step": line["step"], "mazes": mazes, "minutes": round(minutes, 4)}
        point["hours"] = round(devices * minutes / 60, 6)
        points.append(point | {name: round(value, 6) for name, value in line["scores"].items()})
    return points
