"""Memory that was freed is used again without asking the system for it."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from clew import cli, memory

# Page faults while a hundred arrays of a megabyte are made, touched and freed, again and again, as training does.
FAULTS = """
import resource, sys
import numpy as np
from clew.memory import keep_freed_memory

def work():
    kept = [np.ones(1 << 17) for _ in range(100)]

if sys.argv[1] == "keep":
    assert keep_freed_memory()
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", FAULTS, how], check=True, capture_output=True, text=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="another C library")
def test_the_next_step_finds_its_memory_as_it_was() -> None:
    assert faults("keep") < 1_000 < 20_000 < faults("give back")


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: object())
    assert not memory.keep_freed_memory()
    monkeypatch.undo()
    monkeypatch.setattr(sys, "platform", "win32")
    assert not memory.keep_freed_memory()


def test_the_command_line_keeps_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(cli, "keep_freed_memory", lambda: called.append(True))
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert called
