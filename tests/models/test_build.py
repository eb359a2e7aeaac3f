import json
import subprocess
import sys

import pytest
import torch
from model_cases import VOCABULARY, hide, left_to_right, make_batch
from safetensors.torch import load, save
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from clew.errors import UserError
from clew.models.build import build_model, count_parameters, training_flops
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig, from_json, kind_of, sized_config, to_json

CONFIGS = [
    EncoderDecoderConfig(VOCABULARY, 16, 2, "rope-fp32", encoder_depth=2, decoder_depth=1),
    EncoderDecoderConfig(VOCABULARY, 16, 4, "learned", max_length=32, encoder_depth=1, decoder_depth=2, causal=True),
    DecoderOnlyConfig(VOCABULARY, 16, 2, "rope-fp16", depth=2),
]


# The paper says 3M, 8M and 25M; the vocabulary of 10x10 mazes has 128 entries.
@pytest.mark.parametrize(
    ("size", "encoder_decoder", "decoder_only"),
    [
        ("tiny", 408_512, 408_320),
        ("3m", 2_792_960, 2_792_576),
        ("8m", 7_948_032, 7_947_648),
        ("25m", 25_306_496, 25_305_728),
    ],
)
def test_the_papers_sizes(size, encoder_decoder, decoder_only):
    for kind, expected in (("encoder-decoder", encoder_decoder), ("decoder-only", decoder_only)):
        assert count_parameters(build_model(sized_config(kind, size, 128), seed=0)) == expected
        assert size == "tiny" or abs(expected / 1e6 - float(size[:-1])) < 0.32


@pytest.mark.parametrize("config", CONFIGS)
def test_a_config_survives_json(config):
    assert from_json(json.loads(json.dumps(to_json(config)))) == config
    assert to_json(config)["kind"] == kind_of(config)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "names no kind"),
        ({"width": 3}, "names no kind"),
        ({"kind": "oracle"}, "'oracle'"),
        ({"kind": ["oracle"]}, "oracle"),
        ({"kind": "decoder-only"}, "lacks the field 'vocabulary'"),
        ({"kind": "decoder-only", "vocabulary": 8, "encoder_depth": 3}, "no field 'encoder_depth'"),
        ({"kind": "decoder-only", "vocabulary": "8"}, "a whole number"),
        ({"kind": "decoder-only", "vocabulary": True}, "a whole number"),
        ({"kind": "decoder-only", "vocabulary": 8.5}, "a whole number"),
        ({"kind": "decoder-only", "vocabulary": 8, "positions": "rope"}, "one of rope-fp32"),
        ({"kind": "encoder-decoder", "vocabulary": 8, "causal": 1}, "true or false"),
        ({"kind": "encoder-decoder", "vocabulary": 8, "decoder_depth": 0}, "use a number from 1"),
        ({"kind": "decoder-only", "vocabulary": 8, "width": 10}, "4 heads"),
        ({"kind": "decoder-only", "vocabulary": 8, "width": 12}, "pairs"),
    ],
)
def test_a_bad_config_is_one_sentence(value, message):
    with pytest.raises(UserError, match=message):
        from_json(value)


def test_a_size_takes_changes():
    assert sized_config("decoder-only", "tiny", 128, positions="learned", depth=2).depth == 2


@pytest.mark.parametrize("config", CONFIGS)
def test_the_seed_decides_the_weights_and_touches_nothing_else(config):
    before = torch.get_rng_state()
    first, again, other = (build_model(config, seed).state_dict() for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_the_start_is_gpt2s():
    model = build_model(EncoderDecoderConfig(256, 64, 4, encoder_depth=8, decoder_depth=2), seed=0)
    for name, parameter in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            assert (parameter == 1).all(), name
        elif name.endswith("bias"):
            assert (parameter == 0).all(), name
        elif name != "query":
            depth = 8 if name.startswith("encoder") else 2
            scaled = name.endswith(("attention_out.weight", "down.weight"))
            expected = 0.02 / (2 * depth) ** 0.5 if scaled else 0.02
            assert parameter.std().item() == pytest.approx(expected, rel=0.1), name


@pytest.mark.parametrize("config", CONFIGS)
def test_saved_and_loaded_weights_give_the_same_numbers(config):
    case = left_to_right(make_batch(3, 5, 5, seed=0))
    model, other = build_model(config, seed=0), build_model(config, seed=1)
    other.load_state_dict(load(save(model.state_dict())))
    answers = [m(case.batch, case.order_BT, case.query_BT) for m in (model, other)]
    assert torch.equal(*answers)


def test_counted_operations_are_those_that_torch_sees(monkeypatch):
    monkeypatch.setattr("clew.models.transformers.use_packed_attention", lambda *_: False)  # torch does not count it
    # One maze, so that nothing is padded.
    case = hide(make_batch(1, 9, 9, seed=1), 0.5, seed=0)
    assert case.query_BT.sum() > 1
    config = CONFIGS[0]
    model = build_model(config, 0).requires_grad_(False)
    # Torch does not count within the CPU's fused attention.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(case.batch, case.order_BT, case.query_BT)
    assert counter.get_total_flops() == training_flops(config, case.batch, case.order_BT, case.query_BT) / 3


def test_a_triangle_counts_half():
    case = left_to_right(make_batch(1, 9, 9, seed=1))
    width, depth, vocabulary = 16, 2, VOCABULARY
    keys, targets = int(case.batch.valid_BT.sum()) - 1, int(case.query_BT.sum())
    forward = depth * (24 * width**2 * keys + 4 * width * keys * (keys + 1) / 2) + 2 * width * vocabulary * targets
    assert training_flops(CONFIGS[2], case.batch, case.order_BT, case.query_BT) == 3 * forward


def test_configs_are_made_without_torch():
    program = "import sys, clew.models.config, clew.objectives.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
