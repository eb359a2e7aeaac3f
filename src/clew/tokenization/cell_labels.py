"""The cell-label format: the grid format's prompt, and one label a cell as response.

    <GRID_START> start:E SW / - goal:N <GRID_END> <PATH_START> on on off on <PATH_END>

A shortest path never touches itself, so the set of its cells determines it: the path is read back by walking from the
start over labelled cells. A path that touches itself cannot be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clew.errors import UserError
from clew.mazes.maze import Cell, Path, Task
from clew.tokenization.cell_grid import Grid
from clew.tokenization.tokens import PATH_END, Parsed, TokenReader, Written
from clew.tokenization.vocabulary import Vocabulary

LABELS = ("off", "on")


@dataclass(frozen=True)
class CellLabels:
    """The format of the cell network, as text."""

    name: str = "cell-labels"
    end_token: str = PATH_END

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        return Vocabulary.of([*Grid().vocabulary(height, width).tokens, *LABELS])

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Written:
        """The task and its path; nothing in it is random."""
        prompt = Grid().encode(task, None).prompt
        if path is None:
            return Written(prompt, [])
        on = set(path)
        labels = [LABELS[(row, col) in on] for row in range(task.maze.height) for col in range(task.maze.width)]
        if path_from_labels(task, on) != list(path):
            raise UserError("this path touches itself, so labels on cells do not determine it; use another format.")
        return Written(prompt, [*labels, PATH_END])

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        """What the text says; the size, if given, must be the text's own."""
        ends = [i for i, token in enumerate(tokens) if token in LABELS]
        first = ends[0] if ends else len(tokens)
        task = Grid().parse(tokens[:first], height=height, width=width).task
        if first == len(tokens):
            return Parsed(task, None)
        on = _cells_on(tokens[first:], task.maze.height, task.maze.width)
        return Parsed(task, path_from_labels(task, on))

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        """The labelled cells in reading order; their order on the path needs the maze: `path_from_labels`."""
        return sorted(_cells_on(tokens, height, width))


def _cells_on(tokens: Sequence[str], height: int, width: int) -> set[Cell]:
    reader = TokenReader(tokens)
    on = set()
    for cell in range(height * width):
        if reader.peek() not in LABELS:
            reader.fail(f"the label {' or '.join(LABELS)} of cell {cell + 1} of {height * width}")
        if tokens[reader.at] == LABELS[1]:
            on.add(divmod(cell, width))
        reader.at += 1
    reader.expect(PATH_END)
    if not reader.is_done:
        reader.fail("the end of the text")
    return on


def path_from_labels(task: Task, on: set[Cell]) -> Path | None:
    """Return the path that consists of exactly these cells, or None if they do not determine one."""
    path, left = [task.start], on - {task.start}
    if task.start not in on:
        return None
    while path[-1] != task.goal:
        near = [cell for cell in task.maze.neighbours(path[-1]) if cell in left]
        if len(near) != 1:
            return None
        path.append(near[0])
        left.remove(near[0])
    return None if left else path
