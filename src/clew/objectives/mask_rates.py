"""Where masking rates come from: a shape (which rates are likely) and a spread (how a batch shares them).

A rate is the shape's quantile at a number p from [0, 1); the spread says how the p of a batch are drawn:

- "sequence": p ~ U(0, 1) for each row, independently;
- "stratified": p_i = (s(i) + jitter_i) / B, with s a random permutation of 0 .. B-1 and jitter ~ U(0, 1): each row
  alone is as with "sequence", but a batch always holds low, middling and high rates alike, so the loss is steadier;
- "batch": one p ~ U(0, 1) for the whole global batch.

Before that, a share `fully_hidden` of the rows may have the rate 1: exactly that share of every global batch, rounded
up or down by chance. The rest shares the other rates.

    Rates(UniformRate(), spread="stratified", fully_hidden=0.5).draw(noise)

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

Spread = Literal["sequence", "stratified", "batch"]

BETA_TABLE_CELLS = 4096


class RateShape(Protocol):
    """A distribution of masking rates on [0, 1]."""

    def quantile(self, p: Tensor) -> Tensor:
        """The rate below which a share p of the rates lies."""
        ...


@dataclass(frozen=True)
class UniformRate:
    """u = p, so u ~ U(0, 1)."""

    def quantile(self, p: Tensor) -> Tensor:
        return p


@dataclass(frozen=True)
class FixedRate:
    """u = rate, always."""

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
        assert min(self.a, self.b) >= 0.5, "the table below needs a bounded density"
        # With u = sin^2(x) the density of x, sin^(2a-1) cos^(2b-1), is bounded even where Beta's is not.
        angle = torch.linspace(0, math.pi / 2, BETA_TABLE_CELLS + 1, dtype=torch.float64)
        middle = (angle[1:] + angle[:-1]) / 2
        mass = torch.exp((2 * self.a - 1) * middle.sin().log() + (2 * self.b - 1) * middle.cos().log())
        object.__setattr__(self, "_angle", angle.float())
        object.__setattr__(self, "_cdf", _cdf_of(mass))

    def quantile(self, p: Tensor) -> Tensor:
        return torch.sin(_interpolate(p, self._cdf, self._angle)).square()


def _is_loss(value: object) -> bool:
    """Whether this is what a bin may hold: nothing yet, or a loss."""
    return value is None or (isinstance(value, int | float) and 0 <= value < math.inf)


def _cdf_of(mass: Tensor) -> Tensor:
    """The cdf at the edges of cells with the given masses; it ends at exactly 1."""
    cdf = torch.cat([mass.new_zeros(1), mass.cumsum(0)])
    return (cdf / cdf[-1]).float()


def _interpolate(p: Tensor, cdf: Tensor, value: Tensor) -> Tensor:
    """The value at which a piecewise linear cdf reaches p."""
    cdf, value = cdf.to(p.device), value.to(p.device)
    # Below 1 there is always an edge where the cdf is above p, so that no empty cell is divided by.
    p = p.clamp(max=1 - 2.0**-24)
    right = torch.searchsorted(cdf, p.contiguous(), right=True)
    left = right - 1
    share = (p - cdf[left]) / (cdf[right] - cdf[left])
    return value[left] + share * (value[right] - value[left])


class AdaptiveRate:
    """Rates at which the task is hard but can be solved come more often: a histogram of the loss, learnt in training.

        P(u in bin k) = floor / K + (1 - floor) s_k / sum_j s_j;   s_k = loss_k exp(-loss_k);   uniform within a bin

    where loss_k is a moving average (`memory` of the old) of the mean loss per asked token of the rows whose hidden
    share fell into bin k. With p = exp(-loss), the probability that the model typically gives to the truth, s is
    -p log p: nothing where the model is sure, little where it can only guess, most where p is about a third, loss 1.
    A bin that no row has fallen into has the mean score of the others, and the floor keeps every bin in sight. Each
    step, on every process:

        tally_2K = shape.tally(share_B, loss_B)      # sums over this process's rows
        torch.distributed.all_reduce(tally_2K)       # if there are several processes, which must agree
        shape.update(tally_2K)

    `state()` is plain JSON, and `load_state` takes it back.
    """

    def __init__(self, bins: int = 20, floor: float = 0.2, memory: float = 0.99) -> None:
        assert bins >= 1
        assert 0 < floor <= 1
        assert 0 <= memory < 1
        self.bins, self.floor, self.memory = bins, floor, memory
        self.loss_K: list[float | None] = [None] * bins
        self._edge = torch.linspace(0, 1, bins + 1)
        self._cdf = self._edge.clone()

    def quantile(self, p: Tensor) -> Tensor:
        return _interpolate(p, self._cdf, self._edge)

    def tally(self, share_B: Tensor, loss_B: Tensor) -> Tensor:
        """Sums of losses and numbers of rows for each bin, float64 [2, K]; losses that are not finite are left out.

        `share_B` is the share of its response that a row hides, `loss_B` its mean loss per hidden token (NaN, as
        0 / 0 gives, for a row that hides none).
        """
        seen_B = loss_B.isfinite()
        bin_B = (share_B * self.bins).long().clamp(0, self.bins - 1)
        tally_2K = torch.zeros(2, self.bins, dtype=torch.float64, device=loss_B.device)
        tally_2K[0].index_add_(0, bin_B, loss_B.double().masked_fill(~seen_B, 0))
        tally_2K[1].index_add_(0, bin_B, seen_B.double())
        return tally_2K

    def update(self, tally_2K: Tensor) -> None:
        """Take in what `tally` gave, summed over the processes."""
        for k, (total, count) in enumerate(tally_2K.T.tolist()):
            if count:
                old = self.loss_K[k]
                new = total / count
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
        """What has been learnt, for a checkpoint's JSON."""
        return {"loss": list(self.loss_K)}

    def load_state(self, state: dict[str, list[float | None]]) -> None:
        """Take back what `state` gave."""
        losses = state.get("loss")
        if not isinstance(losses, list) or len(losses) != self.bins or not all(map(_is_loss, losses)):
            raise UserError(
                f"the saved masking rates are not {self.bins} losses: resume with the saved run's objective."
            )
        self.loss_K = list(losses)
        self._rebuild()


@dataclass(frozen=True)
class Rates:
    """Draws the masking rates of a batch."""

    shape: RateShape
    spread: Spread = "sequence"
    fully_hidden: float = 0.0

    def draw(self, noise: Noise) -> Tensor:
        """The rate of each row, float32 [B]."""
        # The first rows of a random order are fully hidden.
        order_B = noise.order_B(RATE_ORDER) if self.fully_hidden or self.spread == "stratified" else None
        full = noise.share_of_rows(RATE_ORDER, self.fully_hidden) if self.fully_hidden else 0
        if self.spread == "batch":
            p_B = noise.uniform_all(RATE).expand(len(noise.row_B))
        elif self.spread == "stratified":
            assert order_B is not None
            left = noise.rows - full
            p_B = (order_B - full + noise.uniform_B(RATE_JITTER)) / left
        else:
            p_B = noise.uniform_B(RATE)
        if order_B is None or not self.fully_hidden:
            return self.shape.quantile(p_B)
        full_B = order_B < full
        return self.shape.quantile(p_B.masked_fill(full_B, 0.0)).masked_fill(full_B, 1.0)
