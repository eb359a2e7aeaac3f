"""The measured floating-point peak."""

from itertools import chain, repeat

import peak
import pytest
import torch


def test_a_product_cannot_beat_the_peak_by_much(monkeypatch):
    monkeypatch.setattr(peak, "SECONDS", 0.05)
    found = peak.best_rate(torch.device("cpu"), torch.float32)
    a = torch.ones(512, 512)
    rate = 2 * 512**3 / min(peak._seconds_of_product(a, a) for _ in range(5))
    # Some machine's noise apart; an error in the count of operations would be a factor of two or more.
    assert 0.2 * rate < found
    assert found > 1e8


def test_the_best_product_counts(monkeypatch):
    """Products of 10, 5, 20 ... milliseconds: the rate is that of the shortest, at its own size."""
    seconds = chain([9.0, 0.010, 0.005, 0.020, 0.008], repeat(0.010))
    monkeypatch.setattr(peak, "SECONDS", 0.05)
    monkeypatch.setattr(peak, "LARGEST", 256)
    monkeypatch.setattr(peak, "_seconds_of_product", lambda a, b: next(seconds))
    assert peak.best_rate(torch.device("cpu"), torch.float32) == pytest.approx(2 * 256**3 / 0.005)
