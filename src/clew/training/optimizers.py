"""Optimizers (AdamW, or Muon for matrices with AdamW for the rest), learning-rate schedules, and averaged weights.

    optimizer = build_optimizer(model, OptimizerConfig("muon"))
    optimizer.set_rates(lr_factor(schedule, progress, stride), beta1_at(schedule, progress, stride))     # each step
    optimizer.step()

Weight decay applies to matrices only (embeddings count, vectors and biases do not). Both kinds work under DDP and with
parameters sharded by FSDP2, which are gathered for Muon.

Schedules are pure functions of `progress`, the share of the budget used when a step begins, and of `stride`, the share
that one step uses. The stride makes the first step start exactly at the bottom of the warm-up and the last one end
exactly at the final rate; with a budget in minutes, where the number of steps is not known, it is 0.

Shape suffixes: N matrices, R rows, C columns.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from clew.training.config import OptimizerConfig, ScheduleConfig
from clew.training.distributed import full_tensor, named_parameters, shard_like, unwrap_model

# The quintic x -> a x + b x^3 + c x^5. Iterated 5 times it brings singular values from 0.002 to 1 (of a matrix of
# norm 1) into [0.68, 1.21]; it does not settle at 1, which training does not need, and so gets there in few steps.
_A, _B, _C = 3.4445, -4.7750, 2.0315
BETA1_HIGH, BETA1_LOW = 0.95, 0.85  # the defaults of torch's OneCycleLR


def lr_factor(config: ScheduleConfig, progress: float, stride: float = 0.0) -> float:
    """Return the learning rate, as a share of its highest, for a step from `progress` to `progress + stride`."""
    if config.kind == "one-cycle":
        return _cycle(config.warmup, (config.start, 1.0, config.end), progress, stride)
    # Where the step ends, so that the last step has the final rate. Minutes may run over the budget.
    reached = min(progress + stride, 1.0)
    if reached < config.warmup:
        return config.start + (1.0 - config.start) * ((reached - stride) / (config.warmup - stride))
    if config.kind == "cosine":
        return _cycle(config.warmup, (config.start, 1.0, config.end), progress, stride)
    remaining = min(1.0, (1 - reached) / config.decay) if config.decay else 1.0
    return config.end + (1.0 - config.end) * float(remaining**config.power)


def beta1_at(config: ScheduleConfig, progress: float, stride: float = 0.0) -> float | None:
    """Return AdamW's beta1 for a step from `progress` to `progress + stride`; None if it does not change."""
    values = (BETA1_HIGH, BETA1_LOW, BETA1_HIGH)
    return _cycle(config.warmup, values, progress, stride) if config.cycle_beta1 else None


def _cycle(warmup: float, values: tuple[float, float, float], progress: float, stride: float) -> float:
    """Return where a step ends on a cosine from the first value to the second in `warmup`, and on to the third."""
    reached = min(progress + stride, 1.0)
    if reached < warmup:
        start, end, share = *values[:2], (reached - stride) / (warmup - stride)
    else:
        start, end, share = *values[1:], (reached - warmup) / (1 - warmup) if warmup < 1 else 0.0
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


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
        for p in (p for group in self.param_groups for p in group["params"]):
            assert p.ndim == 2, "Muon is for matrices"
            self.state[p]["momentum"] = torch.zeros_like(p)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    by_shape[tuple(p.shape)].append(p)
            for (rows, columns), matrices in by_shape.items():
                grads = [p.grad for p in matrices if p.grad is not None]
                momenta = [self.state[p]["momentum"] for p in matrices]
                torch._foreach_lerp_(momenta, grads, 1 - group["momentum"])
                ahead = torch._foreach_lerp(grads, momenta, group["momentum"])
                update_NRC = orthogonalize(torch.stack([full_tensor(x) for x in ahead]), group["steps"])
                updates = [shard_like(update, p) for update, p in zip(update_NRC.unbind(), matrices, strict=True)]
                if group["weight_decay"]:
                    torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(matrices, updates, alpha=-group["lr"] * math.sqrt(max(1.0, rows / columns)))


