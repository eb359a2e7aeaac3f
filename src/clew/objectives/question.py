"""What an objective asks of a model.

An objective gives every position a rank: the order in which the sequence is revealed. A position is predicted from
the positions of lower rank and from nothing else. One rule thus covers them all:

- the prompt has rank 0;
- MLM-U leaves some of the response at rank 0 (visible) and puts the rest at rank 1 (hidden, all predicted from the
  visible ones alone);
- next token gives the response ranks 1, 2, 3, ... from left to right; any-order next token, in a random order;
- padding has rank -1 and is seen by nobody.

    question = objective(batch, generator)                  # simply
    question = objective.question(batch, noise)             # some rows of a larger batch: see clew.objectives.noise
    question = objective.question_for(model, batch, noise)  # in training, where what is hidden may depend on the model

Shape suffixes: B mazes, T positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from clew.data.batch import Batch, CellBatch
from clew.objectives.noise import Noise

PADDING_RANK = -1


@dataclass(frozen=True)
class Question:
    """Which positions are seen by which, which are to be predicted, and how much each counts."""

    rank_BT: Tensor  # int64; position q may look at position k where 0 <= rank[k] < rank[q]
    ask_BT: Tensor  # bool; the positions to predict
    target_BT: Tensor  # int64; read at `ask_BT` only
    weight_BT: Tensor  # float32; the weight of each asked position in the loss


class Predict(Protocol):
    """What an objective may ask of a model: clew.models.interface.Model."""

    def __call__(self, batch: Batch, rank_BT: Tensor, ask_BT: Tensor) -> Tensor:
        """Logits [Q, V] at the asked positions."""
        ...


class Objective(Protocol):
    """Draws a question for a batch; all chance comes from the noise, or from the generator that makes it."""

    @property
    def sequential(self) -> bool:
        """Whether ranks above 1 occur, so that asked positions are predicted from other asked positions."""
        ...

    def question(self, batch: Batch, noise: Noise) -> Question:
        """The question for some rows of a global batch."""
        ...

    def question_for(self, model: Predict, batch: Batch, noise: Noise) -> Question:
        """The question for a model in training; the same as `question` unless the objective looks at the model."""
        return self.question(batch, noise)

    def __call__(self, batch: Batch, generator: torch.Generator) -> Question:
        """The question for a batch of its own."""
        return self.question(batch, Noise.draw(generator, batch))


def response_place(batch: Batch) -> Tensor:
    """1, 2, 3, ... at the positions of the response, from left to right; 0 elsewhere. Shape [B, T], int64."""
    return batch.response_BT.cumsum(1) * batch.response_BT


def path_place(batch: Batch) -> Tensor:
    """1, 2, 3, ... along the path at the positions of the response that have an order; 0 elsewhere. Shape [B, T],
    int64.

    Labels of cells that are not on the path have no order.
    """
    return batch.step_BT if isinstance(batch, CellBatch) else response_place(batch)


def ranked(batch: Batch, rank_BT: Tensor, weight_B: Tensor | None = None) -> Question:
    """The question that asks for every response position whose rank is above 0; `weight_B` weighs rows, or all 1."""
    ask_BT = rank_BT > 0
    weight_BT = ask_BT.to(torch.float32)
    if weight_B is not None:
        weight_BT = weight_BT * weight_B[:, None]
    return Question(rank_BT.masked_fill(~batch.valid_BT, PADDING_RANK), ask_BT, batch.tokens_BT, weight_BT)
