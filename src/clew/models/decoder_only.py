"""The next-token model: a GPT-2-like decoder, each position read from the one before it.

    model = DecoderOnly(DecoderOnlyConfig(vocabulary=128))
    logits_QV = model(batch, rank_BT, ask_BT)      # asked position t is predicted from tokens 0 .. t-1

With `bos_id` that token stands before every sequence, at position 0, and token t at position t + 1.

It can only read from left to right, so a question with any other order is refused. The sequence is cut after the last
token that is looked at, and only asked positions go through the head; `model.naive = True` computes all of both.

For step-by-step use there is a cache:

    cache = model.new_cache()
    x_BSD = model.extend(cache, token_BS, place_BS, real_BS)     # first the prompts, then one token at a time
    logits_BV = model.head(x_BSD[:, -1])

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
from clew.models.blocks import KeysAndValues, Seen, SelfBlock, look_things_up
from clew.models.config import DecoderOnlyConfig
from clew.models.positions import make_positions
from clew.models.start import begin_larger, initialise, initialise_as_torch


@dataclass
class Cache:
    """What has been read so far. Mazes may have prompts of different lengths: `real_BK` tells tokens from padding."""

    blocks: list[KeysAndValues]
    place_BK: Tensor | None = None
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
        if config.start == "pytorch":
            initialise_as_torch(self)
        else:
            initialise(self, depth=config.depth)
        if config.start == "lookup":
            begin_larger(self.embedding.weight)
            look_things_up(self.blocks, (-1, -2), config.rotary)

    def forward(self, batch: Batch, rank_BT: Tensor, ask_BT: Tensor) -> Tensor:
        check_left_to_right(rank_BT, ask_BT)
        token_BT = batch.tokens_BT.masked_fill(rank_BT < 0, 0)
        if self.config.bos_id is None:
            read_BT = ask_BT.roll(-1, dims=1)  # the logits of t are read at t - 1
        else:
            token_BT, read_BT = F.pad(token_BT, (1, -1), value=self.config.bos_id), ask_BT
        place_BT = torch.arange(token_BT.shape[1], device=token_BT.device).expand_as(token_BT)
        if self.naive:
            logits_BTV = self.head(self._run(token_BT, place_BT, Seen(causal=True)))
            return logits_BTV[read_BT]
        # At least one token, so that a batch without questions still gives every weight a zero gradient.
        length = max(int((read_BT * (place_BT + 1)).max()), 1)
        x_BTD = self._run(token_BT[:, :length], place_BT[:, :length], Seen(causal=True))
        return self.head(x_BTD[read_BT[:, :length]])

    def head(self, x: Tensor) -> Tensor:
        """Logits [..., V]."""
        return F.linear(x, self.embedding.weight, self.head_bias)

    def new_cache(self) -> Cache:
        """A cache that has read nothing."""
        return Cache([KeysAndValues() for _ in self.blocks])

    def extend(self, cache: Cache, token_BS: Tensor, place_BS: Tensor, real_BS: Tensor) -> Tensor:
        """Read these tokens after those in the cache; what the model makes of each [B, S, D], ready for the head.

        Where `real_BS` is False stands padding: nobody looks at it, and its result has no meaning.
        """
        new = token_BS.shape[1]
        if self.config.bos_id is not None:
            place_BS = place_BS + 1
            if cache.blocks[0].key_BHKE is None:
                token_BS = F.pad(token_BS, (1, 0), value=self.config.bos_id)
                place_BS, real_BS = F.pad(place_BS, (1, 0), value=0), F.pad(real_BS, (1, 0), value=True)
        if cache.place_BK is not None and cache.real_BK is not None:
            cache.place_BK = torch.cat([cache.place_BK, place_BS], dim=1)
            cache.real_BK = torch.cat([cache.real_BK, real_BS], dim=1)
        else:
            cache.place_BK, cache.real_BK = place_BS, real_BS
        before_BSK = cache.place_BK[:, None] <= place_BS[:, :, None]
        # Padding itself looks at everything before it, padding too: a softmax over nothing is not a number.
        seen_BSK = before_BSK & (cache.real_BK[:, None] | ~real_BS[:, :, None])
        x_BSD = self._run(token_BS.masked_fill(~real_BS, 0), place_BS, Seen(seen_BSK[:, None]), cache)
        return x_BSD[:, -new:]

    def _run(self, token_BT: Tensor, place_BT: Tensor, seen: Seen, cache: Cache | None = None) -> Tensor:
        x_BTD = self.positions.add(self.embedding(token_BT), place_BT)
        rotate = self.positions.rotation(place_BT)
        for number, block in enumerate(self.blocks):
            x_BTD = block(x_BTD, rotate, seen, cache.blocks[number] if cache is not None else None)
        out_BTD: Tensor = self.norm(x_BTD)
        return out_BTD


def check_left_to_right(rank_BT: Tensor, ask_BT: Tensor) -> None:
    """UserError unless every asked position may see exactly the positions to its left."""
    step_up = rank_BT[:, 1:] > rank_BT[:, :-1]
    not_down = (rank_BT[:, 1:] >= rank_BT[:, :-1]) | (rank_BT[:, 1:] < 0)
    fits = not_down.all() & (step_up | ~ask_BT[:, 1:]).all() & ~ask_BT[:, 0].any()
    if not bool(fits):
        raise UserError(
            "a decoder-only model can only be asked from left to right, but this objective hides tokens in another "
            "order; train it with next token, or use an encoder-decoder model."
        )
