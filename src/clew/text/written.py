"""A task as tokens, and what tokens say: the two ends of every format.

A text is its tokens joined by single spaces.
"""

from __future__ import annotations

from dataclasses import dataclass

from clew.errors import UserError
from clew.mazes.maze import Edge, Path, PathStar, Task
from clew.mazes.solve import Event

PATH_START, PATH_END = "<PATH_START>", "<PATH_END>"


@dataclass(frozen=True)
class Written:
    """A task as tokens; the response is empty where there is no path."""

    prompt: list[str]
    response: list[str]

    @property
    def tokens(self) -> list[str]:
        return self.prompt + self.response

    @property
    def text(self) -> str:
        return " ".join(self.tokens)


@dataclass(frozen=True)
class Parsed:
    """What a text says. The path is as written: it may be no valid path of the maze."""

    task: Task
    path: Path | None
    edges: tuple[Edge, ...] | None = None  # of edge-list and path-star text, in its order and direction
    trace: tuple[Event, ...] | None = None  # the search log of a wall-list text that has one


def check_grid(task: Task, name: str) -> None:
    """Raise UserError for a path-star graph, which a format that tells cells cannot write."""
    if isinstance(task.maze, PathStar):
        raise UserError(f"{name} text is for mazes, not for path-star graphs; use path-star.")
