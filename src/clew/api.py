"""The public API: what `import clew` offers, except for `register` and the lists of names.

torch is imported inside the functions, when it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal

from clew.data.readers import read_maze, read_mazes
from clew.errors import UserError, did_you_mean, is_quiet
from clew.evaluation.scores import Evaluation
from clew.files import PathLike, read_json, to_plain
from clew.mazes import generate as mazes
from clew.mazes.maze import Cell, Path, Task, TaskBatch
from clew.mazes.solvers import Event, astar, bfs_path, num_shortest
from clew.models.config import change_kind, from_json, to_json
from clew.paper.named_configs import config_named
from clew.registry import model_folder
from clew.tokenization.drawings import draw_ascii
from clew.tokenization.read import ReadTask
from clew.training.callbacks import Callback, Logger, LogOptions, ProgressDisplay
from clew.training.config import TrainConfig, vocabulary_of, with_vocabulary
from clew.viz.drawing import task_svg

if TYPE_CHECKING:
    from clew.trained import TrainedModel
    from clew.training.train import Run

# Short names of `config` for fields that are changed often.
SHORT_NAMES = {name: f"budget.{name}" for name in ("steps", "epochs", "minutes")}
SHORT_NAMES |= {"lr": "optimizer.lr", "size": "data.sizes"}


def generate(
    family: str = "dfs",
    size: int | tuple[int, int] = 10,
    n: int = 1,
    seed: int = 0,
    split: Literal["train", "test", "any"] = "train",
    first: int = 0,
) -> TaskBatch:
    """Return `n` mazes with start, goal and shortest path.

    Maze `i` depends on the other arguments and on `first + i` alone. Mazes of the splits "train" and "test" never share
    a layout.

    Args:
        family: dfs, astar, wilson, kruskal, percolation, path-star-ARMSxLENGTH, or a registered one.
        size: rows and columns, as one number or as (rows, columns); of a path-star graph (1, labels).

    Example:
        >>> import clew
        >>> task, path = clew.generate("dfs", size=5, n=3, seed=0)[0]
        >>> task.start == path[0], task.goal == path[-1]
        (True, True)
    """
    if n < 1:
        raise UserError(f"{n} mazes cannot be made; use 1 or more.")
    height, width = (size, size) if isinstance(size, int) else size
    return mazes.generate(family, height, width, seed=seed, first=first, count=n, split=split)


@dataclass(frozen=True)
class ExactSolution:
    """A shortest path, as `clew.solve` finds it."""

    task: Task
    path: Path
    num_shortest: int  # how many shortest paths there are
    trace: list[Event]  # what A* created and closed; empty for BFS

    def __str__(self) -> str:
        return draw_ascii(self.task, self.path)

    def _repr_svg_(self) -> str:
        return task_svg(self.task, self.path)


def solve(task: Any, method: Literal["astar", "bfs"] = "astar") -> ExactSolution:
    """Return a shortest path through a maze; `clew.load(name).solve(task)` uses a model instead.

    Args:
        task: a Task, or a maze in any form that `read` takes.
        method: astar, with the paper's tie-break and the trace of the search, or bfs.

    Example:
        >>> import clew
        >>> solution = clew.solve("S#G\\n...")
        >>> solution.path, solution.trace[0]
        ([(0, 0), (1, 0), (1, 1), (1, 2), (0, 2)], Event(kind='create', cell=(0, 0), g=0, h=2))
        >>> print(solution)
        S#G
        >>^
    """
    if method not in ("astar", "bfs"):
        raise UserError(f"there is no method {method!r}; use astar or bfs, or clew.load({method!r}).solve(task).")
    task = read_maze(task)
    found = astar(task) if method == "astar" else None
    path = bfs_path(task) if found is None else found.path
    if path is None:
        raise UserError(f"no way leads {task.ends}; open one and solve again.")
    return ExactSolution(task, path, num_shortest(task), [] if found is None else found.trace)


def read(source: Any, start: Cell | None = None, goal: Cell | None = None) -> list[ReadTask]:
    """Return the mazes of a text, a file, an image, an array or an object of another library.

    Args:
        source: a drawing or token text, or a list of its lines or tokens; the name of a file of those or of an image;
            a 0/1 grid or an RGB array (numpy or lists); a networkx grid graph; a maze of maze-dataset; a
            pillow image; bytes.
        start: (row, column), where the source does not have it; `goal` likewise.

    Example:
        >>> import clew
        >>> [maze] = clew.read([[0, 0, 1], [1, 0, 0]], start=(0, 0), goal=(1, 2))
        >>> print(clew.solve(maze.task))
        Sv#
        #>G
    """
    return read_mazes(source, start, goal)


def load(source: PathLike, device: str = "cpu") -> TrainedModel:
    """Return a trained model.

    Args:
        source: the name of a shipped model, or the folder of a run, of one of its checkpoints, or of exported weights.
        device: cpu or cuda.

    Example:
        >>> import clew
        >>> model = clew.load("cells-dfs")
        >>> task, path = clew.generate("dfs", size=5, split="test")[0]
        >>> model.parameters, model.solve(task).path == path
        (60097, True)
    """
    folder = model_folder(source)  # a wrong name is reported before torch is imported
    from clew import trained

    return trained.load(folder, device)


def evaluate(
    model: TrainedModel | PathLike,
    family: str | None = None,
    size: int | None = None,
    n: int | None = None,
    seed: int | None = None,
    decoder: str | None = None,
    tasks: Any = None,
) -> Evaluation:
    """Return the scores of a model on held-out mazes, or on mazes of your own.

    Args:
        model: a model, or what `load` takes.
        family: which mazes; `family`, `size` and `seed` are by default those that the model was trained on.
        n: how many; by default 2,000 of up to 10x10 and fewer of larger ones.
        decoder: such as "left-to-right" or "walk-repair"; by default the model's own.
        tasks: mazes to use instead: a batch, what `read` takes, or a list of these.

    Example:
        >>> import clew
        >>> clew.evaluate("cells-dfs", size=5, n=20).exact.share
        1.0
    """
    found = load(model) if isinstance(model, str) or hasattr(model, "__fspath__") else model
    return found.evaluate(family, size, n, seed=seed, decoder=decoder, tasks=tasks)


def train(
    config: TrainConfig | str,
    out: PathLike,
    *,
    callbacks: Sequence[Callback] = (),
    resume: Literal["auto", "never"] = "auto",
    log: LogOptions | None = None,
    quiet: bool = False,
) -> Run:
    """Train a model, or resume the run in the folder `out`; make the dataset if needed, evaluate on held-out mazes.

    Args:
        config: a config, or the name of one.
        callbacks: of clew.training.callbacks.Callback, with methods such as `on_step(report)`.
        resume: "never" refuses a folder that holds a run.
        log: clew.training.callbacks.LogOptions, for TensorBoard and Weights & Biases.
        quiet: show no progress.

    Example:
        >>> import clew
        >>> config = clew.config("tiny", steps=2, batch_size=4, held_out=4)
        >>> run = clew.train(config, out="runs/example", quiet=True)
        >>> run.end.reason, run.metrics[-1]["step"], run.model.name
        ('done', 2, 'example')
    """
    import clew
    from clew.training import train as training

    if isinstance(config, str):
        config = clew.config(config)
    own: list[Callback] = [] if quiet or is_quiet() else [ProgressDisplay()]
    own += [] if log is None else [Logger(log)]
    return training.train(config, FilePath(out), callbacks=[*own, *callbacks], resume=resume)


def config(name: str, **changes: Any) -> TrainConfig:
    """Return the training config of a name (see `list_configs`), or of a config.json, with some fields changed.

    Args:
        name: such as "laptop-dfs-4-mlmu" or "paper-dfs-10-mlmu-8m", or the path of a run's config.json.
        changes: steps, epochs, minutes, lr, size, seed, batch_size or any other field of a TrainConfig; nested
            fields have dotted names, given as `**{"optimizer.weight_decay": 0.1}`.

    Example:
        >>> import clew
        >>> config = clew.config("tiny", steps=500, lr=3e-4, **{"model.width": 64})
        >>> config.budget.steps, config.optimizer.lr, config.model.width
        (500, 0.0003, 64)
    """
    if not name.endswith(".json"):
        found = config_named(name)
    else:
        found = TrainConfig.from_json(read_json(name), name)
        folder = FilePath(found.data.folder)
        if found.data.folder and not folder.exists():
            # A foreign file must not create folders anywhere: a missing dataset is made in data/.
            new = f"data/{folder.name}" if folder.name != ".." else ""
            found = replace(found, data=replace(found.data, folder=new))
    return change_config(found, changes) if changes else found


def change_config(config: TrainConfig, changes: Mapping[str, Any]) -> TrainConfig:
    """Return a config with other values of fields, given by short or dotted names.

    A dataset folder that is given decides family, size and format, and the vocabulary follows the mazes.
    """
    from clew.data.loader import adopt_dataset

    plain = config.to_json()
    if kind := changes.get("model.kind"):
        plain["model"] = change_kind(plain["model"], kind)
    if {"steps", "epochs", "minutes"} & {*changes}:
        plain["budget"] = dict.fromkeys(plain["budget"])  # a budget replaces the other one
    for name, value in changes.items():
        *groups, last = SHORT_NAMES.get(name, name).split(".")
        part: Any = plain
        for group in groups:
            part = part.get(group) if isinstance(part, dict) else None
        if not isinstance(part, dict) or isinstance(part.get(last, {}), dict):
            names = [*SHORT_NAMES, *_dotted(plain)]
            hint = did_you_mean(name, names, f"its settings are {', '.join(names)}.")
            raise UserError(f"there is no setting {name!r} in this config; {hint}")
        part[last] = [value] if name == "size" and isinstance(value, int) else to_plain(value)
    data = adopt_dataset(plain["data"], config.data)
    if plain["model"].get("vocabulary", 0) is None:  # the former kind had none
        plain["model"]["vocabulary"] = data.vocabulary
    model = from_json(plain["model"])
    # A model may have more ids than its mazes need; only other mazes are a reason to change their number.
    other_mazes = (data.format, data.shapes) != (config.data.format, config.data.shapes)
    if other_mazes and vocabulary_of(model) == vocabulary_of(config.model):
        model = with_vocabulary(model, data)
    return TrainConfig.from_json(plain | {"data": to_plain(data), "model": to_json(model)})


def _dotted(plain: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the dotted names of nested settings."""
    nested = [_dotted(v, f"{prefix}{k}.") if isinstance(v, dict) else [prefix + k] for k, v in plain.items()]
    return [*chain.from_iterable(nested)]
