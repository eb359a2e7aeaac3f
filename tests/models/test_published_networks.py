"""Every building block of the published code against a plain implementation of it, and its initialisation."""

from __future__ import annotations

import math

import pytest
import torch
from model_cases import hide, left_to_right, make_batch
from published_reference import (
    causal_mask,
    random_encoder_decoder,
    random_gpt2,
    run_encoder_decoder,
    run_gpt2,
)
from safetensors.torch import save_file
from torch import Tensor

from clew.errors import UserError
from clew.models.build import build_model
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig, from_json
from clew.models.published import load_published
from clew.models.transformers import DecoderOnly

HEADS, BOS_ID, VOCABULARY = 2, 3, 24


def saved(tmp_path, weights):
    # The embedding once: safetensors does not save two names of one tensor.
    kept = {name: tensor for name, tensor in weights.items() if not name.endswith("wte.weight")}
    save_file(kept, tmp_path / "weights.safetensors")
    return tmp_path / "weights.safetensors"


def case_logits(model, case, naive):
    model.naive = naive
    with torch.no_grad():
        return model(case.batch, case.order_BT, case.query_BT)


@pytest.mark.parametrize("naive", [False, True])
def test_decoder_only_is_gpt2_with_relu_learned_positions_and_bos(tmp_path, naive):
    weights = random_gpt2(VOCABULARY, 16, depth=2, positions=40, seed=0)
    model = load_published(saved(tmp_path, weights), heads=HEADS, bos_id=BOS_ID)
    case = left_to_right(make_batch(4, 7, 6, seed=1))
    shifted = torch.nn.functional.pad(case.batch.tokens_BT, (1, -1), value=BOS_ID)
    expected = run_gpt2(weights, shifted, HEADS)[case.query_BT]
    torch.testing.assert_close(case_logits(model, case, naive), expected, atol=2e-5, rtol=1e-5)


def test_without_bos_the_first_token_stands_at_position_0(tmp_path):
    weights = random_gpt2(VOCABULARY, 16, depth=2, positions=40, seed=0)
    model = load_published(saved(tmp_path, weights), heads=HEADS)
    case = left_to_right(make_batch(4, 7, 6, seed=1))
    expected = run_gpt2(weights, case.batch.tokens_BT, HEADS).roll(1, dims=1)[case.query_BT]
    torch.testing.assert_close(case_logits(model, case, False), expected, atol=2e-5, rtol=1e-5)


@torch.no_grad()
def test_the_cache_puts_bos_first_once(tmp_path):
    weights = random_gpt2(VOCABULARY, 16, depth=2, positions=40, seed=0)
    model = load_published(saved(tmp_path, weights), heads=HEADS, bos_id=BOS_ID)
    assert isinstance(model, DecoderOnly)
    token_BT = torch.randint(VOCABULARY, (3, 9), generator=torch.Generator().manual_seed(0))
    place_BT, real_BT = torch.arange(9).expand(3, 9), torch.ones(3, 9, dtype=torch.bool)
    cache = model.new_cache()
    found = [
        model.head(model.extend(cache, token_BT[:, part], place_BT[:, part], real_BT[:, part]))
        for part in (slice(0, 5), *(slice(position, position + 1) for position in range(5, 9)))
    ]
    with_bos = torch.cat([torch.full((3, 1), BOS_ID), token_BT], dim=1)
    torch.testing.assert_close(torch.cat(found, 1), run_gpt2(weights, with_bos, HEADS)[:, 1:], atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("naive", [False, True])
def test_a_causal_encoder_position_does_not_attend_to_itself(tmp_path, naive):
    weights = random_encoder_decoder(VOCABULARY, 16, 2, 3, seed=0)
    path = saved(tmp_path, weights)
    model = load_published(path, heads=HEADS, causal=True)
    case = left_to_right(make_batch(4, 7, 6, seed=1))
    mask_TT = causal_mask(case.batch.tokens_BT.shape[1])
    expected = run_encoder_decoder(weights, case.batch.tokens_BT, HEADS, mask_TT)[case.query_BT]
    found = case_logits(model, case, naive)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-5)
    # The usual causal mask gives other numbers.
    usual = build_model(EncoderDecoderConfig(**{**vars(model.config), "attend_self": True}), seed=0)
    usual.load_state_dict(model.state_dict())
    assert (case_logits(usual, case, naive) - found).abs().max() > 0.01


