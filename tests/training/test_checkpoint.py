"""Checkpoints and run folders: whole or absent, of the right model, and never two writers."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch
from tiny_runs import assert_same, encoder_decoder, last_tensors, metrics, tiny_config

from clew.errors import UserError
from clew.files import write_json
from clew.models.build import build_model
from clew.models.config import EncoderDecoderConfig
from clew.training.checkpoint import (
    copy_named,
    find_checkpoint,
    latest_checkpoint,
    load_config,
    load_model,
    locked_run,
    read_checkpoint,
    read_state,
    read_tensors,
    write_checkpoint,
)
from clew.training.config import Budget
from clew.training.train import train

WEIGHTS = {"model": {"a": torch.arange(3.0)}}


def test_written_and_read(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 12, WEIGHTS, {"step": 12})
    assert path == latest_checkpoint(tmp_path) == tmp_path / "checkpoints" / "00000012"
    assert_same(read_tensors(path / "model.safetensors"), WEIGHTS["model"])
    assert read_state(path)["step"] == 12
    assert os.listdir(tmp_path / "checkpoints") == ["00000012"]


def test_the_state_of_a_checkpoint_is_replaced_and_its_checksums_stay(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1, WEIGHTS, {"step": 1})
    path = write_checkpoint(tmp_path, 1, WEIGHTS, {"step": 1, "evaluated_step": 1})
    state, tensors = read_checkpoint(path)
    assert (state["evaluated_step"], set(state["sha256"])) == (1, {"model.safetensors", "state.json"})
    assert_same(tensors["model"], WEIGHTS["model"])
    assert os.listdir(tmp_path / "checkpoints") == ["00000001"]


# Two files and state.json, each before its folder; then the folder of checkpoints.
@pytest.mark.parametrize("call", range(1, 8))
def test_a_full_disk_at_any_write_leaves_the_last_good_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    good = write_checkpoint(tmp_path, 1, WEIGHTS, {"step": 1})
    calls = []
    real = os.fsync

    def full(handle: int) -> None:
        calls.append(1)
        if len(calls) == call:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    two = {**WEIGHTS, "optimizer": WEIGHTS["model"]}
    if call not in (1, 3, 5):  # the flush of a folder is tried and not insisted on
        write_checkpoint(tmp_path, 2, two, {"step": 2})
    else:
        with pytest.raises(OSError, match="No space left on device") as raised:
            write_checkpoint(tmp_path, 2, two, {"step": 2})
        assert raised.value.filename == str(tmp_path / "checkpoints" / "00000002")
    assert len(calls) >= call
    assert [p for p in os.listdir(tmp_path / "checkpoints") if p.startswith(".")] == []
    assert read_state(good)["step"] == 1
    assert_same(read_tensors(good / "model.safetensors"), WEIGHTS["model"])


def test_damage_is_named(tmp_path: Path) -> None:
    path = write_checkpoint(tmp_path, 1, WEIGHTS, {"step": 1})
    weights = path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(UserError, match=r"model\.safetensors is damaged"):
        read_tensors(weights)
    with pytest.raises(UserError, match="is missing"):
        read_tensors(path / "ema.safetensors")
    (path / "state.json").write_text("[]")
    with pytest.raises(UserError, match="not the state of a run"):
        read_state(path)


def test_weights_of_another_model_are_refused() -> None:
    model = build_model(encoder_decoder(), 0)
    wider = EncoderDecoderConfig(128, 32, 2, encoder_depth=1, decoder_depth=1)
    deeper = EncoderDecoderConfig(128, 16, 2, encoder_depth=2, decoder_depth=1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(UserError, match=r"'query' of shape \[32\] \(torch.float32\), but the model needs \[16\]"):
        copy_named(model.state_dict(), build_model(wider, 0).state_dict(), Path("x"))
    with pytest.raises(UserError, match="another model"):
        copy_named(model.state_dict(), build_model(deeper, 0).state_dict(), Path("x"))
    assert_same(before, model.state_dict())


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not the folder of a run"):
        load_config(tmp_path)
    write_json(tmp_path / "config.json", tiny_config().to_json())
    with pytest.raises(UserError, match="no checkpoint yet"):
        load_model(tmp_path)


def test_a_run_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="holds other files"):
        train(tiny_config(), tmp_path)
    with pytest.raises(FileExistsError):
        train(tiny_config(), tmp_path / "thesis.txt")
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_two_runs_never_share_a_folder(tmp_path: Path) -> None:
    with locked_run(tmp_path), pytest.raises(UserError, match="another process is training"):
        train(tiny_config(), tmp_path)


def test_a_kill_between_two_checkpoints_leaves_no_double_lines_and_no_rubbish(tmp_path: Path) -> None:
    config = tiny_config(budget=Budget(steps=4), checkpoint_every=2, log_every=1)
    train(config, tmp_path / "whole")
    run = tmp_path / "run"
    train(config, run)
    # As a kill after step 3 leaves it: the last checkpoint is that of step 2, and a line is cut short.
    os.rename(run / "checkpoints" / "00000004", run / "checkpoints" / ".unfinished-abc")
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:3]) + lines[3][:20])
    train(config, run)
    assert [line["step"] for line in metrics(run)] == [1, 2, 3, 4]
    assert sorted(os.listdir(run / "checkpoints")) == ["00000002", "00000004"]
    assert_same(last_tensors(run), last_tensors(tmp_path / "whole"))


def test_old_checkpoints_that_a_kill_left_are_removed_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny_config(budget=Budget(steps=6), checkpoint_every=2, keep_last=1, held_out=0)
    with monkeypatch.context() as patch:
        patch.setattr("clew.training.checkpoint.prune", lambda *arguments: None)
        train(config, tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    assert sorted(os.listdir(folder)) == ["00000002", "00000004", "00000006"]
    train(config, tmp_path / "run")
    assert os.listdir(folder) == ["00000006"]


def test_a_kill_inside_the_first_write_does_not_block_the_folder(tmp_path: Path) -> None:
    (tmp_path / ".config.json.0123456789ab.tmp").write_text('{"half":')
    train(tiny_config(budget=Budget(steps=1)), tmp_path)
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_foreign_state_is_one_sentence(tmp_path: Path) -> None:
    train(tiny_config(budget=Budget(steps=1)), tmp_path)
    write_json(find_checkpoint(tmp_path, "last") / "state.json", {"step": 1})
    with pytest.raises(UserError, match="not a state of this Clew"):
        train(tiny_config(), tmp_path)
