"""Schedules: equal to torch's where torch has one, and right at their corners."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_runs import tiny_config

from clew.errors import UserError
from clew.training.config import OptimizerConfig, ScheduleConfig
from clew.training.optimizers import Optimizer, beta1_at, lr_factor
from clew.training.train import train


@pytest.mark.parametrize("steps", [21, 40, 100, 173, 1000])
def test_one_cycle_is_torchs(steps):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([parameter], lr=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1e-3, total_steps=steps, pct_start=0.05, div_factor=25, final_div_factor=25
    )
    for step in range(steps):
        ours = 1e-3 * lr_factor(ScheduleConfig(), step / steps, 1 / steps)
        assert ours == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9), step
        optimizer.step()
        if step + 1 < steps:
            scheduler.step()
    assert ours == pytest.approx(1e-3 / 625)


@pytest.mark.parametrize("steps", [21, 40, 173])
def test_cycled_beta1_is_torchs_and_so_are_the_weights(steps):
    """A small network trained by our loop's calls and by torch's AdamW with its OneCycleLR, momentum cycling on."""
    torch.manual_seed(0)
    ours, torchs = (torch.nn.Linear(3, 2) for _ in range(2))
    torchs.load_state_dict(ours.state_dict())
    optimizer = Optimizer(ours, OptimizerConfig("adamw", lr=1e-2))
    other = torch.optim.AdamW(torchs.parameters(), lr=1e-2, betas=(0.9, 0.999), weight_decay=0)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        other, max_lr=1e-2, total_steps=steps, pct_start=0.05, final_div_factor=25
    )
    config = ScheduleConfig(cycle_beta1=True)
    betas = []
    for step in range(steps):
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(step))
        progress = (step / steps, 1 / steps)
        optimizer.set_rates(lr_factor(config, *progress), beta1_at(config, *progress))
        betas.append(optimizer.adamw.param_groups[0]["betas"][0])
        assert betas[-1] == pytest.approx(other.param_groups[0]["betas"][0], rel=1e-9), step
        for network, one in ((ours, optimizer), (torchs, other)):
            network.zero_grad()
            network(x).square().sum().backward()
            one.step()
        if step + 1 < steps:
            scheduler.step()
    torch.testing.assert_close(ours.weight, torchs.weight, rtol=1e-5, atol=1e-7)
    assert betas[-1] == pytest.approx(0.95)
    assert min(betas) == pytest.approx(0.85, abs=1e-3)
    assert optimizer.adamw.param_groups[0]["betas"][1] == 0.999


def test_the_loop_sets_beta1_at_every_step(tmp_path, monkeypatch):
    seen, step = [], Optimizer.step
    monkeypatch.setattr(
        Optimizer, "step", lambda self: seen.append(self.adamw.param_groups[0]["betas"][0]) or step(self)
    )
    schedule = ScheduleConfig(cycle_beta1=True, warmup=0.5)
    train(tiny_config(schedule=schedule), tmp_path)
    assert seen == [beta1_at(schedule, number / 6, 1 / 6) for number in range(6)]
    assert seen[0] == seen[-1] == 0.95
    assert min(seen) == 0.85


def test_beta1_is_left_alone_without_a_cycle():
    assert beta1_at(ScheduleConfig(), 0.5) is None
    optimizer = Optimizer(torch.nn.Linear(3, 2), OptimizerConfig("muon", beta1=0.7))
    optimizer.set_rates(1.0, None)
    assert [group["betas"] for group in optimizer.adamw.param_groups] == [(0.7, 0.999)] * 2
    assert beta1_at(ScheduleConfig(cycle_beta1=True, warmup=1.0), 1.0) == 0.85


def test_one_cycle_in_minutes():
    config = ScheduleConfig()
    assert lr_factor(config, 0.0) == pytest.approx(1 / 25)
    assert lr_factor(config, 0.025) == pytest.approx((1 + 1 / 25) / 2)
    assert lr_factor(config, 0.05) == pytest.approx(1)
    assert lr_factor(config, 0.525) == pytest.approx((1 + 1 / 625) / 2)
    assert lr_factor(config, 1.0) == pytest.approx(1 / 625)
    assert lr_factor(config, 1.2) == pytest.approx(1 / 625)


def test_cosine_is_torchs_after_the_warm_up():
    config = ScheduleConfig("cosine", warmup=0.0, end=0.1)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50, eta_min=0.1)
    for step in range(51):
        assert lr_factor(config, step / 50) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-6)
        optimizer.step()
        scheduler.step()
    warm = ScheduleConfig("cosine", warmup=0.2, start=0.0)
    assert lr_factor(warm, 0.05) == pytest.approx(0.25)


def test_constant_then_decay():
    config = ScheduleConfig("constant-then-decay", warmup=0.1, decay=0.4, start=0.0, end=0.0)
    for progress, factor in ((0.0, 0), (0.05, 0.5), (0.1, 1), (0.3, 1), (0.6, 1), (0.8, 0.5), (1.0, 0)):
        assert lr_factor(config, progress) == pytest.approx(factor, abs=1e-9)
    assert lr_factor(ScheduleConfig("constant-then-decay", warmup=0, decay=0), 1.0) == 1


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["one-cycle", "cosine", "constant-then-decay"]),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(1, 50),
    st.data(),
)
def test_always_between_the_ends(kind, warmup, decay, steps, data):
    config = ScheduleConfig(kind, warmup=warmup, decay=min(decay, 1 - warmup), start=0.04, end=0.01)
    step = data.draw(st.integers(0, steps - 1))
    for progress, stride in ((step / steps, 1 / steps), (step / steps, 0.0)):
        assert 0.01 - 1e-9 <= lr_factor(config, progress, stride) <= 1 + 1e-9


def test_mistakes_are_named():
    for settings_, says in (
        ({"kind": "linear"}, "'linear' is unknown"),
        ({"warmup": 5}, "warmup is 5"),
        ({"end": float("nan")}, "end is nan"),
        ({"kind": "constant-then-decay", "warmup": 0.6, "decay": 0.6}, "exceed the whole"),
        ({"kind": "cosine", "cycle_beta1": True}, "'cosine' has no cycle for beta1"),
    ):
        with pytest.raises(UserError, match=says):
            ScheduleConfig(**settings_)
