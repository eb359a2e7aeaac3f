"""The Format protocol, the formats by name, and whole batches of tasks as token ids.

    form = format_named("edge-list")
    encoded = form.encode(task, path, seed=7)           # encoded.prompt, encoded.response: lists of tokens
    parsed = form.parse(encoded.tokens)                 # parsed.task, parsed.path
    encoded = encode_batch("edge-list", tasks, seed_N)
    encoded.tokens_NT[i, : encoded.total_length_N[i]]   # the ids of encode(task, path, seed=seed_N[i])

A plug-in adds a format with a class that has the methods of `Format`:

    @clew.register("format", "my-format")
    class MyFormat: ...

`encode_batch` writes each built-in format for all tasks at once, token for token as its `encode` writes one; the tests
compare the two. A registered format is written by its `encode`, task by task.

Shape suffixes: N mazes, H rows, W columns, C = H * W cells, T tokens, P items of all mazes, K tokens of each, E edges
of all mazes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.jit import njit
from clew.mazes.maze import ABSENT, EAST, SOUTH, WALL, Path, Task, TaskBatch, cells_from_solid
from clew.mazes.solvers import trace_batch
from clew.registry import registered, registered_names
from clew.tokenization import cell_grid, edge_list, wall_list
from clew.tokenization.cell_grid import CellLabels, Grid
from clew.tokenization.edge_list import EdgeList, PathStarList
from clew.tokenization.tokens import PATH_END, PATH_START, Encoded, Parsed, Vocabulary, cell_tokens
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


Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EncodedBatch:
    """Texts as ids, each a prompt, then a response, then [PAD] up to the longest."""

    tokens_NT: Int32
    prompt_length_N: Int64
    total_length_N: Int64  # prompt and response


def encode_batch(format_name: str, batch: TaskBatch, seed_N: npt.NDArray[np.uint64]) -> EncodedBatch:
    """Return the texts of all tasks and their paths; a path without cells gives a prompt without response."""
    if len(seed_N) != len(batch):
        raise UserError(f"every maze needs a seed for its text: {len(batch)} mazes, {len(seed_N)} seeds.")
    form = format_named(format_name)
    texts = _Texts(_vocabulary(form, batch.height, batch.width), batch)
    if not len(batch):
        pass
    elif format_name not in FORMATS:
        _write_each(texts, form, seed_N)
    elif format_name.startswith("wall-list"):
        _write_wall_list(texts, with_trace=format_name == "wall-list-trace")
    elif format_name == "grid":
        _write_grid(texts)
    elif format_name == "cell-labels":
        _write_grid(texts, labels=True)
    elif format_name == "edge-list":
        _write_edge_list(texts, np.ascontiguousarray(seed_N, dtype=np.uint64))
    else:
        reverse = format_name == "path-star-reversed"
        _write_path_star(texts, np.ascontiguousarray(seed_N, dtype=np.uint64), reverse)
    return texts.encoded()


@lru_cache(maxsize=16)
def _vocabulary(form: Format, height: int, width: int) -> Vocabulary:
    """Return the vocabulary; kept, since making it takes longer than encoding a small batch."""
    return form.vocabulary(height, width)


@lru_cache(maxsize=16)
def _cell_ids(vocabulary: Vocabulary, height: int, width: int) -> Int32:
    return vocabulary.encode(cell_tokens(height, width))


class _Texts:
    """The texts of a batch, written piece by piece for all mazes at once."""

    def __init__(self, vocabulary: Vocabulary, batch: TaskBatch) -> None:
        self.vocabulary, self.batch = vocabulary, batch
        self.all_N = np.arange(len(batch))
        self.with_path = np.flatnonzero(batch.length_N)
        self.row_of_path = np.repeat(self.all_N, batch.length_N)
        self.length_N = self.prompt_length_N = np.zeros(len(batch), dtype=np.int64)
        self.pieces: list[tuple[Int64, Int32]] = []

    def ids(self, *tokens: str) -> Int32:
        return self.vocabulary.encode(tokens)

    def append(self, row_P: Int64, *columns: Any) -> None:
        """Append to the text of maze row_P[p], for each p, one token of every column; row_P rises."""
        ids_PK = np.empty((len(row_P), len(columns)), dtype=np.int32)
        for k, column in enumerate(columns):
            ids_PK[:, k] = column
        self.pieces.append((row_P, ids_PK))
        self.length_N = self.length_N + len(columns) * np.bincount(row_P, minlength=len(self.length_N))

    def end_prompt(self) -> None:
        self.append(self.all_N, *self.ids(PATH_START))
        self.prompt_length_N = self.length_N

    def encoded(self) -> EncodedBatch:
        shape = len(self.all_N), int(self.length_N.max(initial=0))
        tokens_NT, end_N = np.full(shape, self.vocabulary.pad_id, dtype=np.int32), np.zeros(len(self.all_N), np.int64)
        for piece in self.pieces:
            _write(*piece, end_N, tokens_NT)
        return EncodedBatch(tokens_NT, self.prompt_length_N, self.length_N)


@njit(nogil=True)
def _write(row_P: Int64, ids_PK: Int32, end_N: Int64, tokens_NT: Int32) -> None:
    for p in range(len(row_P)):
        row = row_P[p]
        end = end_N[row]
        for k in range(ids_PK.shape[1]):
            tokens_NT[row, end + k] = ids_PK[p, k]
        end_N[row] = end + ids_PK.shape[1]


def _write_path(texts: _Texts, ids_C: Int32, path: Int32 | None = None) -> None:
    texts.append(texts.row_of_path, ids_C[texts.batch.path if path is None else path])
    texts.append(texts.with_path, *texts.ids(PATH_END))


def _write_edge_list(texts: _Texts, seed_N: npt.NDArray[np.uint64]) -> None:
    batch, words = texts.batch, edge_list
    ids_C = _cell_ids(texts.vocabulary, batch.height, batch.width)
    is_edge_NC2 = np.stack([batch.cells_NHW & EAST, batch.cells_NHW & SOUTH], axis=-1).astype(bool)
    # Place 2 * cell leads east from a cell, 2 * cell + 1 south.
    row_E, place_E = np.divmod(np.flatnonzero(is_edge_NC2), 2 * len(ids_C))
    order_E, turned_E = edge_list.edge_orders(np.bincount(row_E, minlength=len(batch)), seed_N)
    place_E = place_E[order_E]
    east_C, south_C = np.roll(ids_C, -1), np.roll(ids_C, -batch.width)
    a_E, b_E = np.repeat(ids_C, 2)[place_E], np.stack([east_C, south_C], axis=-1).ravel()[place_E]
    texts.append(texts.all_N, *texts.ids(words.ADJLIST_START))
    texts.append(row_E, np.where(turned_E, b_E, a_E), np.where(turned_E, a_E, b_E), *texts.ids(words.EDGE_END))
    end, start, start_end, goal, goal_end = texts.ids(
        words.ADJLIST_END, words.ORIGIN_START, words.ORIGIN_END, words.TARGET_START, words.TARGET_END
    )
    texts.append(texts.all_N, end, start, ids_C[batch.start_N], start_end, goal, ids_C[batch.goal_N], goal_end)
    texts.end_prompt()
    _write_path(texts, ids_C)


def _write_path_star(texts: _Texts, seed_N: npt.NDArray[np.uint64], reverse: bool) -> None:
    batch = texts.batch
    ids_V = texts.ids(*map(str, range(batch.width)))
    before_NV = batch.cells_NHW[:, 0]
    row_E, node_E = np.nonzero((before_NV != ABSENT) & (before_NV != np.arange(batch.width)))
    order_E, _ = edge_list.edge_orders(np.bincount(row_E, minlength=len(batch)), seed_N)
    node_E = node_E[order_E]
    texts.append(row_E, ids_V[before_NV[row_E, node_E]], ids_V[node_E], *texts.ids(edge_list.STAR_EDGE_END))
    texts.append(texts.all_N, ids_V[batch.start_N], ids_V[batch.goal_N])
    texts.end_prompt()
    path = batch.path
    if reverse:
        last_P = (batch.offset_N1[:-1] + batch.offset_N1[1:] - 1)[texts.row_of_path]
        path = path[last_P - np.arange(len(path))]
    _write_path(texts, ids_V, path)


def _write_wall_list(texts: _Texts, with_trace: bool) -> None:
    batch, words = texts.batch, wall_list
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
    if with_trace:
        traces = trace_batch(batch, workers=1)  # one thread, as for all else here
        row_P = np.repeat(texts.all_N, np.diff(traces.offset_N1))
        kept_P = batch.length_N[row_P] > 0
        row_P, (kind_P, cell_P, g_P, h_P) = row_P[kept_P], traces.event_E4[kept_P].T
        kinds = texts.ids(words.CREATE, words.CLOSE)  # in the order of their numbers in a trace
        costs = texts.ids(*(f"c{cost}" for cost in range(batch.height * batch.width + 1)))
        texts.append(row_P, kinds[kind_P], *x_y(cell_P), costs[g_P], costs[h_P])
    texts.append(texts.row_of_path, plan, *x_y(batch.path))
    texts.append(texts.with_path, eos)


def _write_grid(texts: _Texts, labels: bool = False) -> None:
    batch, words = texts.batch, cell_grid
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
    if not labels:
        _write_path(texts, _cell_ids(texts.vocabulary, batch.height, batch.width))
        return
    label_NC = np.zeros(role_NC.shape, dtype=np.int64)
    label_NC[texts.row_of_path, batch.path] = 1
    row_P = np.repeat(texts.with_path, label_NC.shape[1])
    texts.append(row_P, texts.ids(*words.LABELS)[label_NC[texts.with_path].reshape(-1)])
    texts.append(texts.with_path, *texts.ids(PATH_END))


def _write_each(texts: _Texts, form: Format, seed_N: npt.NDArray[np.uint64]) -> None:
    pairs = zip(texts.batch, seed_N.tolist(), strict=True)
    written = [form.encode(task, path or None, seed=seed) for (task, path), seed in pairs]
    for part in ("prompt", "response"):
        tokens = [getattr(each, part) for each in written]
        row_P = np.repeat(texts.all_N, [len(each) for each in tokens])
        texts.append(row_P, texts.ids(*(token for each in tokens for token in each)))
        if part == "prompt":
            texts.prompt_length_N = texts.length_N
