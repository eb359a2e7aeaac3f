"""The optimizers: which parameters go where, equality with torch, and a state that resumes bit for bit."""

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from clew.errors import UserError
from clew.training.checkpoint import copy_named
from clew.training.config import OptimizerConfig
from clew.training.optimizers import Optimizer, matrix_names


class Net(nn.Module):
    """A bit of everything that a model has."""

    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.query = nn.Parameter(torch.randn(1, 8))
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 11)
        if tied:
            self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens) + self.query
        for block in self.blocks:
            x = x + block(x).relu()
        return self.head(self.norm(x))


def make_net(seed: int = 0, **kwargs) -> Net:
    torch.manual_seed(seed)
    return Net(**kwargs)


def train(net: nn.Module, optimizer: Optimizer, steps: range) -> None:
    for step in steps:
        tokens = torch.randint(11, (4, 5), generator=torch.Generator().manual_seed(step))
        net.zero_grad()
        nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()


MATRICES = {"blocks.0.weight", "blocks.1.weight"}


def test_matrices_are_linears_but_for_embedding_and_head():
    assert matrix_names(make_net()) == MATRICES
    assert matrix_names(make_net(tied=True)) == MATRICES


def test_a_model_names_what_adamw_should_have():
    net = make_net()
    net.adamw_parameters = ("blocks.1.weight",)
    assert matrix_names(net) == {"blocks.0.weight", "head.weight"}


def groups_of(net: nn.Module, config: OptimizerConfig) -> list[set[str]]:
    """The matrices of Muon, and AdamW's parameters with and without weight decay."""
    optimizer = Optimizer(net, config)
    names = {p: name for name, p in net.named_parameters()}
    return [{*optimizer.matrices}, *({names[p] for p in group["params"]} for group in optimizer.adamw.param_groups)]


def test_every_parameter_is_in_one_group():
    net = make_net()
    vectors = {"query", "norm.weight", "norm.bias", "blocks.0.bias", "blocks.1.bias", "head.bias"}
    outer = {"embedding.weight", "head.weight"}
    assert groups_of(net, OptimizerConfig("adamw")) == [set(), MATRICES | outer, vectors]
    assert groups_of(net, OptimizerConfig("muon")) == [MATRICES, outer, vectors]
    net.embedding.weight.requires_grad_(False)
    assert groups_of(net, OptimizerConfig("muon"))[1] == {"head.weight"}


def test_set_rates_reaches_every_part():
    net = make_net()
    optimizer = Optimizer(net, OptimizerConfig("muon", lr=0.01, muon_lr=0.1))
    optimizer.set_rates(0.5)
    optimizer.set_rates(0.25)
    assert optimizer.lr == 0.025
    assert [group["lr"] for group in optimizer.adamw.param_groups] == [0.0025, 0.0025]
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    before = net.blocks[0].weight.detach().clone()
    optimizer.step()
    moved = float((net.blocks[0].weight.detach() - before).norm())
    assert moved == pytest.approx(0.025, rel=0.4)  # the gradient has rank one


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_weight_decay_touches_matrices_only(kind):
    net = make_net()
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    optimizer = Optimizer(net, OptimizerConfig(kind, lr=0.1, muon_lr=0.1, weight_decay=0.5))
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for name, p in net.named_parameters():
        matrix = name in MATRICES | {"embedding.weight", "head.weight"}
        torch.testing.assert_close(p.detach(), before[name] * (0.95 if matrix else 1.0), msg=name)


def test_adamw_is_torchs():
    config = OptimizerConfig(lr=3e-3, beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0.1)
    ours, theirs = make_net(), make_net()
    matrices = [p for p in theirs.parameters() if p.ndim == 2 and len(p) > 1]
    vectors = [p for p in theirs.parameters() if not (p.ndim == 2 and len(p) > 1)]
    reference = torch.optim.AdamW(
        [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}],
        lr=3e-3,
        betas=(0.8, 0.95),
        eps=1e-6,
        weight_decay=0.1,
        foreach=False,
    )
    train(ours, Optimizer(ours, config), range(10))
    train(theirs, reference, range(10))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize("stop", [0, 3])
def test_resumes_bit_for_bit(kind, stop):
    config = OptimizerConfig(kind, weight_decay=0.01)
    straight = make_net()
    train(straight, Optimizer(straight, config), range(6))

    net = make_net()
    optimizer = Optimizer(net, config)
    train(net, optimizer, range(stop))
    saved = save({name: t.contiguous() for name, t in optimizer.named_state().items()})
    resumed = make_net(seed=1)
    resumed.load_state_dict(net.state_dict())
    again = Optimizer(resumed, config)
    copy_named(again.named_state(), load(saved), "the saved state")
    train(resumed, again, range(stop, 6))
    for a, b in zip(straight.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_state_is_named_by_parameter():
    plain = Optimizer(make_net(), OptimizerConfig("muon")).named_state()
    assert "momentum.blocks.0.weight" in plain
    assert "exp_avg.embedding.weight" in plain


def test_a_state_that_does_not_fit_is_refused():
    optimizer = Optimizer(make_net(), OptimizerConfig("muon"))
    state = optimizer.named_state()
    lacking = {name: t for name, t in state.items() if name != "momentum.blocks.0.weight"}
    with pytest.raises(UserError, match=r"lacks 'momentum.blocks.0.weight'"):
        copy_named(optimizer.named_state(), lacking, "the saved state")
    with pytest.raises(UserError, match="has, beyond the model's, 'more'"):
        copy_named(optimizer.named_state(), {**state, "more": torch.zeros(1)}, "the saved state")
    odd = {**state, "momentum.blocks.0.weight": torch.zeros(3, 3)}
    with pytest.raises(UserError, match=r"shape \[3, 3\]"):
        copy_named(optimizer.named_state(), odd, "the saved state")


def test_mistakes_are_named():
    for settings, says in (
        ({"kind": "sgd"}, "'sgd' is unknown"),
        ({"lr": -1.0}, "lr is -1.0"),
        ({"beta2": 1.0}, "beta2 is 1.0"),
        ({"weight_decay": float("nan")}, "weight_decay is nan"),
    ):
        with pytest.raises(UserError, match=says):
            OptimizerConfig(**settings)
