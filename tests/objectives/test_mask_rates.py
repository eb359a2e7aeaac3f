"""The distribution of masking rates, their sampling in a batch, and the adaptive sampler."""

import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.objectives.builtin import AdaptiveRate, Rates
from clew.objectives.config import RateConfig
from clew.objectives.targets import Noise

EVEN = (torch.arange(100_000) + 0.5) / 100_000


def rates(shape: str = "uniform", sampling: Any = "sequence", **options: float) -> Rates:
    return Rates(RateConfig(shape, sampling, **options))


def noise(rows: int, seed: int = 0) -> Noise:
    return Noise.for_step(seed, 0, torch.arange(rows), rows)


def test_shapes_have_the_right_moments():
    assert torch.equal(rates().quantile(EVEN), EVEN)
    assert (rates("fixed").quantile(EVEN) == torch.tensor(0.15)).all()
    cosine = rates("cosine").quantile(EVEN)
    assert float(cosine.mean()) == pytest.approx(2 / math.pi, abs=1e-4)
    assert float(cosine.median()) == pytest.approx(math.sqrt(0.5), abs=1e-4)
    assert (cosine.diff() >= 0).all()


@settings(max_examples=40, deadline=None)
@given(st.floats(0.5, 60), st.floats(0.5, 60))
def test_beta_has_the_right_moments(a, b):
    u = rates("beta", beta_a=a, beta_b=b).quantile(EVEN).double()
    assert float(u.mean()) == pytest.approx(a / (a + b), abs=3e-4)
    assert float(u.var()) == pytest.approx(a * b / ((a + b) ** 2 * (a + b + 1)), rel=0.01, abs=1e-5)
    assert (u.diff() >= -1e-6).all()


def test_beta_of_known_quantiles():
    p = torch.tensor([0.0, 0.01, 0.3, 0.5, 0.99, 1.0])
    torch.testing.assert_close(rates("beta", beta_a=1, beta_b=1).quantile(p), p, atol=1e-5, rtol=0)
    torch.testing.assert_close(rates("beta", beta_a=3, beta_b=1).quantile(p), p ** (1 / 3), atol=1e-3, rtol=0)
    torch.testing.assert_close(rates("beta", beta_a=1, beta_b=2).quantile(p), 1 - (1 - p) ** 0.5, atol=1e-3, rtol=0)


def test_stratified_rates_fill_every_stratum():
    """One rate in each of B equal intervals, in a random order, uniform within."""
    rate_B = rates(sampling="stratified").draw(noise(128))
    assert sorted((rate_B * 128).long().tolist()) == list(range(128))
    assert rate_B.tolist() != sorted(rate_B.tolist())
    jitter_B = (rate_B * 128) % 1
    assert 0.4 < float(jitter_B.mean()) < 0.6


def test_one_row_of_a_stratified_batch_is_uniform():
    stratified = rates(sampling="stratified")
    first = torch.stack([stratified.draw(noise(8, seed))[0] for seed in range(800)])
    count = torch.histc(first, 8, 0, 1)
    assert float(((count - 100) ** 2 / 100).sum()) < 26  # 7 degrees of freedom: p about 0.0005


def test_batch_sampling_shares_one_rate():
    shared = rates(sampling="batch")
    drawn = torch.stack([shared.draw(noise(4, seed)) for seed in range(400)])
    assert (drawn == drawn[:, :1]).all()
    assert 0.45 < float(drawn[:, 0].mean()) < 0.55


def shares_of(shape: AdaptiveRate, bins: int) -> list[float]:
    return (torch.histc(shape(EVEN), bins, 0, 1) / len(EVEN)).tolist()


