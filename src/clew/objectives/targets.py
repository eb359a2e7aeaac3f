"""Chance for objectives: the same for a row of the global batch, however the batch is split, padded or moved.

Numbers from a `torch.Generator` depend on the shape that is asked for, so two processes with 64 rows each would hide
other tokens than one process with 128. Here a number depends on nothing but

    (seed, stream, row of the global batch, place in the response)

by a counter-based generator: SplitMix64 in int64 arithmetic, which gives the same bits on every device. A row keeps
its noise whatever other rows, padding, process or micro-batch it meets. The training loop makes it from numbers
alone, so a resumed run needs no generator state; on rank r of N with b rows each, in step s:

    noise = Noise.for_step(seed, s, row_B=torch.arange(r, N * b, N), rows=N * b)
    targets = objective.targets(batch, noise)

and where there is one process, `objective(batch, generator)` draws the seed from the generator.

Shape suffixes: B mazes, T positions.

What an objective asks of a model.

An objective gives every position a rank: the order in which the sequence is revealed. A position is predicted from
the positions of lower rank and from nothing else. One rule thus covers them all:

- the prompt has rank 0;
- MLM-U leaves some of the response at rank 0 (visible) and puts the rest at rank 1 (hidden, all predicted from the
  visible ones alone);
- next token gives the response ranks 1, 2, 3, ... from left to right; any-order next token, in a random order;
- padding has rank -1 and is seen by nobody.

    targets = objective(batch, generator)                  # simply
    targets = objective.targets(batch, noise)             # some rows of a larger batch: see clew.objectives.targets
    targets = objective.targets_for(model, batch, noise)  # in training, where what is hidden may depend on the model

Shape suffixes: B mazes, T positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from clew.data.batch import Batch, CellBatch

# What a number is for; two uses never share one. RATE_JITTER and RATE_ORDER are the two draws of stratified rates.
RATE, RATE_JITTER, RATE_ORDER, HIDE, ORDER, CONFIDENCE = range(6)

_WORD = 1 << 64


def _signed(x: int) -> int:
    """The int64 that has the same bits as the lowest 64 of `x`."""
    return (x + (_WORD >> 1)) % _WORD - (_WORD >> 1)


# SplitMix64: its step and its two multipliers.
_STEP, _TIMES_1, _TIMES_2 = (_signed(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def _shift(x: Tensor, by: int) -> Tensor:
    """A right shift that fills with zeros; torch's own copies the sign bit."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def _mix(x: Tensor) -> Tensor:
    """SplitMix64's bijection of 64 bits; int64 products wrap, as it wants."""
    x = (x ^ _shift(x, 30)) * _TIMES_1
    x = (x ^ _shift(x, 27)) * _TIMES_2
    return x ^ _shift(x, 31)


def _to_unit(bits: Tensor) -> Tensor:
    """Uniform float32 in [0, 1) from the top 24 bits, as many as float32 holds exactly."""
    return _shift(bits, 40).to(torch.float32) * 2.0**-24


