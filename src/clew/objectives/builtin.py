"""Masking rates, the objectives of the paper and their variants; docs/objectives.md has the formulas.

    objective = build_objective(ObjectiveConfig("mlm-u", RateConfig("beta", beta_a=2)))
    targets = objective(batch, generator)

Shape suffixes: B mazes, T positions, N rows of a batch, K bins of a histogram.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clew.data.batch import Batch, CellBatch
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST
from clew.objectives.config import MASKED, ObjectiveConfig, RateConfig, Sampling
from clew.objectives.targets import (
    CONFIDENCE,
    HIDE,
    ORDER,
    PADDING_ORDER,
    RATE,
    RATE_JITTER,
    RATE_ORDER,
    Noise,
    Objective,
    Predict,
    Targets,
    make_targets,
    response_position,
)
from clew.registry import registered

Quantile = Callable[[Tensor], Tensor]  # p in [0, 1) -> the rate below which a share p of the rates lies
_BETA_TABLE_CELLS = 4096


def uniform_rate(p: Tensor) -> Tensor:
    """u = p, so u ~ U(0, 1)."""
    return p


def cosine_rate(p: Tensor) -> Tensor:
    """u = cos(pi (1 - p) / 2): mostly high rates, median 0.71. The density is 2 / (pi sqrt(1 - u^2))."""
    return torch.cos((1 - p) * (math.pi / 2))


def fixed_rate(rate: float) -> Quantile:
    """u = rate."""
    return lambda p: torch.full_like(p, rate)


def beta_rate(a: float, b: float) -> Quantile:
    """u ~ Beta(a, b), with a and b at least 1/2; a > b favours high rates."""
    # With u = sin^2(x) the density of x, sin^(2a-1) cos^(2b-1), is bounded even where Beta's is not.
    angle = torch.linspace(0, math.pi / 2, _BETA_TABLE_CELLS + 1, dtype=torch.float64)
    middle = (angle[1:] + angle[:-1]) / 2
    cdf = _cdf_of(torch.exp((2 * a - 1) * middle.sin().log() + (2 * b - 1) * middle.cos().log()))
    return lambda p: torch.sin(_interpolate(p, cdf, angle)).square()


class AdaptiveRate:
    """Draw the rates at which the loss is moderate more often, from a histogram of the loss in training.

        P(u in bin k) = floor / K + (1 - floor) s_k / sum_j s_j;   s_k = loss_k exp(-loss_k);   uniform within a bin

    loss_k is a moving average (`memory` of the old) of the mean loss per hidden token of the rows whose hidden share
    fell into bin k. A bin without rows has the mean score of the others. Each step calls `update` with the `tally`
    summed over all processes.
    """

    def __init__(self, bins: int = 20, floor: float = 0.2, memory: float = 0.99) -> None:
        self.bins, self.floor, self.memory = bins, floor, memory
        self.loss_K: list[float | None] = [None] * bins
        self._edge = torch.linspace(0, 1, bins + 1)
        self._cdf = self._edge.clone()

    def __call__(self, p: Tensor) -> Tensor:
        return _interpolate(p, self._cdf, self._edge)

    def tally(self, share_B: Tensor, loss_B: Tensor) -> Tensor:
        """Return the sum of losses and the number of rows of each bin, float64 [2, K].

        Rows whose mean loss per hidden token is not finite are left out (0 / 0 for a row that hides nothing).
        """
        finite_B = loss_B.isfinite()
        bin_B = (share_B * self.bins).long().clamp(0, self.bins - 1)
        tally_2K = torch.zeros(2, self.bins, dtype=torch.float64, device=loss_B.device)
        tally_2K[0].index_add_(0, bin_B, loss_B.double().masked_fill(~finite_B, 0))
        tally_2K[1].index_add_(0, bin_B, finite_B.double())
        return tally_2K

    def update(self, tally_2K: Tensor) -> None:
        for k, (total, count) in enumerate(tally_2K.T.tolist()):
            if count:
                old, new = self.loss_K[k], total / count
                self.loss_K[k] = new if old is None else self.memory * old + (1 - self.memory) * new
        self._rebuild()

    def _rebuild(self) -> None:
        score = [None if loss is None else loss * math.exp(-loss) for loss in self.loss_K]
        known = [s for s in score if s is not None]
        if sum(known) <= 0:
            self._cdf = self._edge.clone()
            return
        mean = sum(known) / len(known)
        score_K = torch.tensor([mean if s is None else s for s in score], dtype=torch.float64)
        self._cdf = _cdf_of(self.floor / self.bins + (1 - self.floor) * score_K / score_K.sum())

    def state(self) -> dict[str, list[float | None]]:
        """Return the histogram as JSON values."""
        return {"loss": list(self.loss_K)}

    def load_state(self, state: dict[str, list[float | None]]) -> None:
        """Restore what `state` returned."""
        self.loss_K = list(state["loss"])
        self._rebuild()


def _cdf_of(mass: Tensor) -> Tensor:
    """Return the cdf at the edges of cells with these masses; it ends at exactly 1."""
    cdf = torch.cat([mass.new_zeros(1), mass.cumsum(0)])
    return cdf / cdf[-1]


def _interpolate(p: Tensor, cdf: Tensor, value: Tensor) -> Tensor:
    """Return the value at which a piecewise linear cdf reaches p."""
    return torch.from_numpy(np.interp(p.cpu(), cdf, value)).to(p)


@dataclass(frozen=True)
class Rates:
    """Draw the masking rates of a batch: the quantiles of their distribution at p from [0, 1).

    With "stratified", p_i = (s(i) + jitter_i) / B, with s a random permutation of 0 .. B-1 and jitter ~ U(0, 1).
    """

    quantile: Quantile = uniform_rate
    sampling: Sampling = "sequence"
    fully_hidden: float = 0.0

    def draw(self, noise: Noise) -> Tensor:
        """Return the rate of each row, float32 [B]."""
        # The first rows of a random permutation are fully hidden.
        full = noise.share_of_rows(RATE_ORDER, self.fully_hidden) if self.fully_hidden else 0
        if self.sampling == "batch":
            p_B = noise.uniform_all(RATE).expand(len(noise.row_B))
        elif self.sampling == "stratified":
            p_B = (noise.permutation_B(RATE_ORDER) - full + noise.uniform_B(RATE_JITTER)) / (noise.rows - full)
        else:
            p_B = noise.uniform_B(RATE)
        if not self.fully_hidden:
            return self.quantile(p_B)
        full_B = noise.permutation_B(RATE_ORDER) < full
        return self.quantile(p_B.masked_fill(full_B, 0.0)).masked_fill(full_B, 1.0)


@dataclass(frozen=True)
class MaskedTokens(Objective):
    """Hide each token of the response independently, with one rate for each row; MLM-U for rates u ~ U(0, 1).

    In a share `confidence_share` of the rows the `hidden_count` least confident tokens are hidden instead; `targets`,
    which has no model, hides random tokens.
    """

    rates: Rates
    config: ObjectiveConfig

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        rate_B = self.rates.draw(noise)
        return self._hide(batch, rate_B, self._random_mask(batch, noise, rate_B))

    def targets_for(self, model: Predict, batch: Batch, noise: Noise) -> Targets:
        if not self.config.confidence_share:
            return self.targets(batch, noise)
        rate_B = self.rates.draw(noise)
        hide_BT = self._random_mask(batch, noise, rate_B)
        count = noise.share_of_rows(CONFIDENCE, self.config.confidence_share)
        row_N = (noise.permutation_B(CONFIDENCE) < count).nonzero()[:, 0]
        # A model that is sharded over processes must be called on each of them, even where there is no such row.
        used_N = row_N if len(row_N) else torch.zeros_like(noise.row_B[:1])
        hide_NT = least_confident(model, batch.rows(used_N), rate_B[used_N])
        hide_BT[row_N] = hide_NT[: len(row_N)]
        return self._hide(batch, rate_B, hide_BT)

    def _random_mask(self, batch: Batch, noise: Noise, rate_B: Tensor) -> Tensor:
        uniform_BT = noise.uniform_BT(HIDE, response_position(batch)).masked_fill(~batch.response_BT, torch.inf)
        hide_BT = uniform_BT < rate_B[:, None]
        if self.config.at_least_one:
            # The lowest number is at a uniform token, which is hidden already unless nothing is.
            hide_BT |= (uniform_BT == uniform_BT.amin(1, keepdim=True)) & batch.response_BT
        return hide_BT

    def _hide(self, batch: Batch, rate_B: Tensor, hide_BT: Tensor) -> Targets:
        targets = make_targets(batch, hide_BT.long())
        if self.config.weighting == "token":
            return targets
        weight_B = 1 / rate_B.clamp(min=1 / self.config.max_weight)
        return replace(targets, weight_BT=targets.weight_BT * weight_B[:, None])


@torch.no_grad()
def least_confident(model: Predict, batch: Batch, rate_B: Tensor) -> Tensor:
    """Return a mask of the `hidden_count` least confident tokens of each response; of equal ones the left first.

    Confidence is the highest probability that the model gives any token when the whole response is hidden.
    """
    targets = make_targets(batch, batch.response_BT.long())
    logits_QV = model(batch, targets.order_BT, targets.query_BT)
    confidence_BT = torch.full_like(targets.weight_BT, torch.inf)
    confidence_BT[targets.query_BT] = logits_QV.float().softmax(-1).amax(-1)
    rank_BT = confidence_BT.argsort(dim=1, stable=True).argsort(dim=1)
    return (rank_BT < hidden_count(rate_B, batch.response_BT)[:, None]) & batch.response_BT


def hidden_count(rate_B: Tensor, response_BT: Tensor) -> Tensor:
    """Return min(n, floor(u n) + 1) for responses of n tokens: uniform on 1 .. n for a uniform rate u. Shape [B]."""
    length_B = response_BT.sum(1)
    return ((rate_B * length_B).long() + 1).minimum(length_B)


@dataclass(frozen=True)
class OrderedMask(Objective):
    """Hide the last `hidden_count` tokens of the response, or the first ones with `reverse`.

    Labels of cells are ordered along the path, and those off it are always hidden.
    """

    rates: Rates
    reverse: bool = False

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        position_BT = batch.step_BT if isinstance(batch, CellBatch) else response_position(batch)
        hidden_B1 = hidden_count(self.rates.draw(noise), position_BT > 0)[:, None]
        if self.reverse:
            hide_BT = position_BT <= hidden_B1
        else:
            hide_BT = position_BT > position_BT.amax(1, keepdim=True) - hidden_B1
        return make_targets(batch, ((hide_BT | (position_BT == 0)) & batch.response_BT).long())


@dataclass(frozen=True)
class NextAfterPrefix(Objective):
    """Hide the last `hidden_count` tokens and predict the first of them: next token's loss on MLM-U's network."""

    rates: Rates

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        position_BT = response_position(batch)
        next_B1 = (batch.response_BT.sum(1) - hidden_count(self.rates.draw(noise), batch.response_BT) + 1)[:, None]
        targets = make_targets(batch, ((position_BT >= next_B1) & batch.response_BT).long())
        query_BT = targets.query_BT & (position_BT == next_B1)
        return replace(targets, query_BT=query_BT, weight_BT=query_BT.to(torch.float32))


@dataclass(frozen=True)
class NextToken(Objective):
    """Predict every token of the response from the prompt and the tokens to its left; on labels of cells `next_cell`.

    Trace supervision is this objective on a format whose response is the search trace followed by the plan.
    """

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        if isinstance(batch, CellBatch):
            return next_cell(batch, noise)
        return make_targets(batch, response_position(batch))


def next_cell(batch: CellBatch, noise: Noise) -> Targets:
    """Return next token's targets on labels of cells: after a uniform prefix of the path, the next cell is queried.

    The queries are the open neighbours of the prefix's last cell outside the prefix; exactly one is on the path.
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
    """Predict every token of the response from the prompt and the tokens before it in a random order."""

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        bits_BT = noise.bits_BT(ORDER, response_position(batch))
        # Other positions sort last, so that the response gets the orders 1 .. n. Ties among 64 bits do not occur.
        bits_BT = bits_BT.masked_fill(~batch.response_BT, torch.iinfo(torch.int64).max)
        return make_targets(batch, (bits_BT.argsort(1).argsort(1) + 1) * batch.response_BT)


