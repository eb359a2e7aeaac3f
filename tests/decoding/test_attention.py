"""Attention of text models on the cells of a maze."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import clew
from clew.decoding.text_decoders import attention_on_cells
from clew.errors import UserError
from clew.models.blocks import Attention, Block, Positions, record_attention
from clew.trained import load


def test_recorded_weights_are_those_of_a_plain_softmax() -> None:
    torch.manual_seed(0)
    block = Block(8, 2, cross=True)
    x_BQD, memory_BKD = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
    mask_BQK = torch.rand(1, 3, 5) < 0.7
    mask_BQK[..., 0] = True
    attention = Attention(Positions("none", 8, 2, 5), torch.arange(3)[None], torch.arange(5)[None], mask_BQK)
    with record_attention() as layers:
        block(x_BQD, attention, memory_BKD)
    block(x_BQD, attention, memory_BKD)
    (weight_BHQK,) = layers
    query, key = block.query(block.attention_norm(x_BQD)), block.memory_key_value(memory_BKD).chunk(2, -1)[0]
    query, key = (x.unflatten(-1, (2, 4)).transpose(1, 2) for x in (query, key))
    score = (query @ key.mT / 2).masked_fill(~mask_BQK[:, None], -torch.inf)
    torch.testing.assert_close(weight_BHQK, score.softmax(-1))


@pytest.mark.parametrize("name", ["text-dfs-4-mlmu", "text-dfs-4-next"])
def test_a_step_has_weights_of_at_most_one_in_sum(name: str) -> None:
    task, path = clew.generate("dfs", size=4, n=1, seed=3, split="test")[0]
    weight_SHW = load(name).attention(task, path)
    assert weight_SHW.shape == (len(path), 4, 4)
    assert (weight_SHW >= 0).all()
    sums = weight_SHW.sum((1, 2))
    assert (sums > 0).all()
    assert (sums <= 1 + 1e-5).all()


def test_masked_models_see_nothing_of_the_path_and_next_token_what_is_before() -> None:
    task, path = max(clew.generate("dfs", size=4, n=20, seed=3, split="test"), key=lambda pair: len(pair[1]))
    other = [*path[:1], *reversed(path[1:])]
    mlmu, plain = load("text-dfs-4-mlmu"), load("text-dfs-4-next")
    np.testing.assert_allclose(mlmu.attention(task, other), mlmu.attention(task, path), atol=1e-6)
    first, second = plain.attention(task, other), plain.attention(task, path)
    np.testing.assert_allclose(first[:2], second[:2], atol=1e-6)
    assert np.abs(first[2:] - second[2:]).max() > 1e-3


def test_a_cell_network_has_no_attention() -> None:
    task, path = clew.generate("dfs", size=4, n=1, seed=3)[0]
    model = load("cells-dfs")
    with pytest.raises(UserError, match="only text models have attention"):
        attention_on_cells(model.model, model.codec, task, path)
