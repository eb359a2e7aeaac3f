"""A file that could not be written wholly is not there, and an older one under its name is untouched."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from clew.errors import UserError
from clew.files import atomic_write, discard_unfinished, from_plain, open_own, read_json, write_json


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


def test_duplicate_keys_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"model": {"width": 3, "depth": 1, "width": 4}}')
    with pytest.raises(UserError, match=r"the key 'width' stands twice in one object"):
        read_json(tmp_path / "a.json")


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    write_json("/dev/null", [1])
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert not list(Path("/dev").glob(".null.*"))


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        text = pool.submit(pipe.read_text)
        write_json(pipe, [1])
        assert json.loads(text.result(timeout=10)) == [1]
    assert pipe.is_fifo()


def test_standard_output_is_written_in_order(tmp_path: Path) -> None:
    code = "from clew.files import write_json; print('a', flush=True); write_json('/dev/stdout', 1); print('b')"
    with open(tmp_path / "out", "w") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "out").read_text() == "a\n1\nb\n"


def test_a_link_inside_the_folder_stays_and_one_to_elsewhere_is_refused(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    (here / "real").write_text("old")
    (elsewhere / "real").write_text("old")
    (here / "near").symlink_to("real")
    (here / "far").symlink_to(elsewhere / "real")
    (here / "dangling").symlink_to(elsewhere / "none")
    write_json(here / "near", 1)
    assert (here / "near").is_symlink()
    assert (here / "real").read_text() == "1\n"
    for name in ("far", "dangling"):
        with pytest.raises(UserError, match="is a link to"):
            write_json(here / name, 1)
    assert (elsewhere / "real").read_text() == "old"
    assert not (elsewhere / "none").exists()


def test_unfinished_files_can_be_discarded(tmp_path: Path) -> None:
    writing = atomic_write(tmp_path / "a")
    writing.__enter__().write("half")
    assert len(os.listdir(tmp_path)) == 1
    discard_unfinished()
    assert os.listdir(tmp_path) == []
    with pytest.raises(FileNotFoundError):
        writing.__exit__(None, None, None)


def test_an_integer_too_large_for_a_float_is_a_user_error() -> None:
    with pytest.raises(UserError, match="must be a number"):
        from_plain(Measured, {"value": 10**400}, "the file")


@dataclass
class Measured:
    value: float


def test_a_changed_file_does_not_match_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"lr": 0.001}, checksum=True)
    assert read_json(path) == {"lr": 0.001}
    path.write_text(path.read_text().replace("0.001", "0.003"))
    with pytest.raises(UserError, match=r"x.json was changed after it was written \(its SHA-256 differs\)"):
        read_json(path)


@pytest.mark.parametrize("mode", ["a+b", "w+b"])
def test_a_growing_file_is_not_opened_through_a_link(tmp_path: Path, mode: Literal["a+b", "w+b"]) -> None:
    (tmp_path / "thesis").write_text("precious")
    (tmp_path / "log").symlink_to(tmp_path / "thesis")
    with pytest.raises(UserError, match="log is a link"):
        open_own(tmp_path / "log", mode)
    assert (tmp_path / "thesis").read_text() == "precious"
    with open_own(tmp_path / "new", mode) as file:
        file.write(b"x")
    assert (tmp_path / "new").read_bytes() == b"x"
