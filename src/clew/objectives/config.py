"""The objectives by name, and their settings.

build_objective(ObjectiveConfig())                                              # MLM-U, as in the paper
build_objective(ObjectiveConfig("mlm-u", RateConfig(spread="stratified")))
build_objective(ObjectiveConfig("next-token"))
ObjectiveConfig.from_json(ObjectiveConfig("ordered").to_json())                 # plain dicts, for config.json
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self, get_args

from clew.errors import UserError
from clew.objectives.masked import MaskedTokens, OrderedMask, Weighting
from clew.objectives.question import Objective
from clew.objectives.rates import (
    BetaRate,
    CosineRate,
    DwellRate,
    FixedRate,
    Rates,
    RateShape,
    Spread,
    UniformRate,
)
from clew.objectives.sequential import AnyOrder, NextToken
from clew.plain_json import from_plain, to_plain

ShapeName = Literal["uniform", "fixed", "beta", "cosine", "dwell"]
ObjectiveName = Literal["mlm-u", "next-token", "fixed-rate", "ordered", "ordered-reverse", "any-order", "trace"]

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
    """Which masking rates are drawn; clew.objectives.rates says what each choice means."""

    # Which rates are likely.
    shape: ShapeName = "uniform"
    # Whether each sequence has a rate of its own, the rates are spread evenly over the batch, or a batch shares one.
    spread: Spread = "sequence"
    # This share of the rows of a batch is hidden as a whole; the others have the rates above.
    fully_hidden: float = 0.0
    # The rate, with shape "fixed" (and in the objective "fixed-rate").
    fixed: float = 0.15
    # Beta(a, b), with shape "beta".
    beta_a: float = 1.0
    beta_b: float = 1.0
    # With shape "dwell": the histogram's bins, the share of the rates that stays uniform, the memory of old losses.
    dwell_bins: int = 20
    dwell_floor: float = 0.2
    dwell_memory: float = 0.99

    def __post_init__(self) -> None:
        _one_of("the shape of the masking rates", self.shape, get_args(ShapeName))
        _one_of("the spread of the masking rates", self.spread, get_args(Spread))
        _number("fully_hidden of the masking rates", self.fully_hidden, 0, 1)
        _number("the fixed masking rate", self.fixed, 0.001, 1)
        _number("beta_a of the masking rates", self.beta_a, 0.5, 100)
        _number("beta_b of the masking rates", self.beta_b, 0.5, 100)
        _number("dwell_bins of the masking rates", self.dwell_bins, 1, 1000)
        if not isinstance(self.dwell_bins, int):
            raise UserError(f"dwell_bins of the masking rates is {self.dwell_bins!r}: use a whole number.")
        _number("dwell_floor of the masking rates", self.dwell_floor, 0.01, 1)
        _number("dwell_memory of the masking rates", self.dwell_memory, 0, 0.9999)


@dataclass(frozen=True)
class ObjectiveConfig:
    """What is hidden and what is to be predicted."""

    name: ObjectiveName = "mlm-u"
    # The masking rates; next-token, any-order and trace have none.
    rates: RateConfig = field(default_factory=RateConfig)
    # The weight of a hidden token in mlm-u and fixed-rate: 1, or 1 / rate.
    weighting: Weighting = "token"
    # In mlm-u and fixed-rate: a sequence that would hide nothing hides one token.
    at_least_one: bool = False

    def __post_init__(self) -> None:
        _one_of("objective", self.name, get_args(ObjectiveName))
        _one_of("the objective's weighting", self.weighting, get_args(Weighting))
        if not isinstance(self.at_least_one, bool):
            raise UserError(f"at_least_one of the objective is {self.at_least_one!r}: use true or false.")
        # A setting that would silently do nothing is a mistake of the user's that we can name.
        if self.name not in ("mlm-u", "fixed-rate") and (self.weighting != "token" or self.at_least_one):
            raise UserError(
                f"objective {self.name!r} knows neither weighting nor at_least_one: leave them out, or use mlm-u."
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
        return from_plain(cls, data, "the objective")


def build_rates(config: RateConfig) -> Rates:
    """The sampler of masking rates that a config describes."""
    shapes: dict[ShapeName, RateShape] = {
        "uniform": UniformRate(),
        "fixed": FixedRate(config.fixed),
        "beta": BetaRate(config.beta_a, config.beta_b),
        "cosine": CosineRate(),
        "dwell": DwellRate(config.dwell_bins, config.dwell_floor, config.dwell_memory),
    }
    return Rates(shapes[config.shape], config.spread, config.fully_hidden)


def build_objective(config: ObjectiveConfig) -> Objective:
    """The objective that a config describes."""
    rates = build_rates(config.rates)
    if config.name == "fixed-rate":
        rates = Rates(FixedRate(config.rates.fixed), config.rates.spread)
    objectives: dict[ObjectiveName, Objective] = {
        "mlm-u": MaskedTokens(rates, config.weighting, config.at_least_one),
        "fixed-rate": MaskedTokens(rates, config.weighting, config.at_least_one),
        "ordered": OrderedMask(rates),
        "ordered-reverse": OrderedMask(rates, reverse=True),
        "next-token": NextToken(),
        "any-order": AnyOrder(),
        "trace": NextToken(),
    }
    return objectives[config.name]


def dwell_of(objective: Objective) -> DwellRate | None:
    """The sampler that wants to hear of the losses, if the objective has one."""
    rates = getattr(objective, "rates", None)
    shape = rates.shape if isinstance(rates, Rates) else None
    return shape if isinstance(shape, DwellRate) else None