@torch.no_grad()
def test_one_token_before_the_question_gives_finite_numbers(tmp_path):
    """The first token has nobody before it; a softmax over nothing would be nan."""
    model = load_published(saved(tmp_path, random_encoder_decoder(VOCABULARY, 16, 1, 1, seed=0)), HEADS, causal=True)
    case = left_to_right(make_batch(3, 1, 3, seed=0))
    for naive in (False, True):
        assert case_logits(model, case, naive).isfinite().all()


@pytest.mark.parametrize("naive", [False, True])
def test_mlmu_is_the_plain_network_under_the_visible_tokens(tmp_path, naive):
    weights = random_encoder_decoder(VOCABULARY, 16, 2, 3, seed=4)
    model = load_published(saved(tmp_path, weights), heads=HEADS)
    case = hide(make_batch(4, 7, 6, seed=1), 0.5, seed=0)
    visible_B1T = (case.order_BT == 0)[:, None]
    expected = run_encoder_decoder(weights, case.batch.tokens_BT, HEADS, visible_B1T)[case.query_BT]
    torch.testing.assert_close(case_logits(model, case, naive), expected, atol=2e-5, rtol=1e-5)


def is_uniform(x: Tensor, bound: float) -> bool:
    """Whether x fills [-bound, bound] evenly; of few numbers only the bound is checked."""
    if x.abs().max() > bound or x.abs().max() < 0.8 * bound:
        return False
    return x.numel() < 1000 or abs(float(x.std()) * math.sqrt(3) / bound - 1) < 0.05


def test_the_pytorch_start_is_that_of_torchs_own_layers():
    config = EncoderDecoderConfig(128, 128, 4, init="pytorch", encoder_depth=2, decoder_depth=2)
    model = build_model(config, seed=0).requires_grad_(False)
    for name, parameter in model.named_parameters():
        if name == "query":
            assert abs(float(parameter.std()) - 1) < 0.2
        elif "norm" in name:
            assert torch.equal(parameter, torch.full_like(parameter, float(name.endswith("weight")))), name
        elif name in ("embedding.weight", "head_bias"):
            assert is_uniform(parameter, 128**-0.5), name
        else:
            inputs = model.get_submodule(name.rpartition(".")[0]).in_features
            assert is_uniform(parameter, inputs**-0.5), name
    assert float(model.embedding.weight.std()) == pytest.approx(0.051, abs=0.001)


def test_all_starts_have_the_same_parameters_and_the_seed_decides():
    for base in (
        EncoderDecoderConfig(32, 16, 2, encoder_depth=1, decoder_depth=1),
        DecoderOnlyConfig(32, 16, 2, "learned", depth=1, head_bias=False),
    ):
        shapes = set()
        for init in ("gpt-2", "lookup", "pytorch"):
            config = type(base)(**{**vars(base), "init": init})
            one, two = build_model(config, seed=1), build_model(config, seed=1)
            assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
            shapes.add(tuple((name, tuple(p.shape)) for name, p in one.named_parameters()))
        assert len(shapes) == 1


def test_a_config_of_an_older_version_has_the_older_network():
    plain = {"kind": "decoder-only", "vocabulary": 128, "width": 64, "heads": 4, "positions": "rope-fp32", "depth": 3}
    config = from_json(plain)
    assert (config.activation, config.head_bias, config.bos_id, config.init) == ("gelu", True, None, "gpt-2")
    plain = {"kind": "encoder-decoder", "vocabulary": 128, "causal": True}
    assert from_json(plain).attend_self


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"activation": "tanh"}, "activation cannot be 'tanh'; choose one of gelu, relu"),
        ({"bos_id": 24}, "bos_id is 24, but the vocabulary has the ids 0 to 23"),
        ({"bos_id": -1}, "bos_id is -1"),
    ],
)
def test_impossible_settings_are_named(change, message):
    with pytest.raises(UserError, match=message):
        DecoderOnlyConfig(VOCABULARY, **change)


def test_attend_self_is_for_causal_encoders():
    with pytest.raises(UserError, match="causal encoder only"):
        EncoderDecoderConfig(VOCABULARY, attend_self=False)
