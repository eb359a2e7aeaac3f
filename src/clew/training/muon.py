"""Muon: momentum whose matrices are made orthogonal before they are added, batched over matrices of one shape.

For a weight W of shape [R, C] with gradient G, in each step:

    M <- mu M + (1 - mu) G                               momentum
    N  = mu M + (1 - mu) G                               looked ahead (Nesterov)
    O  = orthogonalize(N)                                nearly U V^T, where N = U S V^T
    W <- (1 - lr decay) W - lr sqrt(max(1, R / C)) O

The factor sqrt(max(1, R / C)) keeps the size of the change in the layer's output, so one learning rate (0.02) serves
all widths. To compare with implementations that match AdamW's RMS by 0.2 sqrt(max(R, C)): for a square matrix of width
d, their rate l is our rate 0.2 sqrt(d) l.

Newton-Schulz steps run in float32 on CPU, where bfloat16 may be a hundred times slower, and in bfloat16 on GPU. Every
process computes the whole update, so all stay the same; sharded parameters are gathered for it.

    Muon(matrices, lr=0.02).step()

It is for the matrices inside the network alone; clew.training.optimizers gives the rest to AdamW.

Shape suffixes: N matrices, R rows, C columns.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from clew.training.named_tensors import shard_like, whole

# The quintic x -> a x + b x^3 + c x^5. Iterated 5 times it brings singular values from 0.002 to 1 (of a matrix of
# norm 1) into [0.68, 1.21]; it does not settle at 1, which training does not need, and so gets there in few steps.
_A, _B, _C = 3.4445, -4.7750, 2.0315


def orthogonalize(x_NRC: Tensor, steps: int = 5) -> Tensor:
    """Matrices with the singular vectors of `x_NRC` and singular values near 1; zero stays zero."""
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
    """Muon for a list of matrices."""

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
        """Change every matrix that has a gradient."""
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
        update_NRC = orthogonalize(torch.stack([whole(x) for x in ahead]), group["steps"])
        updates = [shard_like(update, p) for update, p in zip(update_NRC.unbind(), matrices, strict=True)]
        if group["weight_decay"]:
            torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
        scale = math.sqrt(max(1.0, shape[0] / shape[1]))
        torch._foreach_add_(matrices, updates, alpha=-group["lr"] * scale)
