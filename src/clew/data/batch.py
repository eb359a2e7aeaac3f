"""Typed batches, the input of objectives and models.

Both kinds have T positions of which some, the response, may be hidden and predicted. In a TokenBatch the positions are
the tokens of the whole text, maze and path, and the response is the path with its end. In a CellBatch they are the
cells of the maze, and the response is one label a cell.

Shape suffixes: B mazes, T positions, H rows, W columns.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """What objectives need to know of any batch."""

    tokens_BT: Tensor  # int64; what stands at padding positions has no meaning
    valid_BT: Tensor  # bool; False at padding, which comes after the last token
    response_BT: Tensor  # bool; the only positions that may be hidden
    index_B: Tensor  # int64; each maze's number in its dataset or stream, to name it when something goes wrong

    def __len__(self) -> int:
        return len(self.tokens_BT)

    def to(self, device: torch.device | str) -> Self:
        """The same batch on another device."""
        moved = {f.name: getattr(self, f.name).to(device, non_blocking=True) for f in fields(self)}
        return replace(self, **moved)

    def rows(self, rows: slice | Tensor) -> Self:
        """Some of the mazes, in the given order."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})


@dataclass(frozen=True)
class TokenBatch(Batch):
    """Mazes and paths written as text tokens: prompt, then response, then padding."""


@dataclass(frozen=True)
class CellBatch(Batch):
    """Mazes of one shape with one position a cell, whose token is its label: 1 on the path, 0 off it.

    Valid positions, all of them part of the response, are the cells that the start can reach.
    """

    cells_BHW: Tensor  # uint8; open sides or WALL, as in clew.mazes.maze
    start_B: Tensor  # int64
    goal_B: Tensor  # int64
    step_BT: Tensor  # int64; 1, 2, ... along the path, 0 off it
