"""A task as tokens, and what tokens say: the two ends of every format.

A text is its tokens joined by single spaces.

Reads tokens one by one and says exactly which one is wrong.

    reader = TokenReader("start 0 1".split())
    reader.expect("start")
    x = reader.number(limit=10, what="an x")

Tokens are counted from 1 in messages, as people count words in a line.

In which order, and in which direction, the passages of a maze are written.

One seed fixes both, so a maze keeps its text as long as it keeps its seed. The compiled function serves the encoder
of whole batches; `edge_order` is the same for one maze.

Shape suffixes: E passages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from numba import njit

from clew.errors import UserError
from clew.mazes.compiled import begin_stream, next_64, shuffle_first
from clew.mazes.maze import MAX_SIDE, Cell, Edge, Path, PathStar, Task
from clew.mazes.solvers import Event

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


_CELL = re.compile(r"\(([0-9]{1,3}),([0-9]{1,3})\)")
_NUMBER = re.compile(r"[0-9]{1,3}")
_COST = re.compile(r"c([0-9]{1,5})")
_LONGEST_SHOWN = 40


def shown(text: str) -> str:
    """The text in quotes as it can be printed in a message: control characters escaped, cut if it is long."""
    return repr(text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "...")


def cell_token(cell: Cell) -> str:
    """A cell as one token: `(row,col)`."""
    return f"({cell[0]},{cell[1]})"


class TokenReader:
    """A place in a list of tokens. Padding at the end is not seen."""

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
        """The next token, or None at the end."""
        return self.tokens[self.at] if self.at < self.end else None

    def fail(self, expected: str) -> NoReturn:
        """Say that the next token is not what is expected there."""
        token = self.peek()
        if token is None:
            raise UserError(f"the text ends after token {self.end}, but {expected} must follow.")
        raise UserError(f"token {self.at + 1} is {shown(token)}, but {expected} is expected there.")

    def skip(self, token: str) -> bool:
        """Take the token if it comes next, and say whether it did."""
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def expect(self, token: str) -> None:
        if not self.skip(token):
            self.fail(token)

    def expect_end(self, expected: str = "the end of the text") -> None:
        if not self.is_done:
            self.fail(expected)

    def cell(self, height: int | None, width: int | None, otherwise: str = "") -> Cell:
        """A `(row,col)` token; a size of None stands for the largest that Clew handles."""
        rows, cols = height or MAX_SIDE, width or MAX_SIDE
        expected = f"a cell from (0,0) to ({rows - 1},{cols - 1}){otherwise}"
        match = _CELL.fullmatch(self.peek() or "")
        if not match:
            self.fail(expected)
        row, col = int(match[1]), int(match[2])
        if not (row < rows and col < cols) or cell_token((row, col)) != match[0]:
            self.fail(expected)
        self.at += 1
        return row, col

    def number(self, limit: int | None, what: str) -> int:
        """A number token from 0 to limit - 1."""
        limit = limit or MAX_SIDE
        token = self.peek() or ""
        if not (_NUMBER.fullmatch(token) and int(token) < limit and str(int(token)) == token):
            self.fail(f"{what} from 0 to {limit - 1}")
        self.at += 1
        return int(token)

    def x_y(self, height: int | None, width: int | None) -> Cell:
        """Two number tokens, x then y, as a cell."""
        x = self.number(width, "an x")
        y = self.number(height, "a y")
        return y, x

    def cost(self) -> int:
        """A cost token such as c12."""
        match = _COST.fullmatch(self.peek() or "")
        if not match or f"c{int(match[1])}" != match[0]:
            self.fail("a cost such as c12")
        self.at += 1
        return int(match[1])


# Sets these streams apart from those that drew the maze itself, which may have had the same seed.
_STREAM_OF_TEXT = 0x7465787400000000
_LOWEST_BIT = np.uint64(1)


@njit(cache=True, nogil=True)
def draw_edge_order(
    state: npt.NDArray[np.uint64], seed: int, order_E: npt.NDArray[np.int32], turned_E: npt.NDArray[np.bool_]
) -> None:
    """Fill in a random order of the passages 0 to E - 1, and whether each place's passage is turned round."""
    begin_stream(state, seed, _STREAM_OF_TEXT, 0)
    for i in range(len(order_E)):
        order_E[i] = i
    shuffle_first(state, order_E, len(order_E))
    for i in range(len(order_E)):
        turned_E[i] = (next_64(state) & _LOWEST_BIT) == _LOWEST_BIT


def edge_order(seed: int, count: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """A random order of `count` passages and whether each is turned round, both fixed by the seed (64 bits)."""
    order_E = np.empty(count, dtype=np.int32)
    turned_E = np.empty(count, dtype=np.bool_)
    seed_64: Any = np.uint64(seed & 0xFFFFFFFFFFFFFFFF)  # as it comes from an array of seeds
    draw_edge_order(np.empty(1, dtype=np.uint64), seed_64, order_E, turned_E)
    return order_E, turned_E
