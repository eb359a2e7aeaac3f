"""Initial weights of text models.

    init_gpt2(model, depth=8)                                    # as in the published next-token baseline
    init_pytorch(model)                                          # PyTorch's defaults, as in the published MLM-U model
    set_lookup_weights(block.attention_weights(), heads=4, offsets=(1, -1), rotary=True)

`init="lookup"` is GPT-2's initialization with attention heads that already do the two lookups which mazes as text
need, the other cell of an edge and the other occurrences of a cell:

- The first heads attend to the token at one of `offsets`: queries and keys are constants, so that with RoPE the score
  depends on the distance alone and peaks at the offset. Without RoPE these heads are GPT-2's.
- The other heads attend to equal tokens: queries and keys are the same random projection, in the slow half of RoPE's
  frequencies, which hardly rotate over the length of a maze.
- Values and outputs are orthogonal and small, and embeddings larger, so that the residual stream stays dominated by
  the token.

The architecture is unchanged. The idea is from "Mimetic initialization of self-attention layers" (Trockman and Kolter,
2023), who make queries and keys alike.

Shape suffixes: D width, E head width, P pairs (at most E / 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from clew.models.positions import frequencies

Initialization = Literal["gpt-2", "lookup", "pytorch"]

# Chosen by short runs on 4x4 mazes (docs/experiments-log.md, no. 16).
EMBEDDING_DEVIATION = 0.1
OUT_SCALE = 0.1
MATCH_SCALE = 1.2
PEAK = 2.0  # what each of the fast frequencies adds to the score at the offset
FAST_PAIRS = 5


@dataclass(frozen=True)
class AttentionWeights:
    """Views of the parameters of one attention layer: [D, D] and [D]."""

    query_DD: Tensor
    query_bias_D: Tensor
    key_DD: Tensor
    key_bias_D: Tensor
    value_DD: Tensor
    out_DD: Tensor


def init_gpt2(module: nn.Module, depth: int) -> None:
    """Initialize as GPT-2: normal with deviation 0.02 and zero biases.

    Outputs to the residual stream are scaled by 1 / sqrt(2 depth), so that it does not grow with the depth.
    """
    for name, parameter in module.named_parameters():
        if "norm" in name:
            nn.init.constant_(parameter, 1.0 if name.endswith("weight") else 0.0)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
        else:
            into_residual = name.endswith(("attention_out.weight", "feed_forward.down.weight"))
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * depth) if into_residual else 0.02)


def init_pytorch(module: nn.Module) -> None:
    """Initialize with PyTorch's defaults: the embedding and the head's bias as a linear layer, `query` as N(0, 1)."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.LayerNorm | nn.Embedding):
            part.reset_parameters()
    bound = 1 / math.sqrt(module.get_parameter("embedding.weight").shape[1])
    for name, parameter in module.named_parameters():
        if name in ("embedding.weight", "head_bias"):
            nn.init.uniform_(parameter, -bound, bound)
        elif name == "query":
            nn.init.normal_(parameter)


def scale_embeddings(*embeddings: Tensor) -> None:
    """Initialize embeddings larger than GPT-2's."""
    for embedding in embeddings:
        nn.init.normal_(embedding, std=EMBEDDING_DEVIATION)


@torch.no_grad()
def set_lookup_weights(weights: AttentionWeights, heads: int, offsets: Sequence[int], rotary: bool) -> None:
    """Make the first heads attend to these offsets, one each, and the others to equal tokens."""
    head_width = weights.query_DD.shape[0] // heads
    for head in range(heads):
        rows = slice(head * head_width, (head + 1) * head_width)
        if head >= len(offsets):
            same_ED = _equal_token_projection(weights.query_DD[rows])
            weights.query_DD[rows] += same_ED
            weights.key_DD[rows] += same_ED
        elif rotary:
            query_E, key_E = _offset_query_and_key(weights.query_bias_D[rows], offsets[head])
            weights.query_bias_D[rows] = query_E
            weights.key_bias_D[rows] = key_E
    nn.init.orthogonal_(weights.value_DD)
    nn.init.orthogonal_(weights.out_DD, gain=OUT_SCALE)


def _equal_token_projection(like_ED: Tensor) -> Tensor:
    """Return a random projection onto the slow half of the pairs; pair p is rows p and p + P."""
    pairs, width = like_ED.shape[0] // 2, like_ED.shape[1]
    slow = pairs - pairs // 2
    projection_ED = torch.zeros_like(like_ED)
    directions = nn.init.orthogonal_(like_ED.new_empty(2 * slow, width), gain=MATCH_SCALE)
    projection_ED.view(2, pairs, width)[:, pairs - slow :] = directions.view(2, slow, width)
    return projection_ED


def _offset_query_and_key(like_E: Tensor, offset: int) -> tuple[Tensor, Tensor]:
    """Return a constant query and key whose score after RoPE is highest for keys `offset` positions further on.

    RoPE rotates pair p at position t by t w_p, so the score at distance d is sum_p |q_p| |k_p| cos(w_p d + their
    angle); the key is rotated back by w_p offset. The fast pairs make the peak narrow.
    """
    pairs = like_E.shape[0] // 2
    fast = min(FAST_PAIRS, pairs)
    length = math.sqrt(PEAK * math.sqrt(2 * pairs))  # attention divides scores by the root of the head's width
    angle_P = -offset * frequencies(2 * pairs, like_E.device)[:fast]
    query_E, key_E = torch.zeros_like(like_E), torch.zeros_like(like_E)
    query_E[:fast] = length
    key_E[:fast] = length * angle_P.cos()
    key_E[pairs : pairs + fast] = length * angle_P.sin()
    return query_E, key_E
