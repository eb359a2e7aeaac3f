"""The paper's MLM-U model: an encoder over what is visible, a decoder that has nothing but its place and the encoder.

    model = EncoderDecoder(EncoderDecoderConfig(vocabulary=128))
    logits_QV = model(batch, order_BT, query_BT)

The decoder's input is one learned vector, the same at every asked position, and its blocks have no self-attention:
a query knows where it stands (RoPE) and asks the encoder's final output, in every block. The head is the embedding,
transposed, with a bias.

Who sees whom follows from the ranks (see clew.models.config). A query sees the encoder's output at lower ranks.
Token j is part of the encoder's output at k if j's rank is not above k's; with `causal`, tokens of one rank also look
only back, and with `attend_self` off each attends to those before it and not to itself. The first has none before it
and attends to itself. That is the published code's causal encoder.
A causal model therefore gives the same answer for "the prefix is visible, the rest is hidden" (ranks 0 and
1) as for next token (ranks 0, 1, 2, ...), so that it may be trained on all of a path at once and used step by step.

Only what is needed is computed: the encoder runs over tokens that some query sees, the decoder over asked positions.
On a CPU, mazes that show about as many tokens run together, so that little is padded.
`model.naive = True` computes everything at every position instead, as the published code does, with the same numbers.

Shape suffixes: B mazes, T positions, K tokens that are seen, Q asked positions (of a maze, padded; of the whole batch
in the answer), D width, V vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.data.batch import Batch
from clew.models.blocks import AttentionMask, CrossBlock, SelfBlock, init_lookup_heads, run_in_groups
from clew.models.config import EncoderDecoderConfig, needed, seen_and_asked
from clew.models.initialization import initialise, initialise_as_torch, scale_embeddings
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
        if config.start == "pytorch":
            initialise_as_torch(self)
        else:
            initialise(self, depth=config.encoder_depth)
            initialise(self.decoder, depth=config.decoder_depth)
        if config.start == "lookup":
            scale_embeddings(self.embedding.weight, self.query)
            init_lookup_heads(self.encoder, (-1, -2) if config.causal else (1, -1), config.rotary)
            init_lookup_heads(self.decoder, (-1, 1), config.rotary)

    def forward(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        if self.naive:
            return self._everywhere(batch, order_BT, query_BT)
        seen_B, _ = seen_and_asked(order_BT, query_BT)
        return run_in_groups(self._where_needed, seen_B, batch, order_BT, query_BT)

    def _where_needed(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        # Tokens by rank, then place: the causal rule is then a plain triangle, and padding comes last.
        place_BK, real_BK = pack(needed(order_BT, query_BT), order_BT)
        rank_BK = order_BT.gather(1, place_BK)
        token_BK = batch.tokens_BT.gather(1, place_BK).masked_fill(~real_BK, 0)
        place_BQ, asked_BQ = pack(query_BT)
        # An empty place of a query sees all, since a softmax over nothing is not a number.
        rank_BQ = order_BT.gather(1, place_BQ).masked_fill(~asked_BQ, torch.iinfo(order_BT.dtype).max)

        one_level = not bool((rank_BK * real_BK).any())
        real_B1K = None if bool(real_BK.all()) else real_BK[:, None]
        if self.config.causal:
            encoder_sees = (
                AttentionMask(causal=True) if self.config.attend_self else _seen(_strictly_before(place_BK)[None])
            )
        elif one_level:
            encoder_sees = _seen(real_B1K)
        else:
            encoder_sees = _seen(real_BK[:, None] & (rank_BK[:, None] <= rank_BK[:, :, None]))
        decoder_sees = _seen(real_B1K if one_level else real_BK[:, None] & (rank_BK[:, None] < rank_BQ[:, :, None]))

        memory_BKD = self.encode(token_BK, place_BK, encoder_sees)
        x_BQD = self.decode(memory_BKD, place_BK, place_BQ, decoder_sees)
        return self.head(x_BQD[asked_BQ])

    def encode(self, token_BK: Tensor, place_BK: Tensor, seen: AttentionMask) -> Tensor:
        """The memory: what the encoder makes of these tokens at these places of the sequence."""
        x_BKD = self.positions.add(self.embedding(token_BK), place_BK)
        rotate = self.positions.rotation(place_BK)
        for block in self.encoder:
            x_BKD = block(x_BKD, rotate, seen)
        memory_BKD: Tensor = self.encoder_norm(x_BKD)
        return memory_BKD

    def decode(self, memory_BKD: Tensor, place_BK: Tensor, place_BQ: Tensor, seen: AttentionMask) -> Tensor:
        """What the queries at these places make of the memory, ready for the head."""
        x_BQD = self.positions.add(self.query.expand(*place_BQ.shape, -1), place_BQ)
        rotate_Q, rotate_K = self.positions.rotation(place_BQ), self.positions.rotation(place_BK)
        for block in self.decoder:
            x_BQD = block(x_BQD, memory_BKD, rotate_Q, rotate_K, seen)
        out_BQD: Tensor = self.decoder_norm(x_BQD)
        return out_BQD

    def head(self, x: Tensor) -> Tensor:
        """Logits [..., V]."""
        return F.linear(x, self.embedding.weight, self.head_bias)

    def _everywhere(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        """The same numbers, with encoder, decoder and head at all T positions and dense masks."""
        token_BT = batch.tokens_BT.masked_fill(order_BT < 0, 0)
        place_T = torch.arange(order_BT.shape[1], device=order_BT.device)
        place_BT = place_T.expand_as(order_BT)
        key_B1T, row_BT1 = order_BT[:, None], order_BT.clamp(min=0)[:, :, None]
        not_padding_B1T = key_B1T >= 0
        encoder_BTT = not_padding_B1T & (key_B1T <= row_BT1)
        if self.config.causal:
            before_TT = place_T <= place_T[:, None] if self.config.attend_self else _strictly_before(place_BT)
            encoder_BTT &= (key_B1T < row_BT1) | before_TT
        # Positions that nobody asks for see what is visible, so that their numbers are numbers.
        decoder_BTT = not_padding_B1T & (key_B1T < row_BT1.clamp(min=1))
        memory_BTD = self.encode(token_BT, place_BT, _seen(encoder_BTT))
        logits_BTV = self.head(self.decode(memory_BTD, place_BT, place_BT, _seen(decoder_BTT)))
        return logits_BTV[query_BT]


def pack(keep_BT: Tensor, order_BT: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The kept positions of each maze side by side, and which of these places are real: both [B, K].

    K is the number of the maze that keeps most, at least 1, so that a batch without targets still runs through
    every weight and gives each a zero gradient. In order of position, or of `order_BT` and then position.
    """
    count_B = keep_BT.sum(dim=1)
    widest = max(int(count_B.max()), 1)
    order_BT = torch.zeros_like(keep_BT, dtype=torch.int64) if order_BT is None else order_BT
    last = torch.iinfo(order_BT.dtype).max
    place_BK = order_BT.masked_fill(~keep_BT, last).argsort(dim=1, stable=True)[:, :widest]
    real_BK = torch.arange(widest, device=keep_BT.device) < count_B[:, None]
    return place_BK, real_BK


def _strictly_before(place_BK: Tensor) -> Tensor:
    """Mask [K, K]: each of K tokens attends to those before it, and the first one to itself (else softmax is nan)."""
    count = place_BK.shape[1]
    before_KK = torch.ones(count, count, dtype=torch.bool, device=place_BK.device).tril(-1)
    before_KK[0, 0] = True
    return before_KK


def _seen(mask_BQK: Tensor | None) -> AttentionMask:
    return AttentionMask(None if mask_BQK is None else mask_BQK[:, None])
