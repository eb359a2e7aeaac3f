"""The next-token model: a GPT-2-like decoder, each position read from the one before it.

    model = DecoderOnly(DecoderOnlyConfig(vocabulary=128))
    logits_QV = model(batch, order_BT, query_BT)      # asked position t is predicted from tokens 0 .. t-1

With `bos_id` that token stands before every sequence, at position 0, and token t at position t + 1.

It can only read from left to right, so a targets with any other order is refused. The sequence is cut after the last
token that is looked at, and only asked positions go through the head; `model.naive = True` computes all of both. On a
CPU, mazes with sequences of similar length run together, so that little is padded.

For step-by-step use there is a cache:

    cache = model.new_cache()
    x_BSD = model.extend(cache, token_BS, place_BS, real_BS)     # the prompts, padding after the shorter ones
    x_B1D = model.extend(cache, token_B1, place_B1)              # then one token at a time
    logits_BV = model.head(x_B1D[:, -1])

Shape suffixes: B mazes, T positions, S new positions, K positions in the cache, Q asked positions of the whole batch,
D width, V vocabulary.
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
from clew.models.initialization import initialise, initialise_as_torch, scale_embeddings
from clew.models.positions import make_positions


@dataclass
class Cache:
    """What has been read so far. Mazes may have prompts of different lengths: `real_BK` tells tokens from padding."""

    blocks: list[KeysAndValues]
    real_BK: Tensor | None = None  # None if nothing was padded


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
        if config.start == "pytorch":
            initialise_as_torch(self)
        else:
            initialise(self, depth=config.depth)
        if config.start == "lookup":
            scale_embeddings(self.embedding.weight)
            init_lookup_heads(self.blocks, (-1, -2), config.rotary)

    def forward(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        check_left_to_right(order_BT, query_BT)
        if self.naive:
            return self._read(batch, order_BT, query_BT)
        place_T = torch.arange(query_BT.shape[1], device=query_BT.device)
        return run_in_groups(self._read, (query_BT * place_T).amax(1), batch, order_BT, query_BT)

    def _read(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        token_BT = batch.tokens_BT.masked_fill(order_BT < 0, 0)
        if self.config.bos_id is None:
            read_BT = query_BT.roll(-1, dims=1)  # the logits of t are read at t - 1
        else:
            token_BT, read_BT = F.pad(token_BT, (1, -1), value=self.config.bos_id), query_BT
        place_BT = torch.arange(token_BT.shape[1], device=token_BT.device).expand_as(token_BT)
        if self.naive:
            logits_BTV = self.head(self._run(token_BT, place_BT, AttentionMask(causal=True)))
            return logits_BTV[read_BT]
        # At least one token, so that a batch without targets still gives every weight a zero gradient.
        length = max(int((read_BT * (place_BT + 1)).max()), 1)
        x_BTD = self._run(token_BT[:, :length], place_BT[:, :length], AttentionMask(causal=True))
        return self.head(x_BTD[read_BT[:, :length]])

    def head(self, x: Tensor) -> Tensor:
        """Logits [..., V]."""
        return F.linear(x, self.embedding.weight, self.head_bias)

    def new_cache(self) -> Cache:
        """A cache that has read nothing."""
        return Cache([KeysAndValues() for _ in self.blocks])

    def extend(self, cache: Cache, token_BS: Tensor, place_BS: Tensor, real_BS: Tensor | None = None) -> Tensor:
        """Read these tokens after those in the cache; what the model makes of each [B, S, D], ready for the head.

        First the prompts from their first token on, then one token of each maze at a time. Where `real_BS` is False
        stands padding, after a prompt: no token attends to it, and its result has no meaning.
        """
        bos_id, first = self.config.bos_id, cache.blocks[0].key_BHKE is None
        if bos_id is not None:
            place_BS = place_BS + 1
            if first:
                token_BS, place_BS = F.pad(token_BS, (1, 0), value=bos_id), F.pad(place_BS, (1, 0))
                real_BS = None if real_BS is None else F.pad(real_BS, (1, 0), value=True)
        x_BSD = self._extend(cache, token_BS, place_BS, real_BS)
        return x_BSD[:, 1:] if first and bos_id is not None else x_BSD

    def _extend(self, cache: Cache, token_BS: Tensor, place_BS: Tensor, real_BS: Tensor | None) -> Tensor:
        if cache.blocks[0].key_BHKE is None:
            # Padding comes after all tokens of its maze, so the causal rule already keeps them from attending to it.
            seen = AttentionMask(causal=True)
            cache.real_BK = None if real_BS is None or bool(real_BS.all()) else real_BS
        else:
            assert token_BS.shape[1] == 1, "after the prompts one token is read at a time"
            if cache.real_BK is not None or real_BS is not None:
                new_BS = torch.ones_like(token_BS, dtype=torch.bool) if real_BS is None else real_BS
                before = cache.blocks[0].key_BHKE.shape[2]
                old_BK = new_BS.new_ones(len(new_BS), before) if cache.real_BK is None else cache.real_BK
                cache.real_BK = torch.cat([old_BK, new_BS], dim=1)
            seen = AttentionMask(None if cache.real_BK is None else cache.real_BK[:, None, None])
        if real_BS is not None:
            token_BS = token_BS.masked_fill(~real_BS, 0)
        return self._run(token_BS, place_BS, seen, cache)

    def _run(self, token_BT: Tensor, place_BT: Tensor, seen: AttentionMask, cache: Cache | None = None) -> Tensor:
        x_BTD = self.positions.add(self.embedding(token_BT), place_BT)
        rotate = self.positions.rotation(place_BT)
        for number, block in enumerate(self.blocks):
            x_BTD = block(x_BTD, rotate, seen, cache.blocks[number] if cache is not None else None)
        out_BTD: Tensor = self.norm(x_BTD)
        return out_BTD


def check_left_to_right(order_BT: Tensor, query_BT: Tensor) -> None:
    """UserError unless every asked position may see exactly the positions to its left."""
    step_up = order_BT[:, 1:] > order_BT[:, :-1]
    not_down = (order_BT[:, 1:] >= order_BT[:, :-1]) | (order_BT[:, 1:] < 0)
    fits = not_down.all() & (step_up | ~query_BT[:, 1:]).all() & ~query_BT[:, 0].any()
    if not bool(fits):
        raise UserError(
            "a decoder-only model can only be asked from left to right, but this objective hides tokens in another "
            "order; train it with next token, or use an encoder-decoder model."
        )
