"""Noise is a good generator, and a function of seed, stream, row and position alone."""

import pytest
import torch
from objective_batches import padded, token_batch

from clew.objectives.builtin import build_objective
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.objectives.targets import Noise, _mix

OBJECTIVES = [
    ObjectiveConfig("next-token"),
    ObjectiveConfig("any-order"),
    ObjectiveConfig("fixed-rate"),
    ObjectiveConfig("ordered"),
    ObjectiveConfig("ordered-reverse"),
    ObjectiveConfig("mlm-u"),
    ObjectiveConfig("mlm-u", RateConfig(sampling="stratified")),
    ObjectiveConfig("mlm-u", RateConfig(sampling="batch")),
    ObjectiveConfig("mlm-u", RateConfig(sampling="stratified", fully_hidden=0.3)),
    ObjectiveConfig("prefix-next-token"),
    ObjectiveConfig("mlm-u", RateConfig("beta", "stratified", beta_a=2.0), weighting="rate", at_least_one=True),
]


def splitmix64(x: int) -> int:
    """The same bijection in Python's unbounded integers."""
    word = (1 << 64) - 1
    x &= word
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & word
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & word
    return x ^ (x >> 31)


def test_wraps_as_splitmix64():
    for x in (0, 1, -1, 12345678901234567, -(2**63), 2**63 - 1):
        assert int(_mix(torch.tensor(x))) % 2**64 == splitmix64(x)
    # The published first outputs for seed 0: the step is added before each mix.
    first = [splitmix64(k * 0x9E3779B97F4A7C15) for k in (1, 2)]
    assert first == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


def test_uniform_and_independent():
    noise = Noise.for_step(seed=1, step=2, row_B=torch.arange(400), rows=400)
    position_BT = torch.arange(1, 501).expand(400, 500)
    u_BT = noise.uniform_BT(3, position_BT)
    assert u_BT.min() >= 0
    assert u_BT.max() < 1
    count = torch.histc(u_BT, 64, 0, 1)
    expected = u_BT.numel() / 64
    chi2 = float(((count - expected) ** 2 / expected).sum())
    assert 25 < chi2 < 115  # 63 degrees of freedom: outside with probability below 1e-4
    for other in (
        noise.uniform_BT(4, position_BT),
        noise.uniform_BT(3, position_BT + 1),
        Noise.for_step(1, 3, noise.row_B, 400).uniform_BT(3, position_BT),
        Noise.for_step(2, 2, noise.row_B, 400).uniform_BT(3, position_BT),
        noise.uniform_BT(3, position_BT).roll(1, 0),
    ):
        correlation = torch.corrcoef(torch.stack([u_BT.flatten(), other.flatten()]))[0, 1]
        assert abs(float(correlation)) < 0.012  # 5 standard deviations of 1 / sqrt(200,000)


def test_seed_and_step_do_not_stand_in_for_each_other():
    rows = torch.arange(2)
    seeds = {Noise.for_step(seed, step, rows, 2).seed for seed in range(-20, 20) for step in range(40)}
    assert len(seeds) == 40 * 40


def test_order_is_a_permutation_of_the_global_batch():
    halves = [Noise.for_step(5, 0, rows, 64).permutation_B(2) for rows in torch.arange(64).split(32)]
    assert sorted(torch.cat(halves).tolist()) == list(range(64))
    assert torch.cat(halves).tolist() != list(range(64))


def same(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("config", OBJECTIVES, ids=lambda c: f"{c.name}-{c.rates.shape}-{c.rates.sampling}")
def test_two_halves_are_the_whole(config: ObjectiveConfig):
    """One process with 16 rows and two with 8 each, padded to other widths, have the same targets."""
    objective = build_objective(config)
    batch = token_batch([9, 4, 7, 1, 12, 5, 6, 3] * 2)
    whole = objective.targets(batch, Noise.for_step(7, 11, torch.arange(16), 16))
    width = batch.tokens_BT.shape[1]
    for half, extra in ((slice(0, 8), 0), (slice(8, 16), 5)):
        rows = torch.arange(16)[half]
        part = objective.targets(padded(batch.rows(half), extra), Noise.for_step(7, 11, rows, 16))
        for name in ("order_BT", "query_BT", "weight_BT"):
            same(getattr(part, name)[:, :width], getattr(whole, name)[half])
        assert not part.query_BT[:, width:].any()
        assert (part.order_BT[:, width:] == -1).all()


@pytest.mark.parametrize("config", OBJECTIVES, ids=lambda c: f"{c.name}-{c.rates.shape}-{c.rates.sampling}")
def test_the_order_of_rows_does_not_matter(config: ObjectiveConfig):
    objective = build_objective(config)
    batch = token_batch([9, 4, 7, 1, 12, 5, 6, 3])
    order = torch.tensor([3, 1, 4, 0, 5, 7, 2, 6])
    whole = objective.targets(batch, Noise.for_step(7, 11, torch.arange(8), 8))
    shuffled = objective.targets(batch.rows(order), Noise.for_step(7, 11, order, 8))
    same(shuffled.order_BT, whole.order_BT[order])


def test_the_generator_decides_everything():
    objective = build_objective(ObjectiveConfig())
    batch = token_batch([12] * 8)
    generator = torch.Generator().manual_seed(3)
    first, second = objective(batch, generator), objective(batch, generator)
    assert not torch.equal(first.query_BT, second.query_BT)
    same(objective(batch, torch.Generator().manual_seed(3)).query_BT, first.query_BT)
