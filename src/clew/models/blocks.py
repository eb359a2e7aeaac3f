"""GPT-2 blocks: LayerNorm before each layer, exact GELU or ReLU, biases everywhere, no dropout.

    x_BKD = SelfBlock(width, heads)(x_BKD, rotate, AttentionMask(causal=True))
    x_BQD = CrossBlock(width, heads)(x_BQD, memory_BKD, rotate_Q, rotate_K, AttentionMask(mask_B1QK))

A CrossBlock has no self-attention: queries attend to the memory and never to each other.

Shape suffixes: B mazes, T positions, K keys, Q queries (of the whole batch in `run_in_groups`), D width, H heads,
E head width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.data.batch import Batch
from clew.models.initialization import AttentionWeights, set_lookup_weights
from clew.models.positions import Rotate

Activation = Literal["gelu", "relu"]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"gelu": F.gelu, "relu": F.relu}
GROUP_TOKENS = 2048


@dataclass(frozen=True)
class AttentionMask:
    """A boolean mask, True where a query attends to a key, or a causal mask, or (neither) full attention."""

    mask_B1QK: Tensor | None = None
    causal: bool = False

    @classmethod
    def of(cls, mask_BQK: Tensor | None) -> AttentionMask:
        return cls(None if mask_BQK is None else mask_BQK[:, None])


@dataclass
class KeysAndValues:
    """The cached keys (already rotated) and values of one block."""

    key_BHKE: Tensor | None = None
    value_BHKE: Tensor | None = None

    def append(self, key_BHKE: Tensor, value_BHKE: Tensor) -> tuple[Tensor, Tensor]:
        if self.key_BHKE is not None and self.value_BHKE is not None:
            key_BHKE = torch.cat([self.key_BHKE, key_BHKE], dim=2)
            value_BHKE = torch.cat([self.value_BHKE, value_BHKE], dim=2)
        # Values are a view of queries, keys and values; a cached view would keep all three in memory.
        self.key_BHKE, self.value_BHKE = key_BHKE, value_BHKE.contiguous()
        return key_BHKE, value_BHKE


class FeedForward(nn.Module):
    """Two linear layers with a hidden width of four times the width."""

    def __init__(self, width: int, activation: Activation) -> None:
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.activation = _ACTIVATIONS[activation]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down(self.activation(self.up(x)))
        return y


class SelfBlock(nn.Module):
    """Self-attention and a feed-forward layer."""

    def __init__(self, width: int, heads: int, activation: Activation = "gelu") -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, activation)

    def forward(self, x_BKD: Tensor, rotate: Rotate, mask: AttentionMask, cache: KeysAndValues | None = None) -> Tensor:
        query, key, value = self.query_key_value(self.attention_norm(x_BKD)).chunk(3, dim=-1)
        query_BHKE, key_BHKE = rotate(_split(query, self.heads)), rotate(_split(key, self.heads))
        value_BHKE = _split(value, self.heads)
        if cache is not None:
            key_BHKE, value_BHKE = cache.append(key_BHKE, value_BHKE)
        x_BKD = x_BKD + self.attention_out(_attend(query_BHKE, key_BHKE, value_BHKE, mask))
        out_BKD: Tensor = x_BKD + self.feed_forward(self.feed_forward_norm(x_BKD))
        return out_BKD

    def attention_weights(self) -> AttentionWeights:
        query_DD, key_DD, value_DD = self.query_key_value.weight.chunk(3)
        query_bias_D, key_bias_D, _ = self.query_key_value.bias.chunk(3)
        return AttentionWeights(query_DD, query_bias_D, key_DD, key_bias_D, value_DD, self.attention_out.weight)


class CrossBlock(nn.Module):
    """Cross-attention to a memory and a feed-forward layer; the block does not normalise the memory."""

    def __init__(self, width: int, heads: int, activation: Activation = "gelu") -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.memory_key_value = nn.Linear(width, 2 * width)
        self.attention_out = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = FeedForward(width, activation)

    def forward(
        self, x_BQD: Tensor, memory_BKD: Tensor, rotate_Q: Rotate, rotate_K: Rotate, mask: AttentionMask
    ) -> Tensor:
        key, value = self.memory_key_value(memory_BKD).chunk(2, dim=-1)
        query_BHQE = rotate_Q(_split(self.query(self.attention_norm(x_BQD)), self.heads))
        key_BHKE, value_BHKE = rotate_K(_split(key, self.heads)), _split(value, self.heads)
        x_BQD = x_BQD + self.attention_out(_attend(query_BHQE, key_BHKE, value_BHKE, mask))
        out_BQD: Tensor = x_BQD + self.feed_forward(self.feed_forward_norm(x_BQD))
        return out_BQD

    def attention_weights(self) -> AttentionWeights:
        key_DD, value_DD = self.memory_key_value.weight.chunk(2)
        key_bias_D, _ = self.memory_key_value.bias.chunk(2)
        return AttentionWeights(
            self.query.weight, self.query.bias, key_DD, key_bias_D, value_DD, self.attention_out.weight
        )


def init_lookup_heads(blocks: nn.ModuleList, offsets: Sequence[int], rotary: bool) -> None:
    """Initialize the attention heads of a stack as lookups (clew.models.initialization)."""
    for block in blocks:
        assert isinstance(block, SelfBlock | CrossBlock)
        set_lookup_weights(block.attention_weights(), block.heads, offsets, rotary)


def run_in_groups(
    run: Callable[[Batch, Tensor, Tensor], Tensor], length_B: Tensor, batch: Batch, order_BT: Tensor, query_BT: Tensor
) -> Tensor:
    """Return the logits of `run(batch, order_BT, query_BT)`, on a CPU computed for groups of mazes of similar length.

    A group is padded to its own longest sequence and stays in the processor's caches. A GPU is faster with the whole
    batch at once.
    """
    # Shortest first, in groups with enough tokens to keep a CPU busy.
    count = min(int(length_B.sum()) // GROUP_TOKENS, len(length_B)) if order_BT.device.type == "cpu" else 0
    if count < 2:
        return run(batch, order_BT, query_BT)
    groups = length_B.argsort(stable=True).tensor_split(count)
    logits = [run(batch.rows(rows), order_BT[rows], query_BT[rows]) for rows in groups]
    # Back to the order of the batch.
    number_BT = query_BT.flatten().cumsum(0).view_as(query_BT) - 1
    number_Q = torch.cat([number_BT[rows][query_BT[rows]] for rows in groups])
    return torch.cat(logits)[number_Q.argsort()]


def _split(x_BKD: Tensor, heads: int) -> Tensor:
    batch, length, _ = x_BKD.shape
    return x_BKD.view(batch, length, heads, -1).transpose(1, 2)


def _attend(query_BHQE: Tensor, key_BHKE: Tensor, value_BHKE: Tensor, mask: AttentionMask) -> Tensor:
    mixed_BHQE = F.scaled_dot_product_attention(
        query_BHQE, key_BHKE, value_BHKE, attn_mask=mask.mask_B1QK, is_causal=mask.causal
    )
    return mixed_BHQE.transpose(1, 2).flatten(2)
