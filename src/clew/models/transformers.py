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
from clew.models.blocks import (
    EMBEDDING_DEVIATION,
    AttentionMask,
    CrossBlock,
    Positions,
    SelfBlock,
    init_gpt2,
    init_lookup_heads,
    init_pytorch,
    pack_mask,
    run_in_groups,
    use_packed_attention,
)
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


class EncoderDecoder(TextModel):
    """See the module's docstring."""

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__(config)
        self.config = config
        block = config.width, config.heads, config.activation
        self.encoder = nn.ModuleList(SelfBlock(*block) for _ in range(config.encoder_depth))
        self.encoder_norm = nn.LayerNorm(config.width)
        self.query = nn.Parameter(torch.empty(config.width))
        self.decoder = nn.ModuleList(CrossBlock(*block) for _ in range(config.decoder_depth))
        self.decoder_norm = nn.LayerNorm(config.width)
        self.head_bias = nn.Parameter(torch.empty(config.vocabulary)) if config.head_bias else None
        if config.init == "pytorch":
            init_pytorch(self)
        else:
            init_gpt2(self, depth=config.encoder_depth)
            init_gpt2(self.decoder, depth=config.decoder_depth)
        if config.init == "lookup":
            nn.init.normal_(self.embedding.weight, std=EMBEDDING_DEVIATION)
            nn.init.normal_(self.query, std=EMBEDDING_DEVIATION)
            init_lookup_heads(self.encoder, (-1, -2) if config.causal else (1, -1), config.rotary)
            init_lookup_heads(self.decoder, (-1, 1), config.rotary)

    def forward(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        if self.naive:
            return self._everywhere(batch, order_BT, query_BT)
        return run_in_groups(self._where_needed, attended(order_BT, query_BT).sum(1), batch, order_BT, query_BT)

    def _where_needed(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        # Keys by order, then position: a causal mask is then a plain triangle, and padding comes last.
        position_BK, real_BK = pack(attended(order_BT, query_BT), order_BT)
        order_BK = order_BT.gather(1, position_BK)
        token_BK = batch.tokens_BT.gather(1, position_BK).masked_fill(~real_BK, 0)
        position_BQ, real_BQ = pack(query_BT)
        # Padding among the queries attends to everything, since a softmax over nothing is NaN.
        order_BQ = order_BT.gather(1, position_BQ).masked_fill(~real_BQ, torch.iinfo(order_BT.dtype).max)

        real_B1K = real_BK[:, None]
        if bool((order_BK * real_BK).any()):
            encoder_mask = AttentionMask(real_B1K & (order_BK[:, None] <= order_BK[:, :, None]))
            decoder_mask = AttentionMask(real_B1K & (order_BK[:, None] < order_BQ[:, :, None]))
        else:
            encoder_mask = decoder_mask = AttentionMask(None if bool(real_BK.all()) else real_B1K)
        if self.config.causal:
            encoder_mask = AttentionMask(causal=True)
            if not self.config.attend_self:
                encoder_mask = AttentionMask(_strictly_before(position_BK)[None])
        if use_packed_attention(self.positions, self.embedding.weight):
            keys, queries = (position_BK, real_BK), (position_BQ, real_BQ)
            encoder_mask = pack_mask(encoder_mask, self.positions, *keys, *keys)
            decoder_mask = pack_mask(decoder_mask, self.positions, *queries, *keys)
            token_BK, position_BK = token_BK[real_BK][None], position_BK[real_BK][None]
            position_BQ = position_BQ[real_BQ][None]
            real_BQ = torch.ones_like(position_BQ, dtype=torch.bool)
        memory_BKD = self.encode(token_BK, position_BK, encoder_mask)
        return self.head(self.decode(memory_BKD, position_BK, position_BQ, decoder_mask)[real_BQ])

    def encode(self, token_BK: Tensor, position_BK: Tensor, mask: AttentionMask) -> Tensor:
        """Return the memory of the decoder."""
        x_BKD = self.positions.add(self.embedding(token_BK), position_BK)
        rotate = self.positions.rotation(position_BK)
        for block in self.encoder:
            x_BKD = block(x_BKD, rotate, mask)
        memory_BKD: Tensor = self.encoder_norm(x_BKD)
        return memory_BKD

    def decode(self, memory_BKD: Tensor, position_BK: Tensor, position_BQ: Tensor, mask: AttentionMask) -> Tensor:
        """Return the input of the head at the queries."""
        x_BQD = self.positions.add(self.query.expand(*position_BQ.shape, -1), position_BQ)
        rotate_Q, rotate_K = self.positions.rotation(position_BQ), self.positions.rotation(position_BK)
        for block in self.decoder:
            x_BQD = block(x_BQD, memory_BKD, rotate_Q, rotate_K, mask)
        out_BQD: Tensor = self.decoder_norm(x_BQD)
        return out_BQD

    def _everywhere(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        """Return the same logits, computed at all T positions with dense masks."""
        token_BT = batch.tokens_BT.masked_fill(order_BT < 0, 0)
        position_T = torch.arange(order_BT.shape[1], device=order_BT.device)
        position_BT = position_T.expand_as(order_BT)
        key_B1T, row_BT1 = order_BT[:, None], order_BT.clamp(min=0)[:, :, None]
        encoder_BTT = (key_B1T >= 0) & (key_B1T <= row_BT1)
        if self.config.causal:
            before_TT = position_T <= position_T[:, None] if self.config.attend_self else _strictly_before(position_BT)
            encoder_BTT &= (key_B1T < row_BT1) | before_TT
        # Positions that are no query attend to order 0, so that their softmax is finite.
        decoder_BTT = (key_B1T >= 0) & (key_B1T < row_BT1.clamp(min=1))
        memory_BTD = self.encode(token_BT, position_BT, AttentionMask(encoder_BTT))
        logits_BTV = self.head(self.decode(memory_BTD, position_BT, position_BT, AttentionMask(decoder_BTT)))
        return logits_BTV[query_BT]


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


def _strictly_before(position_BK: Tensor) -> Tensor:
    """Return a mask [K, K] in which each token attends to those before it, and the first to itself."""
    count = position_BK.shape[1]
    before_KK = torch.ones(count, count, dtype=torch.bool, device=position_BK.device).tril(-1)
    before_KK[0, 0] = True
    return before_KK


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
        block = config.width, config.heads, config.activation
        self.blocks = nn.ModuleList(SelfBlock(*block) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.width)
        self.head_bias = nn.Parameter(torch.empty(config.vocabulary)) if config.head_bias else None
        if config.init == "pytorch":
            init_pytorch(self)
        else:
            init_gpt2(self, depth=config.depth)
        if config.init == "lookup":
            nn.init.normal_(self.embedding.weight, std=EMBEDDING_DEVIATION)
            init_lookup_heads(self.blocks, (-1, -2), config.rotary)

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
        mask = AttentionMask(causal=True)
        if not self.naive and use_packed_attention(self.positions, self.embedding.weight):
            real_BT = read_BT.flip(1).cumsum(1).flip(1) > 0  # up to the last one that is read
            mask = pack_mask(mask, self.positions, position_BT, real_BT, position_BT, real_BT)
            token_BT, position_BT, read_BT = token_BT[real_BT][None], position_BT[real_BT][None], read_BT[real_BT][None]
        x_BTD = self._run(token_BT, position_BT, mask)
        return self.head(x_BTD)[read_BT] if self.naive else self.head(x_BTD[read_BT])

    def new_cache(self) -> Cache:
        return Cache([[] for _ in self.blocks])

    def extend(self, cache: Cache, token_BS: Tensor, position_BS: Tensor, real_BS: Tensor | None = None) -> Tensor:
        """Append the prompts, with padding where `real_BS` is False, or then one token of each maze, to the cache.

        Return the input of the head, [B, S, D]; at padding it has no meaning.
        """
        bos_id = self.config.bos_id
        position_BS = position_BS if bos_id is None else position_BS + 1
        if cache.blocks[0]:
            assert token_BS.shape[1] == 1, "after the prompts one token is appended at a time"
            if cache.real_BK is not None:
                cache.real_BK = F.pad(cache.real_BK, (0, 1), value=True)
            mask = AttentionMask(None if cache.real_BK is None else cache.real_BK[:, None])
            return self._run(token_BS, position_BS, mask, cache)
        if real_BS is not None:
            token_BS = token_BS.masked_fill(~real_BS, 0)
        if bos_id is not None:
            token_BS, position_BS = F.pad(token_BS, (1, 0), value=bos_id), F.pad(position_BS, (1, 0))
            real_BS = None if real_BS is None else F.pad(real_BS, (1, 0), value=True)
        cache.real_BK = None if real_BS is None or bool(real_BS.all()) else real_BS
        # Padding comes after all tokens of its maze, so the causal mask already hides it.
        x_BSD = self._run(token_BS, position_BS, AttentionMask(causal=True), cache)
        return x_BSD if bos_id is None else x_BSD[:, 1:]

    def _run(self, token_BT: Tensor, position_BT: Tensor, mask: AttentionMask, cache: Cache | None = None) -> Tensor:
        x_BTD = self.positions.add(self.embedding(token_BT), position_BT)
        rotate = self.positions.rotation(position_BT)
        for number, block in enumerate(self.blocks):
            x_BTD = block(x_BTD, rotate, mask, cache.blocks[number] if cache is not None else None)
        out_BTD: Tensor = self.norm(x_BTD)
        return out_BTD


def check_left_to_right(order_BT: Tensor, query_BT: Tensor) -> None:
    """Raise UserError unless every query attends to exactly the positions to its left."""
    rises = order_BT[:, 1:] > order_BT[:, :-1]
    never_falls = (order_BT[:, 1:] >= order_BT[:, :-1]) | (order_BT[:, 1:] < 0)
    if not bool(never_falls.all() & (rises | ~query_BT[:, 1:]).all() & ~query_BT[:, 0].any()):
        raise UserError(
            "a decoder-only model predicts from left to right only, but this objective hides tokens in another order; "
            "train it with next-token, or use an encoder-decoder model."
        )
