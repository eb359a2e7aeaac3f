"""How a model knows where a token stands: a small choice of its own.

    positions = make_positions("rope-fp32", width=128, heads=4, max_length=4096)
    x_BTD = positions.add(x_BTD, position_BT)     # before the first block; learned positions add a vector here
    rotate = positions.rotation(position_BT)      # RoPE turns queries and keys by this, in every block
    q_BHTE = rotate(q_BHTE)

A position is the token's place in the whole sequence, whichever tokens stand beside it in the tensor: a model that
runs over some of the tokens gives their original places.

- `rope-fp32`: rotary positions, base 10,000, the two halves of a head as pairs. The angles are float32 whatever
  autocast says: at position 2,000 a half-precision angle is off by up to half a radian.
- `rope-fp16`: the same as float16 autocast would compute it, for the study of precision. Each result is rounded to
  float16, so it shows on any device what half precision does to positions.
- `learned`: one learned vector a position, added to the input.
- `none`: nothing; the model sees a bag of tokens.

Shape suffixes: B mazes, T positions, D width, H heads, E head width, P pairs (E / 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from clew.errors import UserError

PositionChoice = Literal["rope-fp32", "rope-fp16", "learned", "none"]
Rotate = Callable[[Tensor], Tensor]  # [B, H, T, E] -> the same shape and dtype

ROPE_BASE = 10_000.0


class Positions(Protocol):
    """What every choice can do."""

    def add(self, x_BTD: Tensor, position_BT: Tensor) -> Tensor:
        """The input of the first block."""
        ...

    def rotation(self, position_BT: Tensor) -> Rotate:
        """What turns the queries or keys that stand at these positions."""
        ...


class NoPositions(nn.Module):
    """Nothing is added and nothing is turned."""

    def add(self, x_BTD: Tensor, position_BT: Tensor) -> Tensor:
        return x_BTD

    def rotation(self, position_BT: Tensor) -> Rotate:
        return _unchanged


class LearnedPositions(nn.Module):
    """One learned vector a position, added to the input."""

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

    def rotation(self, position_BT: Tensor) -> Rotate:
        return _unchanged


class RotaryPositions(nn.Module):
    """RoPE in float32."""

    def __init__(self, head_width: int) -> None:
        super().__init__()
        self.head_width = head_width

    def add(self, x_BTD: Tensor, position_BT: Tensor) -> Tensor:
        return x_BTD

    def rotation(self, position_BT: Tensor) -> Rotate:
        angle_B1TP = (position_BT[..., None].float() * frequencies(self.head_width, position_BT.device))[:, None]
        cos_B1TE, sin_B1TP = torch.cat([angle_B1TP.cos()] * 2, dim=-1), angle_B1TP.sin()

        def rotate(x_BHTE: Tensor) -> Tensor:
            turned: Tensor = _Turn.apply(x_BHTE.float(), cos_B1TE, sin_B1TP)  # type: ignore[no-untyped-call]
            return turned.to(x_BHTE.dtype)

        return rotate


class _Turn(torch.autograd.Function):
    """(first, second) -> (first cos - second sin, second cos + first sin), the halves of the last dimension.

    Written by hand because it runs in every block over all queries and keys: it touches memory a third as often as
    what autograd makes of the formula, and keeps nothing of x for the way back, which turns by the opposite angle.
    """

    @staticmethod
    def forward(ctx: Any, x_BHTE: Tensor, cos_B1TE: Tensor, sin_B1TP: Tensor) -> Tensor:
        ctx.save_for_backward(cos_B1TE, sin_B1TP)
        return _turn(x_BHTE, cos_B1TE, sin_B1TP, 1.0)

    @staticmethod
    def backward(ctx: Any, grad_BHTE: Tensor) -> tuple[Tensor, None, None]:
        cos_B1TE, sin_B1TP = ctx.saved_tensors
        return _turn(grad_BHTE, cos_B1TE, sin_B1TP, -1.0), None, None


def _turn(x_BHTE: Tensor, cos_B1TE: Tensor, sin_B1TP: Tensor, direction: float) -> Tensor:
    half = sin_B1TP.shape[-1]
    turned = x_BHTE * cos_B1TE
    turned[..., :half].addcmul_(x_BHTE[..., half:], sin_B1TP, value=-direction)
    turned[..., half:].addcmul_(x_BHTE[..., :half], sin_B1TP, value=direction)
    return turned


class HalfRotaryPositions(RotaryPositions):
    """RoPE as float16 autocast computes it: positions, frequencies, their products and all that follows are rounded."""

    def rotation(self, position_BT: Tensor) -> Rotate:
        position_BT1 = through_half(position_BT[..., None].float())
        angle_B1TP = through_half(position_BT1 * through_half(frequencies(self.head_width, position_BT.device)))[
            :, None
        ]
        cos_B1TP, sin_B1TP = through_half(angle_B1TP.cos()), through_half(angle_B1TP.sin())

        def rotate(x_BHTE: Tensor) -> Tensor:
            first, second = through_half(x_BHTE.float()).chunk(2, dim=-1)
            turned = (
                through_half(first * cos_B1TP) - through_half(second * sin_B1TP),
                through_half(second * cos_B1TP) + through_half(first * sin_B1TP),
            )
            return through_half(torch.cat(turned, dim=-1)).to(x_BHTE.dtype)

        return rotate


def through_half(x: Tensor) -> Tensor:
    """The nearest float16, as float32.

    The gradient passes unrounded: in real half precision the loss is scaled up to keep small gradients alive, and
    without a scaler rounding them here would study underflow instead of positions.
    """
    return x + (x.half().float() - x).detach()


def make_positions(choice: PositionChoice, width: int, heads: int, max_length: int) -> Positions:
    """The module behind a choice; `max_length` matters to learned positions alone."""
    if choice == "rope-fp32":
        return RotaryPositions(width // heads)
    if choice == "rope-fp16":
        return HalfRotaryPositions(width // heads)
    if choice == "learned":
        return LearnedPositions(width, max_length)
    return NoPositions()


def frequencies(head_width: int, device: torch.device) -> Tensor:
    """By how much RoPE turns each pair of a head from one place to the next, the fastest first: [P]."""
    exponent_P = torch.arange(0, head_width, 2, dtype=torch.float32, device=device) / head_width
    return ROPE_BASE**-exponent_P


def _unchanged(x_BHTE: Tensor) -> Tensor:
    return x_BHTE
