"""Masking rates: a distribution of rates, and how the rows of a batch sample it.

    Rates(UniformRate(), sampling="stratified", fully_hidden=0.5).draw(noise)

A rate is the distribution's quantile at a number p from [0, 1). The sampling says how the p of a batch are drawn:

- "sequence": p ~ U(0, 1) for each row, independently;
- "stratified": p_i = (s(i) + jitter_i) / B, with s a random permutation of 0 .. B-1 and jitter ~ U(0, 1). Each row
  alone is distributed as with "sequence", but every batch covers low and high rates evenly, so the loss varies less;
- "batch": one p ~ U(0, 1) for the whole global batch.

A share `fully_hidden` of every global batch, rounded up or down at random, has the rate 1 instead.

Shape suffixes: B mazes, K bins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, Protocol

import torch
from torch import Tensor

from clew.errors import UserError
from clew.objectives.targets import RATE, RATE_JITTER, RATE_ORDER, Noise

Sampling = Literal["sequence", "stratified", "batch"]

_BETA_TABLE_CELLS = 4096


class RateShape(Protocol):
    """A distribution of masking rates on [0, 1]."""

    def quantile(self, p: Tensor) -> Tensor:
        """Return the rate below which a share p of the rates lies."""
        ...


@dataclass(frozen=True)
class UniformRate:
    """u = p, so u ~ U(0, 1)."""

    def quantile(self, p: Tensor) -> Tensor:
        return p


@dataclass(frozen=True)
class FixedRate:
    """u = rate."""

    rate: float

    def quantile(self, p: Tensor) -> Tensor:
        return torch.full_like(p, self.rate)


@dataclass(frozen=True)
class CosineRate:
    """u = cos(pi p / 2): mostly high rates, median 0.71. The density is 2 / (pi sqrt(1 - u^2))."""

    def quantile(self, p: Tensor) -> Tensor:
        # 1 - p, so that the quantile grows with p.
        return torch.cos((1 - p) * (math.pi / 2))


@dataclass(frozen=True)
class BetaRate:
    """u ~ Beta(a, b), with a and b at least 1/2; a > b favours high rates."""

    a: float
    b: float
    _angle: Tensor = field(init=False, repr=False, compare=False)
    _cdf: Tensor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # With u = sin^2(x) the density of x, sin^(2a-1) cos^(2b-1), is bounded even where Beta's is not.
        angle = torch.linspace(0, math.pi / 2, _BETA_TABLE_CELLS + 1, dtype=torch.float64)
        middle = (angle[1:] + angle[:-1]) / 2
        mass = torch.exp((2 * self.a - 1) * middle.sin().log() + (2 * self.b - 1) * middle.cos().log())
        object.__setattr__(self, "_angle", angle.float())
        object.__setattr__(self, "_cdf", _cdf_of(mass))

    def quantile(self, p: Tensor) -> Tensor:
        return torch.sin(_interpolate(p, self._cdf, self._angle)).square()


class AdaptiveRate:
    """Draw the rates at which the loss is moderate more often, from a histogram of the loss learnt in training.

        P(u in bin k) = floor / K + (1 - floor) s_k / sum_j s_j;   s_k = loss_k exp(-loss_k);   uniform within a bin

    loss_k is a moving average (`memory` of the old) of the mean loss per hidden token of the rows whose hidden share
    fell into bin k. With p = exp(-loss), the probability that the model typically gives to the target, s is -p log p:
    0 where the model is certain, small where it guesses, largest at loss 1. A bin without rows has the mean score of
    the others. Each step, on every process:

        tally_2K = shape.tally(share_B, loss_B)      # sums over this process's rows
        torch.distributed.all_reduce(tally_2K)       # the processes must agree
        shape.update(tally_2K)
    """

    def __init__(self, bins: int = 20, floor: float = 0.2, memory: float = 0.99) -> None:
        self.bins, self.floor, self.memory = bins, floor, memory
        self.loss_K: list[float | None] = [None] * bins
        self._edge = torch.linspace(0, 1, bins + 1)
        self._cdf = self._edge.clone()

    def quantile(self, p: Tensor) -> Tensor:
        return _interpolate(p, self._cdf, self._edge)

    def tally(self, share_B: Tensor, loss_B: Tensor) -> Tensor:
        """Return the sum of losses and the number of rows of each bin, float64 [2, K].

        `share_B` is the share of its response that a row hides, `loss_B` its mean loss per hidden token; rows whose
        loss is not finite are left out (0 / 0 for a row that hides nothing).
        """
        finite_B = loss_B.isfinite()
        bin_B = (share_B * self.bins).long().clamp(0, self.bins - 1)
        tally_2K = torch.zeros(2, self.bins, dtype=torch.float64, device=loss_B.device)
        tally_2K[0].index_add_(0, bin_B, loss_B.double().masked_fill(~finite_B, 0))
        tally_2K[1].index_add_(0, bin_B, finite_B.double())
        return tally_2K

    def update(self, tally_2K: Tensor) -> None:
        """Update the histogram with a `tally` summed over the processes."""
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
        """Return the histogram as JSON values, for a checkpoint."""
        return {"loss": list(self.loss_K)}

    def load_state(self, state: dict[str, list[float | None]]) -> None:
        """Restore what `state` returned."""
        losses = state.get("loss")
        if not isinstance(losses, list) or len(losses) != self.bins or not all(map(_is_loss, losses)):
            raise UserError(
                f"the saved masking rates are not {self.bins} losses: resume with the saved run's objective."
            )
        self.loss_K = list(losses)
        self._rebuild()


def _is_loss(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and 0 <= value < math.inf)


def _cdf_of(mass: Tensor) -> Tensor:
    """Return the cdf at the edges of cells with these masses; it ends at exactly 1."""
    cdf = torch.cat([mass.new_zeros(1), mass.cumsum(0)])
    return (cdf / cdf[-1]).float()


def _interpolate(p: Tensor, cdf: Tensor, value: Tensor) -> Tensor:
    """Return the value at which a piecewise linear cdf reaches p."""
    cdf, value = cdf.to(p.device), value.to(p.device)
    # Below 1 there is always an edge where the cdf is above p, so no empty cell is divided by.
    p = p.clamp(max=1 - 2.0**-24)
    right = torch.searchsorted(cdf, p.contiguous(), right=True)
    left = right - 1
    share = (p - cdf[left]) / (cdf[right] - cdf[left])
    return value[left] + share * (value[right] - value[left])


@dataclass(frozen=True)
class Rates:
    """Draw the masking rates of a batch."""

    shape: RateShape
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
            return self.shape.quantile(p_B)
        full_B = noise.permutation_B(RATE_ORDER) < full
        return self.shape.quantile(p_B.masked_fill(full_B, 0.0)).masked_fill(full_B, 1.0)
