"""Small targets and batches for the models' tests.

Shape suffixes: B mazes, T positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from clew.data.batch import TokenBatch
from clew.models.build import build_model
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig, PositionChoice
from clew.models.transformers import DecoderOnly, EncoderDecoder

VOCABULARY = 24


@dataclass(frozen=True)
class Case:
    """A batch with a targets about it."""

    batch: TokenBatch
    order_BT: Tensor
    query_BT: Tensor

    def with_tokens(self, tokens_BT: Tensor) -> Case:
        batch = TokenBatch(tokens_BT, self.batch.valid_BT, self.batch.response_BT, self.batch.index_B)
        return Case(batch, self.order_BT, self.query_BT)


def make_batch(rows: int, prompt: int, path: int, seed: int) -> TokenBatch:
    """Random tokens: prompts and paths of random lengths up to these, at least 1 token each."""
    generator = torch.Generator().manual_seed(seed)
    prompt_B1 = torch.randint(1, prompt + 1, (rows, 1), generator=generator)
    length_B1 = prompt_B1 + torch.randint(1, path + 1, (rows, 1), generator=generator)
    place_1T = torch.arange(int(length_B1.max()))[None]
    valid_BT = place_1T < length_B1
    tokens_BT = torch.randint(VOCABULARY, valid_BT.shape, generator=generator)
    return TokenBatch(tokens_BT, valid_BT, valid_BT & (place_1T >= prompt_B1), torch.arange(rows))


def hide(batch: TokenBatch, rate: float, seed: int) -> Case:
    """Orders 0 and 1: each response token is hidden, and queried, at this rate."""
    chance_BT = torch.rand(batch.tokens_BT.shape, generator=torch.Generator().manual_seed(seed))
    query_BT = batch.response_BT & (chance_BT < rate)
    return Case(batch, torch.where(batch.valid_BT, query_BT.long(), -1), query_BT)


def left_to_right(batch: TokenBatch) -> Case:
    """Next token: ranks 1, 2, 3, ... along the response."""
    order_BT = torch.where(batch.valid_BT, batch.response_BT.long().cumsum(1), -1)
    return Case(batch, order_BT, batch.response_BT)


def any_order(batch: TokenBatch, seed: int) -> Case:
    """The response in a random order."""
    chance_BT = torch.rand(batch.tokens_BT.shape, generator=torch.Generator().manual_seed(seed))
    order_BT = chance_BT.masked_fill(~batch.response_BT, -1.0).argsort(1).argsort(1)
    outside_B1 = (~batch.response_BT).sum(1, keepdim=True)
    order_BT = torch.where(batch.response_BT, order_BT - outside_B1 + 1, batch.valid_BT.long() - 1)
    return Case(batch, order_BT, batch.response_BT)


def encoder_decoder(seed: int = 0, causal: bool = False, positions: PositionChoice = "rope-fp32") -> EncoderDecoder:
    config = EncoderDecoderConfig(
        VOCABULARY, 16, 2, positions, max_length=64, encoder_depth=2, decoder_depth=2, causal=causal
    )
    return perturbed(build_model(config, seed))


def decoder_only(seed: int = 0, positions: PositionChoice = "rope-fp32") -> DecoderOnly:
    return perturbed(build_model(DecoderOnlyConfig(VOCABULARY, 16, 2, positions, max_length=64, depth=2), seed))


def perturbed(model):
    """The model with weights large enough that every part of it shows in the logits, biases and norms too."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model
