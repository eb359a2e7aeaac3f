"""A model's answer to a maze: its path, its checks, the steps it was found in, and a drawing of itself.

solution = solve_tasks(model, codec, [task], "threshold")[0]
print(solution)      # the maze with the path, and what there is to say about it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from clew.decoding.codec import Codec
from clew.decoding.decode import decode
from clew.decoding.registry import default_decoder, parse_decoder
from clew.decoding.state import Step
from clew.errors import UserError
from clew.evaluation.evaluate import mazes_at_once
from clew.mazes.checks import is_shortest, path_problem
from clew.mazes.maze import Path, Task, TaskBatch
from clew.mazes.solvers import bfs_path
from clew.models.config import Model
from clew.tokenization.ascii import draw_ascii
from clew.viz.drawing import task_svg


@dataclass(frozen=True)
class Filled:
    """A place of the response that a step filled or hid again."""

    place: int  # 0 is the response's first token; of a cell network, the index of the cell
    token: str
    confidence: float


@dataclass(frozen=True)
class SolutionStep:
    """One step of decoding."""

    filled: tuple[Filled, ...]
    hides: bool = False  # the places were hidden again, to be asked for anew


@dataclass(frozen=True)
class Solution:
    """What a model answered."""

    task: Task
    path: Path | None  # None if the response says no path
    problem: str | None  # what is wrong, in one sentence; None if the path is valid
    shortest: bool
    shortest_path: Path  # a true one, by breadth-first search
    steps: tuple[SolutionStep, ...]
    passes: int
    seconds: float  # an equal share of the time of its batch

    @property
    def valid(self) -> bool:
        return self.problem is None

    @property
    def verdict(self) -> str:
        """One sentence about the path."""
        if self.path is None:
            return f"no path could be read: {self.problem}"
        if self.problem is not None:
            return f"not valid: {self.problem}"
        word = self.task.maze.cell_word
        valid = f"a path of {len(self.path)} {word}s, valid"
        if self.shortest:
            return f"{valid} and a shortest one."
        return f"{valid}, but {len(self.path) - len(self.shortest_path)} {word}s longer than a shortest one."

    @property
    def cost(self) -> str:
        """How it was found, in one sentence."""
        return f"found in {self.passes} pass{'es' if self.passes != 1 else ''} and {1000 * self.seconds:.0f} ms."

    def __str__(self) -> str:
        # What cannot be drawn with arrows, a cell outside the maze, is told by the verdict.
        inside = [cell for cell in self.path or [] if cell in self.task.maze]
        return f"{draw_ascii(self.task, inside)}\n{self.verdict}\n{self.cost}"

    def _repr_svg_(self) -> str:
        """The drawing: what the model said as arrows, over a shortest path where that is another."""
        return task_svg(self.task, None if self.shortest else self.shortest_path, self.path)

    def _repr_html_(self) -> str:
        return f"<figure>{self._repr_svg_()}<figcaption>{escape(f'{self.verdict} {self.cost}')}</figcaption></figure>"


def solve_tasks(
    model: Model, codec: Codec, tasks: Sequence[Task], decoder: str | None = None, batch_size: int | None = None
) -> list[Solution]:
    """The model's answers to tasks of any sizes, in their order; as many at once as fit into memory, if not said."""
    if batch_size is not None and batch_size < 1:
        raise UserError(f"a batch size of {batch_size} is impossible; use 1 or more.")
    decoder = decoder or default_decoder(codec)
    best = [_way_through(task) for task in tasks]
    groups: dict[tuple[int, ...], list[int]] = {}
    for i, task in enumerate(tasks):
        groups.setdefault(task.maze.cells.shape, []).append(i)
    solutions: dict[int, Solution] = {}
    for indices in groups.values():
        group = TaskBatch.from_tasks([tasks[i] for i in indices], [best[i] for i in indices])
        rows = batch_size or mazes_at_once(model, codec, group)
        for first in range(0, len(indices), rows):
            some = indices[first : first + rows]
            batch = group.select(np.arange(first, first + len(some)))
            solutions |= zip(some, _solve_batch(model, codec, batch, decoder), strict=True)
    return [solutions[i] for i in range(len(tasks))]


def _solve_batch(model: Model, codec: Codec, tasks: TaskBatch, decoder: str) -> list[Solution]:
    steps: list[list[SolutionStep]] = [[] for _ in range(len(tasks))]

    def note(step: Step) -> None:
        of_row: dict[int, list[Filled]] = {}
        columns = (step.row_F, step.place_F, step.token_F, step.confidence_F)
        for row, place, token, confidence in zip(*(column.tolist() for column in columns), strict=True):
            of_row.setdefault(row, []).append(Filled(place, codec.word(token), confidence))
        for row, filled in of_row.items():
            steps[row].append(SolutionStep(tuple(filled), step.hides))

    decoded = decode(model, codec.canvas(tasks), parse_decoder(decoder), on_step=note)
    solutions = []
    for i in range(len(tasks)):
        task, best = tasks[i]
        path: Path | None = None
        try:
            path = codec.read(decoded.response(i), tasks.height, tasks.width)
            problem = path_problem(task, path)
        except UserError as error:
            problem = str(error)
        solutions.append(
            Solution(
                task,
                path,
                problem,
                shortest=path is not None and is_shortest(task, path),
                shortest_path=best,
                steps=tuple(steps[i]),
                passes=int(decoded.passes_B[i]),
                seconds=decoded.seconds / len(tasks),
            )
        )
    return solutions


def _way_through(task: Task) -> Path:
    path = bfs_path(task)
    if path is None:
        raise UserError(f"no way leads {task.ends}; open one and solve again.")
    return path
