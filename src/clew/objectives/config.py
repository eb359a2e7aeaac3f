"""Names of the objectives, and their options; imports no torch.

    ObjectiveConfig()                                                                   # MLM-U, as in the paper
    ObjectiveConfig("mlm-u", RateConfig(sampling="stratified", fully_hidden=0.5))

Names that are not built in are those of classes registered from outside the package (docs/extend.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias

from clew.errors import UserError
from clew.files import from_plain
from clew.registry import registered, unknown_component

ObjectiveName: TypeAlias = str
Weighting = Literal["token", "rate"]
Sampling = Literal["sequence", "stratified", "batch"]
MASKED = ("mlm-u", "fixed-rate")
WITHOUT_RATES = ("next-token", "any-order", "trace")
OBJECTIVES = (*MASKED, "ordered", "ordered-reverse", "prefix-next-token", *WITHOUT_RATES)
RATE_SHAPES = ("uniform", "fixed", "beta", "cosine", "adaptive")


@dataclass(frozen=True)
class RateConfig:
    """The distribution of masking rates; see clew.objectives.builtin."""

    # uniform, fixed, beta, cosine, adaptive, or a registered mask-rate.
    shape: str = "uniform"
    # One rate a sequence, rates stratified over the batch, or one rate a batch.
    sampling: Sampling = "sequence"
    # The share of the batch whose responses are hidden completely.
    fully_hidden: float = 0.0
    # The rate with shape "fixed" (and in the objective "fixed-rate").
    fixed: float = 0.15
    # The first parameter of the beta distribution, with shape "beta".
    beta_a: float = 1.0
    beta_b: float = 1.0  # the second parameter of the beta distribution
    # With shape "adaptive": bins of the histogram.
    adaptive_bins: int = 20
    adaptive_floor: float = 0.2  # with shape "adaptive": the share of rates that stays uniform
    adaptive_memory: float = 0.99  # with shape "adaptive": the decay of old losses

    def __post_init__(self) -> None:
        if self.shape not in RATE_SHAPES and registered("mask-rate", self.shape) is None:
            raise unknown_component("mask-rate", self.shape, RATE_SHAPES)
        _check_limits(self, fully_hidden=(0, 1), fixed=(0.001, 1), beta_a=(0.5, 100), beta_b=(0.5, 100))
        _check_limits(self, adaptive_bins=(1, 1000), adaptive_floor=(0.01, 1), adaptive_memory=(0, 0.9999))


@dataclass(frozen=True)
class ObjectiveConfig:
    """Which tokens are hidden and predicted."""

    # One of OBJECTIVES, or a registered objective.
    name: str = "mlm-u"
    # Masking rates; next-token, any-order and trace have none.
    rates: RateConfig = field(default_factory=RateConfig)
    # The weight of a hidden token in mlm-u and fixed-rate: 1, or 1 / rate but at most `max_weight`.
    weighting: Weighting = "token"
    # In mlm-u and fixed-rate: hide one token of a sequence that would hide none.
    at_least_one: bool = False
    # The largest weight of a hidden token with weighting by rate: 1 / rate has no finite variance.
    max_weight: float = 100.0
    # In mlm-u and fixed-rate: the share of the batch in which the model's least confident tokens are hidden.
    confidence_share: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in OBJECTIVES and registered("objective", self.name) is None:
            raise unknown_component("objective", self.name, OBJECTIVES)
        _check_limits(self, max_weight=(1, 1e6), confidence_share=(0, 1))
        # Options without effect are refused.
        if self.max_weight != ObjectiveConfig.max_weight and self.weighting != "rate":
            raise UserError("max_weight limits the weights of weighting 'rate': use that, or leave it out.")
        options = self.weighting, self.at_least_one, self.confidence_share
        if self.name not in MASKED and options != ("token", False, 0):
            raise UserError(
                f"objective {self.name!r} has neither weighting nor at_least_one nor confidence_share: leave them out, "
                "or use mlm-u."
            )
        if self.rates != RateConfig() and (self.name in WITHOUT_RATES or self.name not in OBJECTIVES):
            raise UserError(f"objective {self.name!r} hides nothing at random: leave its rates out, or use mlm-u.")
        if self.name == "fixed-rate" and self.rates.shape not in ("uniform", "fixed"):
            raise UserError(f"objective 'fixed-rate' has no rates of shape {self.rates.shape!r}: use mlm-u for them.")

    @property
    def required_format(self) -> str | None:
        """Return the only text format that this objective works with, or None."""
        return "wall-list-trace" if self.name == "trace" else None

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the config that was written; missing fields have their defaults, and old names are translated."""
        if isinstance(data, dict) and isinstance(data.get("rates"), dict):
            # Before version 0.2, `sampling` was `spread`, and `adaptive` was `dwell`.
            rates = {
                "sampling" if name == "spread" else name.replace("dwell", "adaptive"): value
                for name, value in data["rates"].items()
            }
            if rates.get("shape") == "dwell":
                rates["shape"] = "adaptive"
            data = data | {"rates": rates}
        return from_plain(cls, data, "the objective")


def _check_limits(config: object, **limits: tuple[float, float]) -> None:
    for name, (low, high) in limits.items():
        if not low <= (value := getattr(config, name)) <= high:  # written so that NaN fails too
            raise UserError(f"{name} of the objective is {value!r}: use a number from {low} to {high}.")
