"""Trained models: load, solve mazes, evaluate.

    model = clew.load("cells-dfs")             # shipped weights, or the folder of a run
    solution = model.solve(task)               # a Task, a drawing, or text of any format that Clew reads
    model.solve_many(tasks, decoder="threshold:probability=0.9")
    model.evaluate(size=20, n=300).exact

A model is loaded from the folder of a run (clew.training.checkpoint) or from a folder of weights, which has
model.safetensors and model.json with a Description and checksums. `export_weights(run, folder)` writes such a folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from clew.data.config import IMPORTED
from clew.data.dataset import DATASET_FILE, open_dataset
from clew.data.loader import held_out_draws
from clew.data.readers import read_maze, read_mazes, true_path
from clew.decoding.codec import Codec, Step
from clew.decoding.decode import default_decoder, parse_decoder
from clew.decoding.text_decoders import attention_on_cells
from clew.errors import UserError
from clew.evaluation import tasks as sets
from clew.evaluation.evaluate import evaluate_tasks
from clew.evaluation.scores import Evaluation
from clew.files import PathLike, from_plain
from clew.mazes.generate import canonical_family, describe_tasks
from clew.mazes.maze import MAX_SIDE, Cell, Task, TaskBatch
from clew.mazes.solvers import bfs_path, path_problem
from clew.models.build import WEIGHTS_FILE, WEIGHTS_JSON, build_trained, count_parameters, read_weights, write_weights
from clew.models.config import Precision, from_json, to_json
from clew.registry import model_folder
from clew.solution import Solution
from clew.training.checkpoint import CONFIG_FILE, STATE_FILE, load_model


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """A trained model and the description of its training data."""

    name: str
    model: nn.Module
    codec: Codec
    family: str  # of the training mazes
    height: int  # of the largest of them
    width: int
    seed: int  # of those mazes
    training_set: Path | None  # folder of the dataset; None for a stream of fresh mazes
    precision: Precision  # of evaluations during training

    @property
    def config(self) -> Any:
        """Return the configuration of the network."""
        return self.model.config

    @property
    def parameters(self) -> int:
        return count_parameters(self.model)

    @property
    def tasks(self) -> str:
        """Return a description of the training mazes."""
        return describe_tasks(self.family, self.height, self.width)

    def __repr__(self) -> str:
        return f"TrainedModel({self.name}: {self.parameters:,} parameters, trained on {self.tasks})"

    def solve(
        self, task: Task | str, decoder: str | None = None, on_step: Callable[[Step], None] = lambda step: None
    ) -> Solution:
        """Solve one maze, a Task, a drawing or text of any format that Clew reads, and check the path.

        `decoder` is as in `clew evaluate`, such as certainty:count=4. `on_step` is called with every step of decoding;
        an exception that it raises stops the decoding.
        """
        return self.solve_many([task], decoder, on_step=on_step)[0]

    def solve_many(
        self,
        tasks: Sequence[Task | str],
        decoder: str | None = None,
        batch_size: int | None = None,
        on_step: Callable[[Step], None] = lambda step: None,
    ) -> list[Solution]:
        """Solve mazes of any sizes and return the solutions in their order; a maze without a path has none."""
        read = list[Task]()
        for number, task in enumerate(tasks, start=1):
            try:
                read.append(read_maze(task))
            except UserError as error:
                raise UserError(f"maze {number}: {error}" if len(tasks) > 1 else str(error)) from None
        shortest = [bfs_path(task) for task in read]
        solutions: dict[int, Solution] = {}
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, task in enumerate(read):
            if shortest[i] is None:
                solutions[i] = Solution(task, None, f"no path leads {task.ends}.", False, None, (), 0, 0.0)
            else:
                groups.setdefault(task.maze.cells.shape, []).append(i)
        batches = [TaskBatch.from_tasks([read[i] for i in g], [shortest[i] or [] for i in g]) for g in groups.values()]
        chosen = parse_decoder(decoder or default_decoder(self.codec))
        found = evaluate_tasks(self.model, self.codec, batches, chosen, batch_size, record_steps=True, on_step=on_step)
        for i, each in zip(chain.from_iterable(groups.values()), found.outcomes, strict=True):
            problem = each.problem if each.predicted is None else path_problem(each.task, each.predicted)
            path = (each.task, each.predicted, problem, each.shortest, each.path)
            solutions[i] = Solution(*path, each.steps, each.passes, each.seconds, self.model)
        return [solutions[i] for i in range(len(read))]

    def attention(self, task: Task, path: Sequence[Cell]) -> npt.NDArray[np.float32]:
        """Return how much a text model attends to each cell at each step of a path, [S, H, W]."""
        return attention_on_cells(self.model, self.codec, task, list(path))

    def evaluate(
        self,
        family: str | None = None,
        size: int | None = None,
        n: int | None = None,
        *,
        seed: int | None = None,
        decoder: str | None = None,
        tasks: Any = None,
        batch_size: int | None = None,
        precision: Precision | None = None,
        progress: Callable[[int], None] = lambda mazes: None,
    ) -> Evaluation:
        """Evaluate on held-out mazes, by default of the training family, size and seed, or on given tasks.

        The arguments are those of `clew.evaluate`. `batch_size` mazes are decoded at once, by default as many as fit
        into memory; `progress` is called with the number of mazes done.
        """
        if tasks is None:
            groups = self.held_out(family, size, n, seed=seed)
        else:
            items = tasks if isinstance(tasks, list | tuple) else [tasks]
            groups = [each for each in items if isinstance(each, TaskBatch)]
            read = [maze for each in items if not isinstance(each, TaskBatch) for maze in read_mazes(each)]
            paths = [true_path(maze.task, maze.path, f"maze {i}: ") for i, maze in enumerate(read, start=1)]
            groups += sets.group_tasks((maze.task, path) for maze, path in zip(read, paths, strict=True))
            if not sum(map(len, groups)):
                raise UserError("there is no maze to evaluate on; give tasks=, or leave it out for held-out mazes.")
        decoder = decoder or default_decoder(self.codec)
        names: Any = {"name": self.name, "decoder_name": decoder, "precision": precision or self.precision}
        names |= {"batch_size": batch_size, "seed": self.seed, "progress": progress}
        return evaluate_tasks(self.model, self.codec, groups, parse_decoder(decoder), **names)

    def held_out(
        self,
        family: str | None = None,
        size: int | None = None,
        n: int | None = None,
        *,
        seed: int | None = None,
        embedded_in: int | None = None,
        embedding: sets.Embedding = "joined",
    ) -> list[TaskBatch]:
        """Return held-out mazes, by default of the training family, size and seed."""
        family = canonical_family(family or self.family)
        if family == IMPORTED:
            if self.training_set is None:
                problem = "the model was trained on imported mazes; give their dataset with --data, or --input FILE."
                raise UserError(problem)
            return [open_dataset(self.training_set).split("test")[:n]]
        height, width = (self.height, self.width) if size is None else (size, size)
        return sets.held_out(
            family,
            height,
            width,
            count=sets.default_count(height * width) if n is None else n,
            seed=self.seed if seed is None else seed,
            embedded_in=embedded_in,
            embedding=embedding,
            draws=held_out_draws(family, self.training_set if family == self.family else None),
        )

    def leakage(self, groups: Sequence[TaskBatch]) -> sets.Leakage:
        """Count the mazes whose layout may have been in training."""
        folder = self.training_set
        known = folder is not None and (folder / DATASET_FILE).is_file()
        return sets.check_leakage(groups, sets.training_layouts(open_dataset(folder)) if folder and known else None)


def load(source: PathLike, device: str = "cpu") -> TrainedModel:
    """Load a model by the name of shipped weights, or from the folder of a run, of its checkpoint or of weights."""
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise UserError(f"there is no device {device!r}; use cpu or cuda.")
    if device != "cpu" and not torch.cuda.is_available():
        raise UserError("this machine has no GPU that torch can use; use the device cpu.")
    folder = model_folder(source)
    if (folder / STATE_FILE).is_file():
        trained = _from_run(folder.parent.parent, step=int(folder.name))
    else:
        trained = _from_run(folder) if (folder / CONFIG_FILE).is_file() else _from_weights(folder)
    trained.model.to(device)
    return trained


@dataclass(frozen=True)
class Description:
    """The content of model.json, beside the checksums."""

    model: Any  # config of the network
    form: str  # name of the format
    family: str
    height: int
    width: int
    seed: int
    precision: Precision = "fp32"
    about: str = ""


def export_weights(run: PathLike, folder: PathLike, about: str = "") -> None:
    """Write the best weights of a run as a folder of weights, which must be new or empty."""
    trained, target = load(run), Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise UserError(f"{target} is not empty; give the name of a new folder.")
    same = {name: getattr(trained, name) for name in ("family", "height", "width", "seed", "precision")}
    description = Description(to_json(trained.config), trained.codec.format_name, about=about, **same)
    write_weights(target, vars(description), trained.model.state_dict())


def _from_run(run: Path, step: int | None = None) -> TrainedModel:
    model, config = load_model(run, "best" if step is None else step)
    data, (height, width) = config.data, config.data.shapes[-1]
    codec, folder = Codec.of(data.format, height, width), data.dataset_folder if data.source == "dataset" else None
    name = run.resolve().name + (f"-{step}" if step is not None else "")
    return TrainedModel(name, model, codec, data.family, height, width, data.seed, folder, config.precision)


def _from_weights(folder: Path) -> TrainedModel:
    where = folder / WEIGHTS_JSON
    value, tensors = read_weights(folder)
    about = from_plain(Description, value, str(where), {"model": from_json})
    height, width = about.height, about.width
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise UserError(f"{where} describes mazes of {height} rows and {width} columns; at most {MAX_SIDE} of each.")
    codec, ids = Codec.of(about.form, height, width), getattr(about.model, "vocabulary", None)
    if codec.vocabulary is not None and ids != codec.vocabulary.size:
        needed = codec.vocabulary.size
        raise UserError(f"{where} describes mazes that need {needed} ids, but a model of {ids}; restore the file.")
    model, family = build_trained(about.model, tensors, folder / WEIGHTS_FILE), canonical_family(about.family)
    name = folder.resolve().name
    return TrainedModel(name, model, codec, family, height, width, about.seed, None, about.precision)
