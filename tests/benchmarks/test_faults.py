"""The harness of faults: it tells good outcomes from bad ones, and a short run has no bad one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import faults
import fuzz
import pytest

from clew.errors import UserError
from clew.files import read_json
from clew.viz.pages import read_section

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("ended", "outcome"),
    [
        (faults.Ended(0, "", ""), ""),
        (faults.Ended(1, "", "clew: the disk is full.\n"), "refused"),
        (faults.Ended(1, "", ""), "traceback"),
        (faults.Ended(1, "", "Traceback (most recent call last):\n"), "traceback"),
        (faults.Ended(-11, "", ""), "traceback"),
        (faults.Ended(None, "", ""), "hang"),
    ],
)
def test_how_a_command_ended_is_told(ended: faults.Ended, outcome: str) -> None:
    assert ended.problem == outcome


def test_another_result_without_a_word_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    judge = faults.Faults.judged
    assert judge(None, faults.Ended(0, "", ""), lambda: False, "") == ["silent"]  # type: ignore[arg-type]
    assert judge(None, faults.Ended(0, "", ""), lambda: True, "") == ["harmless"]  # type: ignore[arg-type]
    assert judge(None, faults.Ended(0, "", "clew: another one is used.\n"), lambda: False, "") == ["told"]  # type: ignore[arg-type]


def test_a_bad_reader_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(content: bytes) -> None:
        if content.startswith(b"h"):
            time.sleep(60)
        if content.startswith(b"t"):
            raise KeyError("x")
        raise UserError("no." if content.startswith(b"g") else "line\x1b[2J")

    assert fuzz.try_one(fuzz.Kind([], read), b"g") == ("refused", "")
    assert fuzz.try_one(fuzz.Kind([], read), b"t")[0] == "traceback"
    monkeypatch.setattr(fuzz, "PATIENCE", 0.2)
    monkeypatch.setattr(fuzz, "SHARES", {"x": 1})
    monkeypatch.setattr(fuzz, "kinds", lambda folder: {"x": fuzz.Kind([b"h"], read)})
    monkeypatch.setattr(fuzz, "changed", lambda content, chance: content)
    assert fuzz.run(2, seed=0)["x"]["hang"] == 2


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_ctrl_c_is_one_line_as_soon_as_it_is_handled(seconds: float, tmp_path: Path) -> None:
    assert faults.interrupt(tmp_path, "generate", seconds) == "one line, exit 130"


def test_ctrl_c_before_the_first_line_of_clew_is_told_apart(tmp_path: Path) -> None:
    assert faults.interrupt(tmp_path, faults.PYTHON_STARTS, 0.0) == "before Clew's first line"


def test_a_short_run_has_no_bad_outcome(tmp_path: Path) -> None:
    out = tmp_path / "faults.json"
    command = [
        "benchmarks/faults.py",
        "--seconds",
        "3",
        "--fuzz",
        "300",
        "--interrupts",
        "0",
        "--seed",
        str(os.getpid()),
    ]
    command += ["--only", "SIGKILL in train and in checkpoints", "damaged run", "damaged weights", "--out", str(out)]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(read_json(out)) == {"fuzz", "campaigns"}
    assert sum(sum(count.values()) for count in json.loads(out.read_text())["fuzz"]["counts"].values()) == 300


def test_the_page_has_the_counts_of_the_results() -> None:
    report = read_json(faults.RESULT)
    assert read_section(faults.PAGE, "faults") == faults.tables(report)
    assert [
        name for part in report.values() for count in part["counts"].values() for name in faults.BAD if count.get(name)
    ] == []