class NamedOptimizer(torch.optim.Optimizer):
    """One or two torch optimizers as one, whose `param_groups` have their highest learning rate as "base_lr"."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer], names: dict[nn.Parameter, str]) -> None:
        # Their dicts, not copies: a learning rate set here is set there, and so is what is loaded.
        super().__init__([group for optimizer in optimizers for group in optimizer.param_groups], {})
        for optimizer in optimizers:
            self.state.update(optimizer.state)
        for group in self.param_groups:
            group["base_lr"] = group["lr"]
        self.optimizers, self.names = optimizers, names

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for optimizer in self.optimizers:
            optimizer.step()

    def set_rates(self, factor: float, beta1: float | None = None) -> None:
        """Set every learning rate to this share of its highest value, and AdamW's beta1 unless it is None."""
        for group in self.param_groups:
            group["lr"] = group["base_lr"] * factor
            if beta1 is not None and "betas" in group:
                group["betas"] = (beta1, group["betas"][1])

    def named_state(self) -> dict[str, Tensor]:
        """Return the state under "KEY.PARAMETER NAME"; not copies, and perhaps sharded."""
        return {f"{key}.{name}": value for p, name in self.names.items() for key, value in self.state[p].items()}


def matrix_names(model: nn.Module) -> set[str]:
    """Return the parameters that Muon updates: weights of nn.Linear, but for embeddings and heads.

    A model names other weights for AdamW in the class attribute `adamw_parameters`; without it, a Linear counts as a
    head if it is called `head` or `lm_head`. A head that is tied to an embedding is an embedding.
    """
    model = unwrap_model(model)
    linears = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    linears -= {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    left_out = getattr(model, "adamw_parameters", None)
    if left_out is None:
        left_out = [f"{name}.weight" for name, _ in model.named_modules() if name.split(".")[-1] in ("head", "lm_head")]
    return {name for name, p in named_parameters(model) if id(p) in linears and name not in left_out}


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> NamedOptimizer:
    """Return the optimizer of a model's trainable parameters, its state all zeros."""
    names = {parameter: name for name, parameter in named_parameters(model)}
    matrices = matrix_names(model) if config.kind == "muon" else set()
    groups: dict[str, list[nn.Parameter]] = {"muon": [], "adamw-decayed": [], "adamw-plain": []}
    for p, name in names.items():
        decays = p.ndim >= 2 and min(p.shape) > 1  # not a vector that is stored as one row
        groups["muon" if name in matrices else "adamw-decayed" if decays else "adamw-plain"].append(p)
    optimizers: list[torch.optim.Optimizer] = []
    if groups["muon"]:
        muon = [{"params": groups["muon"], "name": "muon"}]
        optimizers.append(Muon(muon, config.muon_lr, config.muon_momentum, config.weight_decay, config.muon_steps))
    adamw_groups: list[dict[str, Any]] = [
        {"params": groups[name], "name": name, "weight_decay": decay}
        for name, decay in (("adamw-decayed", config.weight_decay), ("adamw-plain", 0.0))
        if groups[name]
    ]
    if adamw_groups:
        betas = (config.beta1, config.beta2)
        # Fused: on CPU too it took under a third of the other forms' time for the 8M model.
        adamw = torch.optim.AdamW(adamw_groups, lr=config.lr, betas=betas, eps=config.eps, fused=True)
        for p in (p for group in adamw_groups for p in group["params"]):
            # torch makes these at the first step; made now, a saved state is always complete.
            step = torch.zeros((), dtype=torch.float32, device=p.device)
            adamw.state[p] = {"step": step, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        optimizers.append(adamw)
    return NamedOptimizer(optimizers, names)


class Ema:
    """The moving average of a model's trainable parameters.

    After n updates, average <- d average + (1 - d) weights with d = min(decay, (1 + n) / (10 + n)), so that the random
    initial weights are forgotten early.
    """

    def __init__(self, model: nn.Module, decay: float = 0.999) -> None:
        self.decay = decay
        self.updates = torch.tensor(0)
        self.average = {name: p.detach().clone() for name, p in named_parameters(model)}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        updates = int(self.updates)
        decay = min(self.decay, (1 + updates) / (10 + updates))
        weights = dict(named_parameters(model))
        torch._foreach_lerp_(list(self.average.values()), [weights[name] for name in self.average], 1 - decay)
        self.updates += 1

    @contextmanager
    def swapped(self, model: nn.Module) -> Iterator[None]:
        """Give the model the averaged weights within."""
        weights = dict(named_parameters(model))
        kept = {name: p.detach().clone() for name, p in weights.items()}
        try:
            for name, p in weights.items():
                p.data.copy_(self.average[name])
            yield
        finally:
            for name, p in weights.items():
                p.data.copy_(kept[name])

    def named_state(self) -> dict[str, Tensor]:
        """Return the number of updates, and the average under "average.PARAMETER NAME"; perhaps sharded."""
        return {"updates": self.updates, **{f"average.{name}": tensor for name, tensor in self.average.items()}}