@dataclass(frozen=True)
class Noise:
    """The noise of some rows of one global batch."""

    seed: int  # int64; new for every global batch
    row_B: Tensor  # int64; each row's number in the global batch, on the batch's device
    rows: int  # rows of the global batch

    @classmethod
    def for_step(cls, seed: int, step: int, row_B: Tensor, rows: int) -> Self:
        """The noise of a run's step: the same on every process that names the same seed and step."""
        words = torch.tensor([_signed(seed), _signed(step)])
        mixed = _mix(_mix(words[0] + _STEP) + (words[1] + 1) * _STEP)
        return cls(int(mixed), row_B, rows)

    @classmethod
    def draw(cls, generator: torch.Generator, batch: Batch) -> Self:
        """The noise of a batch that is not part of a larger one; takes one number from the generator."""
        word = torch.randint(-(_WORD >> 1), (_WORD >> 1) - 1, (), generator=generator, device=generator.device)
        return cls(int(word), torch.arange(len(batch), device=batch.tokens_BT.device), len(batch))

    def bits(self, stream: int, row: Tensor) -> Tensor:
        """64 random bits for each of the given rows of the global batch, as int64."""
        start = _mix(torch.tensor(_signed(self.seed + (stream + 1) * _STEP)))
        return _mix(start.to(row.device) + (row + 1) * _STEP)

    def uniform_B(self, stream: int) -> Tensor:
        """A number in [0, 1) for each row."""
        return _to_unit(self.bits(stream, self.row_B))

    def uniform_all(self, stream: int) -> Tensor:
        """A number in [0, 1) that all rows of the global batch share, shape []."""
        return _to_unit(self.bits(stream, torch.tensor(-1, device=self.row_B.device)))

    def order_B(self, stream: int) -> Tensor:
        """Each row's place, 0 .. rows - 1, in a random order of the global batch."""
        bits = self.bits(stream, torch.arange(self.rows, device=self.row_B.device))
        return bits.argsort().argsort()[self.row_B]

    def share_of_rows(self, stream: int, share: float) -> Tensor:
        """A share of the global batch in whole rows, shape []; rounded by chance, so that the mean is right."""
        return torch.ceil(share * self.rows - self.uniform_all(stream)).long()

    def bits_BT(self, stream: int, place_BT: Tensor) -> Tensor:
        """64 random bits for each row and place."""
        return _mix(self.bits(stream, self.row_B)[:, None] + place_BT * _STEP)

    def uniform_BT(self, stream: int, place_BT: Tensor) -> Tensor:
        """A number in [0, 1) for each row and place."""
        return _to_unit(self.bits_BT(stream, place_BT))


PADDING_ORDER = -1


@dataclass(frozen=True)
class Targets:
    """Which positions are seen by which, which are to be predicted, and how much each counts."""

    order_BT: Tensor  # int64; position q may look at position k where 0 <= rank[k] < rank[q]
    query_BT: Tensor  # bool; the positions to predict
    target_BT: Tensor  # int64; read at `query_BT` only
    weight_BT: Tensor  # float32; the weight of each asked position in the loss


class Predict(Protocol):
    """What an objective may ask of a model: clew.models.config.Model."""

    def __call__(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        """Logits [Q, V] at the asked positions."""
        ...


class Objective(Protocol):
    """Draws a targets for a batch; all chance comes from the noise, or from the generator that makes it."""

    @property
    def sequential(self) -> bool:
        """Whether ranks above 1 occur, so that asked positions are predicted from other asked positions."""
        ...

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        """The targets for some rows of a global batch."""
        ...

    def targets_for(self, model: Predict, batch: Batch, noise: Noise) -> Targets:
        """The targets for a model in training; the same as `targets` unless the objective looks at the model."""
        return self.targets(batch, noise)

    def __call__(self, batch: Batch, generator: torch.Generator) -> Targets:
        """The targets for a batch of its own."""
        return self.targets(batch, Noise.draw(generator, batch))


def response_place(batch: Batch) -> Tensor:
    """1, 2, 3, ... at the positions of the response, from left to right; 0 elsewhere. Shape [B, T], int64."""
    return batch.response_BT.cumsum(1) * batch.response_BT


def path_place(batch: Batch) -> Tensor:
    """1, 2, 3, ... along the path at the positions of the response that have an order; 0 elsewhere. Shape [B, T],
    int64.

    Labels of cells that are not on the path have no order.
    """
    return batch.step_BT if isinstance(batch, CellBatch) else response_place(batch)


def ranked(batch: Batch, order_BT: Tensor, weight_B: Tensor | None = None) -> Targets:
    """The targets that asks for every response position whose rank is above 0; `weight_B` weighs rows, or all 1."""
    query_BT = order_BT > 0
    weight_BT = query_BT.to(torch.float32)
    if weight_B is not None:
        weight_BT = weight_BT * weight_B[:, None]
    return Targets(order_BT.masked_fill(~batch.valid_BT, PADDING_ORDER), query_BT, batch.tokens_BT, weight_BT)
