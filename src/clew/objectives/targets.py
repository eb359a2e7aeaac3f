"""The interface of objectives: targets, loss, and random numbers that do not depend on how a batch is split.

    targets = objective(batch, generator)                  # a batch on its own
    targets = objective.targets(batch, noise)              # some rows of a global batch

    sums = cross_entropy_sum(model(batch, targets.order_BT, targets.query_BT), targets)
    (sums.loss / global_weight).backward()    # global_weight: sums.weight summed over processes and micro-batches

An objective gives every position an order: position q is predicted from the positions k with order[k] < order[q]. The
prompt has order 0, and padding -1, which no position attends to. The loss is a sum, because processes hide different
numbers of tokens and a mean of means would weigh tokens unequally.

Shape suffixes: B mazes, T positions, Q queries of the whole batch in row-major order, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.data.batch import Batch

PADDING_ORDER = -1
# Random streams; two uses never share one. RATE_JITTER and RATE_ORDER are the two draws of stratified rates.
RATE, RATE_JITTER, RATE_ORDER, HIDE, ORDER, CONFIDENCE = range(6)

_WORD = 1 << 64


def _signed(x: int) -> int:
    """Return the int64 with the lowest 64 bits of `x`."""
    return (x + (_WORD >> 1)) % _WORD - (_WORD >> 1)


# SplitMix64: its step and its two multipliers.
_STEP, _TIMES_1, _TIMES_2 = (_signed(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def _shift(x: Tensor, by: int) -> Tensor:
    """Shift right and fill with zeros; torch's own shift copies the sign bit."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def _mix(x: Tensor) -> Tensor:
    """Return SplitMix64's bijection of 64 bits; int64 products wrap, as it requires."""
    x = (x ^ _shift(x, 30)) * _TIMES_1
    x = (x ^ _shift(x, 27)) * _TIMES_2
    return x ^ _shift(x, 31)


def _to_unit(bits: Tensor) -> Tensor:
    """Return uniform float32 in [0, 1) from the top 24 bits, as many as float32 holds exactly."""
    return _shift(bits, 40).to(torch.float32) * 2.0**-24


@dataclass(frozen=True)
class Noise:
    """Counter-based random numbers for some rows of one global batch.

    A number is a function of (seed, stream, row of the global batch, position in the response) alone, by SplitMix64 in
    int64 arithmetic, so it is the same on every device and whatever the other rows, padding, process or micro-batch.
    """

    seed: int  # int64; new for every global batch
    row_B: Tensor  # int64; each row's number in the global batch, on the batch's device
    rows: int  # rows of the global batch

    @classmethod
    def for_step(cls, seed: int, step: int, row_B: Tensor, rows: int) -> Self:
        """Return the noise of a run's step, the same on every process."""
        words = torch.tensor([_signed(seed), _signed(step)])
        mixed = _mix(_mix(words[0] + _STEP) + (words[1] + 1) * _STEP)
        return cls(int(mixed), row_B, rows)

    def _bits(self, stream: int, row: Tensor) -> Tensor:
        start = _mix(torch.tensor(_signed(self.seed + (stream + 1) * _STEP)))
        return _mix(start.to(row.device) + (row + 1) * _STEP)

    def uniform_B(self, stream: int) -> Tensor:
        """Return a number in [0, 1) for each row."""
        return _to_unit(self._bits(stream, self.row_B))

    def uniform_all(self, stream: int) -> Tensor:
        """Return one number in [0, 1) for the whole global batch, shape []."""
        return _to_unit(self._bits(stream, torch.tensor(-1, device=self.row_B.device)))

    def permutation_B(self, stream: int) -> Tensor:
        """Return each row's index, 0 .. rows - 1, in a random permutation of the global batch."""
        bits = self._bits(stream, torch.arange(self.rows, device=self.row_B.device))
        return bits.argsort().argsort()[self.row_B]

    def share_of_rows(self, stream: int, share: float) -> Tensor:
        """Return a share of the global batch in whole rows, shape [], rounded at random so that the mean is exact."""
        return torch.ceil(share * self.rows - self.uniform_all(stream)).long()

    def bits_BT(self, stream: int, position_BT: Tensor) -> Tensor:
        """Return 64 random bits for each row and response position."""
        return _mix(self._bits(stream, self.row_B)[:, None] + position_BT * _STEP)

    def uniform_BT(self, stream: int, position_BT: Tensor) -> Tensor:
        """Return a number in [0, 1) for each row and response position."""
        return _to_unit(self.bits_BT(stream, position_BT))


