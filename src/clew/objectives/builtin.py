"""The objectives of the paper and their variants; `clew.objectives.config` builds them by name.

    MaskedTokens(Rates(UniformRate()))(batch, generator)     # MLM-U
    MaskedTokens(Rates(FixedRate(0.15)))(batch, generator)   # BERT's rate, without token substitution
    OrderedMask(Rates(UniformRate()))(batch, generator)      # hide everything right of a cut
    NextAfterPrefix(Rates(UniformRate()))(batch, generator)  # the same, and predict only the first hidden token
    NextToken()(batch, generator)                            # predict each token from those to its left
    AnyOrder()(batch, generator)                             # the same in a random order

The first four hide a part of the response at once: hidden tokens are predicted from the visible ones alone.

Shape suffixes: B mazes, T positions, N rows of a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from clew.data.batch import Batch, CellBatch
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST
from clew.objectives.mask_rates import Rates
from clew.objectives.targets import (
    CONFIDENCE,
    HIDE,
    ORDER,
    PADDING_ORDER,
    Noise,
    Objective,
    Predict,
    Targets,
    make_targets,
    path_position,
    response_position,
)

Weighting = Literal["token", "rate"]

# The weight 1/u has no finite variance as u goes to 0, so it is capped.
MAX_WEIGHT = 100.0


@dataclass(frozen=True)
class MaskedTokens(Objective):
    """Hide each token of the response independently, with one rate for each row.

        u ~ rates;   hidden_t ~ Bernoulli(u);   L = - sum over hidden t of w log P(x_t | prompt, visible tokens)

    With u ~ U(0, 1) this is MLM-U, and the number of hidden tokens is uniform on 0 .. n. A row that hides nothing
    adds nothing to the loss; `at_least_one` hides one uniform token of such a row.

    Weighting "token" is w = 1. Weighting "rate" is w = min(1 / u, max_weight), with which, for uniform rates, L is the
    bound on the likelihood that masked diffusion trains on.

    In a share `confidence_share` of the rows the least confident tokens are hidden instead of random ones:
    h = min(n, floor(u n) + 1) of them, by the highest probability that the model gives any token when all are hidden.
    The visible tokens are then those that decoding by confidence fills in first. This costs a forward pass without
    gradients over those rows; `targets`, which has no model, hides random tokens in all rows.
    """

    rates: Rates
    weighting: Weighting = "token"
    at_least_one: bool = False
    max_weight: float = MAX_WEIGHT
    confidence_share: float = 0.0

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        rate_B = self.rates.draw(noise)
        return self._hide(batch, rate_B, self._random_mask(batch, noise, rate_B))

    def targets_for(self, model: Predict, batch: Batch, noise: Noise) -> Targets:
        if not self.confidence_share:
            return self.targets(batch, noise)
        rate_B = self.rates.draw(noise)
        hide_BT = self._random_mask(batch, noise, rate_B)
        count = noise.share_of_rows(CONFIDENCE, self.confidence_share)
        row_N = (noise.permutation_B(CONFIDENCE) < count).nonzero()[:, 0]
        # A model that is sharded over processes must be called on each of them, even where there is no such row.
        used_N = row_N if len(row_N) else torch.zeros_like(noise.row_B[:1])
        rows = batch.rows(used_N)
        hide_NT = least_confident(confidence(model, rows), rows.response_BT, rate_B[used_N])
        hide_BT[row_N] = hide_NT[: len(row_N)]
        return self._hide(batch, rate_B, hide_BT)

    def _random_mask(self, batch: Batch, noise: Noise, rate_B: Tensor) -> Tensor:
        uniform_BT = noise.uniform_BT(HIDE, response_position(batch)).masked_fill(~batch.response_BT, torch.inf)
        hide_BT = uniform_BT < rate_B[:, None]
        if self.at_least_one:
            # The lowest number is at a uniform token, which is hidden already unless nothing is.
            hide_BT |= (uniform_BT == uniform_BT.amin(1, keepdim=True)) & batch.response_BT
        return hide_BT

    def _hide(self, batch: Batch, rate_B: Tensor, hide_BT: Tensor) -> Targets:
        weight_B = 1 / rate_B.clamp(min=1 / self.max_weight) if self.weighting == "rate" else None
        return make_targets(batch, hide_BT.long(), weight_B)


@torch.no_grad()
def confidence(model: Predict, batch: Batch) -> Tensor:
    """Return the model's highest probability at each response position, all of them hidden; [B, T], 0 elsewhere."""
    targets = make_targets(batch, batch.response_BT.long())
    logits_QV = model(batch, targets.order_BT, targets.query_BT)
    confidence_BT = torch.zeros_like(targets.weight_BT)
    confidence_BT[targets.query_BT] = logits_QV.float().softmax(-1).amax(-1)
    return confidence_BT


