"""`clew draw`: a picture, or one sentence and no picture."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clew.cli import run
from clew.viz.drawing import TRUE_PATH

GOLDEN = Path(__file__).parents[1] / "golden"
NO_WAY = "S#.\n.#G\n"


def red_pixels(picture: Path) -> int:
    red = [int(TRUE_PATH[i : i + 2], 16) for i in (1, 3, 5)]
    return int((np.asarray(Image.open(picture).convert("RGB")) == red).all(axis=-1).sum())


@pytest.mark.parametrize("name", ["dfs-5.txt", "dfs-10.txt", "astar.jsonl"])
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_every_kind_of_file_is_drawn(name: str, ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"a.{ending}"
    assert run(["draw", str(GOLDEN / name), "--out", str(out), "--limit", "2"]) == 0
    if ending == "png":
        assert red_pixels(out) > 100
    else:
        assert out.read_text().count(TRUE_PATH) == 2


def test_no_path_draws_the_maze_alone(tmp_path: Path) -> None:
    out = tmp_path / "a.png"
    assert run(["draw", str(GOLDEN / "dfs-5.txt"), "--out", str(out), "--limit", "1", "--no-path"]) == 0
    assert red_pixels(out) == 0


def test_a_maze_that_cannot_be_read_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mazes.txt").write_text("S.G\n...\n\nS.?\n...\n")
    assert run(["draw", str(tmp_path / "mazes.txt"), "--out", str(tmp_path / "mazes.svg")]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("clew: maze 2, line 4, column 3: ")
    assert "1 maze" in printed.out


def test_the_limit_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a.svg"
    assert run(["draw", str(GOLDEN / "dfs-5.txt"), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert printed == f"{out}: 16 mazes\nonly the first 16 are drawn, there are more; --limit draws more\n"


def test_standard_input_and_a_maze_without_a_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(NO_WAY.encode())))
    assert run(["draw", "-", "--out", str(tmp_path / "a.svg")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'a.svg'}: 1 maze\n"
    assert "no way through" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize("file", [[str(GOLDEN / "dfs-5.txt")], []], ids=["file", "held-out"])
def test_a_models_decoding_is_animated_and_drawn(
    file: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gif, picture = tmp_path / "a.gif", tmp_path / "a.svg"
    words = ["draw", *file, "--model", "cells-dfs", "--decoder", "walk", "--limit", "2"]
    assert run([*words, "--animate", str(gif), "--out", str(picture)]) == 0
    printed = capsys.readouterr().out.splitlines()
    match = re.fullmatch(r"(\d+) frames", printed[0].removeprefix(f"{gif}: "))
    assert match
    # Loops, a step and the path; equal frames may be joined.
    assert int(match.group(1)) >= getattr(Image.open(gif), "n_frames", 1) > 5
    assert printed[1] == f"{picture}: {'2 mazes' if file else '1 maze'}"


def test_neither_a_file_nor_a_model_is_a_wrong_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["draw", "--out", str(tmp_path / "a.png")]) == 2
    assert "FILE or --model" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [[], ["--animate", "a.gif"], ["--decoder", "walk", "--out", "a.png"]], ids=["none", "gif", "decoder"]
)
def test_missing_options_are_a_wrong_call(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["draw", str(GOLDEN / "dfs-5.txt"), *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["dfs-5.txt", "--model", "cells-dfs", "--animate", "a.png"], "must end in .gif"),
        (["dfs-5.txt", "--out", "a.jpg"], "must end in .png or .svg"),
        (["dfs-5.txt", "--out", "no/a.png"], "the folder no does not exist"),
        (["missing.txt", "--out", "a.png"], "cannot read 'missing.txt'"),
        (["mlmu-tiny.safetensors", "--out", "a.png"], "not text"),
        (["dfs-5.txt", "--out", "a.png", "--limit", "0"], "a limit of 0 leaves no maze"),
    ],
)
def test_bad_input_is_one_sentence_and_no_picture(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("dfs-5.txt", "mlmu-tiny.safetensors"):
        (tmp_path / name).symlink_to(GOLDEN / name)
    before = sorted(os.listdir(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run(["draw", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("clew: ")
    assert sentence in error
    assert error.count("\n") == 1
    assert sorted(os.listdir(tmp_path)) == before


def test_attention_of_a_text_model_is_a_gif(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "attention.gif"
    assert run(["draw", "--model", "text-dfs-4-mlmu", "--attention", str(file)]) == 0
    assert re.search(r"attention\.gif: \d+ frames", capsys.readouterr().out)
    assert file.read_bytes()[:3] == b"GIF"


def test_attention_of_a_cell_network_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["draw", "--model", "cells-dfs", "--attention", str(tmp_path / "a.gif")]) == 1
    assert "only text models have attention" in capsys.readouterr().err
