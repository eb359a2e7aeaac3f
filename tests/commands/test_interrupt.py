"""Ctrl-C at any moment of a command ends it with one line and exit code 130."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

# What the installed script `clew` imports and calls.
SCRIPT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]["clew"]
# The line "ready" says that Clew handles the signal.
START = "import {}, sys; main = {}.{}; sys.argv[0] = 'clew'; print('ready', flush=True); main()".format(
    SCRIPT.split(":")[0], *SCRIPT.split(":")
)
COMMANDS = {
    "generate": ["generate", "dfs", "--size", "20", "--count", "5000000", "--workers", "1", "--out", "data"],
    "train": ["train", "tiny", "--steps", "1000000", "--out", "run"],
    "evaluate": ["evaluate", "cells-astar", "--size", "30", "--mazes", "2000"],
    "solve": ["solve", "-", "--solver", "cells-dfs"],  # waits for standard input
    "demo": ["demo", "--minutes", "9"],
}


@pytest.fixture(autouse=True)
def default_interrupts() -> Iterator[None]:
    """Children inherit an ignored SIGINT, which a shell sets for what it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt(folder: Path, command: list[str], seconds: float) -> tuple[int, str]:
    """Start the command, interrupt it after so many seconds, and return its exit code and stderr."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, *command],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    return process.returncode, error


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("seconds", [0.03, 0.4, 1.5, 4.0])
def test_ctrl_c_is_one_line(name: str, seconds: float, tmp_path: Path) -> None:
    code, error = interrupt(tmp_path, COMMANDS[name], seconds)
    assert code == 130, error
    assert "Traceback" not in error
    assert "Error" not in error
    assert error.splitlines()[-1].startswith("clew: ")
    assert "stopped" in error.splitlines()[-1]
    # Other lines are the progress of a training, and the note on compiling.
    assert sum(line.startswith("clew: ") and "compiling" not in line for line in error.splitlines()) == 1


@pytest.mark.parametrize("module", ["signal", "clew.cli", "clew.errors", "numpy"])
def test_ctrl_c_inside_an_import_of_the_start_is_one_line(module: str, tmp_path: Path) -> None:
    code = (
        "import os, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *others):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), 2)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "sys.argv = ['clew', 'generate', 'dfs', '--out', 'data']\n"
        "from {} import {}\n".format(*SCRIPT.split(":"))
        + "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "clew: stopped.\n")


def test_a_half_written_file_is_removed(tmp_path: Path) -> None:
    code = (
        "import time, clew.__main__, clew.cli, clew.files, sys\n"
        "clew.cli.COMMANDS['wait'] = ('__main__:wait', '')\n"
        "def wait():\n"
        "    with clew.files.atomic_write('out') as file:\n"
        "        file.write('half'); print('ready', flush=True); time.sleep(60)\n"
        "sys.argv = ['clew', 'wait']; clew.__main__.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert len(os.listdir(tmp_path)) == 1
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20)[1] == "clew: stopped.\n"
    assert process.returncode == 130
    assert os.listdir(tmp_path) == []