def test_adaptive_draws_where_the_task_is_hard_but_can_be_solved():
    shape = AdaptiveRate(bins=4, floor=0.2, memory=0.5)
    assert shares_of(shape, 4) == pytest.approx([0.25] * 4, abs=1e-3)
    share_B = torch.tensor([0.1, 0.3, 0.6, 0.9, 1.0])
    shape.update(shape.tally(share_B[:3], torch.tensor([0.0, 1.0, 2.0])))
    # 0.05 each, and 0.8 in proportion to loss exp(-loss); the bin not seen yet has the mean of the others.
    scores = [0, math.exp(-1), 2 * math.exp(-2)]
    scores += [sum(scores) / 3]
    assert shares_of(shape, 4) == pytest.approx([0.05 + 0.8 * s / sum(scores) for s in scores], abs=1e-3)
    shape.update(shape.tally(share_B[3:], torch.tensor([0.0, 2.0])))
    scores[3] = math.exp(-1)
    assert shares_of(shape, 4) == pytest.approx([0.05 + 0.8 * s / sum(scores) for s in scores], abs=1e-3)
    # memory 0.5: the first bin's 0 and a new 4 make 2
    shape.update(shape.tally(share_B[:1], torch.tensor([4.0])))
    assert shape.loss_K == [2.0, 1.0, 2.0, 1.0]


def test_adaptive_leaves_out_rows_that_hide_nothing():
    shape = AdaptiveRate(bins=2)
    tally = shape.tally(torch.tensor([0.0, 0.2, 0.7, 0.8]), torch.tensor([math.nan, 3.0, 1.0, math.inf]))
    assert tally.tolist() == [[3.0, 1.0], [1.0, 1.0]]


def test_adaptive_tallies_add_up_over_processes():
    share_B, loss_B = torch.rand(64), torch.rand(64).mul(8).round()
    whole, parts = AdaptiveRate(), AdaptiveRate()
    whole.update(whole.tally(share_B, loss_B))
    halves = zip(share_B.split(32), loss_B.split(32), strict=True)
    parts.update(sum(parts.tally(s, loss) for s, loss in halves))
    assert whole.state() == parts.state()


def test_adaptive_state_goes_through_json():
    shape = AdaptiveRate(bins=3)
    shape.update(shape.tally(torch.tensor([0.1, 0.5, 0.9]), torch.tensor([0.3, 0.1, 0.7])))
    again = AdaptiveRate(bins=3)
    again.load_state(json.loads(json.dumps(shape.state())))
    assert torch.equal(again(EVEN), shape(EVEN))


@pytest.mark.parametrize("loss", [0.0, 5000.0])
def test_adaptive_survives_losses_without_a_score(loss):
    shape = AdaptiveRate(bins=2)
    shape.update(shape.tally(torch.tensor([0.1, 0.9]), torch.full((2,), loss)))
    assert shares_of(shape, 2) == pytest.approx([0.5, 0.5], abs=1e-3)


@pytest.mark.parametrize("sampling", ["sequence", "stratified", "batch"])
def test_a_share_of_the_rows_is_fully_hidden(sampling):
    rate_B = rates(sampling=sampling, fully_hidden=0.25).draw(noise(128))
    assert int((rate_B == 1).sum()) == 32
    plain = rates(sampling=sampling).draw(noise(128))
    assert (plain < 1).all()
    if sampling == "sequence":  # the other rows keep their rates
        assert torch.equal(rate_B[rate_B < 1], plain[rate_B < 1])
    if sampling == "stratified":  # the other rows share all strata
        assert sorted((rate_B[rate_B < 1] * 96).long().tolist()) == list(range(96))


def test_fully_hidden_rows_are_others_in_every_step_and_right_on_average():
    part = rates(fully_hidden=0.3)
    full = torch.stack([part.draw(noise(8, seed)) == 1 for seed in range(500)])
    assert set(full.sum(1).tolist()) == {2, 3}  # 2.4 of 8, rounded by chance
    assert float(full.double().mean()) == pytest.approx(0.3, abs=0.015)
    assert (full.double().mean(0) - 0.3).abs().max() < 0.09


def test_all_rows_may_be_fully_hidden():
    assert (rates(sampling="stratified", fully_hidden=1.0).draw(noise(5)) == 1).all()
