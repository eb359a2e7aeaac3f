"""clew train: the list, the fields, the budget, the dataset that is made, resuming, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli import run
from clew.files import write_json
from clew.training.checkpoint import load_config, load_model

SMALL = ["--steps", "2", "--batch-size", "4", "--held-out", "4", "--model.width", "16", "--threads", "1"]


def test_the_list_shows_every_config(capsys: pytest.CaptureFixture[str]) -> None:
    from clew.paper.named_configs import CONFIGS

    assert run(["train", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[: len(CONFIGS)]] == list(CONFIGS)
    assert lines[len(CONFIGS)].startswith("{paper,published}-")
    assert run(["train", "--help"]) == 0
    assert "usage: clew train CONFIG" in capsys.readouterr().out


def test_fields_reach_the_run_and_the_vocabulary_follows_the_mazes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    fields = ["--optimizer.lr", "3e-4", "--objective.rates.sampling", "stratified", "--data.sizes", "12"]
    fields += ["--ema", "0.9", "--held-out", "0"]
    assert run(["train", "tiny", "--out", str(out), *SMALL, *fields]) == 0
    assert "done after 2 steps" in capsys.readouterr().err
    config = load_config(out)
    assert (config.optimizer.lr, config.optimizer.kind, config.ema) == (3e-4, "muon", 0.9)
    assert config.objective.rates.sampling == "stratified"
    assert (config.budget.steps, config.data.sizes) == (2, (12,))
    assert config.model.vocabulary == 256  # type: ignore[attr-defined]
    model, _ = load_model(out)
    assert model.embedding.weight.shape == (256, 16)  # type: ignore[union-attr]

    # A run's config is a config too.
    assert run(["train", str(out / "config.json"), "--out", str(tmp_path / "again"), "--steps", "1"]) == 0
    again = load_config(tmp_path / "again").to_json()
    assert again == {**config.to_json(), "budget": {"steps": 1, "epochs": None, "minutes": None}}


def test_a_missing_dataset_is_made_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fields = ["--data.source", "dataset", "--data.mazes", "8", *SMALL[2:]]
    assert run(["train", "tiny", "--out", "run", *fields, "--epochs", "2"]) == 0
    captured = capsys.readouterr().err
    assert "made the dataset data/dfs-3" in captured
    assert "done after 4 steps" in captured


def test_a_folder_of_ones_own_is_all_there_is_to_say(tmp_path: Path) -> None:
    folder = str(tmp_path / "mine")
    made = ["generate", "astar", "--size", "4", "5", "--count", "8", "--test", "4", "--seed", "3"]
    assert run([*made, "--out", folder]) == 0
    command = ["train", "tiny", *SMALL, "--data.source", "dataset", "--data.folder", folder]
    assert run([*command, "--out", str(tmp_path / "run")]) == 0
    data = load_config(tmp_path / "run").data
    assert (data.family, data.shapes, data.seed, data.format) == ("astar", ((4, 5),), 3, "wall-list")
    assert run([*command, "--data.sizes", "7", "--out", str(tmp_path / "other")]) == 1  # what is said stands


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--out", "x"], 2, "the config comes first"),
        (["tinny", "--out", "x"], 1, "did you mean tiny"),
        (["tiny", "--out", "x", "--steps", "1", "--minutes", "1"], 1, "exactly one"),
        (["tiny", "--out", "x", "--steps", "0"], 1, "above 0"),
        (["tiny", "--out", "x", "--epochs", "1"], 1, "no epochs"),
        (["tiny", "--out", "x", "--objective.name", "trace"], 1, "needs the format wall-list-trace"),
        (["missing.json", "--out", "x"], 1, "missing.json does not exist"),
    ],
)
def test_mistakes_get_one_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["train", *arguments]) == code
    captured = capsys.readouterr().err
    assert words in captured
    assert captured.count("\n") == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("bad", "code", "sentence"),
    [
        (["--colour", "red"], 2, "has no option --colour"),
        (["--model.depth", "3"], 2, "has no option --model.depth; did you mean --model."),
        (["--batch-size", "many"], 2, "--batch-size cannot be 'many'; give a whole number."),
        (["--objective.weighting", "on"], 2, "--objective.weighting cannot be 'on'"),
        (["--model.width", "15"], 1, "15"),
        (["--sweep", "lr"], 2, "--sweep cannot be 'lr'; give each field and value once, such as lr=1e-3,3e-4."),
        (["--sweep", "lr=1e-3,0.001"], 2, "--sweep cannot be 'lr=1e-3,0.001'; give each"),
        (["--sweep", "lr=1e-3", "lr=1e-4"], 2, "--sweep cannot be 'lr=1e-4'; give each"),
        (["--sweep", "lrr=1"], 1, "there is no setting 'lrr' in this config; did you mean lr?"),
        (["--seeds", "0"], 1, "0 seeds train nothing"),
        (["--model.kind", "none-such"], 1, "needs the model 'none-such', which is not registered"),
        (["--model.kind", "decoder-only"], 1, "a decoder-only model predicts from left to right only"),
    ],
)
def test_unknown_fields_are_refused(
    tmp_path: Path, bad: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["train", "tiny", "--out", str(tmp_path / "x"), *bad]) == code
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_help_shows_the_configs_own_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "tiny", "--help"]) == 0
    printed = capsys.readouterr().out
    for words in ("--out", "--minutes", "--optimizer.lr", "--model.encoder-depth", "--objective.rates.shape"):
        assert words in printed
    assert "--budget.steps" not in printed
    assert "(default 32)" in printed


def test_a_sweep_trains_every_combination(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "sweep"
    words = ["train", "tiny", "--out", str(out), *SMALL, "--sweep", "lr=1e-3,3e-4", "--seeds", "2"]
    assert run(words) == 0
    names = ["lr=1e-3-seed=0", "lr=1e-3-seed=1", "lr=3e-4-seed=0", "lr=3e-4-seed=1"]
    assert sorted(os.listdir(out)) == names
    configs = [load_config(out / name) for name in names]
    assert [(config.optimizer.lr, config.seed) for config in configs] == [(1e-3, 0), (1e-3, 1), (3e-4, 0), (3e-4, 1)]
    capsys.readouterr()

    assert run(["runs", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["run", "config", "steps", "loss", "held-out", "exact", "%", "age"]
    assert lines[1].split()[:6] == [f"{out}/{names[0]}", "mlm-u", "encoder-decoder", "dfs", "3x3", "2"]
    assert run(["runs", str(out), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["steps"] for row in rows] == [2] * 4
    assert all(row["loss"] > 0 and 0 <= row["exact"] <= 1 and row["age_seconds"] < 600 for row in rows)

    for y, x in (("loss", "steps"), ("exact", "mazes"), ("loss", "hours")):
        picture = tmp_path / f"{y}-{x}.png"
        assert run(["plot", str(out), "--y", y, "--x", x, "--out", str(picture)]) == 0
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.splitlines()[-1] == f"{picture}: 4 runs"


def test_a_config_file_creates_no_folder_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = clew.config("tiny", **{"data.source": "dataset", "data.mazes": 20, "held_out": 0, "steps": 1})
    config = replace(config, data=replace(config.data, folder=str(tmp_path / "elsewhere" / "set")))
    write_json(tmp_path / "config.json", config.to_json())
    assert run(["train", "config.json", "--out", "run", "--batch-size", "4"]) == 0
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "data" / "set" / "dataset.json").exists()


def test_sigterm_saves_and_leaves_and_the_same_command_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "run"
    fields = ["--batch-size", "4", "--held-out", "0", "--log-every", "1", "--model.width", "16", "--threads", "1"]
    command = [sys.executable, "-m", "clew", "train", "tiny", "--out", str(out), *fields]
    process = subprocess.Popen([*command, "--steps", "100000"], stderr=subprocess.PIPE, text=True)
    until = time.time() + 120
    while not _lines(out) and time.time() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, captured = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, captured
    assert "saved after step" in captured
    assert "Traceback" not in captured
    done = _lines(out)[-1]["step"]
    assert (out / "checkpoints" / f"{done:08d}").is_dir()
    assert run(["train", "tiny", "--out", str(out), *fields, "--steps", str(done + 2)]) == 0
    assert [line["step"] for line in _lines(out)] == list(range(1, done + 3))


def _lines(run: Path) -> list[dict[str, Any]]:
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
