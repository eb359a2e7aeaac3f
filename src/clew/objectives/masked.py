"""Objectives that hide a part of the response at once: every hidden token is predicted from the visible ones alone.

    MaskedTokens(Rates(UniformRate()))(batch, generator)    # MLM-U
    MaskedTokens(Rates(FixedRate(0.15)))(batch, generator)  # BERT's rate, without token substitution
    OrderedMask(Rates(UniformRate()))(batch, generator)     # everything right of a cut
    NextAfterPrefix(Rates(UniformRate()))(batch, generator) # everything right of a cut, only the first of it asked

Shape suffixes: B mazes, T positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from clew.data.batch import Batch
from clew.objectives.mask_rates import Rates
from clew.objectives.targets import (
    CONFIDENCE,
    HIDE,
    Noise,
    Objective,
    Predict,
    Targets,
    path_place,
    ranked,
    response_place,
)

Weighting = Literal["token", "rate"]

# The weight 1/u has no finite variance as u goes to 0, so it stops growing here.
MAX_WEIGHT = 100.0


@dataclass(frozen=True)
class MaskedTokens(Objective):
    """Each token of the response hidden by a coin of its own, with a rate for each row.

        u ~ rates;   hidden_t ~ Bernoulli(u);   L = - sum over hidden t of w log P(x_t | prompt, visible tokens)

    With u ~ U(0, 1) this is MLM-U, and the number of hidden tokens is uniform on 0 .. n. A row that hides nothing
    asks nothing and adds 0 to the loss and 0 to its count; `at_least_one` hides one uniform token of such a row.

    Weighting "token" is w = 1. Weighting "rate" is w = min(1 / u, max_weight), with which, for uniform rates, L is the
    bound on the likelihood that masked diffusion trains on.

    Of a share `confidence_share` of the rows, not random tokens are hidden but those that the model is least sure of:
    h = min(n, floor(u n) + 1) of them, by the probability that it gives its most likely token when all are hidden.
    What is visible is then what decoding by confidence fills in first. This costs a forward pass without gradients
    over those rows; `targets`, which has no model, hides random tokens of all rows.
    """

    rates: Rates
    weighting: Weighting = "token"
    at_least_one: bool = False
    max_weight: float = MAX_WEIGHT
    confidence_share: float = 0.0
    sequential: ClassVar[bool] = False

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        rate_B = self.rates.draw(noise)
        return self._hiding(batch, rate_B, self._random(batch, noise, rate_B))

    def targets_for(self, model: Predict, batch: Batch, noise: Noise) -> Targets:
        if not self.confidence_share:
            return self.targets(batch, noise)
        rate_B = self.rates.draw(noise)
        hide_BT = self._random(batch, noise, rate_B)
        count = noise.share_of_rows(CONFIDENCE, self.confidence_share)
        # A model that is sharded over processes must be called on each of them, also where there is no such row.
        row_N = (noise.order_B(CONFIDENCE) < count).nonzero()[:, 0]
        asked_N = row_N if len(row_N) else torch.zeros_like(noise.row_B[:1])
        some = batch.rows(asked_N)
        unsure_NT = least_confident(confidence(model, some), some.response_BT, rate_B[asked_N])
        hide_BT[row_N] = unsure_NT[: len(row_N)]
        return self._hiding(batch, rate_B, hide_BT)

    def _random(self, batch: Batch, noise: Noise, rate_B: Tensor) -> Tensor:
        """The tokens that are hidden by coins of their own."""
        coin_BT = noise.uniform_BT(HIDE, response_place(batch)).masked_fill(~batch.response_BT, torch.inf)
        hide_BT = coin_BT < rate_B[:, None]
        if self.at_least_one:
            # The lowest coin is at a uniform token, and is hidden already unless nothing is.
            hide_BT |= (coin_BT == coin_BT.amin(1, keepdim=True)) & batch.response_BT
        return hide_BT

    def _hiding(self, batch: Batch, rate_B: Tensor, hide_BT: Tensor) -> Targets:
        weight_B = 1 / rate_B.clamp(min=1 / self.max_weight) if self.weighting == "rate" else None
        return ranked(batch, hide_BT.long(), weight_B)


@torch.no_grad()
def confidence(model: Predict, batch: Batch) -> Tensor:
    """The highest probability that the model gives any token, all of the response being hidden; [B, T], 0 elsewhere."""
    targets = ranked(batch, batch.response_BT.long())
    logits_QV = model(batch, targets.order_BT, targets.query_BT)
    confidence_BT = torch.zeros_like(targets.weight_BT)
    confidence_BT[targets.query_BT] = logits_QV.float().softmax(-1).amax(-1)
    return confidence_BT


def least_confident(confidence_BT: Tensor, response_BT: Tensor, rate_B: Tensor) -> Tensor:
    """The least confident tokens of each response, `hidden_count` of them; of equal ones the left first."""
    order_BT = confidence_BT.masked_fill(~response_BT, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    return (order_BT < hidden_count(rate_B, response_BT)[:, None]) & response_BT


def hidden_count(rate_B: Tensor, response_BT: Tensor) -> Tensor:
    """min(n, floor(u n) + 1) for a response of n tokens: uniform on 1 .. n for a uniform rate u. Shape [B]."""
    length_B = response_BT.sum(1)
    return ((rate_B * length_B).long() + 1).minimum(length_B)


@dataclass(frozen=True)
class OrderedMask(Objective):
    """The response hidden on one side of a cut.

        u ~ rates;   h = min(n, floor(u n) + 1);   L = - sum over hidden t of log P(x_t | prompt, visible tokens)

    The last h of the n tokens are hidden and the n - h before them are visible; `reverse` hides the first h. With u ~
    U(0, 1) h is uniform on 1 .. n, so at least one token is always hidden, and with h = n the model sees the prompt
    alone, as when decoding begins. Labels of cells are ordered along the path, and those off it are always hidden.
    """

    rates: Rates
    reverse: bool = False
    sequential: ClassVar[bool] = False

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        place_BT = path_place(batch)
        hidden_B = hidden_count(self.rates.draw(noise), place_BT > 0)[:, None]
        hide_BT = place_BT <= hidden_B if self.reverse else place_BT > place_BT.amax(1, keepdim=True) - hidden_B
        return ranked(batch, ((hide_BT | (place_BT == 0)) & batch.response_BT).long())


@dataclass(frozen=True)
class NextAfterPrefix(Objective):
    """The response hidden right of a cut, and only its first hidden token predicted: next token's loss, one cut a row.

        u ~ rates;   k = n - min(n, floor(u n) + 1);   L = - log P(x_(k+1) | prompt, x_1 .. x_k)

    What a model of MLM-U learns from next token's objective: it sees the prompt and the prefix in both directions, as
    it does when decoding from left to right.
    """

    rates: Rates
    sequential: ClassVar[bool] = False

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        place_BT = response_place(batch)
        length_B = batch.response_BT.sum(1)
        next_B = length_B - hidden_count(self.rates.draw(noise), batch.response_BT) + 1
        hidden_BT = (place_BT >= next_B[:, None]) & batch.response_BT
        targets = ranked(batch, hidden_BT.long())
        query_BT = hidden_BT & (place_BT == next_B[:, None])
        return replace(targets, query_BT=query_BT, weight_BT=query_BT.to(torch.float32))
