"""The cache of compiled code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew import jit


@pytest.fixture(autouse=True)
def fresh() -> None:
    jit.cache_folder.cache_clear()
    yield
    jit.cache_folder.cache_clear()


def test_the_folder_is_of_this_version() -> None:
    assert f"numba-{clew.__version__}-" in jit.cache_folder()


def test_a_package_that_cannot_be_written_to_uses_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__pycache__").write_text("a file where a folder should be")
    monkeypatch.setattr(jit, "__file__", str(package / "jit.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert jit.cache_folder().startswith(str(tmp_path / "cache" / "clew"))
    jit.cache_folder.cache_clear()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert Path(jit.cache_folder()).is_dir()


def test_a_user_without_a_home_has_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "__pycache__").write_text("a file where a folder should be")
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "jit.py"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as it answers without HOME and without an account
    assert Path(jit.cache_folder()).name.startswith("clew-")


def test_compiled_code_is_kept_there(tmp_path: Path) -> None:
    code = "import numpy as np\nfrom clew.mazes.compiled import begin_stream as f\nf(np.zeros(1, np.uint64), 1, 2, 3)"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True)
    assert list(tmp_path.rglob("*.nbi"))


def test_closures_that_call_each_other_are_compiled_once(tmp_path: Path) -> None:
    (tmp_path / "kernels.py").write_text(
        "from clew.jit import intrinsic, njit\n"
        "@njit()\ndef same(x):\n    return x\n"
        "@intrinsic\ndef copied(context, x):\n    return x(x), lambda context, builder, signature, values: values[0]\n"
        "def kernels(n):\n"
        "    @njit()\n    def outer(x):\n        return inner(x) + n\n"
        "    @njit()\n    def inner(x):\n        return copied(same(x)) * n\n"
        "    return outer\n"
        "a, b = kernels(2), kernels(3)\n"
        "print(a(1), b(1), *(sum(f.stats.cache_misses.values()) for f in (a, b)))\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    runs = [
        subprocess.run([sys.executable, "kernels.py"], cwd=tmp_path, env=environment, check=True, capture_output=True)
        for _ in range(2)
    ]
    assert [run.stdout.split() for run in runs] == [[b"4", b"6", b"1", b"1"], [b"4", b"6", b"0", b"0"]]
