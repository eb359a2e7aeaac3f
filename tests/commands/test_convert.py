import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from clew.cli import run
from clew.commands.convert import convert
from clew.data.batch import TokenBatch
from clew.errors import UserError
from clew.training.checkpoint import load_model

GOLDEN = Path(__file__).parents[1] / "golden" / "mlmu-tiny.safetensors"


@torch.no_grad()
def test_a_converted_run_gives_the_published_numbers(tmp_path, capsys):
    assert run(["convert", str(GOLDEN), "--out", str(tmp_path / "run")]) == 0
    assert "4x4 dfs mazes" in capsys.readouterr().out
    model, config = load_model(tmp_path / "run")
    assert (config.data.sizes, config.data.format, config.objective.name) == ((4,), "edge-list", "mlm-u")
    golden = load_file(GOLDEN)
    valid, hidden = golden["attention_mask"].bool(), golden["hidden"].bool()
    batch = TokenBatch(golden["input_ids"], valid, golden["path_mask"].bool(), torch.arange(len(valid)))
    logits = model(batch, torch.where(valid, hidden.long(), -1), hidden)
    torch.testing.assert_close(logits, golden["logits"][hidden], atol=1e-5, rtol=0)


def test_without_a_json_file_the_size_must_be_given(tmp_path):
    weights = shutil.copy(GOLDEN, tmp_path / "weights.safetensors")
    with pytest.raises(UserError, match="give --size"):
        convert(Path(weights), out=tmp_path / "run")
    convert(Path(weights), out=tmp_path / "run", size=5, heads=8)
    model, config = load_model(tmp_path / "run")
    assert (model.config.heads, config.data.sizes) == (8, (5,))
    convert(Path(weights), out=tmp_path / "astar", size=10, family="astar")
    assert load_model(tmp_path / "astar")[1].data.format == "wall-list"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 5}, r"lacks '\(0,4\)'"),
        ({"size": 3}, r"has '\(0,3\)'"),
        ({"family": "astar"}, "lacks '0'"),
        ({"size": 30}, "128 ids, too few for a vocabulary of 914"),
        ({"size": 0}, "0"),
        ({"heads": 5}, "5 heads"),
        ({"weights": Path("nowhere.safetensors"), "size": 4}, "there is no file"),
        ({"weights": Path("nowhere.safetensors")}, "there is no file"),
    ],
)
def test_what_does_not_fit_is_one_sentence_and_leaves_nothing(tmp_path, options, message):
    options = dict(options)
    with pytest.raises(UserError, match=message):
        convert(options.pop("weights", GOLDEN), out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    convert(GOLDEN, out=tmp_path / "run")
    with pytest.raises(UserError, match="already holds a run"):
        convert(GOLDEN, out=tmp_path / "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    with pytest.raises(UserError, match="holds other files"):
        convert(GOLDEN, out=tmp_path / "other")


def test_a_cut_off_file_is_told_on_the_command_line(tmp_path, capsys):
    weights = tmp_path / "weights.safetensors"
    weights.write_bytes(GOLDEN.read_bytes()[:-10])
    weights.with_suffix(".json").write_text(json.dumps({"grid": 4}))
    assert run(["convert", str(weights), "--out", str(tmp_path / "run")]) == 1
    error = capsys.readouterr().err
    assert "is damaged" in error
    assert "Traceback" not in error
