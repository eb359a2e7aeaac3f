"""Configs of the text models, the paper's sizes, and the interface of every model.

    config = EncoderDecoderConfig(vocabulary=128, width=128, encoder_depth=20, decoder_depth=20, heads=4)

A model maps (batch, order_BT, query_BT) to logits at the queries. Position q is predicted from the positions k with
0 <= order[k] < order[q]; order -1 is padding. Tokens that a query does not attend to never change its logits.
`clew.models.build` builds, counts, saves and loads models.

Shape suffixes: B mazes, T positions, Q queries of the whole batch in row-major order, V vocabulary.
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
from clew.models.blocks import Activation, Initialization, PositionChoice

Precision = Literal["fp32", "bf16", "fp16"]
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Model(Protocol):
    """Tokens in, logits out; never a loss."""

    def __call__(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        """Return logits [Q, V] for the True positions of `query_BT`, in the order of `query_BT.nonzero()`."""
        ...


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Run matrix products in the precision; no effect for fp32."""
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, dtype=_DTYPES[precision])


# Width, heads and depth of the paper's models, named after their rounded parameter counts, and of one for laptops. An
# encoder-decoder gives half of the depth to each of its two stacks.
SIZES = {"tiny": (64, 4, 8), "3m": (128, 4, 14), "8m": (128, 4, 40), "25m": (256, 4, 32)}

# Numbers that a block holds at once for each token and unit of width in a forward pass without gradients; 21 to 36
# were measured on a CPU with widths of 128.
_BLOCK_NUMBERS = 32


@dataclass(frozen=True)
class TransformerConfig:
    """Options of all text models."""

    vocabulary: int  # token ids; follows the mazes
    width: int = 128  # width of the residual stream
    heads: int = 4  # attention heads of each block
    positions: PositionChoice = "rope-fp32"  # position encoding
    max_length: int = 4096  # the longest sequence; read by learned positions alone
    init: Initialization = "gpt-2"  # see clew.models.blocks
    activation: Activation = "gelu"  # of the feed-forward layers
    head_bias: bool = True  # whether the output layer has a bias

    def __post_init__(self) -> None:
        check_positive(self, ("vocabulary", "width", "heads", "max_length"))
        if self.width % self.heads:
            raise UserError(f"a width of {self.width} cannot be shared among {self.heads} heads; choose a multiple.")
        for name, choices in (("positions", PositionChoice), ("init", Initialization), ("activation", Activation)):
            if getattr(self, name) not in get_args(choices):
                raise UserError(
                    f"a model's {name} cannot be {getattr(self, name)!r}; choose one of {', '.join(get_args(choices))}."
                )
        if self.rotary and self.width // self.heads % 2:
            raise UserError(
                f"RoPE rotates pairs, but a head's width, {self.width // self.heads}, is odd; change the width or the "
                "heads."
            )

    @property
    def rotary(self) -> bool:
        """Whether positions rotate queries and keys."""
        return self.positions.startswith("rope")

    def cache_bytes(self, length: int) -> int:
        """Return the bytes of cached keys and values for a sequence of this many tokens, in float32."""
        return 0

    def decoding_bytes(self, length: int) -> int:
        """Return the estimated bytes for decoding one sequence of this many tokens: the cache and one block's work."""
        return self.cache_bytes(length) + _BLOCK_NUMBERS * self.width * length * 4


@dataclass(frozen=True)
class EncoderDecoderConfig(TransformerConfig):
    """The paper's MLM-U model; see clew.models.transformers."""

    encoder_depth: int = 20  # blocks of the encoder
    decoder_depth: int = 20  # blocks of the decoder
    # A causal encoder: the paper's next-token baseline on this architecture. MLM-U needs it off.
    causal: bool = False
    # With `causal`: whether a token of the encoder attends to itself. In the published code it does not.
    attend_self: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, ("encoder_depth", "decoder_depth"))
        if not self.attend_self and not self.causal:
            raise UserError("attend_self can be turned off in a causal encoder only; set causal, or leave it on.")

    def forward_flops(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> float:
        """Return the floating-point operations of the necessary matrix products of one forward pass."""
        keys_B, queries_B = attended(order_BT, query_BT).sum(1).double(), query_BT.sum(1).double()
        pairs_B = keys_B * (keys_B + 1) / 2 if self.causal else keys_B**2
        weights = self.width**2
        encoder = self.encoder_depth * (2 * 12 * weights * keys_B + 4 * self.width * pairs_B)
        decoder = self.decoder_depth * (
            2 * 2 * weights * keys_B + 2 * 10 * weights * queries_B + 4 * self.width * keys_B * queries_B
        )
        head = 2 * self.width * self.vocabulary * queries_B
        return float((encoder + decoder + head).sum())


@dataclass(frozen=True)
class DecoderOnlyConfig(TransformerConfig):
    """A next-token model; see clew.models.transformers."""

    depth: int = 40  # blocks
    # The id of a token before every sequence, at position 0, as in the published code; None for none.
    bos_id: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, ("depth",))
        if self.bos_id is not None and not 0 <= self.bos_id < self.vocabulary:
            raise UserError(f"bos_id is {self.bos_id}, but the vocabulary has the ids 0 to {self.vocabulary - 1}.")

    def cache_bytes(self, length: int) -> int:
        return 2 * self.depth * self.width * length * 4

    def forward_flops(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> float:
        """Return the floating-point operations of the necessary matrix products of one forward pass."""
        keys_B, queries_B = attended(order_BT, query_BT).sum(1).double(), query_BT.sum(1).double()
        keys_B = keys_B + (self.bos_id is not None)
        trunk = self.depth * (2 * 12 * self.width**2 * keys_B + 4 * self.width * keys_B * (keys_B + 1) / 2)
        return float((trunk + 2 * self.width * self.vocabulary * queries_B).sum())


def attended(order_BT: Tensor, query_BT: Tensor) -> Tensor:
    """Return a mask of the tokens that some query of their maze attends to, at least those of order 0."""
    limit_B1 = torch.where(query_BT, order_BT, 1).amax(dim=1, keepdim=True).clamp(min=1)
    return (order_BT >= 0) & (order_BT < limit_B1)


def check_positive(config: object, names: Sequence[str]) -> None:
    """Raise UserError if one of these fields is below 1."""
    for name in names:
        if getattr(config, name) < 1:
            raise UserError(f"a model's {name} must be at least 1, but it is {getattr(config, name)}.")
