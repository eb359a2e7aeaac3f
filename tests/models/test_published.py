import json
import pickle
from pathlib import Path

import pytest
import torch
from model_cases import encoder_decoder
from safetensors.torch import load_file, save_file

from clew.errors import UserError
from clew.models.published import load_published, to_published, without_prefix

GOLDEN = Path(__file__).parents[1] / "golden" / "mlmu-tiny.safetensors"


def saved(tmp_path, change=lambda tensors: None, name="weights.safetensors"):
    """A file with the golden weights, without their prefix, after a change."""
    tensors = without_prefix(load_file(GOLDEN))
    change(tensors)
    save_file(tensors, tmp_path / name)
    return tmp_path / name


def exported(model):
    return to_published(model.state_dict())


def test_sizes_come_from_the_shapes_and_heads_from_the_json_beside():
    config = load_published(GOLDEN).config
    assert (config.vocabulary, config.width, config.heads) == (128, 32, 4)
    assert (config.encoder_depth, config.decoder_depth) == (2, 2)
    assert (config.positions, config.causal) == ("rope-fp32", False)


def test_names_go_there_and_back(tmp_path):
    published = without_prefix(load_file(GOLDEN))
    back = exported(load_published(saved(tmp_path)))
    assert back.keys() == published.keys()
    assert all(torch.equal(back[name], published[name]) for name in published)
    mine = encoder_decoder(seed=3)
    save_file(exported(mine), tmp_path / "mine.safetensors")
    again = load_published(tmp_path / "mine.safetensors", heads=2)
    assert again.config.heads == 2
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in mine.state_dict().items())


def test_stacks_may_differ_in_depth(tmp_path):
    def drop(tensors):
        for name in [name for name in tensors if name.startswith("dec.layers.1")]:
            del tensors[name]

    config = load_published(saved(tmp_path, drop)).config
    assert (config.encoder_depth, config.decoder_depth) == (2, 1)


def test_half_precision_weights_are_widened(tmp_path):
    def halve(tensors):
        tensors.update({name: tensor.half() for name, tensor in tensors.items()})

    model = load_published(saved(tmp_path, halve))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_the_given_heads_win_over_the_file_and_the_file_over_the_papers(tmp_path):
    path = saved(tmp_path)
    assert load_published(path).config.heads == 4
    path.with_suffix(".json").write_text(json.dumps({"heads": 8}))
    assert load_published(path).config.heads == 8
    assert load_published(path, heads=2).config.heads == 2
    path.with_suffix(".json").write_text(json.dumps({"config": {"heads": "two"}}))
    with pytest.raises(UserError, match=r"heads of .* cannot be 'two'"):
        load_published(path)
    path.with_suffix(".json").write_text(json.dumps({"vocab": [1]}))
    with pytest.raises(UserError, match=r"vocab of .* must be a word"):
        load_published(path)
    path.with_suffix(".json").write_text("[]")
    assert load_published(path).config.heads == 4
    path.with_suffix(".json").write_text("[")
    with pytest.raises(UserError, match="not whole JSON"):
        load_published(path)
    with pytest.raises(UserError, match="3 heads"):
        load_published(path, heads=3)
    with pytest.raises(UserError, match="heads is 0; use a number from 1"):
        load_published(path, heads=0)


def set_to(name, value):
    return lambda tensors: tensors.update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors: tensors.pop("enc.layers.0.ln_1.bias"), "lacks 'enc.layers.0.ln_1.bias'"),
        (lambda tensors: tensors.pop("lm_head.weight"), "do not have the names"),
        (lambda tensors: tensors.clear(), "do not have the names"),
        (set_to("enc.layers.0.attn.bias", torch.zeros(2)), "has, beyond the model's, 'enc.layers.0.attn.bias'"),
        (set_to("enc.layers.7.ln_1.bias", torch.zeros(32)), "lacks 'enc.layers"),
        (
            set_to("enc.layers.999999.ln_1.bias", torch.zeros(32)),
            "encoder_depth is 1000000; use a number",
        ),
        (set_to("lm_head.weight", torch.zeros(5)), "do not have the names"),
        (set_to("dec.layers.0.attn.c_attn.weight", torch.zeros(96, 32)), "c_attn.weight' of shape"),
        (set_to("wpe.weight", torch.zeros(7, 32)), "'wpe.weight' of shape"),
        (set_to("dec.ln_f.bias", torch.zeros(32, dtype=torch.int64)), "of shape .* \\(torch.int64\\)"),
        (set_to("dec.ln_f.bias", torch.full((32,), torch.nan)), "not finite"),
    ],
)
def test_wrong_weights_are_one_sentence(tmp_path, change, message):
    with pytest.raises(UserError, match=message):
        load_published(saved(tmp_path, change))


def test_files_that_are_not_whole_safetensors_are_one_sentence(tmp_path):
    path = tmp_path / "weights.safetensors"
    with pytest.raises(UserError, match="there is no file"):
        load_published(path)
    whole = GOLDEN.read_bytes()
    for content in (b"", whole[:100], whole[:-1], b"\xff" * 64, pickle.dumps({"a": 1})):
        path.write_bytes(content)
        with pytest.raises(UserError, match="is damaged"):
            load_published(path)
