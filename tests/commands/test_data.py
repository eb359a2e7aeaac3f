from __future__ import annotations

import json
from pathlib import Path

import pytest

from clew.cli import run


def test_verify_finds_a_flipped_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "d")
    assert run(["generate", "astar", "--size", "6", "--count", "40", "--test", "10", "--out", out]) == 0
    capsys.readouterr()
    assert run(["data", "verify", out]) == 0
    assert "is sound: 10 files as they were written, 40 + 10 mazes" in capsys.readouterr().out

    file = tmp_path / "d" / "test.cells.npy"
    data = bytearray(file.read_bytes())
    data[-7] ^= 1
    file.write_bytes(data)
    assert run(["data", "verify", out]) == 1
    told = capsys.readouterr().err
    assert f"{file} is not as it was written" in told
    assert told.count("\n") == 1


def test_describe_tells_layouts_walls_and_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(tmp_path / name) for name in ("all", "one", "dfs")]
    for folder, options in zip(
        folders, (["astar"], ["astar", "--tasks-per-layout", "one"], ["dfs", "--test", "0"]), strict=True
    ):
        command = ["generate", *options, "--size", "6", "--count", "200", "--out", folder]
        assert run(command if "--test" in options else [*command, "--test", "30"]) == 0
    capsys.readouterr()
    assert run(["data", "describe", *folders, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["provenance"]["command"] == f"clew data describe {' '.join(folders)} --json"
    rows = value["splits"]
    assert [(row["tasks_per_layout"], row["split"], row["tasks"]) for row in rows] == [
        *(("all", "train", 200), ("all", "test", 30), ("one", "train", 200), ("one", "test", 30)),
        *((None, "train", 200), (None, "test", 0)),
    ]
    assert rows[0]["layouts"] < 40 < rows[2]["layouts"] <= 200
    assert all(0.25 < row["wall_share"] < 0.5 and row["path_cells"] >= 6 for row in rows[:4])
    assert (rows[4]["wall_share"], rows[4]["one_shortest"], rows[5]["path_cells"]) == (0.0, 1.0, 0.0)

    assert run(["data", "describe", folders[2]]) == 0
    head, train, test = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["dataset", "split", "tasks", "layouts"]
    assert train.split()[:3] == [folders[2], "train", "200"]
    assert len({len(line) for line in (head, train, test)}) == 1
    assert run(["data", "describe", str(tmp_path / "absent")]) == 1
    assert "does not exist" in capsys.readouterr().err


def test_verify_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "verify", str(tmp_path / "absent")]) == 1
    assert "does not exist" in capsys.readouterr().err
