"""Learning-rate schedules: pure functions of the share of the budget that is used, in steps, epochs or minutes.

    factor = lr_factor(ScheduleConfig(), progress=step / steps, stride=1 / steps)
    optimizer.scale_lr(factor)
    optimizer.set_beta1(beta1_at(schedule, progress, stride))      # None leaves it as it is

`progress` is the share of the budget used when the step begins and `stride` the share that one step uses. The stride
makes the first step start exactly at the bottom of the warm-up and the last one end exactly at the final rate; with a
budget in minutes, where no step knows how many follow, it is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from clew.errors import UserError

ScheduleKind = Literal["one-cycle", "cosine", "constant-then-decay"]


@dataclass(frozen=True)
class ScheduleConfig:
    """The learning rate over a run; the defaults are the published code's, without its cycle of beta1.

    - one-cycle: along a cosine from `start` up to 1 during `warmup`, then along a cosine down to `end`; step for step
      torch's OneCycleLR;
    - cosine: along a line up to 1 during `warmup`, then along a cosine down to `end`;
    - constant-then-decay: along a line up to 1 during `warmup`, constant, and along a line down to `end` during the
      last `decay`; `power` above 1 makes it fall faster at first: (remaining share of the decay) ** power.
    """

    kind: ScheduleKind = "one-cycle"  # the shape of the learning rate over the budget
    # The share of the budget in which the learning rate rises.
    warmup: float = 0.05
    decay: float = 0.2  # the share of the budget at the end in which constant-then-decay falls
    power: float = 1.0  # the exponent of the decay of constant-then-decay
    # The first learning rate, as a share of the highest.
    start: float = 1 / 25
    end: float = 1 / 625  # the last learning rate, as a share of the highest
    # With one-cycle: AdamW's beta1 falls from 0.95 to 0.85 while the rate rises, and rises again while the rate falls.
    # Torch's OneCycleLR does so unless told otherwise, whatever beta1 the optimizer was given.
    cycle_beta1: bool = False

    def __post_init__(self) -> None:
        if self.kind not in get_args(ScheduleKind):
            raise UserError(f"schedule {self.kind!r} is unknown: use one of {', '.join(get_args(ScheduleKind))}.")
        for name in ("warmup", "decay", "start", "end"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise UserError(f"the schedule's {name} is {value!r}: use a number from 0 to 1.")
        if not 0 < self.power <= 10:
            raise UserError(f"the schedule's power is {self.power!r}: use a number above 0 and up to 10.")
        if self.cycle_beta1 and self.kind != "one-cycle":
            raise UserError(f"the schedule {self.kind!r} has no cycle for beta1: use one-cycle, or leave it off.")
        if self.kind == "constant-then-decay" and self.warmup + self.decay > 1:
            raise UserError(
                f"the schedule's warmup {self.warmup} and decay {self.decay} exceed the whole: lower one of them."
            )


BETA1_HIGH, BETA1_LOW = 0.95, 0.85  # the defaults of torch's OneCycleLR


def _along_cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def _along_line(start: float, end: float, share: float) -> float:
    return start + (end - start) * share


def lr_factor(config: ScheduleConfig, progress: float, stride: float = 0.0) -> float:
    """Return the learning rate, as a share of its highest, for a step from `progress` to `progress + stride`."""
    # Where the step ends, so that the last step has the final rate. Minutes may run over the budget.
    reached = min(progress + stride, 1.0)
    rising = _along_cosine if config.kind == "one-cycle" else _along_line
    if reached < config.warmup:
        return rising(config.start, 1.0, _warmup_share(config, reached, stride))
    if config.kind == "constant-then-decay":
        if config.decay == 0:
            return 1.0
        share = 1 - (1 - reached) / config.decay
        return _along_line(config.end, 1.0, min(1.0, 1 - share) ** config.power)
    if config.warmup == 1:
        return 1.0
    return _along_cosine(1.0, config.end, (reached - config.warmup) / (1 - config.warmup))


def beta1_at(config: ScheduleConfig, progress: float, stride: float = 0.0) -> float | None:
    """Return AdamW's beta1 for a step from `progress` to `progress + stride`; None if it does not change."""
    if not config.cycle_beta1:
        return None
    reached = min(progress + stride, 1.0)
    if reached < config.warmup:
        return _along_cosine(BETA1_HIGH, BETA1_LOW, _warmup_share(config, reached, stride))
    if config.warmup == 1:
        return BETA1_LOW
    return _along_cosine(BETA1_LOW, BETA1_HIGH, (reached - config.warmup) / (1 - config.warmup))


def _warmup_share(config: ScheduleConfig, reached: float, stride: float) -> float:
    return (reached - stride) / (config.warmup - stride)
