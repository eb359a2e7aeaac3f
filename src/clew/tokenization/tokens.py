"""The encoded and the parsed task, the reader of tokens, and vocabularies, for all formats.

reader = TokenReader("start 0 1".split())
reader.expect("start")
x = reader.number(limit=10, what="an x")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.mazes.maze import MAX_SIDE, Cell, Edge, Path, Task
from clew.mazes.solvers import Event

PATH_START, PATH_END = "<PATH_START>", "<PATH_END>"


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


def cell_tokens(height: int, width: int) -> list[str]:
    """Return the tokens of all cells, in index order."""
    return [cell_token((row, col)) for row in range(height) for col in range(width)]


class TokenReader:
    """A position in a list of tokens; padding at the end is ignored, and messages count tokens from 1."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.at = 0
        self.end = len(tokens)
        while self.end and tokens[self.end - 1] == "[PAD]":
            self.end -= 1

    @property
    def is_done(self) -> bool:
        return self.at == self.end

    def peek(self) -> str | None:
        """Return the next token, or None at the end."""
        return self.tokens[self.at] if self.at < self.end else None

    def fail(self, expected: str) -> NoReturn:
        """Raise the UserError that the next token is not what is expected."""
        token = self.peek()
        if token is None:
            raise UserError(f"the text ends after token {self.end}, but {expected} must follow.")
        raise UserError(f"token {self.at + 1} is {quoted(token)}, but {expected} is expected there.")

    def skip(self, token: str) -> bool:
        """Take the token if it comes next, and return whether it did."""
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def expect(self, *tokens: str) -> None:
        for token in tokens:
            if not self.skip(token):
                self.fail(token)

    def expect_end(self, expected: str = "the end of the text") -> None:
        if not self.is_done:
            self.fail(expected)

    def _match(self, pattern: str, limits: Sequence[int], written: str, expected: str) -> tuple[int, ...]:
        """Take a token of numbers below their limits that is `written` with them, so that 007 is not read as 7."""
        match = re.fullmatch(pattern, self.peek() or "", re.ASCII)
        numbers = tuple(map(int, match.groups())) if match else ()
        fits = all(n < limit for n, limit in zip(numbers, limits, strict=False))
        if not match or not fits or written.format(*numbers) != match[0]:
            self.fail(expected)
        self.at += 1
        return numbers

    def cell(self, height: int | None, width: int | None, otherwise: str = "") -> Cell:
        """Read a `(row,col)` token; a size of None stands for the largest."""
        limits = height or MAX_SIDE, width or MAX_SIDE
        expected = f"a cell from (0,0) to ({limits[0] - 1},{limits[1] - 1}){otherwise}"
        row, col = self._match(r"\((\d{1,3}),(\d{1,3})\)", limits, "({},{})", expected)
        return row, col

    def number(self, limit: int | None, what: str, otherwise: str = "") -> int:
        """Read a number from 0 to limit - 1."""
        limit = limit or MAX_SIDE
        return self._match(r"(\d{1,3})", [limit], "{}", f"{what} from 0 to {limit - 1}{otherwise}")[0]

    def x_y(self, height: int | None, width: int | None) -> Cell:
        """Read two numbers, x then y, as a cell."""
        x = self.number(width, "an x")
        return self.number(height, "a y"), x

    def node(self, labels: int | None, otherwise: str = "") -> Cell:
        """Read a label as a node of a path-star graph."""
        return 0, self.number(labels, "a node", otherwise)

    def cost(self) -> int:
        """Read a cost such as c12."""
        return self._match(r"c(\d{1,5})", [100_000], "c{}", "a cost such as c12")[0]

    def path(self, read_cell: Callable[[str], Cell]) -> Path | None:
        """Read the path after <PATH_START>; None if the text ends there or before."""
        if self.peek() not in (None, PATH_START):
            self.fail(f"{PATH_START} or the end of the text")
        return self.response(read_cell) if self.skip(PATH_START) and not self.is_done else None

    def response(self, read_cell: Callable[[str], Cell]) -> Path:
        """Read cells up to and with <PATH_END>, and nothing after it; `read_cell` gets what else may stand there."""
        path = [read_cell("")]
        while not self.skip(PATH_END):
            path.append(read_cell(f" or {PATH_END}"))
        self.expect_end()
        return path


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
        """The number of ids a model must have: the number of tokens rounded up to a multiple of 128."""
        return padded_size(len(self.tokens))

    @property
    def pad_id(self) -> int:
        return self.id_of[PAD]

    def encode(self, tokens: Sequence[str]) -> npt.NDArray[np.int32]:
        """Return the ids of the tokens; an unknown token is named with its number."""
        id_of = self.id_of
        try:
            return np.array([id_of[token] for token in tokens], dtype=np.int32)
        except KeyError:
            index, token = next((i, token) for i, token in enumerate(tokens) if token not in id_of)
            raise UserError(
                f"token {index + 1} is {quoted(token)}, which is not among the {len(self.tokens)} tokens of the "
                "vocabulary: check the maze's size and format against the ones the vocabulary was made for."
            ) from None

    def decode(self, ids_T: Iterable[int]) -> list[str]:
        """Return the tokens of the ids; an id without a token (a model may predict one) reads [UNK]."""
        count = len(self.tokens)
        return [self.tokens[i] if 0 <= i < count else UNK for i in map(int, ids_T)]
