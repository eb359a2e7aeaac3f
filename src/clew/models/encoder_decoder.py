"""The MLM-U encoder-decoder of the paper.

    model = EncoderDecoder(EncoderDecoderConfig(vocabulary=128))
    logits_QV = model(batch, order_BT, query_BT)

The encoder reads the visible tokens. The decoder's input is one learned vector at every query plus its position
(RoPE); its blocks have no self-attention and attend to the encoder's final output. The head is the transposed
embedding, with a bias.

The attention masks are derived from `order` (see clew.models.config). A query attends to the encoder's output at lower
orders. Encoder position k attends to j if order[j] <= order[k]; with `causal`, positions of one order also attend only
backwards, and without `attend_self` not to themselves, except the first (the published code's causal encoder). So a
causal model gives the same logits for "prefix visible, rest hidden" (orders 0 and 1) as for next token (orders 0, 1,
2, ...): it is trained on whole paths and decoded step by step.

The encoder runs over tokens that some query attends to, the decoder over queries, on a CPU in groups of mazes of
similar length. `model.naive = True` computes all positions, as the published code does, with the same logits.

Shape suffixes: B mazes, T positions, K keys, Q queries (of a maze, padded; of the whole batch in logits), D width,
V vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.data.batch import Batch
from clew.models.blocks import AttentionMask, CrossBlock, SelfBlock, init_lookup_heads, run_in_groups
from clew.models.config import EncoderDecoderConfig, attended
from clew.models.initialization import init_gpt2, init_pytorch, scale_embeddings
from clew.models.positions import make_positions


class EncoderDecoder(nn.Module):
    """See the module's docstring."""

    def __init__(self, config: EncoderDecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.naive = False
        width, heads = config.width, config.heads
        self.embedding = nn.Embedding(config.vocabulary, width)
        self.positions = make_positions(config.positions, width, heads, config.max_length)
        self.encoder = nn.ModuleList(SelfBlock(width, heads, config.activation) for _ in range(config.encoder_depth))
        self.encoder_norm = nn.LayerNorm(width)
        self.query = nn.Parameter(torch.empty(width))
        self.decoder = nn.ModuleList(CrossBlock(width, heads, config.activation) for _ in range(config.decoder_depth))
        self.decoder_norm = nn.LayerNorm(width)
        self.head_bias = nn.Parameter(torch.empty(config.vocabulary)) if config.head_bias else None
        if config.init == "pytorch":
            init_pytorch(self)
        else:
            init_gpt2(self, depth=config.encoder_depth)
            init_gpt2(self.decoder, depth=config.decoder_depth)
        if config.init == "lookup":
            scale_embeddings(self.embedding.weight, self.query)
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
            encoder_mask = AttentionMask.of(real_B1K & (order_BK[:, None] <= order_BK[:, :, None]))
            decoder_mask = AttentionMask.of(real_B1K & (order_BK[:, None] < order_BQ[:, :, None]))
        else:
            encoder_mask = decoder_mask = AttentionMask.of(None if bool(real_BK.all()) else real_B1K)
        if self.config.causal:
            encoder_mask = AttentionMask(causal=True)
            if not self.config.attend_self:
                encoder_mask = AttentionMask.of(_strictly_before(position_BK)[None])
        memory_BKD = self.encode(token_BK, position_BK, encoder_mask)
        return self.head(self.decode(memory_BKD, position_BK, position_BQ, decoder_mask)[real_BQ])

    def encode(self, token_BK: Tensor, position_BK: Tensor, mask: AttentionMask) -> Tensor:
        """Return the encoder's output, the memory of the decoder."""
        x_BKD = self.positions.add(self.embedding(token_BK), position_BK)
        rotate = self.positions.rotation(position_BK)
        for block in self.encoder:
            x_BKD = block(x_BKD, rotate, mask)
        memory_BKD: Tensor = self.encoder_norm(x_BKD)
        return memory_BKD

    def decode(self, memory_BKD: Tensor, position_BK: Tensor, position_BQ: Tensor, mask: AttentionMask) -> Tensor:
        """Return the decoder's output at the queries, the input of the head."""
        x_BQD = self.positions.add(self.query.expand(*position_BQ.shape, -1), position_BQ)
        rotate_Q, rotate_K = self.positions.rotation(position_BQ), self.positions.rotation(position_BK)
        for block in self.decoder:
            x_BQD = block(x_BQD, memory_BKD, rotate_Q, rotate_K, mask)
        out_BQD: Tensor = self.decoder_norm(x_BQD)
        return out_BQD

    def head(self, x: Tensor) -> Tensor:
        """Return logits [..., V]."""
        return F.linear(x, self.embedding.weight, self.head_bias)

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
        memory_BTD = self.encode(token_BT, position_BT, AttentionMask.of(encoder_BTT))
        logits_BTV = self.head(self.decode(memory_BTD, position_BT, position_BT, AttentionMask.of(decoder_BTT)))
        return logits_BTV[query_BT]


def pack(keep_BT: Tensor, order_BT: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the kept positions of each maze side by side, and which of them are no padding: both [B, K].

    K is the largest number of kept positions, at least 1, so that a batch without queries still runs through every
    weight and gives each a zero gradient. Sorted by position, or by `order_BT` and then position.
    """
    count_B = keep_BT.sum(dim=1)
    widest = max(int(count_B.max()), 1)
    order_BT = torch.zeros_like(keep_BT, dtype=torch.int64) if order_BT is None else order_BT
    last = torch.iinfo(order_BT.dtype).max
    position_BK = order_BT.masked_fill(~keep_BT, last).argsort(dim=1, stable=True)[:, :widest]
    return position_BK, torch.arange(widest, device=keep_BT.device) < count_B[:, None]


def _strictly_before(position_BK: Tensor) -> Tensor:
    """Return a mask [K, K] in which each token attends to those before it, and the first to itself (no empty row)."""
    count = position_BK.shape[1]
    before_KK = torch.ones(count, count, dtype=torch.bool, device=position_BK.device).tril(-1)
    before_KK[0, 0] = True
    return before_KK
