"""What every model is: a function from a batch and what may be seen of it to logits at the asked positions.

`order_BT` says who may look at whom: position q is predicted from the positions k with 0 <= rank[k] < rank[q], and
rank -1 is padding, seen by nobody. What stands in the batch at positions that a query may not see never changes its
logits.

Shape suffixes: B mazes, T positions, Q asked positions of the whole batch in row-major order, V vocabulary.

What a model is made of: one small dataclass a kind, and the paper's sizes.

    config = EncoderDecoderConfig(vocabulary=128, width=128, encoder_depth=20, decoder_depth=20, heads=4)

A kind of model is named in `clew.models.build`, which also makes, counts, saves and loads them.

Shape suffixes: B mazes, T positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from clew.data.batch import Batch
from clew.errors import UserError
from clew.models.blocks import ActivationChoice
from clew.models.initialization import StartChoice
from clew.models.positions import PositionChoice

Precision = Literal["fp32", "bf16", "fp16"]
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Model(Protocol):
    """Tokens in, logits out; never a loss."""

    def __call__(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        """Logits [Q, V] for the True positions of `query_BT`, in the order of `query_BT.nonzero()`."""
        ...


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Within, matrix products run in the precision; does nothing for fp32."""
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, dtype=_DTYPES[precision])


@dataclass(frozen=True)
class Size:
    """Width, heads and depth; an encoder-decoder gives half of the depth to each of its two stacks."""

    width: int
    heads: int
    depth: int


# The paper's, named after its rounded parameter counts, and one for laptops.
SIZES = {
    "tiny": Size(width=64, heads=4, depth=8),
    "3m": Size(width=128, heads=4, depth=14),
    "8m": Size(width=128, heads=4, depth=40),
    "25m": Size(width=256, heads=4, depth=32),
}

# Numbers that a block holds at once for each token and unit of width in a forward pass without gradients; 21 to 36
# were measured on a CPU with widths of 128.
BLOCK_NUMBERS = 32


@dataclass(frozen=True)
class TransformerConfig:
    """What the text models share."""

    vocabulary: int
    width: int = 128
    heads: int = 4
    positions: PositionChoice = "rope-fp32"
    max_length: int = 4096  # the longest sequence; read by learned positions alone
    start: StartChoice = "gpt-2"  # the weights before training; see clew.models.initialization
    activation: ActivationChoice = "gelu"  # of the feed-forward parts
    head_bias: bool = True

    def __post_init__(self) -> None:
        check_positive(self, ("vocabulary", "width", "heads", "max_length"))
        if self.width % self.heads:
            raise UserError(f"a width of {self.width} cannot be shared among {self.heads} heads; choose a multiple.")
        if self.positions not in get_args(PositionChoice):
            choices = ", ".join(get_args(PositionChoice))
            raise UserError(f"positions '{self.positions}' are unknown; choose one of {choices}.")
        if self.start not in get_args(StartChoice):
            raise UserError(f"the start '{self.start}' is unknown; choose one of {', '.join(get_args(StartChoice))}.")
        if self.activation not in get_args(ActivationChoice):
            choices = ", ".join(get_args(ActivationChoice))
            raise UserError(f"the activation '{self.activation}' is unknown; choose one of {choices}.")
        head_width = self.width // self.heads
        if self.rotary and head_width % 2:
            raise UserError(
                f"RoPE turns pairs, but a head's width, {head_width}, is odd; change the width or the heads."
            )

    @property
    def rotary(self) -> bool:
        """Whether positions are turns of queries and keys."""
        return self.positions.startswith("rope")

    def cache_bytes(self, length: int) -> int:
        """Bytes of the keys and values that are kept while a sequence of this many tokens is decoded, in float32."""
        return 0

    def decoding_bytes(self, length: int) -> int:
        """Estimated bytes that decoding one sequence of this many tokens takes: the cache, and one block's work."""
        return self.cache_bytes(length) + BLOCK_NUMBERS * self.width * length * 4


@dataclass(frozen=True)
class EncoderDecoderConfig(TransformerConfig):
    """The paper's MLM-U model; see clew.models.encoder_decoder."""

    encoder_depth: int = 20
    decoder_depth: int = 20
    # The encoder looks only back: the paper's next-token baseline on this architecture. MLM-U needs it off.
    causal: bool = False
    # With `causal`: whether a token of the encoder attends to itself. In the published code it does not.
    attend_self: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, ("encoder_depth", "decoder_depth"))
        if not self.attend_self and not self.causal:
            raise UserError("attend_self can be turned off in a causal encoder only; set causal, or leave it on.")

    def forward_flops(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> float:
        """Floating-point operations of the matrix products of one forward pass over what is needed."""
        seen_B, asked_B = (count.double() for count in seen_and_asked(order_BT, query_BT))
        pairs_B = seen_B * (seen_B + 1) / 2 if self.causal else seen_B**2
        weights = self.width**2
        encoder = self.encoder_depth * (2 * 12 * weights * seen_B + 4 * self.width * pairs_B)
        decoder = self.decoder_depth * (
            2 * 2 * weights * seen_B + 2 * 10 * weights * asked_B + 4 * self.width * seen_B * asked_B
        )
        head = 2 * self.width * self.vocabulary * asked_B
        return float((encoder + decoder + head).sum())


@dataclass(frozen=True)
class DecoderOnlyConfig(TransformerConfig):
    """A next-token model; see clew.models.decoder_only."""

    depth: int = 40
    # The id of a token that stands before every sequence, at position 0, as in the published code; None has none.
    bos_id: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, ("depth",))
        if self.bos_id is not None and not 0 <= self.bos_id < self.vocabulary:
            raise UserError(f"bos_id is {self.bos_id}, but the vocabulary has the ids 0 to {self.vocabulary - 1}.")

    def cache_bytes(self, length: int) -> int:
        return 2 * self.depth * self.width * length * 4

    def forward_flops(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> float:
        """Floating-point operations of the matrix products of one forward pass over what is needed."""
        seen_B, asked_B = (count.double() for count in seen_and_asked(order_BT, query_BT))
        if self.bos_id is not None:
            seen_B = seen_B + 1
        pairs_B = seen_B * (seen_B + 1) / 2
        trunk = self.depth * (2 * 12 * self.width**2 * seen_B + 4 * self.width * pairs_B)
        head = 2 * self.width * self.vocabulary * asked_B
        return float((trunk + head).sum())


def seen_and_asked(order_BT: Tensor, query_BT: Tensor) -> tuple[Tensor, Tensor]:
    """How many tokens of each maze are looked at by some asked position, and how many are asked."""
    return needed(order_BT, query_BT).sum(1), query_BT.sum(1)


def needed(order_BT: Tensor, query_BT: Tensor) -> Tensor:
    """The tokens that some asked position of their maze may look at; at least those of rank 0."""
    limit_B1 = torch.where(query_BT, order_BT, 1).amax(dim=1, keepdim=True).clamp(min=1)
    return (order_BT >= 0) & (order_BT < limit_B1)


def check_positive(config: object, names: Sequence[str]) -> None:
    """UserError if one of these fields is below 1."""
    for name in names:
        if getattr(config, name) < 1:
            raise UserError(f"a model's {name} must be at least 1, but it is {getattr(config, name)}.")
