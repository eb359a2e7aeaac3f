"""Position encodings.

    positions = make_positions("rope-fp32", width=128, heads=4, max_length=4096)
    x_BTD = positions.add(x_BTD, position_BT)     # before the first block; adds learned positions
    rotate = positions.rotation(position_BT)      # RoPE rotates queries and keys in every block
    q_BHTE = rotate(q_BHTE)

A position is the token's index in the whole sequence, also where a model runs over some of the tokens.

- `rope-fp32`: rotary positions, base 10,000, the two halves of a head as pairs. The angles are float32 even under
  autocast: at position 2,000 a half-precision angle is off by up to half a radian.
- `rope-fp16`: the same with every result rounded to float16, as float16 autocast computes it, on any device.
- `learned`: one learned vector for each position, added to the input.
- `none`: no positions.

Shape suffixes: B mazes, T positions, D width, H heads, E head width, P pairs (E / 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from clew.errors import UserError

PositionChoice = Literal["rope-fp32", "rope-fp16", "learned", "none"]
Rotate = Callable[[Tensor], Tensor]  # [B, H, T, E] -> the same shape and dtype

ROPE_BASE = 10_000.0


class Positions(nn.Module):
    """No positions; the base class of the others."""

    def add(self, x_BTD: Tensor, position_BT: Tensor) -> Tensor:
        """Return the input of the first block."""
        return x_BTD

    def rotation(self, position_BT: Tensor) -> Rotate:
        """Return the function that rotates queries or keys at these positions."""
        return lambda x_BHTE: x_BHTE


class LearnedPositions(Positions):
    """One learned vector for each position, added to the input."""

    def __init__(self, width: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_length, width)

    def add(self, x_BTD: Tensor, position_BT: Tensor) -> Tensor:
        longest = self.table.num_embeddings
        if position_BT.numel() and int(position_BT.max()) >= longest:
            raise UserError(
                f"the sequence has more than {longest} tokens, the length that this model has learned positions for; "
                "use shorter sequences, or train a model with a larger max_length."
            )
        summed: Tensor = x_BTD + self.table(position_BT)
        return summed


class RotaryPositions(Positions):
    """RoPE in float32."""

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.head_width = head_width

    def rotation(self, position_BT: Tensor) -> Rotate:
        angle_B1TP = (position_BT[..., None].float() * frequencies(self.head_width, position_BT.device))[:, None]
        cos_B1TE, sin_B1TP = torch.cat([angle_B1TP.cos()] * 2, dim=-1), angle_B1TP.sin()

        def rotate(x_BHTE: Tensor) -> Tensor:
            rotated: Tensor = _Rotation.apply(x_BHTE.float(), cos_B1TE, sin_B1TP)  # type: ignore[no-untyped-call]
            return rotated.to(x_BHTE.dtype)

        return rotate


class _Rotation(torch.autograd.Function):
    """(first, second) -> (first cos - second sin, second cos + first sin), the halves of the last dimension.

    It runs in every block over all queries and keys. A custom backward pass (the opposite rotation) needs a third of
    autograd's memory accesses and saves nothing of x.
    """

    @staticmethod
    def forward(ctx: Any, x_BHTE: Tensor, cos_B1TE: Tensor, sin_B1TP: Tensor) -> Tensor:
        ctx.save_for_backward(cos_B1TE, sin_B1TP)
        return _rotate(x_BHTE, cos_B1TE, sin_B1TP, 1.0)

    @staticmethod
    def backward(ctx: Any, grad_BHTE: Tensor) -> tuple[Tensor, None, None]:
        cos_B1TE, sin_B1TP = ctx.saved_tensors
        return _rotate(grad_BHTE, cos_B1TE, sin_B1TP, -1.0), None, None


def _rotate(x_BHTE: Tensor, cos_B1TE: Tensor, sin_B1TP: Tensor, direction: float) -> Tensor:
    half = sin_B1TP.shape[-1]
    rotated = x_BHTE * cos_B1TE
    rotated[..., :half].addcmul_(x_BHTE[..., half:], sin_B1TP, value=-direction)
    rotated[..., half:].addcmul_(x_BHTE[..., :half], sin_B1TP, value=direction)
    return rotated


class HalfRotaryPositions(RotaryPositions):
    """RoPE as float16 autocast computes it: every result is rounded to float16."""

    def rotation(self, position_BT: Tensor) -> Rotate:
        frequency_P = round_to_half(frequencies(self.head_width, position_BT.device))
        angle_B1TP = round_to_half(round_to_half(position_BT[..., None].float()) * frequency_P)[:, None]
        cos_B1TP, sin_B1TP = round_to_half(angle_B1TP.cos()), round_to_half(angle_B1TP.sin())

        def rotate(x_BHTE: Tensor) -> Tensor:
            first, second = round_to_half(x_BHTE.float()).chunk(2, dim=-1)
            rotated = (
                round_to_half(first * cos_B1TP) - round_to_half(second * sin_B1TP),
                round_to_half(second * cos_B1TP) + round_to_half(first * sin_B1TP),
            )
            return round_to_half(torch.cat(rotated, dim=-1)).to(x_BHTE.dtype)

        return rotate


def round_to_half(x: Tensor) -> Tensor:
    """Return the nearest float16 as float32, with the gradient of the identity.

    Real half-precision training scales the loss against underflow; rounding gradients here would study underflow.
    """
    return x + (x.half().float() - x).detach()


def make_positions(choice: PositionChoice, width: int, heads: int, max_length: int) -> Positions:
    """Return the module of a choice."""
    if choice == "rope-fp32":
        return RotaryPositions(width // heads)
    if choice == "rope-fp16":
        return HalfRotaryPositions(width // heads)
    if choice == "learned":
        return LearnedPositions(width, max_length)
    return Positions()


def frequencies(head_width: int, device: torch.device) -> Tensor:
    """Return RoPE's rotation of each pair of a head per position, the fastest first: [P]."""
    exponent_P = torch.arange(0, head_width, 2, dtype=torch.float32, device=device) / head_width
    return ROPE_BASE**-exponent_P
