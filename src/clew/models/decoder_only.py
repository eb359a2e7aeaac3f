"""The next-token model: a GPT-2-like decoder.

    model = DecoderOnly(DecoderOnlyConfig(vocabulary=128))
    logits_QV = model(batch, order_BT, query_BT)      # position t is predicted from tokens 0 .. t-1

With `bos_id` that token stands before every sequence, at position 0, and token t at position t + 1. Targets of any
order but left to right are refused. The sequence is cut after the last necessary token, and only queries go through the
head; `model.naive = True` computes all positions.

Decoding uses a cache of keys and values:

    cache = model.new_cache()
    x_BSD = model.extend(cache, token_BS, position_BS, real_BS)  # the prompts, padding after the shorter ones
    x_B1D = model.extend(cache, token_B1, position_B1)           # then one token at a time
    logits_BV = model.head(x_B1D[:, -1])

Shape suffixes: B mazes, T positions, S new positions, K positions in the cache, Q queries of the whole batch, D width,
V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.data.batch import Batch
from clew.errors import UserError
from clew.models.blocks import AttentionMask, KeysAndValues, SelfBlock, init_lookup_heads, run_in_groups
from clew.models.config import DecoderOnlyConfig
from clew.models.initialization import init_gpt2, init_pytorch, scale_embeddings
from clew.models.positions import make_positions


@dataclass
class Cache:
    """Keys and values of the tokens so far; `real_BK` is False at padding, or None if there is none."""

    blocks: list[KeysAndValues]
    real_BK: Tensor | None = None


class DecoderOnly(nn.Module):
    """See the module's docstring."""

    def __init__(self, config: DecoderOnlyConfig) -> None:
        super().__init__()
        self.config = config
        self.naive = False
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.positions = make_positions(config.positions, config.width, config.heads, config.max_length)
        self.blocks = nn.ModuleList(
            SelfBlock(config.width, config.heads, config.activation) for _ in range(config.depth)
        )
        self.norm = nn.LayerNorm(config.width)
        self.head_bias = nn.Parameter(torch.empty(config.vocabulary)) if config.head_bias else None
        if config.init == "pytorch":
            init_pytorch(self)
        else:
            init_gpt2(self, depth=config.depth)
        if config.init == "lookup":
            scale_embeddings(self.embedding.weight)
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
        if self.naive:
            logits_BTV = self.head(self._run(token_BT, position_BT, AttentionMask(causal=True)))
            return logits_BTV[read_BT]
        # At least one token, so that a batch without queries still gives every weight a zero gradient.
        length = max(int((read_BT * (position_BT + 1)).max()), 1)
        x_BTD = self._run(token_BT[:, :length], position_BT[:, :length], AttentionMask(causal=True))
        return self.head(x_BTD[read_BT[:, :length]])

    def head(self, x: Tensor) -> Tensor:
        """Return logits [..., V]."""
        return F.linear(x, self.embedding.weight, self.head_bias)

    def new_cache(self) -> Cache:
        return Cache([KeysAndValues() for _ in self.blocks])

    def extend(self, cache: Cache, token_BS: Tensor, position_BS: Tensor, real_BS: Tensor | None = None) -> Tensor:
        """Append tokens to the cache and return their output [B, S, D], the input of the head.

        First the prompts, with padding where `real_BS` is False, then one token of each maze at a time. No token
        attends to padding, whose output has no meaning.
        """
        bos_id = self.config.bos_id
        position_BS = position_BS if bos_id is None else position_BS + 1
        if cache.blocks[0].key_BHKE is not None:
            assert token_BS.shape[1] == 1, "after the prompts one token is appended at a time"
            if cache.real_BK is not None:
                cache.real_BK = F.pad(cache.real_BK, (0, 1), value=True)
            mask = AttentionMask.of(None if cache.real_BK is None else cache.real_BK[:, None])
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
