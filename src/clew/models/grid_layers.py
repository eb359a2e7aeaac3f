"""The layers of the models that read a maze as cells: layer norm, QK-norm, squared ReLU, no biases.

Every output projection begins at zero, so that a fresh block passes its input through unchanged.

Shape suffixes: B mazes, N cells, Q queries, D width, H heads, E head dimension, F hidden width.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.models.kernels import NORM_EPS, norm_rows, norm_rows_back, over_rows

STEP_PERIOD = 1000.0  # of the slowest wave of sincos, in units of 2 pi steps
ROPE_BASE = 100.0  # of the axial RoPE: wave lengths from 2 pi to some hundred cells


def norm(x: Tensor) -> Tensor:
    """Layer norm without weights: the linear map that follows can carry them."""
    if x.device.type != "cpu" or x.dtype not in (torch.float32, torch.float64):
        return plain_norm(x)
    normed: Tensor = NormFunction.apply(x)  # type: ignore[no-untyped-call]
    return normed


def plain_norm(x: Tensor) -> Tensor:
    """What NormFunction computes, by torch."""
    return F.layer_norm(x, x.shape[-1:], eps=NORM_EPS)


class NormFunction(torch.autograd.Function):
    """The norm on a CPU, where torch's takes five times as long for vectors as short as ours."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x_RD = x.reshape(-1, x.shape[-1]).contiguous()
        normed_RD, scale_R = x_RD.new_empty(x_RD.shape), x_RD.new_empty(len(x_RD))
        over_rows(norm_rows, x_RD.detach(), normed_RD, scale_R)
        ctx.save_for_backward(normed_RD, scale_R)
        return normed_RD.view(x.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        normed_RD, scale_R = ctx.saved_tensors
        grad_RD, grad_x_RD = grads[0].reshape(normed_RD.shape).contiguous(), torch.zeros_like(normed_RD)
        over_rows(norm_rows_back, normed_RD, scale_R, grad_RD, grad_x_RD)
        return grad_x_RD.view(grads[0].shape)


def sincos(step: Tensor, width: int) -> Tensor:
    """Waves of `width` / 2 speeds at these steps, in float32: [..., width]."""
    speed = STEP_PERIOD ** -torch.linspace(0, 1, width // 2, device=step.device)
    angle = step[..., None].float() * speed
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def axial_rope(height: int, width: int, head_dim: int, device: torch.device) -> Tensor:
    """Cosine and sine of each cell's angles, [2, N, head_dim / 2]: half turns by the row, half by the column."""
    quarter = head_dim // 4
    speed = ROPE_BASE ** -(torch.arange(quarter, device=device).float() / quarter)
    row, col = torch.meshgrid(
        torch.arange(height, device=device).float(), torch.arange(width, device=device).float(), indexing="ij"
    )
    angle = torch.cat([row.reshape(-1, 1) * speed, col.reshape(-1, 1) * speed], dim=1)
    return torch.stack([angle.cos(), angle.sin()])


def rotate(x_BHNE: Tensor, rope: Tensor) -> Tensor:
    """Turn the pairs (first half, second half) of each head by the cell's angles, in float32."""
    cos, sin = rope
    a, b = x_BHNE.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1).to(x_BHNE.dtype)


class Attention(nn.Module):
    """Attention of some vectors to others, with QK-norm and, where angles are given, RoPE."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        # QK-norm bounds the scores; this lets each head be as sharp as it needs.
        self.sharpness = nn.Parameter(torch.full((heads, 1, 1), 4.0))
        nn.init.zeros_(self.out.weight)

    def forward(
        self, to_BQD: Tensor, from_BND: Tensor, rope_to: Tensor | None = None, rope_from: Tensor | None = None
    ) -> Tensor:
        q_BHQE = self.queries(to_BQD).transpose(1, 2)
        k_BHNE, v_BHNE = self.keys_and_values(from_BND)
        if rope_to is not None:
            q_BHQE = rotate(q_BHQE, rope_to)
        if rope_from is not None:
            k_BHNE = rotate(k_BHNE, rope_from)
        out_BQD: Tensor = self.out(attend(q_BHQE, k_BHNE, v_BHNE))
        return out_BQD

    def queries(self, to_D: Tensor) -> Tensor:
        """[..., H, E]"""
        return norm(self._split(self.query(to_D))) * self.sharpness.view(-1, 1)

    def keys_and_values(self, from_BND: Tensor) -> tuple[Tensor, Tensor]:
        """Twice [B, H, N, E]; normed before it is turned, as the norm wants what lies side by side."""
        return norm(self._split(self.key(from_BND))).transpose(1, 2), self._split(self.value(from_BND)).transpose(1, 2)

    def _split(self, x_D: Tensor) -> Tensor:
        return x_D.view(*x_D.shape[:-1], self.heads, x_D.shape[-1] // self.heads)


def attend(q_BHQE: Tensor, k_BHNE: Tensor, v_BHNE: Tensor, causal: bool = False) -> Tensor:
    """What each query finds: [B, Q, D]."""
    scale = q_BHQE.shape[-1] ** -0.5
    return (
        F.scaled_dot_product_attention(q_BHQE, k_BHNE, v_BHNE, is_causal=causal, scale=scale).transpose(1, 2).flatten(2)
    )


class FeedForward(nn.Module):
    """Two linear maps with a squared ReLU between them."""

    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, expansion * width, bias=False)
        self.down = nn.Linear(expansion * width, width, bias=False)
        nn.init.zeros_(self.down.weight)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.relu(self.up(x)).square())
        return out
