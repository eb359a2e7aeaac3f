from __future__ import annotations

from pathlib import Path

import pytest

from clew.cli import run


def test_verify_finds_a_flipped_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "d")
    assert run(["generate", "walls", "--size", "6", "--count", "40", "--test", "10", "--out", out]) == 0
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


def test_verify_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "verify", str(tmp_path / "absent")]) == 1
    assert "does not exist" in capsys.readouterr().err
