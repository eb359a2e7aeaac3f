"""The Format protocol, and the formats by name.

    form = format_named("edge-list")
    encoded = form.encode(task, path, seed=7)       # encoded.prompt, encoded.response: lists of tokens
    parsed = form.parse(encoded.tokens)             # parsed.task, parsed.path

A plug-in adds a format with a class that has the methods of `Format`:

    @clew.register("format", "my-format")
    class MyFormat: ...
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Protocol

from clew.errors import UserError
from clew.mazes.maze import Path, Task
from clew.registry import registered, registered_names
from clew.tokenization.cell_grid import CellLabels, Grid
from clew.tokenization.edge_list import EdgeList, PathStarList
from clew.tokenization.tokens import Encoded, Parsed
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

    def __hash__(self) -> int: ...

    def vocabulary(self, height: int, width: int) -> Vocabulary:
        """Return all tokens that texts of mazes of this shape may have."""
        ...

    def encode(self, task: Task, path: Path | None, *, seed: int = 0) -> Encoded:
        """Return the task as prompt and the path as response; all chance comes from the seed."""
        ...

    def parse(self, tokens: Sequence[str], *, height: int | None = None, width: int | None = None) -> Parsed:
        """Return what the tokens say, or raise a UserError that names the wrong token. The path may be missing."""
        ...

    def parse_response(self, tokens: Sequence[str], *, height: int, width: int) -> Path:
        """Return the path that response tokens say, or raise a UserError that names the wrong token."""
        ...


_BUILT_IN: tuple[Format, ...] = (
    EdgeList(),
    WallList(with_trace=False),
    WallList(with_trace=True),
    Grid(),
    CellLabels(),
    PathStarList(),
    PathStarList(reverse=True),
)
FORMATS = {form.name: form for form in _BUILT_IN}


def format_named(name: str) -> Format:
    """Return the format of this name, built in or registered."""
    if name in FORMATS:
        return FORMATS[name]
    component = registered("format", name)
    if component is None:
        known = ", ".join([*FORMATS, *registered_names("format")])
        raise UserError(
            f"there is no text format {name!r}: choose one of {known}, "
            "or give --plugin with the module that registers it."
        )
    return _instance(component)


@cache
def _instance(component: type[Format]) -> Format:
    return component()
