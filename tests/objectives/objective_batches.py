"""Batches made by hand for the tests of objectives."""

from __future__ import annotations

import torch

from clew.data.batch import Batch, TokenBatch


def token_batch(response_lengths: list[int], prompt: int = 3, padding: int = 2) -> TokenBatch:
    """A prompt, a response of each given length, padding; the tokens are all different."""
    rows, width = len(response_lengths), prompt + max(response_lengths) + padding
    position_T = torch.arange(width)
    end_B = prompt + torch.tensor(response_lengths)
    valid_BT = position_T < end_B[:, None]
    tokens_BT = torch.arange(rows * width).reshape(rows, width)
    return TokenBatch(tokens_BT, valid_BT, valid_BT & (position_T >= prompt), torch.arange(rows))


def padded(batch: Batch, extra: int) -> Batch:
    """The same rows with more padding, which holds other tokens."""
    rows = len(batch)
    return TokenBatch(
        torch.cat([batch.tokens_BT, torch.full((rows, extra), 99)], 1),
        torch.cat([batch.valid_BT, torch.zeros(rows, extra, dtype=torch.bool)], 1),
        torch.cat([batch.response_BT, torch.zeros(rows, extra, dtype=torch.bool)], 1),
        batch.index_B,
    )
