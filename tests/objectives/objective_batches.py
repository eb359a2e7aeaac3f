"""Batches made by hand for the tests of objectives."""

from __future__ import annotations

import torch

from clew.data.batch import Batch, GridBatch, TokenBatch


def token_batch(response_lengths: list[int], prompt: int = 3, padding: int = 2) -> TokenBatch:
    """A prompt, a response of each given length, padding; the tokens are all different."""
    rows, width = len(response_lengths), prompt + max(response_lengths) + padding
    position_T = torch.arange(width)
    end_B = prompt + torch.tensor(response_lengths)
    valid_BT = position_T < end_B[:, None]
    tokens_BT = torch.arange(rows * width).reshape(rows, width)
    return TokenBatch(tokens_BT, valid_BT, valid_BT & (position_T >= prompt), torch.arange(rows))


def grid_batch(response_lengths: list[int], padding: int = 2) -> GridBatch:
    """Paths of the given lengths beside empty 4x4 mazes."""
    batch = token_batch(response_lengths, prompt=0, padding=padding)
    rows = len(response_lengths)
    cells_BHW = torch.zeros(rows, 4, 4, dtype=torch.uint8)
    ends_B = torch.zeros(rows, dtype=torch.int64)
    return GridBatch(
        batch.tokens_BT % 17, batch.valid_BT, batch.response_BT, batch.index_B, cells_BHW, ends_B, ends_B + 15
    )


def padded(batch: Batch, extra: int) -> Batch:
    """The same rows with more padding, which holds other tokens."""
    rows = len(batch)
    return TokenBatch(
        torch.cat([batch.tokens_BT, torch.full((rows, extra), 99)], 1),
        torch.cat([batch.valid_BT, torch.zeros(rows, extra, dtype=torch.bool)], 1),
        torch.cat([batch.response_BT, torch.zeros(rows, extra, dtype=torch.bool)], 1),
        batch.index_B,
    )
