"""Batches, the input of objectives and models.

    batch = encode_tasks("edge-list", tasks, text_seeds(seed, "train", index_N), index_N)     # a TokenBatch
    batch = encode_tasks("cell-labels", tasks, text_seed_N)                                   # a CellBatch

Both have T positions, some of which, the response, may be hidden and predicted: the path with its end, or one label for
each cell of a maze.

Shape suffixes: N, B mazes, T positions, H rows, W columns.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from clew.data.config import CELL_LABELS
from clew.errors import UserError
from clew.mazes.compiled import STEP, mix
from clew.mazes.maze import TaskBatch
from clew.mazes.solvers import reachable
from clew.tokenization.format import check_kind, encode_batch
from clew.tokenization.tokens import Vocabulary


@dataclass(frozen=True)
class Batch:
    """The fields of every batch."""

    tokens_BT: Tensor  # int64; undefined at padding
    valid_BT: Tensor  # bool; False at padding, which comes after the last token
    response_BT: Tensor  # bool; the only positions that may be hidden
    index_B: Tensor  # int64; each maze's number in its dataset or stream

    def __len__(self) -> int:
        return len(self.tokens_BT)

    def to(self, device: torch.device | str) -> Self:
        """Return the batch on another device."""
        return replace(self, **{f.name: getattr(self, f.name).to(device, non_blocking=True) for f in fields(self)})

    def rows(self, rows: slice | Tensor) -> Self:
        """Return some of the mazes, in the given order."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})


class TokenBatch(Batch):
    """Mazes and paths as tokens: prompt, response, padding."""


@dataclass(frozen=True)
class CellBatch(Batch):
    """Mazes of one shape with one position a cell, whose token is its label: 1 on the path, 0 off it.

    Valid positions, all of them part of the response, are the cells that the start can reach.
    """

    cells_BHW: Tensor  # uint8; open sides or WALL, as in clew.mazes.maze
    start_B: Tensor  # int64
    goal_B: Tensor  # int64
    step_BT: Tensor  # int64; 1, 2, ... along the path, 0 off it


_TEXT_STREAMS = {"train": 1, "test": 2, "stream": 3}  # streams have texts of their own, unlike those of any split


def text_seeds(seed: int, source: str, index_N: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
    """Return the seed of each maze's text (the order of its edges); `source` is "train", "test" or "stream"."""
    state = mix(np.array([seed], dtype=np.uint64) + STEP)
    state = mix((state ^ np.uint64(_TEXT_STREAMS[source])) + STEP)
    return mix((state ^ np.asarray(index_N).astype(np.uint64)) + STEP)


def encode_tasks(
    format_name: str,
    tasks: TaskBatch,
    text_seed_N: npt.NDArray[np.uint64],
    index_N: npt.NDArray[np.integer] | None = None,
    vocabulary: Vocabulary | None = None,
) -> Batch:
    """Return the tasks in a format, numbered `index_N`, as ids of the tasks' own vocabulary or of a model's."""
    index_N = np.arange(len(tasks)) if index_N is None else index_N
    if format_name == CELL_LABELS:
        return cell_batch(tasks, index_N)
    text = encode_batch(format_name, tasks, text_seed_N)
    tokens_BT, own = _int64(text.tokens_NT), text.vocabulary
    if vocabulary is not None and own != vocabulary:
        if missing := [token for token in own.tokens if token not in vocabulary.id_of]:
            raise UserError(
                f"the model does not know the token {missing[0]} that mazes of {tasks.height} rows and {tasks.width} "
                "columns need: it was trained on smaller ones or on another format; use a model made for this size."
            )
        tokens_BT = torch.from_numpy(vocabulary.encode(own.tokens).astype(np.int64))[tokens_BT]
    position_T = np.arange(text.tokens_NT.shape[1])
    valid_NT = position_T < text.total_length_N[:, None]
    response_NT = valid_NT & (position_T >= text.prompt_length_N[:, None])
    return TokenBatch(tokens_BT, torch.from_numpy(valid_NT), torch.from_numpy(response_NT), _int64(index_N))


def cell_batch(tasks: TaskBatch, index_N: npt.NDArray[np.integer]) -> CellBatch:
    """Return the tasks as cells and the paths as one label for each cell."""
    check_kind(CELL_LABELS, is_graph=tasks.height == 1)
    count, cells, length_N = len(tasks), tasks.height * tasks.width, tasks.length_N
    step_NT = np.zeros((count, cells), dtype=np.int64)
    row = np.repeat(np.arange(count), length_N)
    step_NT[row, tasks.path] = np.arange(len(tasks.path)) - np.repeat(tasks.offset_N1[:-1], length_N) + 1
    cells_NHW = np.ascontiguousarray(tasks.cells_NHW, dtype=np.uint8)
    valid_BT = torch.from_numpy(reachable(cells_NHW, np.asarray(tasks.start_N, dtype=np.int64)))
    step_BT = torch.from_numpy(step_NT)
    return CellBatch(
        tokens_BT=(step_BT > 0).long(),
        valid_BT=valid_BT,
        response_BT=valid_BT.clone(),
        index_B=_int64(index_N),
        cells_BHW=torch.from_numpy(cells_NHW.copy()),
        start_B=_int64(tasks.start_N),
        goal_B=_int64(tasks.goal_N),
        step_BT=step_BT,
    )


def _int64(values: npt.NDArray[np.integer]) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values).astype(np.int64))
