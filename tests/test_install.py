"""A wheel that is built from the repository and installed into an empty environment works outside the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAZE = "+--+--+--+\n|S    |  |\n+--+  +  +\n|  |     |\n+  +--+  +\n|       G|\n+--+--+--+\n"
DOCTESTS = """
import doctest, clew, clew.api
for module in (clew, clew.api):
    assert "site-packages" in module.__file__, module.__file__
    result = doctest.testmod(module)
    assert result.attempted > 5 and not result.failed, (module, result)
"""


def call(folder: Path, *command: str | Path) -> str:
    """Run a command outside of the repository and of this process's environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="the build backend is among the extras: pip install -e '.[dev]'")
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check", "--wheel-dir", folder]
    subprocess.run([sys.executable, "-m", "pip", "wheel", ROOT, *options], check=True, cwd=folder)
    (built,) = folder.glob("clew-*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {"clew/py.typed", "clew/weights/cells-dfs/model.safetensors"} <= set(names)
    parts = {name.split("/")[0] for name in names}
    assert {part.partition("-")[0] for part in parts} == {"clew"}
    assert not [name for name in names if "benchmarks" in name or "tests" in name or "__pycache__" in name]


@pytest.mark.timeout(1200)  # all kernels are compiled anew
def test_an_installed_wheel_works(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    # The dependencies come from this environment: its packages stand behind those of the empty one.
    site = Path(call(tmp_path, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", wheel], check=True)
    clew = python.with_name("clew")
    assert call(tmp_path, clew, "--version") == f"clew {wheel.name.split('-')[1]}\n"
    (tmp_path / "mazes.txt").write_text(MAZE)
    assert "a shortest one." in call(tmp_path, clew, "solve", "mazes.txt", "--solver", "cells-dfs")
    call(tmp_path, python, "-c", DOCTESTS)
    call(tmp_path, clew, "demo", "--minutes", "0.02", "--star-minutes", "0.01", "--sizes", "5")
    assert (tmp_path / "demo" / "demo.html").stat().st_size > 10_000
