"""Shares with their 95 % intervals, and the difference of two shares on the same mazes.

share(hits=90, count=100) -> Share(0.9, 90, 100, low=0.826, high=0.945)
paired_difference(only_a=12, only_b=2, count=100) -> PairedDifference(0.1, low=0.026, high=0.170, p=0.013, ...)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_Z = 1.959964  # the normal distribution's 97.5 % point


@dataclass(frozen=True)
class Share:
    """How many of how many, and where the true share lies with 95 % confidence."""

    share: float
    hits: int
    count: int
    low: float
    high: float

    def __str__(self) -> str:
        """Such as `90.0 % (82.6 to 94.5)`."""
        return f"{100 * self.share:.1f} % ({100 * self.low:.1f} to {100 * self.high:.1f})"


def share(hits: int, count: int) -> Share:
    """Wilson's interval, which stays sound near 0 and 1; of nothing, nothing is known."""
    if count == 0:
        return Share(0.0, 0, 0, 0.0, 1.0)
    p, z2 = hits / count, _Z**2
    middle = (p + z2 / (2 * count)) / (1 + z2 / count)
    half = _Z / (1 + z2 / count) * math.sqrt(p * (1 - p) / count + z2 / (4 * count**2))
    # At the ends rounding may leave the interval a hair short of the share itself.
    return Share(p, hits, count, max(0.0, min(p, middle - half)), min(1.0, max(p, middle + half)))


def share_of_tokens(hits: Sequence[int], counts: Sequence[int]) -> Share:
    """The share of tokens over all mazes; tokens of one maze stand or fall together, so the mazes are what varies."""
    total, right, mazes = sum(counts), sum(hits), len(counts)
    if total == 0:
        return Share(0.0, 0, 0, 0.0, 1.0)
    p = right / total
    if mazes < 2 or right == total or right == 0:
        # Where nothing varies, the mazes count as one trial each.
        bounds = share(mazes if right == total else 0 if right == 0 else round(p * mazes), mazes)
        return Share(p, right, total, min(p, bounds.low), max(p, bounds.high))
    spread = sum((h - p * c) ** 2 for h, c in zip(hits, counts, strict=True))
    half = _Z * math.sqrt(spread * mazes / (mazes - 1)) / total
    return Share(p, right, total, max(0.0, p - half), min(1.0, p + half))


@dataclass(frozen=True)
class PairedDifference:
    """The share that A solves minus the share that B solves, on the same mazes, with its 95 % interval."""

    difference: float
    low: float
    high: float
    p: float  # two-sided, of the exact McNemar test
    only_a: int  # mazes that A alone solves
    only_b: int
    count: int


def paired_difference(only_a: int, only_b: int, count: int) -> PairedDifference:
    """Compare two models maze by maze; what both solve or both miss says nothing about their order.

    The interval is Agresti and Min's (half a maze is added to each of the four cells), which stays sound when few mazes
    are solved by one model alone.
    """
    n, a, b = count + 2, only_a + 0.5, only_b + 0.5
    middle, half = (a - b) / n, _Z * math.sqrt(a + b - (a - b) ** 2 / n) / n
    difference = (only_a - only_b) / count
    low, high = max(-1.0, min(difference, middle - half)), min(1.0, max(difference, middle + half))
    return PairedDifference(difference, low, high, mcnemar(only_a, only_b), only_a, only_b, count)


def mcnemar(only_a: int, only_b: int) -> float:
    """The two-sided p-value of the exact McNemar test: a binomial test of the mazes that one model alone solves."""
    n, k = only_a + only_b, min(only_a, only_b)
    tail = sum(math.comb(n, i) for i in range(k + 1))
    return min(1.0, 2 * tail / (1 << n))