def _build_rates(config: RateConfig) -> Rates:
    match config.shape:
        case "uniform":
            quantile: Quantile = uniform_rate
        case "fixed":
            quantile = fixed_rate(config.fixed)
        case "beta":
            quantile = beta_rate(config.beta_a, config.beta_b)
        case "cosine":
            quantile = cosine_rate
        case "adaptive":
            quantile = AdaptiveRate(config.adaptive_bins, config.adaptive_floor, config.adaptive_memory)
        case name:
            component: Any = registered("mask-rate", name)
            quantile = component().quantile
    return Rates(quantile, config.sampling, config.fully_hidden)


def build_objective(config: ObjectiveConfig) -> Objective:
    """Return the objective that a config describes."""
    rates, name = config.rates, config.name
    if name in MASKED:
        return MaskedTokens(_build_rates(replace(rates, shape="fixed") if name == "fixed-rate" else rates), config)
    if name in ("ordered", "ordered-reverse"):
        return OrderedMask(_build_rates(rates), reverse=name == "ordered-reverse")
    if name == "prefix-next-token":
        return NextAfterPrefix(_build_rates(rates))
    if name == "any-order":
        return AnyOrder()
    if name in ("next-token", "trace"):
        return NextToken()
    component: Any = registered("objective", name)
    made: Objective = type(name, (component, Objective), {})()  # what the class lacks comes from Objective
    return made


def adaptive_of(objective: Objective) -> AdaptiveRate | None:
    """Return the adaptive rates of an objective, which training updates with the losses, or None."""
    quantile = getattr(getattr(objective, "rates", None), "quantile", None)
    return quantile if isinstance(quantile, AdaptiveRate) else None
