"""Components of text models: GPT-2 blocks, attention, position encodings and initial weights.

    positions = Positions("rope-fp32", width=128, heads=4, max_length=4096)
    x_BTD = positions.add(x_BTD, position_BT)     # before the first block
    x_BTD = Block(width, heads)(x_BTD, Attention(positions, position_BT, position_BT, causal=True))
    x_BQD = Block(width, heads, cross=True)(x_BQD, Attention(positions, position_BQ, position_BK), memory_BKD)

Blocks: LayerNorm before each layer, exact GELU or ReLU, biases everywhere, no dropout. With `cross`, queries attend to
the memory, which the block does not normalise, and never to each other.

Positions: a token's index in the whole sequence, also where a model runs over some of the tokens.

- `rope-fp32`: rotary positions, base 10,000, the two halves of a head as pairs. The angles are float32 even under
  autocast: at position 2,000 a half-precision angle is off by up to half a radian.
- `rope-fp16`: the same with every result rounded to float16, as float16 autocast computes it, on any device.
- `learned`: one learned vector for each position, added to the input.
- `none`: no positions.

Initial weights: "gpt-2" as in the published next-token baseline, "pytorch" as in the published MLM-U model, and
"lookup", GPT-2's with attention heads that already do the two lookups which mazes as text need, the other cell of an
edge and the other occurrences of a cell (`init_lookup_heads`).

Shape suffixes: B mazes, T positions, K keys, Q queries (of the whole batch in `run_in_groups`), D width, X one to three
widths, H heads, E head width, P pairs (at most E / 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.data.batch import Batch
from clew.errors import UserError
from clew.models.config import Activation, PositionChoice, TransformerConfig
from clew.models.cpu_kernels import use_cpu_kernel
from clew.models.cpu_kernels.attention import HEAD_WIDTH_FACTOR, Segments, packed_attention

Rotate = Callable[[Tensor], Tensor]  # [B, H, T, E] -> the same shape and dtype
GROUP_TOKENS = 2048
ROPE_BASE = 10_000.0
# Of the initialization "lookup", chosen by short runs on 4x4 mazes (docs/experiments-log.md, no. 16).
EMBEDDING_DEVIATION = 0.1
OUT_SCALE = 0.1
MATCH_SCALE = 1.2
PEAK = 2.0  # what each of the fast frequencies adds to the score at the offset
FAST_PAIRS = 5


class Block(nn.Module):
    """Self-attention, or with `cross` attention to a memory, and a feed-forward layer."""

    def __init__(self, width: int, heads: int, activation: Activation = "gelu", cross: bool = False) -> None:
        super().__init__()
        self.heads, self.cross = heads, cross
        self.attention_norm = nn.LayerNorm(width)
        if cross:
            self.query = nn.Linear(width, width)
            self.memory_key_value = nn.Linear(width, 2 * width)
        else:
            self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.feed_forward_norm = nn.LayerNorm(width)
        self.feed_forward = nn.ModuleDict({"up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)})
        self.activation = F.gelu if activation == "gelu" else F.relu

    def forward(
        self, x_BQD: Tensor, attention: Attention, memory_BKD: Tensor | None = None, cache: list[Tensor] | None = None
    ) -> Tensor:
        """`cache` holds the rotated keys and the values of earlier tokens, or nothing yet; these are appended."""
        normed_BQD = self.attention_norm(x_BQD)
        if self.cross:
            mixed_BQD = attention(self.heads, self.query(normed_BQD), self.memory_key_value(memory_BKD))
        else:
            mixed_BQD = attention(self.heads, self.query_key_value(normed_BQD), cache=cache)
        x_BQD = x_BQD + self.attention_out(mixed_BQD)
        hidden_BQF = self.activation(self.feed_forward["up"](self.feed_forward_norm(x_BQD)))
        out_BQD: Tensor = x_BQD + self.feed_forward["down"](hidden_BQF)
        return out_BQD

    def projections(self) -> tuple[Tensor, ...]:
        """Return the weights of queries, keys and values, then their biases."""
        if not self.cross:
            return *self.query_key_value.weight.chunk(3), *self.query_key_value.bias.chunk(3)
        key_value = self.memory_key_value
        return self.query.weight, *key_value.weight.chunk(2), self.query.bias, *key_value.bias.chunk(2)


@dataclass(eq=False)
class Attention:
    """Attention of queries to keys at these positions: to those of a mask, causal, or (neither) to all."""

    positions: Positions
    position_BQ: Tensor
    position_BK: Tensor
    mask_BQK: Tensor | None = None  # True where a query attends to a key; its Q may be 1
    causal: bool = False
    segments: Segments | None = None  # of packed sequences
    rotations: tuple[Rotate, Rotate] | None = None  # of queries and keys, made when they are first needed

    def pack(self, real_BQ: Tensor, real_BK: Tensor) -> None:
        """Take the real queries and keys of all mazes one after another, without padding, as a batch of one.

        Every query must attend to the first of its maze's keys.
        """
        if self.causal:
            visible_BQ = torch.arange(1, real_BQ.shape[1] + 1).expand_as(real_BQ)
        elif self.mask_BQK is not None:
            visible_BQ = self.mask_BQK.sum(2).expand_as(real_BQ)
        else:
            visible_BQ = real_BK.sum(1, keepdim=True).expand_as(real_BQ)
        query_start, key_start = (F.pad(real.sum(1).cumsum(0), (1, 0)) for real in (real_BQ, real_BK))
        query_NP, key_MP = (
            self.positions.angle(position[real])
            for position, real in ((self.position_BQ, real_BQ), (self.position_BK, real_BK))
        )
        rotations = query_NP.cos(), query_NP.sin(), key_MP.cos(), key_MP.sin()
        self.segments = Segments(query_start, key_start, visible_BQ[real_BQ], *rotations)

    def __call__(
        self, heads: int, query_BQX: Tensor, key_value_BKX: Tensor | None = None, cache: list[Tensor] | None = None
    ) -> Tensor:
        """Return the mixed values; without `key_value_BKX`, `query_BQX` holds queries, keys and values."""
        if self.segments is not None:
            key_value_MX = None if key_value_BKX is None else key_value_BKX[0]
            return packed_attention(self.segments, heads, query_BQX[0], key_value_MX)[None]
        parts = query_BQX.chunk(3, -1) if key_value_BKX is None else (query_BQX, *key_value_BKX.chunk(2, -1))
        query_BHQE, key_BHKE, value_BHKE = (
            part.view(*part.shape[:2], heads, part.shape[2] // heads).transpose(1, 2) for part in parts
        )
        if self.rotations is None:
            rotate_Q = self.positions.rotation(self.position_BQ)
            same = self.position_BK is self.position_BQ
            self.rotations = rotate_Q, rotate_Q if same else self.positions.rotation(self.position_BK)
        query_BHQE, key_BHKE = self.rotations[0](query_BHQE), self.rotations[1](key_BHKE)
        if cache is not None:
            if cache:
                key_BHKE, value_BHKE = torch.cat([cache[0], key_BHKE], 2), torch.cat([cache[1], value_BHKE], 2)
            # Values are a view of queries, keys and values; a cached view would keep all three in memory.
            cache[:] = key_BHKE, value_BHKE.contiguous()
        mask_B1QK = None if self.mask_BQK is None else self.mask_BQK[:, None]
        attend = partial(F.scaled_dot_product_attention, attn_mask=mask_B1QK, is_causal=self.causal)
        if _recorded is not None:
            # Attention to an identity matrix as values gives the weights.
            eye_KK = torch.eye(key_BHKE.shape[2], dtype=key_BHKE.dtype, device=key_BHKE.device)
            _recorded.append(attend(query_BHQE, key_BHKE, eye_KK.expand(*key_BHKE.shape[:2], -1, -1)))
        mixed_BHQE: Tensor = attend(query_BHQE, key_BHKE, value_BHKE)
        return mixed_BHQE.transpose(1, 2).flatten(2)


_recorded: list[Tensor] | None = None


@contextmanager
def record_attention() -> Iterator[list[Tensor]]:
    """Collect the attention weights [B, H, Q, K] of every block that runs inside, in order."""
    global _recorded
    _recorded = []
    try:
        yield _recorded
    finally:
        _recorded = None


def use_packed_attention(positions: Positions, like: Tensor) -> bool:
    """Return whether text models can run on packed sequences of tensors like this one."""
    if positions.choice == "rope-fp16" or positions.head_width % HEAD_WIDTH_FACTOR:
        return False
    if torch.get_num_threads() > 1:  # the kernel has one thread
        return False
    return use_cpu_kernel(like) and _recorded is None and not torch.compiler.is_compiling()


def run_in_groups(
    run: Callable[[Batch, Tensor, Tensor], Tensor], length_B: Tensor, batch: Batch, order_BT: Tensor, query_BT: Tensor
) -> Tensor:
    """Return the logits of `run(batch, order_BT, query_BT)`, on a CPU computed for groups of mazes of similar length.

    A group has less padding, enough tokens to keep a CPU busy, and stays in its caches.
    """
    count = min(int(length_B.sum()) // GROUP_TOKENS, len(length_B)) if order_BT.device.type == "cpu" else 0
    if count < 2:
        return run(batch, order_BT, query_BT)
    groups = length_B.argsort(stable=True).tensor_split(count)
    logits = [run(batch.rows(rows), order_BT[rows], query_BT[rows]) for rows in groups]
    # Back to the order of the batch.
    number_BT = query_BT.flatten().cumsum(0).view_as(query_BT) - 1
    number_Q = torch.cat([number_BT[rows][query_BT[rows]] for rows in groups])
    return torch.cat(logits)[number_Q.argsort()]


class Positions(nn.Module):
    """Position encoding of one of the choices in the module's docstring."""

    def __init__(self, choice: PositionChoice, width: int, heads: int, max_length: int) -> None:
        super().__init__()
        self.choice, self.head_width = choice, width // heads
        if choice == "learned":
            self.table = nn.Embedding(max_length, width)

    def add(self, x_BTD: Tensor, position_BT: Tensor) -> Tensor:
        """Return the input of the first block: with learned positions, plus their vectors."""
        if self.choice != "learned":
            return x_BTD
        longest = self.table.num_embeddings
        if position_BT.numel() and int(position_BT.max()) >= longest:
            raise UserError(
                f"the sequence has more than {longest} tokens, the length that this model has learned positions for; "
                "use shorter sequences, or train a model with a larger max_length."
            )
        summed: Tensor = x_BTD + self.table(position_BT)
        return summed

    def angle(self, position_BT: Tensor) -> Tensor:
        """Return RoPE's angle of each pair, 0 without RoPE: [B, T, P]."""
        frequency_P = frequencies(self.head_width, position_BT.device)
        return position_BT[..., None].float() * (frequency_P if self.choice == "rope-fp32" else 0 * frequency_P)

    def rotation(self, position_BT: Tensor) -> Rotate:
        """Return the function that rotates queries or keys at these positions."""
        if self.choice == "rope-fp16":
            return _half_rotation(position_BT, frequencies(self.head_width, position_BT.device))
        if self.choice != "rope-fp32":
            return lambda x_BHTE: x_BHTE
        angle_B1TP = self.angle(position_BT)[:, None]
        cos_B1TE, sin_B1TP = torch.cat([angle_B1TP.cos()] * 2, dim=-1), angle_B1TP.sin()

        def rotate(x_BHTE: Tensor) -> Tensor:
            rotated: Tensor = _Rotation.apply(x_BHTE.float(), cos_B1TE, sin_B1TP)  # type: ignore[no-untyped-call]
            return rotated.to(x_BHTE.dtype)

        return rotate


