"""Trained models ready to solve mazes: `clew.load`.

    solver = clew.load("cells-dfs")            # shipped weights, or the folder of a run
    solution = solver.solve(task)              # a Task, a drawing, or a line of any format that Clew reads
    solution.path, solution.valid, solution.shortest, solution.passes
    solution                                   # in a notebook: the drawing
    solver.solve_many(tasks, decoder="threshold:probability=0.9")

What can be loaded is the folder of a run (clew.training.run_folder) or a folder of weights, which is what ships with
the package: model.safetensors, and beside it model.json with

    {"model": {"kind": ..., ...}, "form": "cell-labels", "family": "dfs", "height": 10, "width": 10, "seed": 0,
     "precision": "fp32", "about": ...}

`export_weights(run, folder)` makes one of a run. Neither is ever read with pickle.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import safetensors.torch
from torch import nn

from clew.decoding.codec import Codec
from clew.errors import UserError
from clew.files import PathLike, atomic_write, read_json, write_json
from clew.mazes.generate import canonical_family, describe_tasks
from clew.mazes.maze import Task
from clew.models.build import build_model, count_parameters, from_json, to_json
from clew.models.config import Precision
from clew.solution import Solution, solve_tasks
from clew.tokenization.read import tasks_in_text
from clew.training.checkpoint import CONFIG_FILE, load_model, load_model_tensors, model_tensors, read_tensors

WEIGHTS_FILE, WEIGHTS_JSON = "model.safetensors", "model.json"
# Where shipped weights lie: inside an installed package, or beside the sources.
_SHIPPED = (Path(__file__).parent / "weights", Path(__file__).parents[2] / "weights")


@dataclass(frozen=True)
class Trained:
    """A trained model with what there is to know about it."""

    name: str
    model: nn.Module
    codec: Codec
    family: str  # the mazes it was trained on, and the size of the largest
    height: int
    width: int
    seed: int  # of those mazes
    training_set: Path | None  # the folder of the dataset it was trained on; None for a stream of fresh mazes
    precision: Precision  # that it was evaluated in while it was trained

    @property
    def parameters(self) -> int:
        return count_parameters(self.model)

    @property
    def tasks(self) -> str:
        """What it was trained on, in words."""
        return describe_tasks(self.family, self.height, self.width)


@dataclass(frozen=True)
class Solver:
    """A trained model that solves mazes."""

    trained: Trained

    def solve(self, task: Task | str, decoder: str | None = None) -> Solution:
        """The model's answer to one maze, checked; `decoder` as in `clew evaluate`, such as certainty:count=4."""
        return self.solve_many([task], decoder)[0]

    def solve_many(
        self, tasks: Sequence[Task | str], decoder: str | None = None, batch_size: int | None = None
    ) -> list[Solution]:
        """The answers to many mazes of any sizes, in their order."""
        read = [_one_task(task) if isinstance(task, str) else task for task in tasks]
        return solve_tasks(self.trained.model, self.trained.codec, read, decoder, batch_size)

    def __repr__(self) -> str:
        t = self.trained
        return f"Solver({t.name}: {t.parameters:,} parameters, trained on {t.tasks})"


def load(source: PathLike, device: str = "cpu") -> Solver:
    """A solver from the name of shipped weights, or from the folder of a run or of weights."""
    trained = load_trained(source)
    trained.model.to(device)
    return Solver(trained)


def load_trained(source: PathLike) -> Trained:
    """The model behind a name or a folder."""
    given = Path(source)
    if (given / CONFIG_FILE).is_file():
        return _from_run(given)
    if (given / WEIGHTS_JSON).is_file():
        return _from_weights(given)
    name = str(source)
    if name in (shipped := shipped_weights()):
        return _from_weights(shipped[name])
    names = f"one of the shipped models ({', '.join(shipped)})" if shipped else "a folder that `clew train` made"
    what = "is no run and no weights" if given.exists() else "does not exist"
    raise UserError(f"{name} {what}; give the folder of a run, or {names}.")


def shipped_weights() -> dict[str, Path]:
    """The models that come with the package, by name."""
    found = [file.parent for folder in _SHIPPED for file in sorted(folder.glob(f"*/{WEIGHTS_JSON}"))]
    return {folder.name: folder for folder in reversed(found)}


def export_weights(run: PathLike, folder: PathLike, about: str = "") -> None:
    """Write the best weights of a run as a folder of weights, which must be new or empty."""
    trained = load_trained(run)
    target = Path(folder)
    if target.exists() and any(target.iterdir()):
        raise UserError(f"{target} is not empty; give the name of a new folder.")
    target.mkdir(parents=True, exist_ok=True)
    try:
        with atomic_write(target / WEIGHTS_FILE, "wb") as file:
            file.write(safetensors.torch.save(model_tensors(trained.model)))
        description = {
            "model": to_json(trained.model.config),  # type: ignore[arg-type]
            "form": trained.codec.form,
            "family": trained.family,
            "height": trained.height,
            "width": trained.width,
            "seed": trained.seed,
            "precision": trained.precision,
            "about": about,
        }
        write_json(target / WEIGHTS_JSON, description)  # last: without it the folder is nothing
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _from_run(run: Path) -> Trained:
    model, config = load_model(run)
    data = config.data
    height, width = data.shapes[-1]
    return Trained(
        name=run.resolve().name,
        model=model,
        codec=Codec.of(data.format, height, width),
        family=data.family,
        height=height,
        width=width,
        seed=data.seed,
        training_set=data.dataset_folder if data.source == "dataset" else None,
        precision=config.precision,
    )


def _from_weights(folder: Path) -> Trained:
    where = folder / WEIGHTS_JSON
    value = read_json(where)
    if not isinstance(value, dict):
        raise UserError(f"{where} must hold a JSON object that describes a model.")

    def field(name: str, kind: type) -> Any:
        if not isinstance(value.get(name), kind) or isinstance(value.get(name), bool):
            spoken = "a whole number" if kind is int else "a word"
            raise UserError(f"{where} must give {name} as {spoken}, but it is {value.get(name)!r}.")
        return value[name]

    model = build_model(from_json(value.get("model")), seed=0)
    load_model_tensors(model, read_tensors(folder / WEIGHTS_FILE), folder / WEIGHTS_FILE)
    height, width = field("height", int), field("width", int)
    return Trained(
        name=folder.resolve().name,
        model=model.eval(),
        codec=Codec.of(field("form", str), height, width),
        family=canonical_family(field("family", str)),
        height=height,
        width=width,
        seed=field("seed", int),
        training_set=None,
        precision=_precision(value.get("precision", "fp32"), where),
    )


def _precision(value: Any, where: Path) -> Precision:
    if value not in get_args(Precision):
        raise UserError(f"{where} must give precision as one of {', '.join(get_args(Precision))}, not {value!r}.")
    precision: Precision = value
    return precision


def _one_task(text: str) -> Task:
    found = tasks_in_text(text)
    if len(found) != 1:
        raise UserError(f"the text holds {len(found)} mazes; give one, or a list of texts to solve_many.")
    return found[0].task
