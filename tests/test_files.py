"""A file that could not be written wholly is not there, and an older one under its name is untouched."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from clew.errors import UserError
from clew.files import atomic_write, read_json, write_json


def test_text_and_bytes_are_written(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as text:
        text.write("maze\n→")
    with atomic_write(str(tmp_path / "b"), "wb") as data:
        data.write(b"\0\1")
    assert (tmp_path / "a").read_bytes() == "maze\n→".encode()
    assert (tmp_path / "b").read_bytes() == b"\0\1"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def write_half(path: Path, failure: type[BaseException]) -> None:
    with atomic_write(path) as file:
        file.write("new, but only ha")
        raise failure


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_file_alone(tmp_path: Path, failure: type[BaseException]) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(failure):
        write_half(tmp_path / "a", failure)
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_nothing_has_the_name_before_the_end(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a") as file:
        file.write("x")
        file.flush()
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a").exists()


def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as caught, atomic_write(tmp_path / "a"):
        raise OSError(errno.ENOSPC, "No space left on device")  # as write() raises it: without a name
    assert caught.value.filename == str(tmp_path / "a")
    assert os.listdir(tmp_path) == []


def test_another_files_error_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "a"):
        (tmp_path / "missing").read_text()
    assert caught.value.filename == str(tmp_path / "missing")


def test_a_missing_folder_or_a_folder_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"), atomic_write(tmp_path / "no" / "a"):
        pass
    with pytest.raises(UserError, match="is a folder"), atomic_write(tmp_path):
        pass


def test_a_long_name_is_possible(tmp_path: Path) -> None:
    write_json(tmp_path / ("n" * 250), [1])
    assert read_json(tmp_path / ("n" * 250)) == [1]


def test_json_round_trip(tmp_path: Path) -> None:
    value = {"cells": [[1, 2], [3, 4]], "name": "Ariadné", "none": None}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value


def test_what_json_cannot_hold_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_json(tmp_path / "a.json", {"x": object()})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "data",
    [b"", b"  \n", json.dumps({"count": 2000}).encode()[:-1], b"\xff\xfe\xfa", b"[" * 100_000],
    ids=["empty", "blank", "cut", "bytes", "deep"],
)
def test_half_a_json_file_is_a_user_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(UserError, match=r"a\.json .*make it again"):
        read_json(tmp_path / "a.json")