class _Rotation(torch.autograd.Function):
    """(first, second) -> (first cos - second sin, second cos + first sin), the halves of the last dimension.

    The backward pass, the opposite rotation, needs a third of autograd's memory accesses and saves nothing of x.
    """

    @staticmethod
    def forward(ctx: Any, x_BHTE: Tensor, cos_B1TE: Tensor, sin_B1TP: Tensor) -> Tensor:
        ctx.save_for_backward(cos_B1TE, sin_B1TP)
        half = sin_B1TP.shape[-1]
        rotated = x_BHTE * cos_B1TE
        rotated[..., :half].addcmul_(x_BHTE[..., half:], sin_B1TP, value=-1)
        rotated[..., half:].addcmul_(x_BHTE[..., :half], sin_B1TP)
        return rotated

    @staticmethod
    def backward(ctx: Any, grad_BHTE: Tensor) -> tuple[Tensor, None, None]:
        cos_B1TE, sin_B1TP = ctx.saved_tensors
        return _Rotation.apply(grad_BHTE, cos_B1TE, -sin_B1TP), None, None  # type: ignore[no-untyped-call]


def _half_rotation(position_BT: Tensor, frequency_P: Tensor) -> Rotate:
    """Return RoPE as float16 autocast computes it: every result is rounded to float16."""
    half = round_to_half
    angle_B1TP = half(half(position_BT[..., None].float()) * half(frequency_P))[:, None]
    cos_B1TP, sin_B1TP = half(angle_B1TP.cos()), half(angle_B1TP.sin())

    def rotate(x_BHTE: Tensor) -> Tensor:
        x, y = half(x_BHTE.float()).chunk(2, dim=-1)
        rotated = half(x * cos_B1TP) - half(y * sin_B1TP), half(y * cos_B1TP) + half(x * sin_B1TP)
        return half(torch.cat(rotated, dim=-1)).to(x_BHTE.dtype)

    return rotate


