"""The provenance of a result: command, seeds, machine and versions."""

from __future__ import annotations

import json
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clew import __version__
from clew.provenance import provenance


def test_it_holds_what_is_needed_to_measure_again() -> None:
    found = provenance("clew evaluate x", seeds=range(2))
    assert found["command"] == "clew evaluate x"
    assert found["seeds"] == [0, 1]
    assert abs((datetime.now(UTC) - datetime.fromisoformat(found["date"])).total_seconds()) < 60
    assert found["cores"] >= 1
    assert found["cpu"]
    assert found["versions"]["python"] == platform.python_version()
    assert found["versions"]["clew"] == __version__
    assert re.fullmatch(r"\d+\.\d+.*", found["versions"]["numba"])
    json.dumps(found)


def test_it_tells_no_host_and_no_path() -> None:
    text = json.dumps(provenance("clew", []))
    assert platform.node() not in text or not platform.node()
    assert str(Path.home()) not in text
    assert str(Path(__file__).parents[2]) not in text


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> None:
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", absent)
    assert provenance("x", [])["commit"] is None


def test_a_copy_outside_the_repository_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.provenance.__file__", str(tmp_path / "provenance.py"))
    assert provenance("x", [])["commit"] is None
