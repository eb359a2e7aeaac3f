"""Optimizers (AdamW, or Muon for matrices with AdamW for the rest), learning-rate schedules, and averaged weights.

    optimizer = Optimizer(model, OptimizerConfig("muon"))
    optimizer.set_rates(lr_factor(schedule, progress, stride), beta1_at(schedule, progress, stride))     # each step
    optimizer.step()

Schedules are pure functions of `progress`, the share of the budget used when a step begins, and of `stride`, the share
that one step uses: with it, the first step has exactly the first rate and the last step the last. It is 0 for a budget
in minutes.

Shape suffixes: N matrices, R rows, C columns.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from clew.training.config import OptimizerConfig, ScheduleConfig

# The quintic x -> a x + b x^3 + c x^5: 5 iterations bring singular values from 0.002 to 1 into [0.68, 1.21].
_A, _B, _C = 3.4445, -4.7750, 2.0315


def lr_factor(config: ScheduleConfig, progress: float, stride: float = 0.0) -> float:
    """Return the learning rate, as a share of its highest, for a step from `progress` to `progress + stride`."""
    reached = min(progress + stride, 1.0)  # minutes may run over the budget
    if config.kind != "one-cycle" and reached < config.warmup:
        return config.start + (1.0 - config.start) * ((reached - stride) / (config.warmup - stride))
    if config.kind != "constant-then-decay":
        return _cycle(config.warmup, (config.start, 1.0, config.end), progress, stride)
    remaining = min(1.0, (1 - reached) / config.decay) if config.decay else 1.0
    return config.end + (1.0 - config.end) * float(remaining**config.power)


def beta1_at(config: ScheduleConfig, progress: float, stride: float = 0.0) -> float | None:
    """Return AdamW's beta1 for a step from `progress` to `progress + stride`; None if it does not change."""
    # The values are the defaults of torch's OneCycleLR.
    return _cycle(config.warmup, (0.95, 0.85, 0.95), progress, stride) if config.cycle_beta1 else None


def _cycle(warmup: float, values: tuple[float, float, float], progress: float, stride: float) -> float:
    """Return where a step ends on a cosine from the first value to the second in `warmup`, and on to the third."""
    reached = min(progress + stride, 1.0)
    if reached < warmup:
        start, end, share = *values[:2], (reached - stride) / (warmup - stride)
    else:
        start, end, share = *values[1:], (reached - warmup) / (1 - warmup) if warmup < 1 else 0.0
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def orthogonalize(x_NRC: Tensor, steps: int = 5) -> Tensor:
    """Return matrices with the singular vectors of `x_NRC` and singular values near 1; zero stays zero."""
    # On a CPU bfloat16 may be a hundred times slower.
    wide = x_NRC.shape[-2] <= x_NRC.shape[-1]
    x = (x_NRC if wide else x_NRC.mT).to(torch.float32 if x_NRC.device.type == "cpu" else torch.bfloat16)
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = torch.bmm(x, x.mT)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return (x if wide else x.mT).to(x_NRC.dtype)