def round_to_half(x: Tensor) -> Tensor:
    """Return the nearest float16 as float32, with the gradient of the identity, since training scales the loss."""
    return x + (x.half().float() - x).detach()


def frequencies(head_width: int, device: torch.device) -> Tensor:
    """Return RoPE's rotation of each pair of a head per position, the fastest first: [P]."""
    exponent_P = torch.arange(0, head_width, 2, dtype=torch.float32, device=device) / head_width
    return ROPE_BASE**-exponent_P


def initialize(
    model: nn.Module, config: TransformerConfig, stacks: Sequence[tuple[nn.ModuleList, Sequence[int]]]
) -> None:
    """Draw the first weights of a text model; with "lookup", heads of each stack attend to its offsets."""
    if config.init == "pytorch":
        init_pytorch(model)
        return
    init_gpt2(model, depth=len(stacks[0][0]))
    for blocks, _ in stacks[1:]:
        init_gpt2(blocks, depth=len(blocks))
    if config.init == "lookup":
        parameters = dict(model.named_parameters())
        for name in ("embedding.weight", "query"):
            if name in parameters:
                nn.init.normal_(parameters[name], std=EMBEDDING_DEVIATION)
        for blocks, offsets in stacks:
            init_lookup_heads(blocks, offsets, config.rotary)


