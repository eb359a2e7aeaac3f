"""What an objective asks of a model.

An objective gives every position a rank: the order in which the sequence is revealed. A position is predicted from
the positions of lower rank and from nothing else. One rule thus covers them all:

- the prompt has rank 0;
- MLM-U leaves some of the response at rank 0 (visible) and puts the rest at rank 1 (hidden, all predicted from the
  visible ones alone);
- next token gives the response ranks 1, 2, 3, ... from left to right; any-order next token, in a random order;
- padding has rank -1 and is seen by nobody.

Shape suffixes: B mazes, T positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from clew.data.batch import Batch

PADDING_RANK = -1


@dataclass(frozen=True)
class Question:
    """Which positions are seen by which, which are to be predicted, and how much each counts."""

    rank_BT: Tensor  # int64; position q may look at position k where 0 <= rank[k] < rank[q]
    ask_BT: Tensor  # bool; the positions to predict
    target_BT: Tensor  # int64; read at `ask_BT` only
    weight_BT: Tensor  # float32; the weight of each asked position in the loss


class Objective(Protocol):
    """Draws a question for a batch; all chance comes from the generator."""

    # Whether ranks above 1 occur, so that asked positions are predicted from other asked positions.
    sequential: bool

    def __call__(self, batch: Batch, generator: torch.Generator) -> Question: ...
