"""The average of the weights: its formula, the swap, and its state."""

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from clew.errors import UserError
from clew.training.checkpoint import copy_named
from clew.training.optimizers import Ema


def filled(value: float) -> nn.Linear:
    net = nn.Linear(2, 2)
    for p in net.parameters():
        nn.init.constant_(p, value)
    return net


def fill(net: nn.Module, value: float) -> None:
    for p in net.parameters():
        nn.init.constant_(p, value)


def test_the_formula():
    net = filled(0.0)
    ema = Ema(net, decay=0.25)
    expected = 0.0
    for n, value in enumerate((1.0, 3.0, -2.0, 5.0)):
        fill(net, value)
        ema.update()
        d = min(0.25, (1 + n) / (10 + n))  # 0.1, 0.18, 0.25, 0.25
        expected = d * expected + (1 - d) * value
        assert float(ema.average["weight"][0, 0]) == pytest.approx(expected)
        assert float(ema.average["bias"][0]) == pytest.approx(expected)


def test_swap_and_back():
    net = filled(0.0)
    ema = Ema(net, 0.999)
    fill(net, 2.0)
    ema.update()
    before = [p.detach().clone() for p in net.parameters()]

    def use_then_fail() -> None:
        with ema.swapped():
            assert net.weight[0, 0].item() == pytest.approx(1.8)
            raise RuntimeError("evaluation failed")

    with pytest.raises(RuntimeError):
        use_then_fail()
    for p, kept in zip(net.parameters(), before, strict=True):
        assert torch.equal(p, kept)
    assert float(ema.average["weight"][0, 0]) == pytest.approx(1.8)


def test_state_goes_on_bit_for_bit():
    torch.manual_seed(0)
    net, values = nn.Linear(3, 3), torch.randn(6).tolist()
    straight, first = Ema(net, 0.999), Ema(net, 0.999)
    for value in values[:4]:
        fill(net, value)
        straight.update()
        first.update()
    again = Ema(net, 0.999)
    copy_named(again.named_state(), load(save(first.named_state())), "the saved average")
    for value in values[4:]:
        fill(net, value)
        straight.update()
        again.update()
    assert again.updates == straight.updates
    for name, tensor in straight.average.items():
        assert torch.equal(again.average[name], tensor)


def test_mistakes_are_named():
    with pytest.raises(UserError, match=r"of shape \[3, 3\] \(torch.float32\), but the model needs \[2, 2\]"):
        copy_named(Ema(filled(0.0), 0.9).named_state(), Ema(nn.Linear(3, 3), 0.9).named_state(), "the saved average")
