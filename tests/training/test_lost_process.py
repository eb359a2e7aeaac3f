"""Several processes: one that is lost or that no other one joins, and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch.distributed as dist

from clew.errors import UserError
from clew.training.distributed import joined_world


@pytest.mark.skipif(not Path("/proc").exists(), reason="the launched processes are found in /proc")
def test_a_lost_process_ends_the_others_and_a_signal_saves(tmp_path: Path) -> None:
    words = ["reproduce", "architectures", "--scale", "smoke", "--minutes", "5", "--processes", "2"]
    command = [sys.executable, "-m", "clew", *words, "--root", str(tmp_path)]

    launcher = started(command, tmp_path)
    os.kill(children(launcher.pid)[-1], signal.SIGKILL)
    printed = launcher.communicate(timeout=900)[1].splitlines()
    assert launcher.returncode == 128 + signal.SIGKILL
    other = ("training 1 of 2", "compiling kernels")
    sentences = [line.partition("(")[0] for line in printed if not any(words in line for words in other)]
    assert sentences[-1] == "clew: rank 1 of 2 was ended by SIGKILL "
    assert sentences[:-1] in ([], ["clew: rank 0 of 2 has lost another process "])  # unless it was ended first

    launcher = started(command, tmp_path)
    launcher.send_signal(signal.SIGTERM)
    printed = launcher.communicate(timeout=900)[1].splitlines()
    assert launcher.returncode == 128 + signal.SIGTERM
    assert printed[-1] == "clew: saved and stopped; the same command resumes."
    assert len(printed) == 2


def started(command: list[str], root: Path) -> subprocess.Popen[str]:
    """Start the command, and return it when it has done some steps more."""
    before = steps(root)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 900
    while steps(root) < before + 5:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def steps(root: Path) -> int:
    return sum(len(file.read_text().splitlines()) for file in root.glob("runs/reproduce/smoke/*/metrics.jsonl"))


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


LOSE = """
import os, signal, sys
from datetime import timedelta
from torch.distributed.distributed_c10d import _set_pg_timeout
from clew.errors import guarded
from clew.training.distributed import joined_world

def work():
    with joined_world("cpu", timeout_hours=1) as world:
        world.wait_for_all()
        if world.rank == 1 and sys.argv[1] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if world.rank == 1:
            sys.stdin.read()  # until the other one has ended, however slow the machine is
        elif sys.argv[1] == "slow":
            _set_pg_timeout(timedelta(seconds=1))  # after all have joined, which takes as long as it takes
        world.wait_for_all()

sys.exit(guarded(work))
"""


@pytest.mark.parametrize(
    ("what", "codes", "reason"),
    [("killed", [1, -signal.SIGKILL], "Connection"), ("slow", [1, 1], "Timed out")],
)
def test_a_process_that_loses_another_one_says_so(what: str, codes: list[int], reason: str, free_port: int) -> None:
    """As under torchrun and Slurm, where nobody else says it."""
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port)}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", LOSE, what],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    printed = [worker.communicate(timeout=900)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == codes
    assert printed[0].startswith("clew: rank 0 of 2 has lost another process (")
    assert reason in printed[0]
    assert printed[0].count("\n") == 1


@pytest.mark.parametrize("error", [dist.DistStoreError, dist.DistNetworkError])
def test_a_process_that_nobody_joins_says_so(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise error("Timed out after 2 seconds waiting for clients. 1/2 clients joined.")

    monkeypatch.setattr(dist, "init_process_group", refuse)
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    sentence = r"rank 0 of 2 has lost another process \(Timed out after 2 seconds waiting"
    with pytest.raises(UserError, match=sentence), joined_world("cpu"):
        raise AssertionError("nobody joined")
