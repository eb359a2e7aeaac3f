"""Batches of tasks as token ids.

    encoded = encode_batch("edge-list", tasks, seed_N)
    encoded.tokens_NT[i, : encoded.total_length_N[i]]   # the ids of EdgeList().encode(task, path, seed=seed_N[i])

Each built-in format but cell-labels is written for all tasks at once, token for token as its `encode` writes one;
the tests compare the two. Registered formats are written task by task.

Shape suffixes: N mazes, H rows, W columns, C = H * W cells, V labels, T tokens, P items of all mazes, K tokens of each,
E edges of all mazes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.jit import njit
from clew.mazes.maze import ABSENT, EAST, SOUTH, WALL, TaskBatch, cells_from_solid
from clew.mazes.solvers import trace_batch
from clew.tokenization import format as words
from clew.tokenization.format import FORMATS, Format, check_kind, edge_orders, format_named
from clew.tokenization.tokens import PATH_END, PATH_START, Vocabulary, cell_tokens

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Seeds = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class EncodedBatch:
    """Texts as ids, each a prompt, then a response, then [PAD] up to the longest."""

    vocabulary: Vocabulary
    tokens_NT: Int32
    prompt_length_N: Int64
    total_length_N: Int64  # prompt and response


def encode_batch(format_name: str, batch: TaskBatch, seed_N: Seeds) -> EncodedBatch:
    """Return the texts of all tasks and their paths; a path without cells gives a prompt without response."""
    if len(seed_N) != len(batch):
        raise UserError(f"every maze needs a seed for its text: {len(batch)} mazes, {len(seed_N)} seeds.")
    form = format_named(format_name)
    if format_name in FORMATS:
        check_kind(format_name, is_graph=batch.height == 1)
    texts = _Texts(_vocabulary(form, batch.height, batch.width), batch)
    if len(batch):
        _WRITERS.get(format_name, _write_each)(texts, form, np.ascontiguousarray(seed_N, dtype=np.uint64))
    return texts.encoded()


@lru_cache(maxsize=16)
def _vocabulary(form: Format, height: int, width: int) -> Vocabulary:
    """Return the vocabulary; kept, since making it takes longer than encoding a small batch."""
    return form.vocabulary(height, width)


@lru_cache(maxsize=16)
def _cell_ids(vocabulary: Vocabulary, height: int, width: int) -> Int32:
    return vocabulary.encode(cell_tokens(height, width))


class _Texts:
    """The texts of a batch, appended to for all mazes at once."""

    def __init__(self, vocabulary: Vocabulary, batch: TaskBatch) -> None:
        self.vocabulary, self.batch = vocabulary, batch
        self.all_N = np.arange(len(batch))
        self.with_path = np.flatnonzero(batch.length_N)
        self.row_of_path = np.repeat(self.all_N, batch.length_N)
        self.length_N = self.prompt_length_N = np.zeros(len(batch), dtype=np.int64)
        self.appended: list[tuple[Int64, Int32]] = []

    def ids(self, *tokens: str) -> Int32:
        return self.vocabulary.encode(tokens)

    def append(self, row_P: Int64, *columns: Any) -> None:
        """Append to the text of maze row_P[p], for each p, one token of every column; row_P rises."""
        ids_PK = np.empty((len(row_P), len(columns)), dtype=np.int32)
        for k, column in enumerate(columns):
            ids_PK[:, k] = column
        self.appended.append((row_P, ids_PK))
        counts_N = 1 if row_P is self.all_N else np.bincount(row_P, minlength=len(self.length_N))
        self.length_N = self.length_N + len(columns) * counts_N

    def end_prompt(self) -> None:
        self.append(self.all_N, *self.ids(PATH_START))
        self.prompt_length_N = self.length_N

    def append_path(self, ids_C: Int32, path: Int32) -> None:
        self.append(self.row_of_path, ids_C[path])
        self.append(self.with_path, *self.ids(PATH_END))

    def encoded(self) -> EncodedBatch:
        shape = len(self.all_N), int(self.length_N.max(initial=0))
        tokens_NT, end_N = np.full(shape, self.vocabulary.pad_id, dtype=np.int32), np.zeros(len(self.all_N), np.int64)
        for row_P, ids_PK in self.appended:
            _write(row_P, ids_PK, end_N, tokens_NT)
        return EncodedBatch(self.vocabulary, tokens_NT, self.prompt_length_N, self.length_N)


@njit(nogil=True)
def _write(row_P: Int64, ids_PK: Int32, end_N: Int64, tokens_NT: Int32) -> None:
    for p in range(len(row_P)):
        row = row_P[p]
        end = end_N[row]
        for k in range(ids_PK.shape[1]):
            tokens_NT[row, end + k] = ids_PK[p, k]
        end_N[row] = end + ids_PK.shape[1]


def _write_edge_list(texts: _Texts, form: Format, seed_N: Seeds) -> None:
    batch = texts.batch
    ids_C = _cell_ids(texts.vocabulary, batch.height, batch.width)
    is_edge_NC2 = np.stack([batch.cells_NHW & EAST, batch.cells_NHW & SOUTH], axis=-1).astype(bool)
    # Edge 2 * cell leads east from a cell, 2 * cell + 1 south.
    row_E, edge_E = np.divmod(np.flatnonzero(is_edge_NC2), 2 * len(ids_C))
    order_E, turned_E = edge_orders(np.bincount(row_E, minlength=len(batch)), seed_N)
    edge_E = edge_E[order_E]
    east_C, south_C = np.roll(ids_C, -1), np.roll(ids_C, -batch.width)
    a_E, b_E = np.repeat(ids_C, 2)[edge_E], np.stack([east_C, south_C], axis=-1).ravel()[edge_E]
    texts.append(texts.all_N, *texts.ids(words.ADJLIST_START))
    texts.append(row_E, np.where(turned_E, b_E, a_E), np.where(turned_E, a_E, b_E), *texts.ids(words.EDGE_END))
    end, start, start_end, goal, goal_end = texts.ids(
        words.ADJLIST_END, words.ORIGIN_START, words.ORIGIN_END, words.TARGET_START, words.TARGET_END
    )
    texts.append(texts.all_N, end, start, ids_C[batch.start_N], start_end, goal, ids_C[batch.goal_N], goal_end)
    texts.end_prompt()
    texts.append_path(ids_C, batch.path)


def _write_path_star(texts: _Texts, form: Format, seed_N: Seeds) -> None:
    batch = texts.batch
    ids_V = texts.ids(*map(str, range(batch.width)))
    before_NV = batch.cells_NHW[:, 0]
    row_E, node_E = np.nonzero((before_NV != ABSENT) & (before_NV != np.arange(batch.width)))
    order_E, _ = edge_orders(np.bincount(row_E, minlength=len(batch)), seed_N)
    node_E = node_E[order_E]
    texts.append(row_E, ids_V[before_NV[row_E, node_E]], ids_V[node_E], *texts.ids(words.STAR_EDGE_END))
    texts.append(texts.all_N, ids_V[batch.start_N], ids_V[batch.goal_N])
    texts.end_prompt()
    path = batch.path
    if form.name == "path-star-reversed":
        last_P = (batch.offset_N1[:-1] + batch.offset_N1[1:] - 1)[texts.row_of_path]
        path = path[last_P - np.arange(len(path))]
    texts.append_path(ids_V, path)


def _write_wall_list(texts: _Texts, form: Format, seed_N: Seeds) -> None:
    batch = texts.batch
    wrong_N = (batch.cells_NHW != cells_from_solid(batch.cells_NHW == WALL)).any((1, 2))
    if wrong_N.any():
        raise UserError(
            f"maze {int(wrong_N.argmax())} of the batch has walls between cells, which the wall-list format cannot "
            "write; use edge-list."
        )
    ids = texts.ids(*map(str, range(max(batch.height, batch.width))))
    bos, eos, start, goal, wall, plan = texts.ids(
        words.BEGIN, words.END, words.START, words.GOAL, words.WALL_WORD, words.PLAN
    )

    def x_y(cell_P: npt.NDArray[Any]) -> tuple[Int32, Int32]:
        return ids[cell_P % batch.width], ids[cell_P // batch.width]

    row_P, cell_P = np.nonzero(batch.cells_NHW.reshape(len(batch), -1) == WALL)
    texts.append(texts.all_N, bos, start, *x_y(batch.start_N), goal, *x_y(batch.goal_N))
    texts.append(row_P, wall, *x_y(cell_P))
    texts.append(texts.all_N, eos)
    texts.end_prompt()
    texts.append(texts.with_path, bos)
    if form.name == "wall-list-trace":
        event_P4, offset_N1 = trace_batch(batch, workers=1)  # one thread, as for all else here
        row_P = np.repeat(texts.all_N, np.diff(offset_N1))
        kept_P = batch.length_N[row_P] > 0
        row_P, (kind_P, cell_P, g_P, h_P) = row_P[kept_P], event_P4[kept_P].T
        kinds = texts.ids(words.CREATE, words.CLOSE)  # in the order of their numbers in a trace
        costs = texts.ids(*(f"c{cost}" for cost in range(batch.height * batch.width + 1)))
        texts.append(row_P, kinds[kind_P], *x_y(cell_P), costs[g_P], costs[h_P])
    texts.append(texts.row_of_path, plan, *x_y(batch.path))
    texts.append(texts.with_path, eos)


def _write_grid(texts: _Texts, form: Format, seed_N: Seeds) -> None:
    batch = texts.batch
    begin, row_end, end = texts.ids(words.GRID_START, words.ROW_END, words.GRID_END)
    # By role and value of a cell; a wall cell has no role.
    ids = np.stack([texts.ids(*(role + t for t in words.SIDES_TOKENS[:WALL]), "#") for role in words.ROLES])
    role_NC = np.zeros((len(batch), batch.height * batch.width), dtype=np.int64)
    role_NC[texts.all_N, batch.start_N] += 1
    role_NC[texts.all_N, batch.goal_N] += 2
    # One column more than the maze, for the end of the row.
    ids_NHW = np.full((len(batch), batch.height, batch.width + 1), row_end)
    ids_NHW[:, :, :-1] = ids[role_NC.reshape(batch.cells_NHW.shape), batch.cells_NHW]
    ids_NHW[:, -1, -1] = end
    texts.append(texts.all_N, begin)
    texts.append(np.repeat(texts.all_N, ids_NHW[0].size), ids_NHW.reshape(-1))
    texts.end_prompt()
    texts.append_path(_cell_ids(texts.vocabulary, batch.height, batch.width), batch.path)


def _write_each(texts: _Texts, form: Format, seed_N: Seeds) -> None:
    pairs = zip(texts.batch, seed_N.tolist(), strict=True)
    written = [form.encode(task, path or None, seed=seed) for (task, path), seed in pairs]
    for part in ("prompt", "response"):
        tokens = [getattr(each, part) for each in written]
        row_P = np.repeat(texts.all_N, [len(each) for each in tokens])
        texts.append(row_P, texts.ids(*(token for each in tokens for token in each)))
        if part == "prompt":
            texts.prompt_length_N = texts.length_N


_WRITERS: dict[str, Callable[[_Texts, Format, Seeds], None]] = {
    "edge-list": _write_edge_list,
    "wall-list": _write_wall_list,
    "wall-list-trace": _write_wall_list,
    "grid": _write_grid,
    "path-star": _write_path_star,
    "path-star-reversed": _write_path_star,
}
