"""Damaged and hostile run folders: one sentence, or the newest sound checkpoint; never a traceback or silence."""

from __future__ import annotations

import json
import math
import os
import shutil
from pathlib import Path

import pytest
import torch
from tiny_runs import assert_same, last_tensors, mean_weight, tiny_config

from clew.errors import UserError
from clew.files import read_json, write_json
from clew.training import train as train_module
from clew.training.callbacks import read_metrics
from clew.training.checkpoint import (
    find_checkpoint,
    load_model,
    locked_run,
    read_checkpoint,
    saved_checkpoints,
    write_checkpoint,
)
from clew.training.train import train

CONFIG = tiny_config(ema=0.9)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints of steps 3 and 6, the best of which is 6."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    exact = iter([0.25, 0.5])
    train(CONFIG, folder, evaluate=lambda model: {"exact": next(exact)})
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def flip(file: Path, position: int = -3) -> None:
    """Flip a bit of a file."""
    data = bytearray(file.read_bytes())
    data[position] ^= 64
    file.write_bytes(data)


def saved(run: Path) -> list[str]:
    return [path.name for path in saved_checkpoints(run).values()]


def checkpoint(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"{step:08d}"


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "ema.safetensors"])
def test_a_flipped_bit_is_found_and_the_run_resumes_from_the_sound_checkpoint(
    run: Path, finished: Path, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flip(checkpoint(run, 6) / file)
    with pytest.raises(UserError, match=rf"{file} is damaged: its SHA-256"):
        read_checkpoint(checkpoint(run, 6))
    assert train(CONFIG, run, evaluate=mean_weight).end.reason == "done"
    printed = capsys.readouterr().err.splitlines()
    assert len(printed) == 1
    assert printed[0].startswith(f"clew: {checkpoint(run, 6) / file} is damaged")
    assert printed[0].endswith("The checkpoint 00000003 is used instead.")
    assert_same(last_tensors(run), last_tensors(finished))
    assert len(list((run / "checkpoints").glob("damaged-00000006-*"))) == 1
    assert saved(run) == ["00000003", "00000006"]


def test_a_changed_number_in_the_state_is_found(run: Path) -> None:
    path = checkpoint(run, 6) / "state.json"
    path.write_text(path.read_text().replace('"mazes": 48', '"mazes": 49'))
    with pytest.raises(UserError, match=r"state\.json is damaged: its SHA-256"):
        read_checkpoint(checkpoint(run, 6))


def test_a_model_is_loaded_from_the_newest_sound_checkpoint(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(checkpoint(run, 6) / "model.safetensors")
    model, _ = load_model(run)
    assert capsys.readouterr().err.endswith("The checkpoint 00000003 is used instead.\n")
    assert_same(model.state_dict(), load_model(run, which=3)[0].state_dict())
    with pytest.raises(UserError, match="SHA-256"):
        load_model(run, which=6)
    flip(checkpoint(run, 3) / "model.safetensors")
    with pytest.raises(UserError, match=r"no checkpoint of the run can be read: .*00000006"):
        load_model(run)


def test_a_best_checkpoint_that_is_damaged_or_gone_gives_way_to_the_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exact = iter([0.5, 0.25])
    train(CONFIG, tmp_path, evaluate=lambda model: {"exact": next(exact)})
    assert find_checkpoint(tmp_path) == checkpoint(tmp_path, 3)
    flip(checkpoint(tmp_path, 3) / "model.safetensors")
    assert find_checkpoint(tmp_path) == checkpoint(tmp_path, 6)
    assert "00000003/model.safetensors is damaged" in capsys.readouterr().err
    shutil.rmtree(checkpoint(tmp_path, 3))
    assert find_checkpoint(tmp_path) == checkpoint(tmp_path, 6)


def test_a_checkpoint_without_checksums_is_read(run: Path, finished: Path) -> None:
    """As earlier versions wrote it."""
    path = checkpoint(run, 3) / "state.json"
    state = read_json(path)
    del state["sha256"]
    write_json(path, state | {"gradient_norms": [1.0]})
    shutil.rmtree(checkpoint(run, 6))
    assert train(CONFIG, run, evaluate=mean_weight).end.reason == "done"
    assert_same(last_tensors(run), last_tensors(finished))


def test_an_evaluation_after_the_checkpoint_keeps_its_checksums(tmp_path: Path) -> None:
    """The last step is saved, then evaluated, and its state written again."""
    train(tiny_config(checkpoint_every=2, evaluate_every=100), tmp_path, evaluate=lambda model: {})
    state, tensors = read_checkpoint(checkpoint(tmp_path, 6))
    assert state["evaluated_step"] == 6
    assert set(read_json(checkpoint(tmp_path, 6) / "state.json")["sha256"]) == {
        "model.safetensors",
        "optimizer.safetensors",
        "state.json",
    }
    assert set(tensors) == {"model", "optimizer"}


def test_a_file_of_a_checkpoint_that_is_gone_is_missed(run: Path) -> None:
    (checkpoint(run, 6) / "ema.safetensors").unlink()
    with pytest.raises(UserError, match=r"ema\.safetensors is missing"):
        read_checkpoint(checkpoint(run, 6))


def test_renamed_tensors_are_one_sentence(run: Path) -> None:
    _, tensors = read_checkpoint(checkpoint(run, 6))
    tensors["ema"] = {name.replace("query", "quarry"): tensor for name, tensor in tensors["ema"].items()}
    write_checkpoint(run, 7, tensors, {"step": 7})
    with pytest.raises(UserError, match="another model"):
        load_model(run, which="last")


@pytest.mark.parametrize("name", ["model", "optimizer", "ema"])
def test_what_is_not_finite_is_not_saved(tmp_path: Path, name: str) -> None:
    good = write_checkpoint(tmp_path, 1, {name: {"a": torch.ones(2)}}, {"step": 1})
    bad = {name: {"a": torch.tensor([1.0, math.nan])}}
    with pytest.raises(UserError, match=f"'a' of the {name} is not finite after step 2") as raised:
        write_checkpoint(tmp_path, 2, bad, {"step": 2})
    assert str(good) in str(raised.value)
    assert os.listdir(tmp_path / "checkpoints") == ["00000001"]


def test_a_nan_in_the_optimizer_is_never_called_a_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = train_module.Trainer.run_step

    def step(self: train_module.Trainer, batch: object) -> None:
        real(self, batch)  # type: ignore[arg-type]
        if self.step == 6:
            next(iter(self.optimizer.adamw.state.values()))["exp_avg"].fill_(math.nan)

    monkeypatch.setattr(train_module.Trainer, "run_step", step)
    with pytest.raises(UserError, match="of the optimizer is not finite after step 6"):
        train(tiny_config(), tmp_path)
    assert saved(tmp_path) == ["00000003"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [lines[0], b"\xff\xfe\x00\n", *lines[1:]],
        lambda lines: [lines[0], b'{"kind": "step", "step": "many"}\n', *lines[1:]],
        lambda lines: [lines[0], b'{"kind": "step", "step": Infinity}\n', *lines[1:]],
        lambda lines: [lines[0], b"[" * 100_000 + b"\n", *lines[1:]],
    ],
    ids=["not UTF-8", "a word", "infinite", "deep"],
)
def test_damaged_lines_of_metrics_are_left_out_and_counted(
    run: Path, damage: object, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run / "metrics.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(damage(lines)))  # type: ignore[operator]
    assert len(read_metrics(run)) == len(lines)
    assert train(CONFIG, run, evaluate=mean_weight).end.reason == "done"
    assert capsys.readouterr().err == f"clew: {file} has 1 damaged lines, which are left out.\n"
    assert file.read_bytes() == b"".join(lines)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seconds", "long"),
        ("mazes", None),
        ("best", {"step": "x", "exact": 1}),
        ("best", 7),
        ("scores", [1]),
        ("evaluated_step", math.inf),
        ("loss_scale", {}),
        ("window", {"loss": "low"}),
        ("window", 3),
    ],
)
def test_an_odd_value_in_the_state_is_one_sentence(run: Path, name: str, value: object) -> None:
    """In a checkpoint of an earlier version, which has no checksum to find it."""
    for step in (3, 6):
        path = checkpoint(run, step) / "state.json"
        state = read_json(path)
        del state["sha256"]
        path.write_text(json.dumps(state | {name: value}))
    with pytest.raises(UserError, match="is not a state of this Clew"):
        train(CONFIG, run)
    load_model(run)


def test_folders_that_are_no_checkpoints_are_passed_over(run: Path) -> None:
    for name in ("\u00b2", "12a", "-3"):
        shutil.copytree(checkpoint(run, 3), run / "checkpoints" / name)
    assert saved(run) == ["00000003", "00000006"]
    assert train(CONFIG, run, evaluate=mean_weight).end.reason == "done"


def test_the_lock_neither_follows_a_link_nor_empties_a_file(tmp_path: Path) -> None:
    precious = tmp_path / "thesis.txt"
    precious.write_text("precious")
    run = tmp_path / "run"
    run.mkdir()
    (run / ".lock").symlink_to(precious)
    with pytest.raises(UserError, match=r"\.lock is a link"):
        train(tiny_config(), run)
    (run / ".lock").unlink()
    os.link(precious, run / ".lock")
    with locked_run(run):
        pass
    assert precious.read_text() == "precious"
