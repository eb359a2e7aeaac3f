"""Stops a run whose loss or gradient has gone wrong, before the weights are touched.

    watch = GradientWatch(explosion=1000, floor=1.0)
    problem = watch.problem(loss, norm)      # None, or what is wrong in words
    watch.remember(norm)                     # once a step is taken

A norm counts as an explosion if it is above `explosion` times the median of the last hundred norms, of which there
must be twenty. A median below `floor` counts as `floor`, the norm to which gradients are clipped: a converged model
has gradients of a hundred-thousandth, and one maze that it cannot solve then has a norm of 1 or 10, which clipping
makes harmless.
"""

from __future__ import annotations

import math
import statistics
from collections import deque

REMEMBERED, NEEDED = 100, 20


class GradientWatch:
    """The norms of the last steps."""

    def __init__(self, explosion: float, floor: float) -> None:
        self.explosion, self.floor = explosion, floor
        self.norms: deque[float] = deque(maxlen=REMEMBERED)

    def problem(self, loss: float, norm: float) -> str | None:
        """What is wrong with this step, or None."""
        if not math.isfinite(loss):
            return f"the loss is {loss}"
        if not math.isfinite(norm):
            return f"the norm of the gradient is {norm}"
        if len(self.norms) >= NEEDED:
            usual = statistics.median(self.norms)
            if norm > self.explosion * max(usual, self.floor):
                return f"the norm of the gradient is {norm:.3g}, where {usual:.3g} was usual"
        return None

    def remember(self, norm: float) -> None:
        self.norms.append(norm)

    def state(self) -> list[float]:
        """For a checkpoint's JSON."""
        return list(self.norms)

    def load_state(self, state: list[float]) -> None:
        """Take back what `state` gave."""
        self.norms = deque(state, maxlen=REMEMBERED)