@torch.no_grad()
def muon_step(
    matrices: Sequence[Tensor], momenta: Sequence[Tensor], lr: float, momentum: float, weight_decay: float, steps: int
) -> None:
    """Update matrices by Muon: momentum that is made orthogonal before it is added, batched over matrices of one shape.

    For a weight W of shape [R, C] with gradient G and momentum M:

        M <- mu M + (1 - mu) G
        O  = orthogonalize(mu M + (1 - mu) G)                Nesterov; nearly U V^T of the singular value decomposition
        W <- (1 - lr decay) W - lr sqrt(max(1, R / C)) O

    The factor keeps the size of the change in the layer's output, so one learning rate (0.02) serves all widths.
    """
    by_shape: dict[torch.Size, list[tuple[Tensor, Tensor, Tensor]]] = defaultdict(list)
    for matrix, mean in zip(matrices, momenta, strict=True):
        if matrix.grad is not None:
            by_shape[matrix.shape].append((matrix, mean, matrix.grad))
    for (rows, columns), same_shape in by_shape.items():
        weights, means, grads = map(list, zip(*same_shape, strict=True))
        torch._foreach_lerp_(means, grads, 1 - momentum)
        ahead = torch._foreach_lerp(grads, means, momentum)
        updates = orthogonalize(torch.stack(ahead), steps).unbind()
        if weight_decay:
            torch._foreach_mul_(weights, 1 - lr * weight_decay)
        torch._foreach_add_(weights, updates, alpha=-lr * math.sqrt(max(1.0, rows / columns)))


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trainable parameters by name, each once (a tied one under its first name)."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def matrix_names(model: nn.Module) -> set[str]:
    """Return the parameters that Muon updates: weights of nn.Linear, but for embeddings and heads.

    A model names other weights for AdamW in the class attribute `adamw_parameters`; without it, a Linear counts as a
    head if it is called `head` or `lm_head`. A head that is tied to an embedding is an embedding.
    """
    linears = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)}
    linears -= {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    left_out = getattr(model, "adamw_parameters", None)
    if left_out is None:
        left_out = [f"{name}.weight" for name, _ in model.named_modules() if name.split(".")[-1] in ("head", "lm_head")]
    return {name for name, p in trainable(model).items() if id(p) in linears and name not in left_out}


class Optimizer:
    """AdamW, or Muon for the matrices and AdamW for the rest; weight decay is for matrices and embeddings only."""

    def __init__(self, model: nn.Module, config: OptimizerConfig) -> None:
        self.config = config
        names = matrix_names(model) if config.kind == "muon" else set()
        self.matrices = {name: p for name, p in trainable(model).items() if name in names}
        self.momentum = {name: torch.zeros_like(p) for name, p in self.matrices.items()}
        self.others = {name: p for name, p in trainable(model).items() if name not in names}
        decayed, plain = list[nn.Parameter](), list[nn.Parameter]()
        for p in self.others.values():
            # A vector may be stored as one row.
            (decayed if p.ndim >= 2 and min(p.shape) > 1 else plain).append(p)
        self.adamw = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": config.weight_decay}, {"params": plain, "weight_decay": 0.0}],
            lr=config.lr,
            betas=(config.beta1, config.beta2),
            eps=config.eps,
            fused=True,  # on CPU too it took under a third of the other forms' time for the 8M model
        )
        for p in self.others.values():  # torch makes these at the first step, but the state must always be complete
            step = torch.zeros((), dtype=torch.float32, device=p.device)
            self.adamw.state[p] = {"step": step, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        self.set_rates(1.0)

    @property
    def lr(self) -> float:
        """The learning rate of the matrices with Muon, and else that of all parameters."""
        return self.factor * (self.config.muon_lr if self.matrices else self.config.lr)

    def set_rates(self, factor: float, beta1: float | None = None) -> None:
        """Set every learning rate to this share of its highest value, and AdamW's beta1 unless it is None."""
        self.factor = factor
        for group in self.adamw.param_groups:
            group["lr"] = self.config.lr * factor
            group["betas"] = (group["betas"][0] if beta1 is None else beta1, self.config.beta2)

    def step(self) -> None:
        c, matrices, momenta = self.config, [*self.matrices.values()], [*self.momentum.values()]
        muon_step(matrices, momenta, c.muon_lr * self.factor, c.muon_momentum, c.weight_decay, c.muon_steps)
        self.adamw.step()

    def named_state(self) -> dict[str, Tensor]:
        """Return the state under "KEY.PARAMETER NAME"; not copies."""
        state = {f"momentum.{name}": momentum for name, momentum in self.momentum.items()}
        for name, p in self.others.items():
            state |= {f"{key}.{name}": value for key, value in self.adamw.state[p].items()}
        return state


class Ema:
    """The moving average of a model's trainable parameters, which forgets the random initial weights early.

    After n updates, average <- d average + (1 - d) weights with d = min(decay, (1 + n) / (10 + n)).
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay, self.updates = decay, torch.tensor(0)
        self.weights = [p.detach() for p in trainable(model).values()]
        self.average = {name: p.detach().clone() for name, p in trainable(model).items()}

    def update(self) -> None:
        decay = min(self.decay, (1 + int(self.updates)) / (10 + int(self.updates)))
        torch._foreach_lerp_([*self.average.values()], self.weights, 1 - decay)
        self.updates += 1

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Give the model the averaged weights within."""
        kept = [weight.clone() for weight in self.weights]
        try:
            torch._foreach_copy_(self.weights, [*self.average.values()])
            yield
        finally:
            torch._foreach_copy_(self.weights, kept)

    def named_state(self) -> dict[str, Tensor]:
        """Return the number of updates, and the averages by parameter name; not copies."""
        return {"updates": self.updates, **{f"average.{name}": tensor for name, tensor in self.average.items()}}
