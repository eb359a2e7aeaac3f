"""What text models begin with: GPT-2's numbers, or heads that look things up."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from clew.errors import UserError
from clew.models.blocks import Block, Positions, init_gpt2, init_lookup_heads
from clew.models.build import build_model
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig, from_json, to_json

WIDTH, HEADS, LENGTH = 128, 4, 60
HEAD_WIDTH = WIDTH // HEADS
ENCODER_DECODER = EncoderDecoderConfig(29, WIDTH, HEADS, init="lookup", encoder_depth=1, decoder_depth=2)
DECODER_ONLY = DecoderOnlyConfig(29, WIDTH, HEADS, init="lookup", depth=2)


def scores(block: Block, head: int, token_TD: Tensor) -> Tensor:
    """Return the attention scores of each position (a row) for every other, before the softmax."""
    query_DD, key_DD, _, query_D, key_D, _ = block.projections()
    rows = slice(head * HEAD_WIDTH, (head + 1) * HEAD_WIDTH)
    x_TD = torch.nn.functional.layer_norm(token_TD, (WIDTH,))
    query = x_TD @ query_DD[rows].T + query_D[rows]
    key = x_TD @ key_DD[rows].T + key_D[rows]
    rotate = Positions("rope-fp32", WIDTH, HEADS, LENGTH).rotation(torch.arange(len(token_TD))[None])
    turned = [rotate(x[None, None])[0, 0] for x in (query, key)]
    return turned[0] @ turned[1].T / HEAD_WIDTH**0.5


def favourite_distance(scores_TT: Tensor) -> int:
    """Return the offset of the position with the highest score, for each position."""
    means = {distance: float(scores_TT.diagonal(distance).mean()) for distance in range(-30, 31)}
    return max(means, key=means.__getitem__)


@pytest.fixture(params=[False, True])
def block(request: pytest.FixtureRequest) -> Block:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = Block(WIDTH, HEADS, cross=request.param)
        init_gpt2(made, depth=2)
        init_lookup_heads(torch.nn.ModuleList([made]), (1, -2), rotary=True)
    return made


@torch.no_grad()
def test_a_head_looks_at_its_neighbour_whatever_the_tokens(block: Block) -> None:
    token_TD = torch.randn(LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))
    for head, offset in enumerate((1, -2)):
        found = scores(block, head, token_TD)
        assert favourite_distance(found) == offset
        positions = range(3, LENGTH - 3)
        # The tokens have a say from the start, a small one.
        assert sum(int(found[position].argmax()) == position + offset for position in positions) > 0.75 * len(positions)


@torch.no_grad()
def test_the_other_heads_find_the_same_token_however_far(block: Block) -> None:
    kinds = torch.randn(20, WIDTH, generator=torch.Generator().manual_seed(2))
    token_TD = kinds.repeat(3, 1)  # each token three times, 20 positions apart
    same = torch.arange(LENGTH)[:, None] % 20 == torch.arange(LENGTH) % 20
    for head in (2, 3):
        found = scores(block, head, token_TD)
        assert found[same].mean() > found[~same].mean() + 3
        assert (found.masked_fill(~same, -99).amax(1) > found.masked_fill(same, -99).amax(1)).float().mean() > 0.75


def test_without_rope_no_head_goes_by_distance() -> None:
    model = build_model(dataclasses.replace(ENCODER_DECODER, positions="learned"), 0)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name


@pytest.mark.parametrize("config", [ENCODER_DECODER, DECODER_ONLY])
def test_both_starts_are_the_same_model(config: EncoderDecoderConfig | DecoderOnlyConfig) -> None:
    lookup, plain = build_model(config, 3), build_model(dataclasses.replace(config, init="gpt-2"), 3)
    assert {n: p.shape for n, p in lookup.named_parameters()} == {n: p.shape for n, p in plain.named_parameters()}
    again = build_model(config, 3)
    for (name, one), two in zip(lookup.named_parameters(), again.parameters(), strict=True):
        assert torch.equal(one, two), name
    plain.load_state_dict(lookup.state_dict())


def test_a_model_that_looks_only_back_begins_so() -> None:
    model = build_model(DECODER_ONLY, 0)
    token_TD = torch.randn(LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        block = model.get_submodule("blocks.0")
        assert isinstance(block, Block)
        for head, offset in enumerate((-1, -2)):
            assert favourite_distance(scores(block, head, token_TD)) == offset


def test_a_model_can_be_counted_without_making_it() -> None:
    with torch.device("meta"):
        assert all(p.is_meta for p in build_model(ENCODER_DECODER, 0).parameters())


def test_a_config_tells_its_start_and_old_ones_have_none() -> None:
    plain = to_json(ENCODER_DECODER)
    assert from_json(plain) == ENCODER_DECODER
    assert from_json({"start": plain.pop("init"), **plain}) == ENCODER_DECODER  # as version 0.1 wrote it
    assert from_json(plain) == dataclasses.replace(ENCODER_DECODER, init="gpt-2")
    with pytest.raises(UserError, match="init cannot be 'magic'; choose one of gpt-2, lookup"):
        dataclasses.replace(ENCODER_DECODER, init="magic")  # type: ignore[arg-type]
