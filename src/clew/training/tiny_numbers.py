"""Numbers below 1e-38 count as zero in training.

A gradient fades on its way back through the loops of a large maze and ends among numbers whose exponent has run out
("denormal" ones), with which processors compute many times more slowly. With fresh weights, a step of 30x30 mazes takes
a tenth of the time without them (docs/experiments-log.md, no. 30).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def tiny_numbers_are_zero() -> Iterator[None]:
    """In this thread and in those that it starts meanwhile, where the processor can."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
