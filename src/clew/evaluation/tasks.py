"""Which mazes a model is evaluated on: held-out ones, or those of a file.

    groups = held_out("dfs", 10, 10, count=2000, seed=0)
    groups = from_file("mazes.txt")      # lines of any format that Clew reads, of any sizes, one group for each size

A file's own paths are the true ones where it gives them, and otherwise those of the deterministic A*.
"""

from __future__ import annotations

from clew.errors import UserError
from clew.evaluation.embed import Embedding, embed
from clew.mazes.astar_tasks import MAX_PAIRS
from clew.mazes.checks import path_problem
from clew.mazes.generate import generate
from clew.mazes.maze import Path, Task, TaskBatch
from clew.mazes.path_star import star_shape
from clew.mazes.solve import astar
from clew.text.read_tasks import ReadTask, iter_tasks


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
    tasks = generate(family, height, width, seed=seed, first=0, count=count, side="test", draws=draws)
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
