"""Whether mazes that a model is evaluated on may have been trained on.

    check = check_leakage([tasks])                               # by the lasting side of each layout
    check = check_leakage([tasks], training_layouts(dataset))    # against the layouts that were in training

Every layout is for ever on the train side or on the test side (clew.mazes.layouts), and training takes mazes of its
own side alone, so a layout of the test side was never trained on. One of the train side may have been; where the
training set is at hand, its own layouts say so exactly. Turned and mirrored mazes count as one layout.

Shape suffixes: N mazes.

Which mazes a model is evaluated on: held-out ones, or those of a file.

    groups = held_out("dfs", 10, 10, count=2000, seed=0)
    groups = from_file("mazes.txt")      # lines of any format that Clew reads, of any sizes, one group for each size

A file's own paths are the true ones where it gives them, and otherwise those of the deterministic A*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clew.data.dataset import Dataset
from clew.errors import UserError
from clew.evaluation.embed import Embedding, embed
from clew.mazes.checks import path_problem
from clew.mazes.generate import generate
from clew.mazes.generators import MAX_PAIRS
from clew.mazes.layouts import is_held_out, layout_hashes
from clew.mazes.maze import Path, Task, TaskBatch
from clew.mazes.path_star import star_shape
from clew.mazes.solvers import astar
from clew.tokenization.read import ReadTask, iter_tasks

_PIECE = 4096  # mazes whose cells are read at once


@dataclass(frozen=True)
class Leakage:
    """How many mazes were looked at, and how many of their layouts may be known from training."""

    mazes: int
    perhaps_trained: int
    exact: bool  # counted against the training set itself

    def __str__(self) -> str:
        """One sentence."""
        if not self.perhaps_trained:
            return f"none of the {self.mazes:,} mazes has a layout that was trained on."
        was = "was in the training set" if self.exact else "belongs to the side that training takes its mazes from"
        return (
            f"the layout of {self.perhaps_trained:,} of the {self.mazes:,} mazes {was}: their scores may be too good."
        )


def check_leakage(groups: Sequence[TaskBatch], training: npt.NDArray[np.uint64] | None = None) -> Leakage:
    """Compare the tasks' layouts with the training side, or with the layouts of a training set."""
    found = 0
    for tasks in groups:
        layout_N = layout_hashes(tasks.cells_NHW)
        trained_N = ~is_held_out(layout_N) if training is None else np.isin(layout_N, training)
        found += int(trained_N.sum())
    return Leakage(sum(len(tasks) for tasks in groups), found, exact=training is not None)


def training_layouts(dataset: Dataset) -> npt.NDArray[np.uint64]:
    """The layouts of a dataset's training mazes."""
    cells_NHW = dataset.split("train").cells_NHW
    pieces = [layout_hashes(cells_NHW[i : i + _PIECE]) for i in range(0, len(cells_NHW), _PIECE)]
    return np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *pieces]))


def held_out(
    family: str,
    height: int,
    width: int,
    *,
    count: int,
    seed: int,
    embedded_in: int | None = None,
    embedding: Embedding = "joined",
    draws: int = MAX_PAIRS,
) -> list[TaskBatch]:
    """Mazes of the side that is never trained on, plain or in the corner of larger square ones.

    `draws` is as in clew.mazes.generate.generate.
    """
    if count < 1:
        raise UserError(f"{count} mazes leave nothing to evaluate; use 1 or more.")
    if embedded_in is not None and star_shape(family) is not None:
        raise UserError(f"{family} graphs cannot be put into the corner of larger mazes; leave --embedded-in out.")
    tasks = generate(family, height, width, seed=seed, first=0, count=count, split="test", draws=draws)
    return [tasks if embedded_in is None else embed(tasks, embedded_in, embedded_in, seed, embedding)]


def from_file(file: str) -> list[TaskBatch]:
    """The tasks of a file, or of standard input if it is "-", grouped by size."""
    groups: dict[tuple[int, ...], tuple[list[Task], list[Path]]] = {}
    for read in iter_tasks(file):
        tasks, paths = groups.setdefault(read.task.maze.cells.shape, ([], []))
        tasks.append(read.task)
        paths.append(_true_path(read))
    return [TaskBatch.from_tasks(tasks, paths) for tasks, paths in groups.values()]


def _true_path(read: ReadTask) -> Path:
    found = astar(read.task).path
    if found is None:
        raise UserError(
            f"line {read.line}: no way leads {read.task.ends}, "
            "so no answer could be right; remove this maze, or open a way."
        )
    if read.path is None:
        return found
    if problem := path_problem(read.task, read.path):
        raise UserError(f"line {read.line}: the path in the file cannot be the true one, since {problem}")
    return read.path
