"""Proportions with 95 % confidence intervals, and paired differences between two models.

proportion(hits=90, count=100) -> Proportion(0.9, 90, 100, low=0.826, high=0.945)
paired_difference(only_a=12, only_b=2, count=100) -> PairedDifference(0.1, low=0.026, high=0.170, p=0.013, ...)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_Z = 1.959964  # 97.5 % quantile of the normal distribution


@dataclass(frozen=True)
class Proportion:
    """`hits` of `count`, with a 95 % confidence interval from `low` to `high`."""

    share: float
    hits: int
    count: int
    low: float
    high: float

    def __str__(self) -> str:
        """Return text such as `90.0 % (82.6 to 94.5)`."""
        return f"{100 * self.share:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


def proportion(hits: int, count: int) -> Proportion:
    """Return a proportion with Wilson's interval, which stays sound near 0 and 1; 0 to 1 if `count` is 0."""
    if count == 0:
        return Proportion(0.0, 0, 0, 0.0, 1.0)
    p, z2 = hits / count, _Z**2
    middle = (p + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z / (1 + z2 / count) * math.sqrt(p * (1 - p) / count + z2 / (4 * count**2))
    # Rounding may leave the interval slightly short of p itself.
    return Proportion(p, hits, count, max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half)))


def token_proportion(hits: Sequence[int], counts: Sequence[int]) -> Proportion:
    """Return the proportion of tokens over mazes; mazes are the sampling unit because their tokens are correlated."""
    total, right, mazes = sum(counts), sum(hits), len(counts)
    if total == 0:
        return Proportion(0.0, 0, 0, 0.0, 1.0)
    p = right / total
    if mazes < 2 or right in (0, total):
        # Without variance between mazes, each maze counts as one trial.
        bounds = proportion(round(p * mazes), mazes)
        return Proportion(p, right, total, min(p, bounds.low), max(p, bounds.high))
    squares = sum((h - p * c) ** 2 for h, c in zip(hits, counts, strict=True))
    half = _Z * math.sqrt(squares * mazes / (mazes - 1)) / total
    return Proportion(p, right, total, max(0.0, p - half), min(1.0, p + half))


@dataclass(frozen=True)
class PairedDifference:
    """Proportion solved by A minus proportion solved by B on the same mazes, with a 95 % confidence interval."""

    difference: float
    low: float
    high: float
    p: float  # two-sided exact McNemar test
    only_a: int  # mazes solved by A alone
    only_b: int
    count: int


def paired_difference(only_a: int, only_b: int, count: int) -> PairedDifference:
    """Compare two models on the same mazes.

    The interval is Agresti and Min's (half a maze is added to each of the four cells), which stays sound when few mazes
    are solved by one model alone.
    """
    n, a, b = count + 2, only_a + 0.5, only_b + 0.5
    middle, half = (a - b) / n, _Z * math.sqrt(a + b - (a - b) ** 2 / n) / n
    difference = (only_a - only_b) / count
    low, high = max(-1.0, min(difference, middle - half)), min(1.0, max(difference, middle + half))
    return PairedDifference(difference, low, high, mcnemar(only_a, only_b), only_a, only_b, count)


def mcnemar(only_a: int, only_b: int) -> float:
    """Return the two-sided p-value of the exact McNemar test."""
    n, k = only_a + only_b, min(only_a, only_b)
    tail = sum(math.comb(n, i) for i in range(k + 1))
    return min(1.0, 2 * tail / (1 << n))
