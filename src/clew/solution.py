"""Solution: the path that a model gives for a maze, with checks, decoding steps and a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clew.decoding.cells import loop_probabilities
from clew.decoding.codec import Probabilities
from clew.decoding.decode import TaskStep
from clew.errors import counted
from clew.files import PathLike
from clew.mazes.maze import Path, Task
from clew.models.cell_network import CellNetwork
from clew.models.config import Model
from clew.tokenization.drawings import draw_ascii


@dataclass(frozen=True)
class Solution:
    """A model's path through a maze."""

    task: Task
    path: Path | None  # None if the response is not a path, or if the maze has none
    problem: str | None  # what is wrong, in one sentence; None if the path is valid
    is_shortest: bool
    shortest_path: Path | None  # a true one, by breadth-first search; None if the goal cannot be reached
    steps: Sequence[TaskStep]
    passes: int
    seconds: float  # of its batch, divided by the number of mazes
    model: Model | None = field(default=None, repr=False, compare=False)

    @property
    def is_valid(self) -> bool:
        return self.problem is None

    @property
    def loops(self) -> Sequence[Probabilities]:
        """Return the probability of each cell after each loop of the first pass; nothing for models without loops."""
        return list(loop_probabilities(self.model, self.task)) if isinstance(self.model, CellNetwork) else []

    @property
    def verdict(self) -> str:
        """Return one sentence about the path."""
        if self.shortest_path is None:
            return f"not solved: {self.problem}"
        if self.path is None:
            return f"no path could be read: {self.problem}"
        if self.problem is not None:
            return f"not valid: {self.problem}"
        word = self.task.maze.cell_word
        longer = counted(len(self.path) - len(self.shortest_path), word)
        rest = " and a shortest one." if self.is_shortest else f", but {longer} longer than a shortest one."
        return f"a path of {counted(len(self.path), word)}, valid{rest}"

    @property
    def cost(self) -> str:
        """Return one sentence about passes and time."""
        return f"found in {self.passes} pass{'es' if self.passes != 1 else ''} and {1000 * self.seconds:.0f} ms."

    def __str__(self) -> str:
        # Cells outside the maze cannot be drawn; the verdict names them.
        inside = [cell for cell in self.path or [] if cell in self.task.maze]
        return f"{draw_ascii(self.task, inside)}\n{self.verdict}\n{self.cost}"

    def _repr_svg_(self) -> str:
        """Return a drawing: the model's path as arrows, over a shortest path if it is another."""
        from clew.viz.drawing import task_svg

        return task_svg(self.task, None if self.is_shortest else self.shortest_path, self.path)

    def _repr_html_(self) -> str:
        """Return a drawing with a slider over loops and steps, for a notebook."""
        from clew.viz.animation import solution_html

        return solution_html(self)

    def animate(self, path: PathLike) -> None:
        """Write loops and steps as an animated GIF."""
        from clew.viz.animation import animate

        animate(self, path)
