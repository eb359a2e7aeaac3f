"""Objectives that hide a part of the response at once: every hidden token is predicted from the visible ones alone.

    MaskedTokens(Rates(UniformRate()))(batch, generator)    # MLM-U
    MaskedTokens(Rates(FixedRate(0.15)))(batch, generator)  # BERT's rate, without token substitution
    OrderedMask(Rates(UniformRate()))(batch, generator)     # everything right of a cut

Shape suffixes: B mazes, T positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from clew.data.batch import Batch
from clew.objectives.noise import HIDE, Noise
from clew.objectives.question import Objective, Question, path_place, ranked, response_place
from clew.objectives.rates import Rates

Weighting = Literal["token", "rate"]

# The weight 1/u has no finite variance as u goes to 0, so it stops growing here.
SMALLEST_WEIGHED_RATE = 0.01


@dataclass(frozen=True)
class MaskedTokens(Objective):
    """Each token of the response hidden by a coin of its own, with a rate for each row.

        u ~ rates;   hidden_t ~ Bernoulli(u);   L = - sum over hidden t of w log P(x_t | prompt, visible tokens)

    With u ~ U(0, 1) this is MLM-U, and the number of hidden tokens is uniform on 0 .. n. A row that hides nothing
    asks nothing and adds 0 to the loss and 0 to its count; `at_least_one` hides one uniform token of such a row.

    Weighting "token" is w = 1. Weighting "rate" is w = 1 / max(u, 0.01), with which, for uniform rates, L is the
    bound on the likelihood that masked diffusion trains on.
    """

    rates: Rates
    weighting: Weighting = "token"
    at_least_one: bool = False
    sequential: ClassVar[bool] = False

    def question(self, batch: Batch, noise: Noise) -> Question:
        rate_B = self.rates.draw(noise)
        coin_BT = noise.uniform_BT(HIDE, response_place(batch)).masked_fill(~batch.response_BT, torch.inf)
        hide_BT = coin_BT < rate_B[:, None]
        if self.at_least_one:
            # The lowest coin is at a uniform token, and is hidden already unless nothing is.
            hide_BT |= (coin_BT == coin_BT.amin(1, keepdim=True)) & batch.response_BT
        weight_B = 1 / rate_B.clamp(min=SMALLEST_WEIGHED_RATE) if self.weighting == "rate" else None
        return ranked(batch, hide_BT.long(), weight_B)


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

    def question(self, batch: Batch, noise: Noise) -> Question:
        place_BT = path_place(batch)
        length_B = place_BT.amax(1)
        hidden_B = ((self.rates.draw(noise) * length_B).long() + 1).minimum(length_B)[:, None]
        hide_BT = place_BT <= hidden_B if self.reverse else place_BT > length_B[:, None] - hidden_B
        return ranked(batch, ((hide_BT | (place_BT == 0)) & batch.response_BT).long())
