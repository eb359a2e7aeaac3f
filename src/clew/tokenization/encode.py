"""Whole batches of tasks as token ids, fast enough to feed training.

    encoded = encode_batch("edge-list", tasks, seed_N)
    encoded.tokens_NT[i, : encoded.total_length_N[i]]   # what encode(task, path, seed=seed_N[i]) writes, as ids

Each kernel writes the text of its format token for token as the plain `encode` does; the tests hold them together.
They release the GIL, so that a loader's threads run side by side.

Shape suffixes: N mazes, H rows, W columns, C = H * W cells, T tokens, E events of all traces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from numba import njit

from clew.errors import UserError
from clew.mazes.maze import ABSENT, EAST, SOUTH, WALL, TaskBatch
from clew.mazes.solvers import TraceBatch, trace_batch
from clew.tokenization import cell_grid, edge_list, path_star, wall_list
from clew.tokenization.cell_labels import LABELS
from clew.tokenization.format import format_named
from clew.tokenization.tokens import PATH_END, PATH_START, cell_token, draw_edge_order
from clew.tokenization.vocabulary import Vocabulary

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EncodedBatch:
    """Texts as ids, each a prompt, then a response, then [PAD] up to the longest."""

    tokens_NT: Int32
    prompt_length_N: Int64
    total_length_N: Int64  # prompt and response


def encode_batch(format_name: str, batch: TaskBatch, seed_N: npt.NDArray[np.uint64]) -> EncodedBatch:
    """The texts of all tasks and their paths; a path without cells gives a prompt without response."""
    if len(seed_N) != len(batch):
        raise UserError(f"every maze needs a seed for its text: {len(batch)} mazes, {len(seed_N)} seeds.")
    vocabulary = _vocabulary(format_name, batch.height, batch.width)
    if not len(batch):
        none_N = np.zeros(0, dtype=np.int64)
        return EncodedBatch(np.zeros((0, 0), dtype=np.int32), none_N, none_N)
    if format_name == "edge-list":
        return _edge_list(batch, vocabulary, np.ascontiguousarray(seed_N, dtype=np.uint64))
    if format_name == "grid":
        return _grid(batch, vocabulary)
    if format_name == "cell-labels":
        return _cell_labels(batch, vocabulary)
    if format_name.startswith("path-star"):
        return _path_star(batch, vocabulary, np.ascontiguousarray(seed_N, dtype=np.uint64), format_name)
    return _wall_list(batch, vocabulary, with_trace=format_name == "wall-list-trace")


@lru_cache(maxsize=16)
def _vocabulary(format_name: str, height: int, width: int) -> Vocabulary:
    """Kept, since making it takes longer than encoding a small batch."""
    return format_named(format_name).vocabulary(height, width)


def _edge_list(batch: TaskBatch, vocabulary: Vocabulary, seed_N: npt.NDArray[np.uint64]) -> EncodedBatch:
    edges_N = ((batch.cells_NHW & EAST) != 0).sum((1, 2)) + ((batch.cells_NHW & SOUTH) != 0).sum((1, 2))
    encoded = _blank(vocabulary, 3 * edges_N + 9, batch.length_N + 1, batch.length_N)
    words = [edge_list.ADJLIST_START, edge_list.EDGE_END, edge_list.ADJLIST_END, edge_list.ORIGIN_START]
    words += [edge_list.ORIGIN_END, edge_list.TARGET_START, edge_list.TARGET_END, PATH_START, PATH_END]
    _write_edge_lists(
        batch.cells_NHW,
        batch.start_N,
        batch.goal_N,
        batch.path,
        batch.offset_N1,
        seed_N,
        _cell_ids(vocabulary, batch),
        vocabulary.encode(words),
        encoded.tokens_NT,
    )
    return encoded


def _wall_list(batch: TaskBatch, vocabulary: Vocabulary, with_trace: bool) -> EncodedBatch:
    check_wall_cells_only(batch)
    walls_N = (batch.cells_NHW == WALL).sum((1, 2))
    words = [wall_list.BEGIN, wall_list.START, wall_list.GOAL, wall_list.WALL_WORD, wall_list.END, PATH_START]
    words += [wall_list.PLAN]
    if with_trace:
        traces = trace_batch(batch, workers=1)  # one thread, as for all else here
        words += [wall_list.CREATE, wall_list.CLOSE]  # in the order of their numbers in a trace
        costs = vocabulary.encode([f"c{cost}" for cost in range(batch.height * batch.width + 1)])
    else:
        traces = TraceBatch(np.empty((0, 4), dtype=np.int32), np.zeros(len(batch) + 1, dtype=np.int64))
        costs = np.empty(0, dtype=np.int32)
    response_N = 5 * np.diff(traces.offset_N1) + 3 * batch.length_N + 2
    encoded = _blank(vocabulary, 3 * walls_N + 9, response_N, batch.length_N)
    _write_wall_lists(
        batch.cells_NHW,
        batch.start_N,
        batch.goal_N,
        batch.path,
        batch.offset_N1,
        traces.event_E4,
        traces.offset_N1,
        vocabulary.encode([str(n) for n in range(max(batch.height, batch.width))]),
        costs,
        vocabulary.encode(words),
        encoded.tokens_NT,
    )
    return encoded


def _grid(batch: TaskBatch, vocabulary: Vocabulary) -> EncodedBatch:
    height, width = batch.height, batch.width
    prompt_N = np.full(len(batch), height * width + height + 2, dtype=np.int64)
    encoded = _blank(vocabulary, prompt_N, batch.length_N + 1, batch.length_N)
    # role, value of the cell -> id; a wall has no role
    side_ids = np.stack(
        [vocabulary.encode([*(role + t for t in cell_grid.SIDES_TOKENS[:WALL]), "#"]) for role in cell_grid.ROLES]
    )
    mazes = np.arange(len(batch))
    role_NC = np.zeros((len(batch), height * width), dtype=np.int64)
    role_NC[mazes, batch.start_N] += 1
    role_NC[mazes, batch.goal_N] += 2
    ids_NHW = side_ids[role_NC, batch.cells_NHW.reshape(role_NC.shape)].reshape(batch.cells_NHW.shape)
    words = vocabulary.encode([cell_grid.GRID_START, cell_grid.ROW_END, cell_grid.GRID_END, PATH_START, PATH_END])
    # Each row of the grid and the `/` after it; the last row has <GRID_END> in its place.
    rows_NHW = np.concatenate([ids_NHW, np.full_like(ids_NHW[:, :, :1], words[1])], axis=2).reshape(len(batch), -1)
    rows_NHW[:, -1] = words[2]
    encoded.tokens_NT[:, 0] = words[0]
    encoded.tokens_NT[:, 1 : rows_NHW.shape[1] + 1] = rows_NHW
    encoded.tokens_NT[:, rows_NHW.shape[1] + 1] = words[3]
    _write_paths(batch.path, batch.offset_N1, _cell_ids(vocabulary, batch), words[4], prompt_N, encoded.tokens_NT)
    return encoded


def _cell_labels(batch: TaskBatch, vocabulary: Vocabulary) -> EncodedBatch:
    count, cells = len(batch), batch.height * batch.width
    prompt = _grid(replace(batch, path=batch.path[:0], offset_N1=np.zeros(count + 1, dtype=np.int64)), vocabulary)
    encoded = _blank(vocabulary, prompt.prompt_length_N, np.full(count, cells + 1), batch.length_N)
    label_NC = np.zeros((count, cells), dtype=np.int64)
    label_NC[np.repeat(np.arange(count), batch.length_N), batch.path] = 1
    length = prompt.tokens_NT.shape[1]  # the same for all mazes of a shape
    encoded.tokens_NT[:, :length] = prompt.tokens_NT
    written_N = batch.length_N > 0
    if written_N.any():
        encoded.tokens_NT[written_N, length : length + cells] = vocabulary.encode(LABELS)[label_NC[written_N]]
        encoded.tokens_NT[written_N, length + cells] = vocabulary.id_of[PATH_END]
    return encoded


def _path_star(
    batch: TaskBatch, vocabulary: Vocabulary, seed_N: npt.NDArray[np.uint64], format_name: str
) -> EncodedBatch:
    # The centre is the one node without an edge to it.
    edges_N = (batch.cells_NHW != ABSENT).sum((1, 2)) - 1
    encoded = _blank(vocabulary, 3 * edges_N + 3, batch.length_N + 1, batch.length_N)
    path = batch.path
    if format_name == "path-star-reversed":  # each path turned round where it stands
        end_P = np.repeat(batch.offset_N1[:-1] + batch.offset_N1[1:] - 1, batch.length_N)
        path = path[end_P - np.arange(len(path))]
    _write_path_stars(
        np.ascontiguousarray(batch.cells_NHW[:, 0]),
        batch.start_N,
        batch.goal_N,
        path,
        batch.offset_N1,
        seed_N,
        vocabulary.encode([str(label) for label in range(batch.width)]),
        vocabulary.encode([path_star.EDGE_END, PATH_START, PATH_END]),
        encoded.tokens_NT,
    )
    return encoded


def check_wall_cells_only(batch: TaskBatch) -> None:
    """Raise UserError unless every maze of the batch is told wholly by its wall cells."""
    cells = batch.cells_NHW
    free = cells != WALL
    wrong_rows = (free[:, :-1] & free[:, 1:]) != ((cells[:, :-1] & SOUTH) != 0)
    wrong_cols = (free[:, :, :-1] & free[:, :, 1:]) != ((cells[:, :, :-1] & EAST) != 0)
    wrong_N = wrong_rows.any((1, 2)) | wrong_cols.any((1, 2))
    if wrong_N.any():
        raise UserError(
            f"maze {int(wrong_N.argmax())} of the batch has walls between cells, which the wall-list format cannot "
            "write; use edge-list."
        )


def _cell_ids(vocabulary: Vocabulary, batch: TaskBatch) -> Int32:
    return vocabulary.encode([cell_token((row, col)) for row in range(batch.height) for col in range(batch.width)])


def _blank(vocabulary: Vocabulary, prompt_N: Int64, response_N: Int64, cells_N: Int64) -> EncodedBatch:
    """A batch of [PAD] with room for prompts and responses of these lengths."""
    total_N = prompt_N + np.where(cells_N > 0, response_N, 0)
    longest = int(total_N.max())
    tokens_NT = np.full((len(total_N), longest), vocabulary.pad_id, dtype=np.int32)
    return EncodedBatch(tokens_NT, prompt_N.astype(np.int64), total_N.astype(np.int64))


@njit(cache=True, nogil=True)
def _write_paths(path: Int32, offset_N1: Int64, cell_ids: Int32, path_end: int, at_N: Int64, tokens_NT: Int32) -> None:
    for n in range(len(at_N)):
        at = at_N[n]
        for i in range(offset_N1[n], offset_N1[n + 1]):
            tokens_NT[n, at] = cell_ids[path[i]]
            at += 1
        if at > at_N[n]:
            tokens_NT[n, at] = path_end


@njit(cache=True, nogil=True)
def _write_edge_lists(
    cells_NHW: npt.NDArray[np.uint8],
    start_N: Int32,
    goal_N: Int32,
    path: Int32,
    offset_N1: Int64,
    seed_N: npt.NDArray[np.uint64],
    cell_ids: Int32,
    words: Int32,
    tokens_NT: Int32,
) -> None:
    count, height, width = cells_NHW.shape
    most = 2 * height * width
    # the two ends of each passage in index order, and the order to write them in
    first, second, order = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    turned = np.empty(most, np.bool_)
    state = np.empty(1, np.uint64)
    at_N = np.empty(count, np.int64)
    for n in range(count):
        edges = 0
        for cell in range(height * width):
            sides = cells_NHW[n, cell // width, cell % width]
            if sides & EAST:
                first[edges], second[edges] = cell_ids[cell], cell_ids[cell + 1]
                edges += 1
            if sides & SOUTH:
                first[edges], second[edges] = cell_ids[cell], cell_ids[cell + width]
                edges += 1
        draw_edge_order(state, seed_N[n], order[:edges], turned[:edges])
        row = tokens_NT[n]
        row[0] = words[0]
        at = 1
        for i in range(edges):
            a, b = first[order[i]], second[order[i]]
            if turned[i]:
                a, b = b, a
            row[at], row[at + 1], row[at + 2] = a, b, words[1]
            at += 3
        row[at], row[at + 1], row[at + 2], row[at + 3] = words[2], words[3], cell_ids[start_N[n]], words[4]
        row[at + 4], row[at + 5], row[at + 6], row[at + 7] = words[5], cell_ids[goal_N[n]], words[6], words[7]
        at_N[n] = at + 8
    _write_paths(path, offset_N1, cell_ids, words[8], at_N, tokens_NT)


@njit(cache=True, nogil=True)
def _write_path_stars(
    before_NV: npt.NDArray[np.uint8],
    start_N: Int32,
    goal_N: Int32,
    path: Int32,
    offset_N1: Int64,
    seed_N: npt.NDArray[np.uint64],
    label_ids: Int32,
    words: Int32,
    tokens_NT: Int32,
) -> None:
    count, labels = before_NV.shape
    second, order = np.empty(labels, np.int32), np.empty(labels, np.int32)
    turned = np.empty(labels, np.bool_)
    state = np.empty(1, np.uint64)
    at_N = np.empty(count, np.int64)
    for n in range(count):
        edges = 0
        for node in range(labels):
            if before_NV[n, node] != ABSENT and before_NV[n, node] != node:
                second[edges] = node
                edges += 1
        draw_edge_order(state, seed_N[n], order[:edges], turned[:edges])
        row = tokens_NT[n]
        for i in range(edges):
            node = second[order[i]]
            row[3 * i], row[3 * i + 1], row[3 * i + 2] = label_ids[before_NV[n, node]], label_ids[node], words[0]
        at = 3 * edges
        row[at], row[at + 1], row[at + 2] = label_ids[start_N[n]], label_ids[goal_N[n]], words[1]
        at_N[n] = at + 3
    _write_paths(path, offset_N1, label_ids, words[2], at_N, tokens_NT)


@njit(cache=True, nogil=True)
def _write_wall_lists(
    cells_NHW: npt.NDArray[np.uint8],
    start_N: Int32,
    goal_N: Int32,
    path: Int32,
    offset_N1: Int64,
    event_E4: Int32,
    event_offset_N1: Int64,
    numbers: Int32,
    costs: Int32,
    words: Int32,
    tokens_NT: Int32,
) -> None:
    count, height, width = cells_NHW.shape
    bos, start, goal, wall, eos, path_start, plan = words[:7]
    for n in range(count):
        row = tokens_NT[n]
        row[0] = bos
        at = _put(row, 1, start, start_N[n], numbers, width)
        at = _put(row, at, goal, goal_N[n], numbers, width)
        for cell in range(height * width):
            if cells_NHW[n, cell // width, cell % width] == WALL:
                at = _put(row, at, wall, cell, numbers, width)
        row[at], row[at + 1] = eos, path_start
        at += 2
        if offset_N1[n] == offset_N1[n + 1]:
            continue
        row[at] = bos
        at += 1
        for i in range(event_offset_N1[n], event_offset_N1[n + 1]):
            kind, cell, g, h = event_E4[i]
            at = _put(row, at, words[7 + kind], cell, numbers, width)
            row[at], row[at + 1] = costs[g], costs[h]
            at += 2
        for i in range(offset_N1[n], offset_N1[n + 1]):
            at = _put(row, at, plan, path[i], numbers, width)
        row[at] = eos


@njit(cache=True, nogil=True)
def _put(row: Int32, at: int, word: int, cell: int, numbers: Int32, width: int) -> int:
    """Write `word x y` and give the place after it."""
    row[at], row[at + 1], row[at + 2] = word, numbers[cell % width], numbers[cell // width]
    return at + 3
