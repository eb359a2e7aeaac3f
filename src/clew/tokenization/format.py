"""What every text format is, and the formats there are.

form = format_named("edge-list")
written = form.encode(task, path, seed=7)       # written.prompt, written.response: lists of tokens
parsed = form.parse(written.tokens)             # parsed.task, parsed.path
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from clew.errors import UserError
from clew.mazes.maze import Path, Task
from clew.tokenization.cell_grid import Grid
from clew.tokenization.cell_labels import CellLabels
from clew.tokenization.edge_list import EdgeList
from clew.tokenization.path_star import PathStarList
from clew.tokenization.tokens import Parsed, Written
from clew.tokenization.vocabulary import Vocabulary
from clew.tokenization.wall_list import WallList


class Format(Protocol):
    """A way to write tasks and paths as tokens."""

    @property
    def name(self) -> str: ...

    @property
    def end_token(self) -> str:
        """The last token of every response."""
        ...

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        """All tokens that texts of mazes of this shape may have."""
        ...

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Written:
        """The task as prompt and the path as response; all chance comes from the seed."""
        ...

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        """What the tokens say, or a UserError that names the wrong token. A text without a path may end early."""
        ...

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        """The path that response tokens say, or a UserError that names the wrong token."""
        ...


FORMATS: dict[str, Format] = {
    form.name: form
    for form in (
        EdgeList(),
        WallList(with_trace=False),
        WallList(with_trace=True),
        Grid(),
        CellLabels(),
        PathStarList(),
        PathStarList(reverse=True),
    )
}


def format_named(name: str) -> Format:
    if name not in FORMATS:
        raise UserError(f"there is no text format {name!r}: choose one of {', '.join(FORMATS)}.")
    return FORMATS[name]
