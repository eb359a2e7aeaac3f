"""Mixed precision: which products run in 16 bits, and the loss scale that float16 needs.

    with autocast("bf16", device): logits = model(...)
    scale = LossScale("fp16")
    (loss * scale.value).backward()
    ...                                    # divide the gradients by scale.value
    scale.update(finite)                   # after each step: False if a gradient overflowed and the step was left out

Weights, gradients and optimizer state stay in float32. The rule of the scale is that of torch.amp.GradScaler (start at
65,536, halve when a gradient overflows, double after 2,000 good steps). It is our own because the loop already knows
the norm of the whole gradient, over all processes and shards, and because its state is then two plain numbers.
"""

from __future__ import annotations

from clew.models.interface import Precision, autocast

__all__ = ["LossScale", "Precision", "autocast"]

FIRST_SCALE = 2.0**16
GROW_AFTER = 2000
# Gradients that overflow even when hardly scaled are wrong in themselves.
SMALLEST_SCALE = 2.0**-4


class LossScale:
    """What the loss is multiplied by so that small gradients do not vanish in float16; 1 for the others."""

    def __init__(self, precision: Precision) -> None:
        self.active = precision == "fp16"
        self.value = FIRST_SCALE if self.active else 1.0
        self.good_steps = 0

    @property
    def can_shrink(self) -> bool:
        """Whether an overflow may be the scale's fault, so that the step is left out and the run goes on."""
        return self.active and self.value > SMALLEST_SCALE

    def update(self, finite: bool) -> None:
        """Learn whether the step's gradients were finite."""
        if not self.active:
            return
        if not finite:
            self.value, self.good_steps = self.value / 2, 0
            return
        self.good_steps += 1
        if self.good_steps == GROW_AFTER:
            self.value, self.good_steps = self.value * 2, 0

    def state(self) -> dict[str, float]:
        """For a checkpoint's JSON."""
        return {"value": self.value, "good_steps": self.good_steps}

    def load_state(self, state: dict[str, float]) -> None:
        """Take back what `state` gave."""
        self.value, self.good_steps = float(state["value"]), int(state["good_steps"])