def least_confident(confidence_BT: Tensor, response_BT: Tensor, rate_B: Tensor) -> Tensor:
    """Return a mask of the `hidden_count` least confident tokens of each response; of equal ones the left first."""
    rank_BT = confidence_BT.masked_fill(~response_BT, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    return (rank_BT < hidden_count(rate_B, response_BT)[:, None]) & response_BT


def hidden_count(rate_B: Tensor, response_BT: Tensor) -> Tensor:
    """Return min(n, floor(u n) + 1) for responses of n tokens: uniform on 1 .. n for a uniform rate u. Shape [B]."""
    length_B = response_BT.sum(1)
    return ((rate_B * length_B).long() + 1).minimum(length_B)


@dataclass(frozen=True)
class OrderedMask(Objective):
    """Hide the response on one side of a cut.

        u ~ rates;   h = min(n, floor(u n) + 1);   L = - sum over hidden t of log P(x_t | prompt, visible tokens)

    The last h of the n tokens are hidden; `reverse` hides the first h. With u ~ U(0, 1) h is uniform on 1 .. n. With
    h = n the model sees the prompt alone, as at the start of decoding. Labels of cells are ordered along the path, and
    those off it are always hidden.
    """

    rates: Rates
    reverse: bool = False

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        position_BT = path_position(batch)
        hidden_B1 = hidden_count(self.rates.draw(noise), position_BT > 0)[:, None]
        if self.reverse:
            hide_BT = position_BT <= hidden_B1
        else:
            hide_BT = position_BT > position_BT.amax(1, keepdim=True) - hidden_B1
        return make_targets(batch, ((hide_BT | (position_BT == 0)) & batch.response_BT).long())


@dataclass(frozen=True)
class NextAfterPrefix(Objective):
    """Hide the response right of a cut and predict the first hidden token: next token's loss, one cut for each row.

        u ~ rates;   k = n - min(n, floor(u n) + 1);   L = - log P(x_(k+1) | prompt, x_1 .. x_k)

    This trains MLM-U's network with next token's objective: attention over prompt and prefix is bidirectional.
    """

    rates: Rates

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        position_BT = response_position(batch)
        next_B1 = (batch.response_BT.sum(1) - hidden_count(self.rates.draw(noise), batch.response_BT) + 1)[:, None]
        targets = make_targets(batch, ((position_BT >= next_B1) & batch.response_BT).long())
        query_BT = targets.query_BT & (position_BT == next_B1)
        return replace(targets, query_BT=query_BT, weight_BT=query_BT.to(torch.float32))


@dataclass(frozen=True)
class NextToken(Objective):
    """Predict every token of the response from the prompt and the tokens to its left.

        L = - sum_t log P(x_t | prompt, x_1 .. x_(t-1))        t over the n tokens of the response

    Trace supervision is this objective on a format whose response is the search trace followed by the plan. Nothing is
    random, except on labels of cells (`next_cell`).
    """

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        if isinstance(batch, CellBatch):
            return next_cell(batch, noise)
        return make_targets(batch, response_position(batch))


def next_cell(batch: CellBatch, noise: Noise) -> Targets:
    """Return next token's targets on labels of cells: a uniform prefix of the path is visible, and the next is queried.

    The queries are the open neighbours of the prefix's last cell that are not in the prefix. A shortest path never
    touches itself, so exactly one of them is on the path.
    """
    step_BT, width = batch.step_BT, batch.cells_BHW.shape[2]
    length_B = step_BT.amax(1)
    prefix_B1 = (1 + (noise.uniform_B(HIDE) * (length_B - 1)).long().clamp(max=length_B - 2))[:, None]
    visible_BT = (step_BT > 0) & (step_BT <= prefix_B1)
    end_B1 = (step_BT == prefix_B1).int().argmax(1, keepdim=True)
    sides_B1 = batch.cells_BHW.flatten(1).long().gather(1, end_B1)
    query_BT = torch.zeros_like(visible_BT)
    for side, move in ((NORTH, -width), (SOUTH, width), (WEST, -1), (EAST, 1)):
        query_BT.scatter_(1, torch.where((sides_B1 & side) != 0, end_B1 + move, end_B1), True)
    query_BT &= ~visible_BT
    order_BT = (~visible_BT).long().masked_fill(~batch.valid_BT, PADDING_ORDER)
    return Targets(order_BT, query_BT, batch.tokens_BT, query_BT.float())


@dataclass(frozen=True)
class AnyOrder(Objective):
    """Predict every token of the response from the prompt and the tokens before it in a random order.

    L = - sum_k log P(x_s(k) | prompt, x_s(1) .. x_s(k-1))        s a uniform permutation of 1 .. n, for each row
    """

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        bits_BT = noise.bits_BT(ORDER, response_position(batch))
        # Other positions sort last, so that the response gets the orders 1 .. n. Ties among 64 bits do not occur.
        bits_BT = bits_BT.masked_fill(~batch.response_BT, torch.iinfo(torch.int64).max)
        return make_targets(batch, (bits_BT.argsort(1).argsort(1) + 1) * batch.response_BT)
