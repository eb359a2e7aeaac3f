"""The texts of many tasks, written at once as token ids.

    texts = TextWriter(vocabulary, batch)
    texts.append(texts.all_N, "bos", "start")         # two tokens to every text
    texts.append(row_P, "wall", x_P, y_P)             # three tokens to the text of maze row_P[p], for each p
    texts.end_prompt()

Shape suffixes: N mazes, T tokens, P items of all mazes, K tokens of each, E edges of all mazes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clew.jit import njit
from clew.mazes.compiled import begin_stream, next_64, shuffle_first
from clew.mazes.maze import TaskBatch, offsets
from clew.tokenization.tokens import Vocabulary

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Seeds = npt.NDArray[np.uint64]

# Sets these streams apart from those that drew the maze itself, which may have had the same seed.
_STREAM_OF_TEXT = 0x7465787400000000
_LOWEST_BIT = np.uint64(1)


@dataclass(frozen=True)
class EncodedBatch:
    """Texts as ids, each a prompt, then a response, then [PAD] up to the longest."""

    vocabulary: Vocabulary
    tokens_NT: Int32
    prompt_length_N: Int64
    total_length_N: Int64  # prompt and response


class TextWriter:
    """The texts of a batch, appended to for all mazes at once."""

    def __init__(self, vocabulary: Vocabulary, batch: TaskBatch) -> None:
        self.vocabulary, self.batch = vocabulary, batch
        self.all_N = np.arange(len(batch))
        self.with_path = np.flatnonzero(batch.length_N)
        self.row_of_path = np.repeat(self.all_N, batch.length_N)
        self._length_N = self._prompt_length_N = np.zeros(len(batch), dtype=np.int64)
        self.edge_E2: Int64 | None = None  # of the only maze, instead of shuffled ones
        self._appended: list[tuple[Int64, Int32]] = []

    def append(self, row_P: Int64, *columns: str | npt.NDArray[np.integer]) -> None:
        """Append to the text of maze row_P[p], for each p, one token of every column; row_P rises.

        A column is one token for all, or an array of ids.
        """
        ids_PK = np.empty((len(row_P), len(columns)), dtype=np.int32)
        for k, column in enumerate(columns):
            ids_PK[:, k] = self.vocabulary.id_of[column] if isinstance(column, str) else column
        self._appended.append((row_P, ids_PK))
        counts_N = 1 if row_P is self.all_N else np.bincount(row_P, minlength=len(self.all_N))
        self._length_N = self._length_N + len(columns) * counts_N

    def shuffled_edges(
        self, row_E: Int64, a_E: Int64, b_E: Int64, seed_N: Seeds, can_turn: bool = True
    ) -> tuple[Int64, Int64, Int64]:
        """Return the maze and the two cells of each edge, in the order and direction of the maze's seed."""
        if self.edge_E2 is not None:
            return np.zeros(len(self.edge_E2), dtype=np.int64), self.edge_E2[:, 0], self.edge_E2[:, 1]
        offset_N1 = offsets(np.bincount(row_E, minlength=len(seed_N)))
        order_E, turned_E = np.arange(len(row_E)), np.empty(len(row_E), dtype=np.bool_)
        _shuffle(offset_N1, seed_N, order_E, turned_E)
        turned_E &= can_turn
        a_E, b_E = a_E[order_E], b_E[order_E]
        return row_E, np.where(turned_E, b_E, a_E), np.where(turned_E, a_E, b_E)

    def end_prompt(self) -> None:
        """End the prompts: what is appended from here on is the response."""
        self._prompt_length_N = self._length_N

    def encoded(self) -> EncodedBatch:
        shape = len(self.all_N), int(self._length_N.max(initial=0))
        tokens_NT, end_N = np.full(shape, self.vocabulary.pad_id, dtype=np.int32), np.zeros(len(self.all_N), np.int64)
        for row_P, ids_PK in self._appended:
            _write(row_P, ids_PK, end_N, tokens_NT)
        return EncodedBatch(self.vocabulary, tokens_NT, self._prompt_length_N, self._length_N)


@njit(nogil=True)
def _write(row_P: Int64, ids_PK: Int32, end_N: Int64, tokens_NT: Int32) -> None:
    for p in range(len(row_P)):
        row = row_P[p]
        end = end_N[row]
        for k in range(ids_PK.shape[1]):
            tokens_NT[row, end + k] = ids_PK[p, k]
        end_N[row] = end + ids_PK.shape[1]


@njit(nogil=True)
def _shuffle(offset_N1: Int64, seed_N: Seeds, order_E: Int64, turned_E: npt.NDArray[np.bool_]) -> None:
    state = np.empty(1, dtype=np.uint64)
    for n in range(len(seed_N)):
        begin, end = offset_N1[n], offset_N1[n + 1]
        begin_stream(state, seed_N[n], _STREAM_OF_TEXT, 0)
        shuffle_first(state, order_E[begin:end], end - begin)
        for i in range(begin, end):
            turned_E[i] = (next_64(state) & _LOWEST_BIT) == _LOWEST_BIT
