"""The text models: the paper's MLM-U encoder-decoder, and the next-token decoder.

    model = EncoderDecoder(EncoderDecoderConfig(vocabulary=128))      # or DecoderOnly(DecoderOnlyConfig(...))
    logits_QV = model(batch, order_BT, query_BT)

`EncoderDecoder`: the encoder runs over the tokens that some query attends to. The decoder runs over the queries; its
input is one learned vector plus position, and it attends to the encoder's final output at lower orders only (see
clew.models.config). Encoder position k attends to j if order[j] <= order[k]; with `causal`, positions of one order also
attend only backwards, and without `attend_self` not to themselves, except the first (the published code's causal
encoder), so that it is trained on whole paths and decoded step by step.

`DecoderOnly`: a GPT-2-like decoder; position t is predicted from tokens 0 .. t-1. With `bos_id` that token stands
before every sequence, at position 0, and token t at position t + 1. Targets of any order but left to right are refused.
The sequence is cut after the last necessary token. Decoding uses a cache of keys and values:

    cache = model.new_cache()
    x_BSD = model.extend(cache, token_BS, position_BS, real_BS)  # the prompts, padding after the shorter ones
    x_B1D = model.extend(cache, token_B1, position_B1)           # then one token at a time
    logits_BV = model.head(x_B1D[:, -1])

On a CPU both run in groups of mazes of similar length. `model.naive = True` computes all positions, as the published
code does, with the same logits.

Shape suffixes: B mazes, T positions, S new positions, K keys or positions in the cache, Q queries (of a maze, padded;
of the whole batch in logits), D width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.data.batch import Batch
from clew.errors import UserError
from clew.models.blocks import Attention, Block, Positions, initialize, run_in_groups, use_packed_attention
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig, TransformerConfig, attended


class TextModel(nn.Module):
    """Embedding, positions, and a head that is the transposed embedding."""

    head_bias: nn.Parameter | None
    naive = False

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.positions = Positions(config.positions, config.width, config.heads, config.max_length)

    def head(self, x: Tensor) -> Tensor:
        """Return logits [..., V]."""
        return F.linear(x, self.embedding.weight, self.head_bias)

    def run_blocks(
        self,
        blocks: nn.ModuleList,
        x_BTD: Tensor,
        position_BT: Tensor,
        attention: Attention,
        memory_BKD: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        x_BTD = self.positions.add(x_BTD, position_BT)
        for number, block in enumerate(blocks):
            x_BTD = block(x_BTD, attention, memory_BKD, cache.blocks[number] if cache is not None else None)
        return x_BTD

    def _is_packed(self) -> bool:
        return not self.naive and use_packed_attention(self.positions, self.embedding.weight)

    def _read(self, x_BTD: Tensor, read_BT: Tensor) -> Tensor:
        return self.head(x_BTD)[read_BT] if self.naive else self.head(x_BTD[read_BT])


class EncoderDecoder(TextModel):
    """See the module's docstring."""

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config)
        self.config = config
        block = config.width, config.heads, config.activation
        self.encoder = nn.ModuleList(Block(*block) for _ in range(config.encoder_depth))
        self.encoder_norm = nn.LayerNorm(config.width)
        self.query = nn.Parameter(torch.empty(config.width))
        self.decoder = nn.ModuleList(Block(*block, cross=True) for _ in range(config.decoder_depth))
        self.decoder_norm = nn.LayerNorm(config.width)
        self.head_bias = nn.Parameter(torch.empty(config.vocabulary)) if config.head_bias else None
        initialize(self, config, [(self.encoder, (-1, -2) if config.causal else (1, -1)), (self.decoder, (-1, 1))])

    def forward(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        if self.naive:
            return self._logits(batch, order_BT, query_BT)
        return run_in_groups(self._logits, attended(order_BT, query_BT).sum(1), batch, order_BT, query_BT)

    def _logits(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        if self.naive:
            position_BK = position_BQ = torch.arange(order_BT.shape[1], device=order_BT.device).expand_as(order_BT)
            real_BK, real_BQ = order_BT >= 0, query_BT
        else:
            # Keys by order, then position: a causal mask is then a plain triangle, and padding comes last.
            position_BK, real_BK = pack(attended(order_BT, query_BT), order_BT)
            position_BQ, real_BQ = pack(query_BT)
        token_BK = batch.tokens_BT.gather(1, position_BK).masked_fill(~real_BK, 0)
        encoder_attention, decoder_attention = self._attention(order_BT, position_BK, real_BK, position_BQ)
        if self._is_packed():
            encoder_attention.pack(real_BK, real_BK)
            decoder_attention.pack(real_BQ, real_BK)
            token_BK, position_BK = token_BK[real_BK][None], position_BK[real_BK][None]
            position_BQ, real_BQ = position_BQ[real_BQ][None], real_BQ[real_BQ][None]
        x_BKD = self.run_blocks(self.encoder, self.embedding(token_BK), position_BK, encoder_attention)
        query_BQD = self.query.expand(*position_BQ.shape, -1)
        x_BQD = self.run_blocks(self.decoder, query_BQD, position_BQ, decoder_attention, self.encoder_norm(x_BKD))
        return self._read(self.decoder_norm(x_BQD), real_BQ)

    def _attention(
        self, order_BT: Tensor, position_BK: Tensor, real_BK: Tensor, position_BQ: Tensor
    ) -> tuple[Attention, Attention]:
        # What is no query attends to order 0, since a softmax over nothing is NaN.
        order_BQ1 = order_BT.gather(1, position_BQ).clamp(min=1)[:, :, None]
        order_BK = order_BT.gather(1, position_BK).clamp(min=0)
        order_B1K, order_BK1, real_B1K = order_BK[:, None], order_BK[:, :, None], real_BK[:, None]
        encoder_mask: Tensor | None
        decoder_mask: Tensor | None
        if bool((order_BK * real_BK).any()):
            encoder_mask, decoder_mask = real_B1K & (order_B1K <= order_BK1), real_B1K & (order_B1K < order_BQ1)
        else:
            encoder_mask = decoder_mask = None if bool(real_BK.all()) else real_B1K
        causal = self.config.causal and self.config.attend_self and not self.naive
        if causal:
            encoder_mask = None
        elif self.config.causal:
            # Backwards, or to itself if that is wanted or it is the first.
            before_BKK = position_BK[:, None] < (position_BK[:, :, None] + self.config.attend_self).clamp(min=1)
            encoder_mask = real_B1K & ((order_B1K < order_BK1) | ((order_B1K == order_BK1) & before_BKK))
        return (
            Attention(self.positions, position_BK, position_BK, encoder_mask, causal),
            Attention(self.positions, position_BQ, position_BK, decoder_mask),
        )


def pack(keep_BT: Tensor, order_BT: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the kept positions of each maze, by `order_BT` and then position, and which are no padding: both [B, K].

    K is at least 1, so that a batch without queries still runs through every weight and gives each a zero gradient.
    """
    count_B = keep_BT.sum(dim=1)
    widest = max(int(count_B.max()), 1)
    order_BT = torch.zeros_like(keep_BT, dtype=torch.int64) if order_BT is None else order_BT
    last = torch.iinfo(order_BT.dtype).max
    position_BK = order_BT.masked_fill(~keep_BT, last).argsort(dim=1, stable=True)[:, :widest]
    return position_BK, torch.arange(widest, device=keep_BT.device) < count_B[:, None]


@dataclass
class Cache:
    """Keys and values of the tokens so far; `real_BK` is False at padding, or None if there is none."""

    blocks: list[list[Tensor]]
    real_BK: Tensor | None = None

    def keep(self, rows: Tensor) -> None:
        """Remove all other mazes."""
        self.blocks = [[x_BHKE[rows] for x_BHKE in block] for block in self.blocks]
        if self.real_BK is not None:
            self.real_BK = self.real_BK[rows]


class DecoderOnly(TextModel):
    """See the module's docstring."""

    def __init__(self, config: DecoderOnlyConfig) -> None:
        super().__init__(config)
        self.config = config
        self.blocks = nn.ModuleList(Block(config.width, config.heads, config.activation) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.width)
        self.head_bias = nn.Parameter(torch.empty(config.vocabulary)) if config.head_bias else None
        initialize(self, config, [(self.blocks, (-1, -2))])

    def forward(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        check_left_to_right(order_BT, query_BT)
        if self.naive:
            return self._logits(batch, order_BT, query_BT)
        position_T = torch.arange(query_BT.shape[1], device=query_BT.device)
        return run_in_groups(self._logits, (query_BT * position_T).amax(1), batch, order_BT, query_BT)

    def _logits(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        token_BT = batch.tokens_BT.masked_fill(order_BT < 0, 0)
        if self.config.bos_id is None:
            read_BT = query_BT.roll(-1, dims=1)  # the logits of t are read at t - 1
        else:
            token_BT, read_BT = F.pad(token_BT, (1, -1), value=self.config.bos_id), query_BT
        position_BT = torch.arange(token_BT.shape[1], device=token_BT.device).expand_as(token_BT)
        # At least one token, so that a batch without queries still gives every weight a zero gradient.
        length = token_BT.shape[1] if self.naive else max(int((read_BT * (position_BT + 1)).max()), 1)
        token_BT, position_BT, read_BT = token_BT[:, :length], position_BT[:, :length], read_BT[:, :length]
        attention = Attention(self.positions, position_BT, position_BT, causal=True)
        if self._is_packed():
            real_BT = read_BT.flip(1).cumsum(1).flip(1) > 0  # up to the last one that is read
            attention.pack(real_BT, real_BT)
            token_BT, position_BT, read_BT = token_BT[real_BT][None], position_BT[real_BT][None], read_BT[real_BT][None]
        x_BTD = self.run_blocks(self.blocks, self.embedding(token_BT), position_BT, attention)
        return self._read(self.norm(x_BTD), read_BT)

    def new_cache(self) -> Cache:
        return Cache([[] for _ in self.blocks])

    def extend(self, cache: Cache, token_BS: Tensor, position_BS: Tensor, real_BS: Tensor | None = None) -> Tensor:
        """Append the prompts, with padding where `real_BS` is False, or then one token of each maze, to the cache.

        Return the input of the head, [B, S, D]; at padding it has no meaning.
        """
        bos_id, is_first = self.config.bos_id, not cache.blocks[0]
        position_BS = position_BS if bos_id is None else position_BS + 1
        mask_B1K = None
        if is_first:
            if real_BS is not None:
                token_BS = token_BS.masked_fill(~real_BS, 0)
            if bos_id is not None:
                token_BS, position_BS = F.pad(token_BS, (1, 0), value=bos_id), F.pad(position_BS, (1, 0))
                real_BS = None if real_BS is None else F.pad(real_BS, (1, 0), value=True)
            # Padding comes after all tokens of its maze, so the causal mask already hides it.
            cache.real_BK = None if real_BS is None or bool(real_BS.all()) else real_BS
        else:
            assert token_BS.shape[1] == 1, "after the prompts one token is appended at a time"
            if cache.real_BK is not None:
                cache.real_BK = F.pad(cache.real_BK, (0, 1), value=True)
                mask_B1K = cache.real_BK[:, None]
        attention = Attention(self.positions, position_BS, position_BS, mask_B1K, causal=is_first)
        x_BSD = self.run_blocks(self.blocks, self.embedding(token_BS), position_BS, attention, cache=cache)
        out_BSD: Tensor = self.norm(x_BSD)
        return out_BSD[:, 1:] if is_first and bos_id is not None else out_BSD


def check_left_to_right(order_BT: Tensor, query_BT: Tensor) -> None:
    """Raise UserError unless every query attends to exactly the positions to its left."""
    rises = order_BT[:, 1:] > order_BT[:, :-1]
    never_falls = (order_BT[:, 1:] >= order_BT[:, :-1]) | (order_BT[:, 1:] < 0)
    if not bool(never_falls.all() & (rises | ~query_BT[:, 1:]).all() & ~query_BT[:, 0].any()):
        raise UserError(
            "a decoder-only model predicts from left to right only, but this objective hides tokens in another order; "
            "train it with next-token, or use an encoder-decoder model."
        )
