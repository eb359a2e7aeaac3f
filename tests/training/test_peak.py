"""The peak is measured once, with as many threads as asked for, and leaves no trace."""

from itertools import chain, repeat

import pytest
import torch

from clew.training import peak


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(peak, "SECONDS", 0.05)
    peak._measure.cache_clear()
    yield
    peak._measure.cache_clear()


def test_a_product_cannot_beat_the_peak_by_much():
    found = peak.measure_matmul_peak("cpu", torch.float32, threads=1)
    a = torch.ones(512, 512)
    rate = 2 * 512**3 / min(peak._seconds_of_product(a, a) for _ in range(5))
    # Some machine's noise apart; an error in the count of operations would be a factor of two or more.
    assert 0.2 * rate < found
    assert found > 1e8


def test_the_best_product_counts(monkeypatch):
    """Products of 10, 5, 20 ... milliseconds: the rate is that of the shortest, at its own size."""
    seconds = chain([9.0, 0.010, 0.005, 0.020, 0.008], repeat(0.010))
    monkeypatch.setattr(peak, "LARGEST", 256)
    monkeypatch.setattr(peak, "_seconds_of_product", lambda a, b: next(seconds))
    assert peak.measure_matmul_peak("cpu", torch.float32, threads=1) == pytest.approx(2 * 256**3 / 0.005)


def test_it_is_measured_once_and_nothing_changes(monkeypatch):
    calls = []
    monkeypatch.setattr(peak, "best_rate", lambda device, dtype: calls.append(torch.get_num_threads()) or 7.0)
    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    for _ in range(2):
        assert peak.measure_matmul_peak("cpu", torch.float32, threads=threads + 1) == 7.0
    assert calls == [threads + 1]
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)
    assert peak.measure_matmul_peak("cpu", torch.bfloat16, threads=1) == 7.0
    assert len(calls) == 2
