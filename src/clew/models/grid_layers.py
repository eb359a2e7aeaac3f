"""The layers of the models that read a maze as cells: RMSNorm, QK-norm, squared ReLU, no biases.

Every output projection begins at zero, so that a fresh block passes its input through unchanged.

Shape suffixes: B mazes, N cells, Q queries, D width, H heads, E head dimension, F hidden width.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.mazes.maze import EAST, NORTH, SOUTH, WEST

STEP_PERIOD = 1000.0  # of the slowest wave of sincos, in units of 2 pi steps
NORM_EPS = 1e-5
ROPE_BASE = 100.0  # of the axial RoPE: wave lengths from 2 pi to some hundred cells


def norm(x: Tensor) -> Tensor:
    """Layer norm without weights: the linear map that follows can carry them. One kernel, unlike RMSNorm on CPU."""
    return F.layer_norm(x, x.shape[-1:], eps=NORM_EPS)


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
        def split(x: Tensor) -> Tensor:
            return x.view(*x.shape[:2], self.heads, x.shape[2] // self.heads).transpose(1, 2)

        q, k, v = norm(split(self.query(to_BQD))), norm(split(self.key(from_BND))), split(self.value(from_BND))
        if rope_to is not None:
            q = rotate(q, rope_to)
        if rope_from is not None:
            k = rotate(k, rope_from)
        mixed = F.scaled_dot_product_attention(q * self.sharpness, k, v, scale=q.shape[-1] ** -0.5)
        out_BQD: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out_BQD


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


def open_masks(cells_BHW: Tensor) -> Tensor:
    """For north, south, west, east: 1 where the cell is open to that side, else 0. [4, B, N, 1]"""
    sides = torch.tensor([NORTH, SOUTH, WEST, EAST], device=cells_BHW.device, dtype=torch.uint8)
    return ((cells_BHW.flatten(1)[None] & sides[:, None, None]) != 0)[..., None]


def hear(x_BND: Tensor, open_4BN1: Tensor, width: int) -> Tensor:
    """Each cell's own vector and those of its four neighbours, zero where the way is closed: [B, N, 5 D].

    Cells lie row after row, so the neighbour to a side is the same array moved by one cell or by one row; what
    wraps around an edge is masked, since no border cell is open to the outside.
    """
    d = x_BND.shape[-1]
    out = x_BND.new_zeros(*x_BND.shape[:2], 5 * d)
    out[..., :d] = x_BND
    for side, move in enumerate(_moves(width), start=1):
        here, there = _moved(move)
        torch.mul(x_BND[:, there], open_4BN1[side - 1][:, here], out=out[:, here, side * d : (side + 1) * d])
    return out


def unhear(grad_BND5: Tensor, open_4BN1: Tensor, width: int) -> Tensor:
    """The gradient that `hear` passes back: [B, N, 5 D] -> [B, N, D]."""
    d = grad_BND5.shape[-1] // 5
    total = grad_BND5[..., :d].clone()
    for side, move in enumerate(_moves(width), start=1):
        here, there = _moved(move)
        total[:, there].addcmul_(grad_BND5[:, here, side * d : (side + 1) * d], open_4BN1[side - 1][:, here])
    return total


def _moves(width: int) -> tuple[int, int, int, int]:
    """How far the neighbour to the north, south, west and east is, in cells."""
    return -width, width, -1, 1


def _moved(move: int) -> tuple[slice, slice]:
    """The cells that have a cell `move` places on, and those cells."""
    if move > 0:
        return slice(0, -move), slice(move, None)
    return slice(-move, None), slice(0, move)


class PassageStepFunction(torch.autograd.Function):
    """x + think(relu(hear(norm(x)))^2), with a backward pass written by hand.

    A cell's vector is short, so most of a step's time would go into reading and writing arrays rather than into
    products. By hand the step touches them half as often as autograd does, and keeps only its input and the hidden
    layer. `plain_passage_step` is the same in plain torch, for the tests.
    """

    @staticmethod
    def forward(ctx: Any, x_BND: Tensor, open_4BN1: Tensor, width: int, hear_FD: Tensor, think_DF: Tensor) -> Tensor:
        d = x_BND.shape[-1]
        normed, mean, rstd = torch.native_layer_norm(x_BND, [d], None, None, NORM_EPS)
        heard = hear(normed, open_4BN1, width).view(-1, 5 * d)
        hidden = torch.relu_(heard @ hear_FD.T)
        ctx.save_for_backward(x_BND, open_4BN1, hear_FD, think_DF, mean, rstd, hidden)
        ctx.width = width
        return torch.addmm(x_BND.reshape(-1, d), hidden.square(), think_DF.T).view_as(x_BND)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x_BND, open_4BN1, hear_FD, think_DF, mean, rstd, hidden = ctx.saved_tensors
        d = x_BND.shape[-1]
        grad = grads[0].reshape(-1, d)
        grad_think = grad.T @ hidden.square()
        grad_hidden = (grad @ think_DF).mul_(hidden).mul_(2)
        # Made again rather than kept: five times the size of the input, and quick to make.
        normed = torch.native_layer_norm(x_BND, [d], None, None, NORM_EPS)[0]
        heard = hear(normed, open_4BN1, ctx.width).view(-1, 5 * d)
        grad_hear = grad_hidden.T @ heard
        grad_normed = unhear((grad_hidden @ hear_FD).view(*x_BND.shape[:2], 5 * d), open_4BN1, ctx.width)
        grad_x = torch.ops.aten.native_layer_norm_backward(
            grad_normed, x_BND, [d], mean, rstd, None, None, [True, False, False]
        )[0]
        return grad_x.add_(grad.view_as(x_BND)), None, None, grad_hear, grad_think


def plain_passage_step(x_BND: Tensor, open_4BN1: Tensor, width: int, hear_FD: Tensor, think_DF: Tensor) -> Tensor:
    """What PassageStepFunction computes, as a reader would write it."""
    d = x_BND.shape[-1]
    padded = F.pad(norm(x_BND), (0, 0, width, width))
    count = x_BND.shape[1]
    parts = [norm(x_BND)]
    for mask, move in zip(open_4BN1, _moves(width), strict=True):
        parts.append(padded[:, width + move : width + move + count] * mask)
    hidden = F.relu(torch.cat(parts, dim=-1) @ hear_FD.T).square()
    assert hidden.shape[-1] == think_DF.shape[1]
    assert think_DF.shape[0] == d
    return x_BND + hidden @ think_DF.T


class PassageStep(nn.Module):
    """A cell hears its open neighbours and thinks: one step of talk along the passages."""

    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        self.hear = nn.Linear(5 * width, expansion * width, bias=False)
        self.think = nn.Linear(expansion * width, width, bias=False)
        nn.init.zeros_(self.think.weight)

    def forward(self, x_BND: Tensor, open_4BN1: Tensor, width: int) -> Tensor:
        if torch.is_autocast_enabled(x_BND.device.type) or x_BND.device.type != "cpu":
            # On a GPU, and under autocast, torch's own operators do better.
            return plain_passage_step(x_BND, open_4BN1, width, self.hear.weight, self.think.weight)
        out: Tensor = PassageStepFunction.apply(  # type: ignore[no-untyped-call]
            x_BND, open_4BN1, width, self.hear.weight, self.think.weight
        )
        return out
