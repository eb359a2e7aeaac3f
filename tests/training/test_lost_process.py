"""A process that loses another one, or that no other one joins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
import torch.distributed as dist

from clew.errors import UserError
from clew.training.distributed import first_sentence, is_lost_process, joined_world

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
    told = [worker.communicate(timeout=900)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == codes
    assert told[0].startswith("clew: rank 0 of 2 has lost another process (")
    assert reason in told[0]
    assert told[0].count("\n") == 1


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


def test_errors_of_lost_processes_are_known() -> None:
    where = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] "
    lost = RuntimeError(f"{where}Connection closed by peer [127.0.0.1]:12416. This is typically caused by a crash.")
    assert is_lost_process(lost)
    assert first_sentence(lost) == "Connection closed by peer [127.0.0.1]:12416"
    assert first_sentence(RuntimeError("NCCL error in: x.cpp")) == "NCCL error in: x.cpp"
    assert not is_lost_process(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
