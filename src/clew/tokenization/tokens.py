"""Encoded and parsed texts, the reader of tokens, and vocabularies: what all formats share.

The reader remembers what was tried at the present token, so an error names all that may stand there.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.mazes.maze import MAX_SIDE, MIN_SIDE, Cell, Edge, Path, Task
from clew.mazes.solvers import Event

PATH_START, PATH_END = "<PATH_START>", "<PATH_END>"
T = TypeVar("T")


@dataclass(frozen=True)
class Encoded:
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
    """Content of a text. The path is as written: it may be no valid path of the maze."""

    task: Task
    path: Path | None
    edges: tuple[Edge, ...] | None = None  # of edge-list and path-star text, in its order and direction
    trace: tuple[Event, ...] | None = None  # the search log of a wall-list text that has one


def quoted(text: str) -> str:
    """Return the text in quotes for a message: control characters escaped, cut after 40 characters."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def cell_token(cell: Cell) -> str:
    """Return a cell as one token: `(row,col)`."""
    return f"({cell[0]},{cell[1]})"


class TokenReader:
    """A position in a list of tokens of a maze whose size may be given; padding at the end is ignored."""

    def __init__(self, tokens: Sequence[str], height: int | None = None, width: int | None = None) -> None:
        end = len(tokens)
        while end and tokens[end - 1] == "[PAD]":
            end -= 1
        self.tokens, self.at = tokens[:end], 0
        self.height, self.width = height, width
        self.rows = self.columns = MIN_SIDE  # that hold all cells read so far
        self._tried: list[str] = []  # what may stand at the present token

    @property
    def is_done(self) -> bool:
        return self.at == len(self.tokens)

    def fail(self) -> NoReturn:
        """Raise the UserError that the next token is none of what was tried."""
        *others, last = dict.fromkeys(self._tried)
        expected = f"{', '.join(others)} or {last}" if others else last
        if self.is_done:
            raise UserError(f"the text ends after token {self.at}, but {expected} must follow.")
        raise UserError(f"token {self.at + 1} is {quoted(self.tokens[self.at])}, but {expected} is expected there.")

    def take(self, what: str, value: Callable[[str], T | None]) -> T:
        """Take the next token and return its value; UserError if it has none."""
        self._tried.append(what)
        found = None if self.is_done else value(self.tokens[self.at])
        if found is None:
            self.fail()
        self.at, self._tried = self.at + 1, []
        return found

    def skip(self, *tokens: str) -> str:
        """Take the next token if it is one of these, and return it, else ""."""
        self._tried += tokens
        if self.is_done or self.tokens[self.at] not in tokens:
            return ""
        self.at, self._tried = self.at + 1, []
        return self.tokens[self.at - 1]

    def expect(self, *tokens: str) -> None:
        for token in tokens:
            if not self.skip(token):
                self.fail()

    def ends(self) -> bool:
        """Return whether no token is left."""
        self._tried.append("the end of the text")
        return self.is_done

    def expect_end(self) -> None:
        if not self.ends():
            self.fail()

    def numbers(self, what: str, form: str, *limits: int) -> tuple[int, ...]:
        """Read a token of numbers from 0 to below the limits, written as in `form`: 007 is no 7."""

        def value(token: str) -> tuple[int, ...] | None:
            found = tuple(map(int, re.findall(r"\d{1,5}", token, re.ASCII)))
            is_written_so = len(found) == len(limits) and form.format(*found) == token
            return found if is_written_so and all(map(operator.lt, found, limits)) else None

        first, last = form.format(*(0 for _ in limits)), form.format(*(limit - 1 for limit in limits))
        return self.take(f"{what} from {first} to {last}", value)

    def _cell(self, row: int, column: int) -> Cell:
        self.rows, self.columns = max(self.rows, row + 1), max(self.columns, column + 1)
        return row, column

    def cell(self) -> Cell:
        """Read a `(row,col)` token."""
        return self._cell(*self.numbers("a cell", "({},{})", self.height or MAX_SIDE, self.width or MAX_SIDE))

    def x_y(self) -> Cell:
        """Read two numbers, x then y, as a cell."""
        (x,) = self.numbers("an x", "{}", self.width or MAX_SIDE)
        (y,) = self.numbers("a y", "{}", self.height or MAX_SIDE)
        return self._cell(y, x)

    def node(self) -> Cell:
        """Read a label as a node of a path-star graph."""
        return self._cell(0, *self.numbers("a node", "{}", self.width or MAX_SIDE))


PAD, MASK, BOS, EOS, UNK = SPECIAL_TOKENS = ("[PAD]", "[MASK]", "[BOS]", "[EOS]", "[UNK]")


def padded_size(tokens: int) -> int:
    """Return the number of ids that a model has for so many tokens: a multiple of 128."""
    return -(-tokens // 128) * 128


@dataclass(frozen=True)
class Vocabulary:
    """All tokens of a format, sorted as strings; a token's id is its index."""

    tokens: tuple[str, ...]

    @classmethod
    def of(cls, tokens: Iterable[str]) -> Vocabulary:
        """Return the vocabulary of these tokens and the special ones."""
        found = sorted({*tokens, *SPECIAL_TOKENS})
        if wrong := [token for token in found if token.split() != [token]]:
            raise UserError(f"{wrong[0]!r} cannot be a token of a vocabulary: use texts without spaces.")
        return cls(tuple(found))

    @cached_property
    def id_of(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.tokens)}

    @property
    def size(self) -> int:
        """The number of ids a model must have."""
        return padded_size(len(self.tokens))

    @property
    def pad_id(self) -> int:
        return self.id_of[PAD]

    def encode(self, tokens: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the ids of the tokens; an unknown token is named with its number."""
        for number, token in enumerate(tokens, start=1):
            if token not in self.id_of:
                problem = f"token {number} is {quoted(token)}, which is none of the vocabulary's {len(self.tokens)}"
                raise UserError(f"{problem}: check the maze's size and format.")
        return np.array([self.id_of[token] for token in tokens], dtype=np.int32)

    def decode(self, ids_T: Iterable[int]) -> list[str]:
        """Return the tokens of the ids; an id without a token (a model may predict one) reads [UNK]."""
        return [self.tokens[i] if 0 <= i < len(self.tokens) else UNK for i in map(int, ids_T)]