def init_gpt2(module: nn.Module, depth: int) -> None:
    """Initialize as GPT-2: outputs to the residual stream are smaller, so that it does not grow with the depth."""
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


@torch.no_grad()
def init_lookup_heads(blocks: nn.ModuleList, offsets: Sequence[int], rotary: bool) -> None:
    """Make the first heads of each block attend to these offsets, one each, and the others to equal tokens.

    Without RoPE the first heads stay GPT-2's. Outputs are small, so that the token dominates the residual stream.
    (After "Mimetic initialization of self-attention layers", Trockman and Kolter, 2023.)
    """
    for block in blocks:
        assert isinstance(block, Block)
        query_DD, key_DD, value_DD, query_D, key_D, _ = block.projections()
        for head, rows in enumerate(torch.arange(len(query_DD)).chunk(block.heads)):
            if head >= len(offsets):
                same_ED = _equal_token_projection(query_DD[rows])
                query_DD[rows] += same_ED
                key_DD[rows] += same_ED
            elif rotary:
                query_D[rows], key_D[rows] = _offset_query_and_key(query_D[rows], offsets[head])
        nn.init.orthogonal_(value_DD)
        nn.init.orthogonal_(block.attention_out.weight, gain=OUT_SCALE)


def _equal_token_projection(like_ED: Tensor) -> Tensor:
    """Return a random projection onto the slow half of the pairs, which hardly rotate; pair p is rows p and p + P."""
    pairs, width = like_ED.shape[0] // 2, like_ED.shape[1]
    slow = pairs - pairs // 2
    projection_ED = torch.zeros_like(like_ED)
    directions = nn.init.orthogonal_(like_ED.new_empty(2 * slow, width), gain=MATCH_SCALE)
    projection_ED.view(2, pairs, width)[:, pairs - slow :] = directions.view(2, slow, width)
    return projection_ED


def _offset_query_and_key(like_E: Tensor, offset: int) -> tuple[Tensor, Tensor]:
    """Return a constant query and key whose score after RoPE is highest for keys `offset` positions further on.

    The score at distance d is sum_p |q_p| |k_p| cos(w_p d + their angle). The fast pairs make the peak narrow.
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
