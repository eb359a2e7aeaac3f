"""The weights that text models begin with.

    initialise(model, depth=8)                                   # GPT-2's, as in the published next-token baseline
    initialise_as_torch(model)                                   # torch's defaults, as in the published MLM-U model
    lookup_attention_weights(block.attention_weights(), heads=4, offsets=(1, -1), rotary=True)

A maze as text asks for two things before any planning: which cell stands beside this one in its edge, and where else is
this cell named. From GPT-2's small random numbers, training is slow to find either. With
`start="lookup"` its heads begin that way:

- The first heads look at a neighbour in the text, one at each of `offsets`: their queries and keys are constants, so
  that with RoPE the score depends on the distance alone, with its peak at the offset. Without RoPE they begin as
  GPT-2's do.
- The other heads look for the same token: queries and keys are the same random projection. It uses the slow half of
  RoPE's frequencies, which hardly turn over the length of a maze.
- Values and outputs are orthogonal, small enough that the token itself is not drowned; embeddings begin larger, so
  that two tokens differ by more than what attention adds.

All of it is trained like the rest and nothing else of the model changes, so weights of any start are the same model.
The idea that attention may begin as what training would make of it is from "Mimetic initialization of self-attention
layers" (Trockman and Kolter, 2023), who begin with queries and keys alike.

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

StartChoice = Literal["gpt-2", "lookup", "pytorch"]

# Chosen by short runs on 4x4 mazes (docs/experiments-log.md, no. 16).
EMBEDDING_DEVIATION = 0.1
OUT_SCALE = 0.1
MATCH_SCALE = 1.2
PEAK = 2.0  # what each of the fast frequencies adds to the score at the offset
FAST_PAIRS = 5


@dataclass(frozen=True)
class AttentionWeights:
    """The weights of one attention, as views of the parameters: [D, D] and [D]."""

    query_DD: Tensor
    query_bias_D: Tensor
    key_DD: Tensor
    key_bias_D: Tensor
    value_DD: Tensor
    out_DD: Tensor


def initialise(module: nn.Module, depth: int) -> None:
    """GPT-2's start: normal with deviation 0.02, zero biases; a block's two ways into the residual stream are scaled
    down by the square root of how many there are in a stack of `depth` blocks, so that the stream does not grow."""
    for name, parameter in module.named_parameters():
        if "norm" in name:
            nn.init.constant_(parameter, 1.0 if name.endswith("weight") else 0.0)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
        else:
            into_residual = name.endswith(("attention_out.weight", "feed_forward.down.weight"))
            nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * depth) if into_residual else 0.02)


def initialise_as_torch(module: nn.Module) -> None:
    """Torch's defaults: uniform within 1 / sqrt(inputs) for weights and biases of linear layers, so also for the
    embedding and the head's bias, since the embedding is the head's weight; unit normal for all other vectors."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.LayerNorm | nn.Embedding):
            part.reset_parameters()
    embedding = module.get_parameter("embedding.weight")
    bound = 1 / math.sqrt(embedding.shape[1])
    for name, parameter in module.named_parameters():
        if name in ("embedding.weight", "head_bias"):
            nn.init.uniform_(parameter, -bound, bound)
        elif name == "query":
            nn.init.normal_(parameter)


def scale_embeddings(*embeddings: Tensor) -> None:
    """Embeddings that attention's outputs do not drown."""
    for embedding in embeddings:
        nn.init.normal_(embedding, std=EMBEDDING_DEVIATION)


@torch.no_grad()
def lookup_attention_weights(weights: AttentionWeights, heads: int, offsets: Sequence[int], rotary: bool) -> None:
    """Heads that look at the tokens at these offsets, one each; the others look for the same token."""
    head_width = weights.query_DD.shape[0] // heads
    for head in range(heads):
        rows = slice(head * head_width, (head + 1) * head_width)
        if head >= len(offsets):
            same_ED = _same_token(weights.query_DD[rows])
            weights.query_DD[rows] += same_ED
            weights.key_DD[rows] += same_ED
        elif rotary:
            query_E, key_E = _beside(weights.query_bias_D[rows], offsets[head])
            weights.query_bias_D[rows] = query_E
            weights.key_bias_D[rows] = key_E
    nn.init.orthogonal_(weights.value_DD)
    nn.init.orthogonal_(weights.out_DD, gain=OUT_SCALE)


def _same_token(like_ED: Tensor) -> Tensor:
    """A random projection onto the slow half of the pairs; pair p is rows p and p + P (clew.models.positions)."""
    pairs, width = like_ED.shape[0] // 2, like_ED.shape[1]
    slow = pairs - pairs // 2
    projection_ED = torch.zeros_like(like_ED)
    directions = nn.init.orthogonal_(like_ED.new_empty(2 * slow, width), gain=MATCH_SCALE)
    projection_ED.view(2, pairs, width)[:, pairs - slow :] = directions.view(2, slow, width)
    return projection_ED


def _beside(like_E: Tensor, offset: int) -> tuple[Tensor, Tensor]:
    """A query and a key whose score, after RoPE has turned both, is highest where the key stands `offset` further on.

    RoPE turns pair p at place t by t w_p, so a constant query and key give sum_p |q_p| |k_p| cos(w_p d + angle between
    them) at distance d; the key is turned back by w_p offset. The fast pairs make the peak narrow.
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
