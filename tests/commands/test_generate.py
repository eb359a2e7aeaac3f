from __future__ import annotations

from pathlib import Path

import pytest

from clew.cli import run
from clew.data.dataset import open_dataset


def test_generate_says_what_it_made_and_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "data" / "dfs-4"
    command = ["generate", "dfs", "--size", "4", "--count", "30", "--test", "5", "--seed", "1", "--out", str(out)]
    assert run(command) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{out}: 30 mazes to train on and 5 to test on, dfs, 4 rows by 4 columns\n"
    assert printed.err == ""
    settings = open_dataset(out).settings
    assert (settings.family, settings.height, settings.width, settings.seed) == ("dfs", 4, 4, 1)
    assert (settings.format, settings.counts) == ("edge-list", {"train": 30, "test": 5})

    assert run(command) == 0
    assert "already there" in capsys.readouterr().out
    assert run([*command, "--format", "grid"]) == 1
    assert "other settings (format edge-list and not grid)" in capsys.readouterr().err


def test_every_path_has_as_many_cells_as_asked_for(tmp_path: Path) -> None:
    command = ["generate", "astar", "--size", "8", "--count", "20", "--test", "10", "--min-path", "16"]
    assert run([*command, "--out", str(tmp_path)]) == 0
    dataset = open_dataset(tmp_path)
    assert dataset.settings.min_path == 16
    for split in ("train", "test"):
        assert dataset.split(split)[:10].length_N.min() >= 16


def test_the_former_name_of_astar_makes_the_same_dataset(tmp_path: Path) -> None:
    for family in ("walls", "astar"):
        command = ["generate", family, "--size", "6", "--count", "8", "--test", "4", "--out", str(tmp_path / family)]
        assert run(command) == 0
    former, present = sorted((tmp_path / "walls").iterdir()), sorted((tmp_path / "astar").iterdir())
    assert [file.read_bytes() for file in former] == [file.read_bytes() for file in present]


def test_options_reach_the_dataset(tmp_path: Path) -> None:
    command = ["generate", "percolation", "--size", "3", "6", "--count", "8", "--test", "0"]
    assert run([*command, "--open-share", "0.8", "--workers", "1", "--format", "grid", "--out", str(tmp_path)]) == 0
    settings = open_dataset(tmp_path).settings
    assert (settings.height, settings.width, settings.open_share, settings.format) == (3, 6, 0.8, "grid")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["dfs", "--size", "5", "4", "4"], "give --size one number, or rows and columns"),
        (["dfs", "--size", "1"], "1 row and 1 column"),
        (["dfs", "--count", "0"], "at least 1 maze"),
        (["dfs", "--seed", "-1"], "seed -1 is out of range"),
        (["dfs", "--workers", "0"], "0 workers"),
        (["dfs", "--open-share", "0.5"], "belongs to percolation"),
        (["dfs", "--tasks-per-layout", "one"], "belong to astar mazes"),
        (["dfs", "--format", "wall-list"], "dfs mazes have none"),
        (["percolation", "--open-share", "2"], "open share 2.0"),
        (["dfs", "--size", "5", "--min-path", "26"], "no maze of 5 rows and 5 columns has a path of at least 26 cells"),
    ],
)
def test_bad_options_get_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert run(["generate", *options, "--out", str(tmp_path / "d")]) == 1
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert not (tmp_path / "d").exists()
