"""The objectives by name, and their settings.

build_objective(ObjectiveConfig())                                              # MLM-U, as in the paper
build_objective(ObjectiveConfig("mlm-u", RateConfig(spread="stratified", fully_hidden=0.5)))
build_objective(ObjectiveConfig("next-token"))
ObjectiveConfig.from_json(ObjectiveConfig("ordered").to_json())                 # plain dicts, for config.json
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from clew.errors import UserError
from clew.files import from_plain, to_plain
from clew.objectives.mask_rates import (
    AdaptiveRate,
    BetaRate,
    CosineRate,
    FixedRate,
    Rates,
    RateShape,
    Spread,
    UniformRate,
)
from clew.objectives.masked import MAX_WEIGHT, MaskedTokens, NextAfterPrefix, OrderedMask, Weighting
from clew.objectives.next_token import AnyOrder, NextToken
from clew.objectives.targets import Objective

ShapeName = Literal["uniform", "fixed", "beta", "cosine", "adaptive"]
ObjectiveName = Literal[
    "mlm-u", "next-token", "fixed-rate", "ordered", "ordered-reverse", "prefix-next-token", "any-order", "trace"
]

# The text format in which the response is the search trace and then the plan.
TRACE_FORMAT = "wall-list-trace"


def _one_of(what: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UserError(f"{what} {value!r} is unknown: use one of {', '.join(choices)}.")


def _number(what: str, value: object, low: float, high: float) -> None:
    # Written so that NaN fails too.
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise UserError(f"{what} is {value!r}: use a number from {low} to {high}.")


@dataclass(frozen=True)
class RateConfig:
    """Which masking rates are drawn; clew.objectives.mask_rates says what each choice means."""

    # Which rates are likely.
    shape: ShapeName = "uniform"
    # Whether each sequence has a rate of its own, the rates are spread evenly over the batch, or a batch shares one.
    spread: Spread = "sequence"
    # The share of the batch whose responses are hidden wholly.
    fully_hidden: float = 0.0
    # The rate, with shape "fixed" (and in the objective "fixed-rate").
    fixed: float = 0.15
    # Beta(a, b), with shape "beta".
    beta_a: float = 1.0
    beta_b: float = 1.0
    # With shape "adaptive": the histogram's bins, the share of the rates that stays uniform, the memory of old losses.
    adaptive_bins: int = 20
    adaptive_floor: float = 0.2
    adaptive_memory: float = 0.99

    def __post_init__(self) -> None:
        _one_of("the shape of the masking rates", self.shape, get_args(ShapeName))
        _one_of("the spread of the masking rates", self.spread, get_args(Spread))
        _number("fully_hidden of the masking rates", self.fully_hidden, 0, 1)
        _number("the fixed masking rate", self.fixed, 0.001, 1)
        _number("beta_a of the masking rates", self.beta_a, 0.5, 100)
        _number("beta_b of the masking rates", self.beta_b, 0.5, 100)
        _number("adaptive_bins of the masking rates", self.adaptive_bins, 1, 1000)
        if not isinstance(self.adaptive_bins, int):
            raise UserError(f"adaptive_bins of the masking rates is {self.adaptive_bins!r}: use a whole number.")
        _number("adaptive_floor of the masking rates", self.adaptive_floor, 0.01, 1)
        _number("adaptive_memory of the masking rates", self.adaptive_memory, 0, 0.9999)


@dataclass(frozen=True)
class ObjectiveConfig:
    """What is hidden and what is to be predicted."""

    name: ObjectiveName = "mlm-u"
    # The masking rates; next-token, any-order and trace have none.
    rates: RateConfig = field(default_factory=RateConfig)
    # The weight of a hidden token in mlm-u and fixed-rate: 1, or 1 / rate but at most `max_weight`.
    weighting: Weighting = "token"
    # In mlm-u and fixed-rate: a sequence that would hide nothing hides one token.
    at_least_one: bool = False
    max_weight: float = MAX_WEIGHT
    # In mlm-u and fixed-rate: the share of the batch in which the tokens are hidden that the model is least sure of.
    confidence_share: float = 0.0

    def __post_init__(self) -> None:
        _one_of("objective", self.name, get_args(ObjectiveName))
        _one_of("the objective's weighting", self.weighting, get_args(Weighting))
        if not isinstance(self.at_least_one, bool):
            raise UserError(f"at_least_one of the objective is {self.at_least_one!r}: use true or false.")
        _number("max_weight of the objective", self.max_weight, 1, 1e6)
        _number("confidence_share of the objective", self.confidence_share, 0, 1)
        # A setting that would silently do nothing is a mistake of the user's that we can name.
        if self.max_weight != MAX_WEIGHT and self.weighting != "rate":
            raise UserError("max_weight limits the weights of weighting 'rate': use that, or leave it out.")
        own = (self.weighting, self.at_least_one, self.confidence_share)
        if self.name not in ("mlm-u", "fixed-rate") and own != ("token", False, 0.0):
            raise UserError(
                f"objective {self.name!r} has neither weighting nor at_least_one nor confidence_share: leave them out, "
                "or use mlm-u."
            )
        if self.name in ("next-token", "any-order", "trace") and self.rates != RateConfig():
            raise UserError(f"objective {self.name!r} hides nothing at random: leave its rates out, or use mlm-u.")
        if self.name == "fixed-rate" and self.rates.shape not in ("uniform", "fixed"):
            raise UserError(f"objective 'fixed-rate' has no rates of shape {self.rates.shape!r}: use mlm-u for them.")

    @property
    def required_format(self) -> str | None:
        """The only text format that this objective makes sense with, or None if any will do."""
        return TRACE_FORMAT if self.name == "trace" else None

    def to_json(self) -> dict[str, Any]:
        """Plain dicts, strings and numbers."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """What `to_json` gave; a field that is missing has its default."""
        return from_plain(cls, _renamed(data), "the objective")


def _renamed(data: Any) -> Any:
    """An objective as it is written now; `adaptive` rates were once called `dwell`."""
    if not isinstance(data, dict) or not isinstance(data.get("rates"), dict):
        return data
    rates = {name.replace("dwell_", "adaptive_"): value for name, value in data["rates"].items()}
    return data | {"rates": rates | ({"shape": "adaptive"} if rates.get("shape") == "dwell" else {})}


def build_rates(config: RateConfig) -> Rates:
    """The sampler of masking rates that a config describes."""
    shapes: dict[ShapeName, RateShape] = {
        "uniform": UniformRate(),
        "fixed": FixedRate(config.fixed),
        "beta": BetaRate(config.beta_a, config.beta_b),
        "cosine": CosineRate(),
        "adaptive": AdaptiveRate(config.adaptive_bins, config.adaptive_floor, config.adaptive_memory),
    }
    return Rates(shapes[config.shape], config.spread, config.fully_hidden)


def build_objective(config: ObjectiveConfig) -> Objective:
    """The objective that a config describes."""
    rates = build_rates(config.rates)
    if config.name == "fixed-rate":
        rates = Rates(FixedRate(config.rates.fixed), config.rates.spread, config.rates.fully_hidden)
    masked = MaskedTokens(rates, config.weighting, config.at_least_one, config.max_weight, config.confidence_share)
    objectives: dict[ObjectiveName, Objective] = {
        "mlm-u": masked,
        "fixed-rate": masked,
        "ordered": OrderedMask(rates),
        "ordered-reverse": OrderedMask(rates, reverse=True),
        "prefix-next-token": NextAfterPrefix(rates),
        "next-token": NextToken(),
        "any-order": AnyOrder(),
        "trace": NextToken(),
    }
    return objectives[config.name]


def adaptive_of(objective: Objective) -> AdaptiveRate | None:
    """The sampler that wants to hear of the losses, if the objective has one."""
    rates = getattr(objective, "rates", None)
    shape = rates.shape if isinstance(rates, Rates) else None
    return shape if isinstance(shape, AdaptiveRate) else None
