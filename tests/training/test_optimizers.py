"""The optimizers: which parameters go where, equality with torch, and a state that resumes bit for bit."""

import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load, save
from torch import nn
from torch.distributed.fsdp import fully_shard

from clew.errors import UserError
from clew.training.distributed import copy_named, gather
from clew.training.optimizers import Ema, OptimizerConfig, build_optimizer, matrix_names


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


def train(net: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        tokens = torch.randint(11, (4, 5), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()


MATRICES = {"blocks.0.weight", "blocks.1.weight"}


def test_matrices_are_linears_but_for_embedding_and_head():
    assert matrix_names(make_net()) == MATRICES
    assert matrix_names(make_net(tied=True)) == MATRICES
    assert matrix_names(torch.compile(make_net())) == MATRICES


def test_a_model_names_what_adamw_should_have():
    net = make_net()
    net.adamw_parameters = ("blocks.1.weight",)
    assert matrix_names(net) == {"blocks.0.weight", "head.weight"}


def groups_by_name(net: nn.Module, config: OptimizerConfig) -> dict[str, set[str]]:
    optimizer = build_optimizer(net, config)
    return {group["name"]: {optimizer.names[p] for p in group["params"]} for group in optimizer.param_groups}


def test_every_parameter_is_in_one_group():
    net = make_net()
    vectors = {"query", "norm.weight", "norm.bias", "blocks.0.bias", "blocks.1.bias", "head.bias"}
    outer = {"embedding.weight", "head.weight"}
    assert groups_by_name(net, OptimizerConfig("adamw")) == {
        "adamw-decayed": MATRICES | outer,
        "adamw-plain": vectors,
    }
    assert groups_by_name(net, OptimizerConfig("muon")) == {
        "muon": MATRICES,
        "adamw-decayed": outer,
        "adamw-plain": vectors,
    }
    net.embedding.weight.requires_grad_(False)
    assert groups_by_name(net, OptimizerConfig("muon"))["adamw-decayed"] == {"head.weight"}


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_weight_decay_touches_matrices_only(kind):
    net = make_net()
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    optimizer = build_optimizer(net, OptimizerConfig(kind, lr=0.1, muon_lr=0.1, weight_decay=0.5))
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
    train(ours, build_optimizer(ours, config), range(10))
    train(theirs, reference, range(10))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_set_rates_reaches_every_part():
    optimizer = build_optimizer(make_net(), OptimizerConfig("muon", lr=0.01, muon_lr=0.1))
    optimizer.set_rates(0.5)
    optimizer.set_rates(0.25)
    assert {g["name"]: g["lr"] for each in optimizer.optimizers for g in each.param_groups} == {
        "muon": 0.025,
        "adamw-decayed": 0.0025,
        "adamw-plain": 0.0025,
    }


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize("stop", [0, 3])
def test_resumes_bit_for_bit(kind, stop):
    config = OptimizerConfig(kind, weight_decay=0.01)
    straight = make_net()
    train(straight, build_optimizer(straight, config), range(6))

    net = make_net()
    optimizer = build_optimizer(net, config)
    train(net, optimizer, range(stop))
    saved = save({name: t.contiguous() for name, t in gather(optimizer.named_state()).items()})
    resumed = make_net(seed=1)
    resumed.load_state_dict(net.state_dict())
    again = build_optimizer(resumed, config)
    copy_named(again.named_state(), load(saved), "the saved state")
    train(resumed, again, range(stop, 6))
    for a, b in zip(straight.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


def test_state_names_are_those_of_the_unwrap_model():
    config = OptimizerConfig("muon")
    plain = build_optimizer(make_net(), config).named_state()
    assert "momentum.blocks.0.weight" in plain
    assert "exp_avg.embedding.weight" in plain
    assert build_optimizer(torch.compile(make_net()), config).named_state().keys() == plain.keys()


def test_a_state_that_does_not_fit_is_refused():
    optimizer = build_optimizer(make_net(), OptimizerConfig("muon"))
    state = gather(optimizer.named_state())
    lacking = {name: t for name, t in state.items() if name != "momentum.blocks.0.weight"}
    with pytest.raises(UserError, match=r"lacks 'momentum.blocks.0.weight'"):
        copy_named(optimizer.named_state(), lacking, "the saved state")
    with pytest.raises(UserError, match="has, beyond the model's, 'more'"):
        copy_named(optimizer.named_state(), {**state, "more": torch.zeros(1)}, "the saved state")
    odd = {**state, "momentum.blocks.0.weight": torch.zeros(3, 3)}
    with pytest.raises(UserError, match=r"shape \[3, 3\]"):
        copy_named(optimizer.named_state(), odd, "the saved state")


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_works_with_a_grad_scaler(kind):
    """An infinite gradient skips the step for every part; the next one counts."""
    net = make_net()
    optimizer = build_optimizer(net, OptimizerConfig(kind))
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    before = [p.detach().clone() for p in net.parameters()]
    for factor, changes in ((float("inf"), False), (1.0, True)):
        optimizer.zero_grad()
        scaler.scale(net(torch.arange(5)).square().sum() * factor).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        assert all(not torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True)) is changes


def test_mistakes_are_named():
    for settings, says in (
        ({"kind": "sgd"}, "'sgd' is unknown"),
        ({"lr": -1.0}, "lr is -1.0"),
        ({"beta2": 1.0}, "beta2 is 1.0"),
        ({"weight_decay": float("nan")}, "weight_decay is nan"),
    ):
        with pytest.raises(UserError, match=says):
            OptimizerConfig(**settings)


def sharded_worker(rank: int, folder: str) -> None:
    """Train on 2 processes with FSDP2 from a state that one process saved; rank 0 writes what came out."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    mesh = torch.distributed.init_device_mesh("cpu", (2,))
    for kind in ("adamw", "muon"):
        net = make_net()
        with open(f"{folder}/{kind}-model", "rb") as file:
            net.load_state_dict(load(file.read()))
        fully_shard(net, mesh=mesh)
        optimizer, ema = build_optimizer(net, OptimizerConfig(kind, weight_decay=0.1)), Ema(net)
        with open(f"{folder}/{kind}-optimizer", "rb") as file:
            copy_named(optimizer.named_state(), load(file.read()), "the saved state")
        for step in range(2, 4):
            train(net, optimizer, range(step, step + 1))
            ema.update(net)
        # On every rank, since gathering is collective.
        state = {
            **gather(optimizer.named_state()),
            **gather(ema.named_state()),
            **{name: p.full_tensor() for name, p in net.named_parameters()},
        }
        if rank == 0:
            with open(f"{folder}/{kind}-sharded", "wb") as file:
                file.write(save({name: t.detach().contiguous() for name, t in state.items()}))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    # Not through the interpreter's shutdown: a gloo thread that still holds a tensor then aborts the process.
    os._exit(0)


def test_sharded_is_whole(tmp_path):
    """2 processes with FSDP2 continue from 1 process's state and end with its weights, state and average."""
    expected = {}
    for kind in ("adamw", "muon"):
        net = make_net()
        optimizer = build_optimizer(net, OptimizerConfig(kind, weight_decay=0.1))
        train(net, optimizer, range(2))
        (tmp_path / f"{kind}-model").write_bytes(save(net.state_dict()))
        (tmp_path / f"{kind}-optimizer").write_bytes(save(gather(optimizer.named_state())))
        ema = Ema(net)
        for step in range(2, 4):
            train(net, optimizer, range(step, step + 1))
            ema.update(net)
        parameters = dict(net.named_parameters())
        expected[kind] = {**gather(optimizer.named_state()), **gather(ema.named_state()), **parameters}
    workers = [subprocess.Popen([sys.executable, __file__, str(rank), str(tmp_path)]) for rank in range(2)]
    assert [worker.wait(timeout=900) for worker in workers] == [0, 0]
    for kind, tensors in expected.items():
        sharded = load((tmp_path / f"{kind}-sharded").read_bytes())
        assert sharded.keys() == tensors.keys()
        for name, tensor in tensors.items():
            torch.testing.assert_close(sharded[name], tensor.detach(), atol=1e-6, rtol=1e-5, msg=f"{kind} {name}")


if __name__ == "__main__":
    sharded_worker(int(sys.argv[1]), sys.argv[2])