@dataclass(frozen=True)
class Targets:
    """Attention order, positions to predict, and their weights in the loss."""

    order_BT: Tensor  # int64; position q attends to position k where 0 <= order[k] < order[q]
    query_BT: Tensor  # bool; the positions to predict
    target_BT: Tensor  # int64; read at `query_BT` only
    weight_BT: Tensor  # float32


# A model, called with (batch, order_BT, query_BT); see clew.models.config.Model.
Predict = Callable[[Batch, Tensor, Tensor], Tensor]


class Objective:
    """Base class of objectives; all randomness comes from the noise."""

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        """Return the targets for some rows of a global batch."""
        raise NotImplementedError

    def targets_for(self, model: Predict, batch: Batch, noise: Noise) -> Targets:
        """Return the targets for a model in training; the same unless the objective depends on the model."""
        return self.targets(batch, noise)

    def __call__(self, batch: Batch, generator: torch.Generator) -> Targets:
        """Return the targets for a batch on its own; takes one number from the generator."""
        seed = torch.randint(-(_WORD >> 1), (_WORD >> 1) - 1, (), generator=generator, device=generator.device)
        rows = torch.arange(len(batch), device=batch.tokens_BT.device)
        return self.targets(batch, Noise(int(seed), rows, len(batch)))


def response_position(batch: Batch) -> Tensor:
    """Return 1, 2, 3, ... at the positions of the response, and 0 elsewhere: int64 [B, T]."""
    return batch.response_BT.cumsum(1) * batch.response_BT


def make_targets(batch: Batch, order_BT: Tensor) -> Targets:
    """Return targets that query every position of an order above 0, with the weight 1."""
    query_BT = order_BT > 0
    return Targets(order_BT.masked_fill(~batch.valid_BT, PADDING_ORDER), query_BT, batch.tokens_BT, query_BT.float())


@dataclass(frozen=True)
class LossSum:
    """Sums over the queries of a batch."""

    loss: Tensor  # float32 []; the weighted sum of cross-entropies, to differentiate
    weight: Tensor  # float32 []; the sum of weights
    count: Tensor  # int64 []; the number of queries
    correct: Tensor  # int64 []; the queries whose target has the highest logit
    token_loss_Q: Tensor  # float32, detached; each query's cross-entropy without its weight

    def totals(self) -> Tensor:
        """Return (loss, weight, count, correct) as float64 [4], detached, to sum over processes for the metrics."""
        return torch.stack([x.detach().double() for x in (self.loss, self.weight, self.count, self.correct)])


def cross_entropy_sum(logits_QV: Tensor, targets: Targets) -> LossSum:
    """Return sums of -log softmax(logits)[target] over the queries, in float32 for logits of any precision.

    If the target's logit is -inf, the loss is infinite and the loop stops. A weight of 0 leaves a token out.
    """
    target_Q = targets.target_BT[targets.query_BT]
    weight_Q = targets.weight_BT[targets.query_BT]
    assert len(logits_QV) == len(target_Q), "one row of logits for each query"
    with torch.autocast(logits_QV.device.type, enabled=False):
        token_loss_Q = F.cross_entropy(logits_QV.float(), target_Q, reduction="none")
    # 0 times infinity is NaN, so tokens without weight are replaced and not multiplied.
    loss = (token_loss_Q * weight_Q).masked_fill(weight_Q == 0, 0.0).sum()
    correct = (logits_QV.detach().argmax(-1) == target_Q).sum()
    count = torch.tensor(len(target_Q), device=logits_QV.device)
    return LossSum(loss, weight_Q.sum(), count, correct, token_loss_Q.detach())


def row_losses(sums: LossSum, targets: Targets) -> Tensor:
    """Return each maze's mean cross-entropy per query, float32 [B]; NaN where there is none."""
    row_Q = targets.query_BT.nonzero()[:, 0]
    count_B = targets.query_BT.sum(1)
    total_B = torch.zeros(len(count_B), device=row_Q.device).index_add_(0, row_Q, sums.token_loss_Q)
    return total_B / count_B
