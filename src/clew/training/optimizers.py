"""Optimizers: AdamW, or Muon for the matrices and AdamW for the rest; and the average of the weights.

    optimizer = build_optimizer(model, OptimizerConfig("muon"))
    optimizer.scale_lr(lr_factor(schedule, progress))        # each step
    optimizer.step()
    save_file(optimizer.state_tensors(), path)               # flat tensors by parameter name: no pickle
    optimizer.load_state_tensors(load_file(path))            # continues bit for bit

Weight decay applies to matrices only (embeddings count, vectors and biases do not). Both kinds work under DDP, where
every process does the same, and with parameters sharded by FSDP2, which are gathered for Muon. AdamW is fused: on CPU
too it took under a third of the other forms' time for the 8M model.

Shape suffixes: N matrices, R rows, C columns.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from clew.errors import UserError
from clew.training.distributed import (
    copy_named,
    full_tensor,
    named_parameters,
    shard_like,
    unwrap_model,
)

# The quintic x -> a x + b x^3 + c x^5. Iterated 5 times it brings singular values from 0.002 to 1 (of a matrix of
# norm 1) into [0.68, 1.21]; it does not settle at 1, which training does not need, and so gets there in few steps.
_A, _B, _C = 3.4445, -4.7750, 2.0315


def orthogonalize(x_NRC: Tensor, steps: int = 5) -> Tensor:
    """Return matrices with the singular vectors of `x_NRC` and singular values near 1; zero stays zero.

    Runs in float32 on CPU, where bfloat16 may be a hundred times slower, and in bfloat16 on GPU.
    """
    dtype = x_NRC.dtype
    x = x_NRC.to(torch.float32 if x_NRC.device.type == "cpu" else torch.bfloat16)
    wide = x.shape[-2] <= x.shape[-1]
    if not wide:
        x = x.mT  # the products below are over the shorter side
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return (x if wide else x.mT).to(dtype)


class Muon(torch.optim.Optimizer):
    """Momentum whose matrices are made orthogonal before they are added, batched over matrices of one shape.

    For a weight W of shape [R, C] with gradient G, in each step:

        M <- mu M + (1 - mu) G                               momentum
        O  = orthogonalize(mu M + (1 - mu) G)                Nesterov; nearly U V^T of the singular value decomposition
        W <- (1 - lr decay) W - lr sqrt(max(1, R / C)) O

    The factor keeps the size of the change in the layer's output, so one learning rate (0.02) serves all widths. A
    rate l of implementations that match AdamW's RMS by 0.2 sqrt(max(R, C)) is 0.2 sqrt(d) l here, for width d.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        steps: int = 5,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "steps": steps})
        for group in self.param_groups:
            for p in group["params"]:
                assert p.ndim == 2, "Muon is for matrices"
                self.state[p]["momentum"] = torch.zeros_like(p)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every matrix that has a gradient."""
        assert closure is None, "the loop computes gradients itself"
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    by_shape[tuple(p.shape)].append(p)
            for shape, matrices in by_shape.items():
                self._step_shape(shape, matrices, group)

    def _step_shape(self, shape: tuple[int, ...], matrices: list[Tensor], group: dict[str, Any]) -> None:
        grads = [p.grad for p in matrices if p.grad is not None]
        momenta = [self.state[p]["momentum"] for p in matrices]
        torch._foreach_lerp_(momenta, grads, 1 - group["momentum"])
        ahead = torch._foreach_lerp(grads, momenta, group["momentum"])
        update_NRC = orthogonalize(torch.stack([full_tensor(x) for x in ahead]), group["steps"])
        updates = [shard_like(update, p) for update, p in zip(update_NRC.unbind(), matrices, strict=True)]
        if group["weight_decay"]:
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
        scale = math.sqrt(max(1.0, shape[0] / shape[1]))
        torch._foreach_add_(matrices, updates, alpha=-group["lr"] * scale)


_UPDATES = "updates"  # cannot be a parameter's name below, since those have a prefix
_AVERAGE = "average."


class Ema:
    """The moving average of a model's trainable parameters.

        ema.update(model)                  # after each optimizer step
        with ema.swapped(model):           # evaluate with the average; the weights come back unchanged
            evaluate(model)

    After n updates, average <- d average + (1 - d) weights with d = min(decay, (1 + n) / (10 + n)), so that the random
    initial weights are forgotten early.
    """

    def __init__(self, model: nn.Module, decay: float = 0.999) -> None:
        if not 0 <= decay < 1:
            raise UserError(f"the decay of the weights' average is {decay}: use a number from 0 to just below 1.")
        self.decay = decay
        self.updates = 0
        self.average = {name: p.detach().clone() for name, p in named_parameters(model)}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Add the model's weights after a step."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        weights = dict(named_parameters(model))
        assert weights.keys() == self.average.keys(), "the same model at every update"
        torch._foreach_lerp_(list(self.average.values()), [weights[name] for name in self.average], 1 - decay)
        self.updates += 1

    @contextmanager
    def swapped(self, model: nn.Module) -> Iterator[None]:
        """Give the model the averaged weights within."""
        weights = dict(named_parameters(model))
        kept = {name: p.detach().clone() for name, p in weights.items()}
        try:
            _copy_all(self.average, weights)
            yield
        finally:
            _copy_all(kept, weights)

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the average and the number of updates; shards are gathered, so every rank must call this."""
        averages = {_AVERAGE + name: full_tensor(tensor) for name, tensor in self.average.items()}
        return {_UPDATES: torch.tensor(self.updates), **averages}

    def load_state_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `state_tensors` returned."""
        updates = torch.tensor(self.updates)
        own = {_UPDATES: updates, **{_AVERAGE + name: tensor for name, tensor in self.average.items()}}
        copy_named(own, tensors, "the saved average of the weights")
        self.updates = int(updates)


@torch.no_grad()
def _copy_all(source: dict[str, Tensor], target: dict[str, nn.Parameter]) -> None:
    for name, tensor in source.items():
        target[name].copy_(tensor)


OptimizerKind = Literal["adamw", "muon"]


@dataclass(frozen=True)
class OptimizerConfig:
    """The optimizer and its settings; the defaults are those of the paper's text for MLM-U."""

    kind: OptimizerKind = "adamw"  # adamw, or muon for matrices with adamw for the rest
    # The highest learning rate of the schedule, for the parameters of AdamW.
    lr: float = 1e-3
    beta1: float = 0.9  # AdamW's decay of the mean gradient
    beta2: float = 0.999  # AdamW's decay of the squared gradient
    eps: float = 1e-8  # AdamW's constant in the denominator
    # The weight decay, of matrices only.
    weight_decay: float = 0.0
    # With kind "muon": the highest learning rate of the matrices.
    muon_lr: float = 0.02
    muon_momentum: float = 0.95  # the momentum of Muon
    muon_steps: int = 5  # Newton-Schulz steps of Muon

    def __post_init__(self) -> None:
        if self.kind not in get_args(OptimizerKind):
            raise UserError(f"optimizer {self.kind!r} is unknown: use one of {', '.join(get_args(OptimizerKind))}.")
        for name, low, high in (
            ("lr", 0.0, 10.0),
            ("beta1", 0.0, 0.99999),
            ("beta2", 0.0, 0.99999),
            ("eps", 1e-20, 1.0),
            ("weight_decay", 0.0, 10.0),
            ("muon_lr", 0.0, 10.0),
            ("muon_momentum", 0.0, 0.99999),
            ("muon_steps", 1, 100),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise UserError(f"the optimizer's {name} is {value!r}: use a number from {low} to {high}.")
        if not isinstance(self.muon_steps, int):
            raise UserError(f"the optimizer's muon_steps is {self.muon_steps!r}: use a whole number.")


class NamedOptimizer(torch.optim.Optimizer):
    """One or two torch optimizers as one, with its state as flat tensors by parameter name.

    `param_groups` are those of the parts; each has its highest learning rate as "base_lr".
    """

    def __init__(self, parts: Sequence[torch.optim.Optimizer], names: dict[nn.Parameter, str]) -> None:
        # The dicts of the parts, not copies: a learning rate set here is set there, and so is what is loaded.
        super().__init__([group for part in parts for group in part.param_groups], {})
        for part in parts:
            self.state.update(part.state)
        for group in self.param_groups:
            group["base_lr"] = group["lr"]
        self.parts, self.names = parts, names

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the parameters that have gradients."""
        assert closure is None, "the loop computes gradients itself"
        for part in self.parts:
            part.step()

    def scale_lr(self, factor: float) -> None:
        """Set every learning rate to this share of its highest value."""
        for group in self.param_groups:
            group["lr"] = group["base_lr"] * factor

    def set_beta1(self, beta1: float | None) -> None:
        """Set beta1 of AdamW; None leaves it as it is."""
        for group in self.param_groups:
            if beta1 is not None and "betas" in group:
                group["betas"] = (beta1, group["betas"][1])

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the state as tensors under "KEY.PARAMETER NAME"; not copies, so save them before the next step.

        Sharded state is gathered, so every rank must call this.
        """
        return {key: full_tensor(value).detach() for key, value in self._named_state().items()}

    def load_state_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `state_tensors` returned, whether it was sharded or not."""
        copy_named(self._named_state(), tensors, "the saved optimizer state")

    def _named_state(self) -> dict[str, Tensor]:
        return {
            f"{key}.{name}": value
            for parameter, name in self.names.items()
            for key, value in self.state[parameter].items()
        }


def matrix_names(model: nn.Module) -> set[str]:
    """Return the parameters that Muon updates: weights of nn.Linear, but for embeddings and heads.

    A model names other weights for AdamW in the class attribute `adamw_parameters`; without it, a Linear counts as a
    head if it is called `head` or `lm_head`. A head that is tied to an embedding is an embedding.
    """
    model = unwrap_model(model)
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    named_by_model = getattr(model, "adamw_parameters", None)
    if named_by_model is not None:
        left_out = set(named_by_model)
    else:
        left_out = {f"{name}.weight" for name, _ in model.named_modules() if name.split(".")[-1] in ("head", "lm_head")}
    linears = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    return {
        name
        for name, parameter in named_parameters(model)
        if id(parameter) in linears and id(parameter) not in embeddings and name not in left_out
    }


def _decays(parameter: nn.Parameter) -> bool:
    """Return whether weight decay applies: to matrices, but not to a vector stored as one row."""
    return parameter.ndim >= 2 and min(parameter.shape) > 1


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> NamedOptimizer:
    """Return the optimizer of a model's trainable parameters, its state all zeros."""
    names = {parameter: name for name, parameter in named_parameters(model)}
    matrices = matrix_names(model) if config.kind == "muon" else set()
    groups: dict[str, list[nn.Parameter]] = {"muon": [], "adamw-decayed": [], "adamw-plain": []}
    for parameter, name in names.items():
        kind = "muon" if name in matrices else "adamw-decayed" if _decays(parameter) else "adamw-plain"
        groups[kind].append(parameter)

    parts: list[torch.optim.Optimizer] = []
    if groups["muon"]:
        part = Muon(
            [{"params": groups["muon"], "name": "muon"}],
            config.muon_lr,
            config.muon_momentum,
            config.weight_decay,
            config.muon_steps,
        )
        parts.append(part)
    adamw_groups: list[dict[str, Any]] = [
        {"params": groups[name], "name": name, "weight_decay": decay}
        for name, decay in (("adamw-decayed", config.weight_decay), ("adamw-plain", 0.0))
        if groups[name]
    ]
    if adamw_groups:
        adamw = torch.optim.AdamW(
            adamw_groups, lr=config.lr, betas=(config.beta1, config.beta2), eps=config.eps, fused=True
        )
        for group in adamw_groups:
            for p in group["params"]:
                # torch makes these at the first step; made now, a saved state is always complete.
                adamw.state[p] = {
                    "step": torch.zeros((), dtype=torch.float32, device=p.device),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }
        parts.append(adamw)
    return NamedOptimizer(parts, names)
