"""The average of the weights: its formula, the swap, and its state."""

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from clew.errors import UserError
from clew.training.distributed import copy_named
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
        ema.update(net)
        d = min(0.25, (1 + n) / (10 + n))  # 0.1, 0.18, 0.25, 0.25
        expected = d * expected + (1 - d) * value
        assert float(ema.average["weight"][0, 0]) == pytest.approx(expected)
        assert float(ema.average["bias"][0]) == pytest.approx(expected)


def test_swap_and_back():
    net = filled(0.0)
    ema = Ema(net)
    fill(net, 2.0)
    ema.update(net)
    before = [p.detach().clone() for p in net.parameters()]

    def use_then_fail() -> None:
        with ema.swapped(net):
            assert net.weight[0, 0].item() == pytest.approx(1.8)
            raise RuntimeError("evaluation failed")

    with pytest.raises(RuntimeError):
        use_then_fail()
    for p, kept in zip(net.parameters(), before, strict=True):
        assert torch.equal(p, kept)
    assert float(ema.average["weight"][0, 0]) == pytest.approx(1.8)


def test_state_goes_on_bit_for_bit():
    torch.manual_seed(0)
    nets = [nn.Linear(3, 3) for _ in range(6)]
    straight, first = Ema(nets[0]), Ema(nets[0])
    for net in nets:
        straight.update(net)
    for net in nets[:4]:
        first.update(net)
    again = Ema(nets[5])
    copy_named(again.named_state(), load(save(first.named_state())), "the saved average")
    for net in nets[4:]:
        again.update(net)
    assert again.updates == straight.updates
    for name, tensor in straight.average.items():
        assert torch.equal(again.average[name], tensor)


def test_mistakes_are_named():
    with pytest.raises(UserError, match=r"of shape \[3, 3\] \(torch.float32\), but the model needs \[2, 2\]"):
        copy_named(Ema(filled(0.0)).named_state(), Ema(nn.Linear(3, 3)).named_state(), "the saved average")
