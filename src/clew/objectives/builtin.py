"""Masking rates, the objectives of the paper and their variants; docs/objectives.md has the formulas.

    objective = build_objective(ObjectiveConfig("mlm-u", RateConfig("beta", beta_a=2)))
    targets = objective(batch, generator)

Shape suffixes: B mazes, T positions, N rows of a batch, K bins of a histogram.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clew.data.batch import Batch, CellBatch
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST
from clew.objectives.config import MASKED, OBJECTIVES, WITHOUT_RATES, ObjectiveConfig, RateConfig
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


class AdaptiveRate:
    """Draw the rates at which the loss is moderate more often, from a histogram of the loss in training.

        P(u in bin k) = floor / K + (1 - floor) s_k / sum_j s_j;   s_k = loss_k exp(-loss_k);   uniform within a bin

    loss_k is a moving average (`memory` of the old) of the mean loss per hidden token of the rows whose hidden share
    is in bin k; a bin without rows has the mean score of the others. Each step calls `update` with the `tally` summed
    over all processes.
    """

    def __init__(self, bins: int = 20, floor: float = 0.2, memory: float = 0.99) -> None:
        self.bins, self.floor, self.memory = bins, floor, memory
        self.loss_K: list[float | None] = [None] * bins

    def __call__(self, p: Tensor) -> Tensor:
        score = [None if loss is None else loss * math.exp(-loss) for loss in self.loss_K]
        known = [s for s in score if s is not None]
        edge = torch.linspace(0, 1, self.bins + 1)
        if sum(known) <= 0:
            return _quantile(p, edge.diff(), edge)
        score_K = torch.tensor([sum(known) / len(known) if s is None else s for s in score], dtype=torch.float64)
        return _quantile(p, self.floor / self.bins + (1 - self.floor) * score_K / score_K.sum(), edge)

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

    def state(self) -> dict[str, list[float | None]]:
        """Return the histogram as JSON values."""
        return {"loss": list(self.loss_K)}

    def load_state(self, state: dict[str, list[float | None]]) -> None:
        """Restore what `state` returned."""
        self.loss_K = list(state["loss"])
        self(torch.zeros(1))  # raises if the values cannot be used


def _quantile(p: Tensor, mass_K: Tensor, edge: Tensor) -> Tensor:
    """Return the quantiles at p of a distribution that is uniform between K + 1 edges, with these masses."""
    cdf = torch.cat([mass_K.new_zeros(1), mass_K.cumsum(0)])
    return torch.from_numpy(np.interp(p.cpu(), cdf / cdf[-1], edge)).to(p)


class Rates:
    """The masking rates of a config; `draw` returns those of a batch, quantiles at p from [0, 1).

    With "stratified", p_i = (s(i) + jitter_i) / B, with s a random permutation of 0 .. B-1 and jitter ~ U(0, 1).
    """

    def __init__(self, config: RateConfig) -> None:
        self.config = config
        self.quantile: Quantile
        match config.shape:
            case "uniform":
                self.quantile = lambda p: p
            case "fixed":
                self.quantile = lambda p: torch.full_like(p, config.fixed)
            case "cosine":  # mostly high rates, median 0.71; the density is 2 / (pi sqrt(1 - u^2))
                self.quantile = lambda p: torch.cos((1 - p) * (math.pi / 2))
            case "beta":
                self.quantile = beta_quantile(config.beta_a, config.beta_b)
            case "adaptive":
                self.quantile = AdaptiveRate(config.adaptive_bins, config.adaptive_floor, config.adaptive_memory)
            case name:
                component: Any = registered("mask-rate", name)
                self.quantile = component().quantile

    def draw(self, noise: Noise) -> Tensor:
        """Return the rate of each row, float32 [B]."""
        share = self.config.fully_hidden
        # The first rows of a random permutation are fully hidden.
        full = noise.share_of_rows(RATE_ORDER, share) if share else 0
        match self.config.sampling:
            case "batch":
                p_B = noise.uniform_all(RATE).expand(len(noise.row_B))
            case "stratified":
                p_B = (noise.permutation_B(RATE_ORDER) - full + noise.uniform_B(RATE_JITTER)) / (noise.rows - full)
            case "sequence":
                p_B = noise.uniform_B(RATE)
        if not share:
            return self.quantile(p_B)
        full_B = noise.permutation_B(RATE_ORDER) < full
        return self.quantile(p_B.masked_fill(full_B, 0.0)).masked_fill(full_B, 1.0)


def beta_quantile(a: float, b: float) -> Quantile:
    """Return the quantile function of Beta(a, b), for a and b of at least 1/2; a > b favours high rates."""
    # With u = sin^2(x) the density of x, sin^(2a-1) cos^(2b-1), is bounded even where Beta's is not.
    angle = torch.linspace(0, math.pi / 2, 4097, dtype=torch.float64)
    middle = (angle[1:] + angle[:-1]) / 2
    mass = torch.exp((2 * a - 1) * middle.sin().log() + (2 * b - 1) * middle.cos().log())
    return lambda p: torch.sin(_quantile(p, mass, angle)).square()


def build_objective(config: ObjectiveConfig) -> Objective:
    """Return the objective that a config describes."""
    if config.name in OBJECTIVES:
        return BuiltIn(config)
    component: Any = registered("objective", config.name)
    made: Objective = type(config.name, (component, Objective), {})()  # what the class lacks comes from Objective
    return made


def adaptive_of(objective: Objective) -> AdaptiveRate | None:
    """Return the adaptive rates of an objective, which training updates with the losses, or None."""
    quantile = objective.rates.quantile if isinstance(objective, BuiltIn) else None
    return quantile if isinstance(quantile, AdaptiveRate) else None


class BuiltIn(Objective):
    """One of OBJECTIVES."""

    def __init__(self, config: ObjectiveConfig) -> None:
        self.config = config
        self.rates = Rates(replace(config.rates, shape="fixed") if config.name == "fixed-rate" else config.rates)

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        return self.targets_for(None, batch, noise)

    def targets_for(self, model: Predict | None, batch: Batch, noise: Noise) -> Targets:
        """Return the targets; without a model, masks that would follow its confidence are random."""
        name = self.config.name
        if name in MASKED:
            return self._masked(model, batch, noise)
        if name not in WITHOUT_RATES:
            return cut(batch, self.rates.draw(noise), name)
        if name == "any-order":
            return any_order(batch, noise)
        if isinstance(batch, CellBatch):
            return next_cell(batch, noise)
        # "trace" is next token on a format with the search trace in the response.
        return make_targets(batch, response_position(batch))

    def _masked(self, model: Predict | None, batch: Batch, noise: Noise) -> Targets:
        """Hide each token of the response independently, with one rate for each row; MLM-U for rates u ~ U(0, 1)."""
        config, rate_B = self.config, self.rates.draw(noise)
        uniform_BT = noise.uniform_BT(HIDE, response_position(batch)).masked_fill(~batch.response_BT, torch.inf)
        hide_BT = uniform_BT < rate_B[:, None]
        if config.at_least_one:
            # The lowest number is at a uniform token, which is hidden already unless nothing is.
            hide_BT |= (uniform_BT == uniform_BT.amin(1, keepdim=True)) & batch.response_BT
        if model is not None and config.confidence_share:
            count = noise.share_of_rows(CONFIDENCE, config.confidence_share)
            row_N = (noise.permutation_B(CONFIDENCE) < count).nonzero()[:, 0]
            if len(row_N):
                hide_BT[row_N] = least_confident(model, batch.rows(row_N), rate_B[row_N])
        targets = make_targets(batch, hide_BT.long())
        if config.weighting == "token":
            return targets
        weight_B1 = 1 / rate_B.clamp(min=1 / config.max_weight)[:, None]
        return replace(targets, weight_BT=targets.weight_BT * weight_B1)


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
    return (rank_BT < hidden_count(rate_B, batch.response_BT.sum(1))[:, None]) & batch.response_BT


def hidden_count(rate_B: Tensor, length_B: Tensor) -> Tensor:
    """Return min(n, floor(u n) + 1) for responses of n tokens: uniform on 1 .. n for a uniform rate u."""
    return ((rate_B * length_B).long() + 1).minimum(length_B)


def cut(batch: Batch, rate_B: Tensor, name: str) -> Targets:
    """Hide the last `hidden_count` tokens, or the first (ordered-reverse); prefix-next-token queries one.

    Labels of cells are ordered along the path, and those off it are always hidden.
    """
    position_BT = batch.step_BT if isinstance(batch, CellBatch) else response_position(batch)
    length_B = position_BT.amax(1)
    hidden_B = hidden_count(rate_B, length_B)
    last_visible_B1 = (length_B - hidden_B)[:, None]
    hide_BT = position_BT <= hidden_B[:, None] if name == "ordered-reverse" else position_BT > last_visible_B1
    targets = make_targets(batch, ((hide_BT | (position_BT == 0)) & batch.response_BT).long())
    if name != "prefix-next-token":
        return targets
    query_BT = targets.query_BT & (position_BT == last_visible_B1 + 1)
    return replace(targets, query_BT=query_BT, weight_BT=query_BT.float())


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


def any_order(batch: Batch, noise: Noise) -> Targets:
    """Predict every token of the response from the prompt and the tokens before it in a random order."""
    bits_BT = noise.bits_BT(ORDER, response_position(batch))
    # Other positions sort last, so that the response gets the orders 1 .. n. Ties among 64 bits do not occur.
    bits_BT = bits_BT.masked_fill(~batch.response_BT, torch.iinfo(torch.int64).max)
    return make_targets(batch, (bits_BT.argsort(1).argsort(1) + 1) * batch.response_BT)
