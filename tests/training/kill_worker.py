"""Trains the same run again and again, each time killed with SIGKILL at another moment, until it is done.

    python kill_worker.py RUN SEED

A child process does the training. It is killed either after a random time, or by itself at the n-th time that it
flushes or renames a file, which hits the middle of writing a checkpoint. The children are forks of this process, which
never uses torch itself, so nothing but the import is paid for once.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import numpy  # noqa: F401  (before forking, so that the children need not)
from tiny_runs import mean_weight, tiny_config

from clew.training.config import Budget
from clew.training.train import train

CONFIG = tiny_config(
    budget=Budget(steps=24), log_every=3, checkpoint_every=4, evaluate_every=7, keep_last=2, ema=0.9, threads=1
)


def die_at(number: int) -> None:
    """Make the process kill itself in the middle of writing."""
    count = 0

    def counted(real):  # type: ignore[no-untyped-def]
        def call(*args):  # type: ignore[no-untyped-def]
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args)

        return call

    os.fsync, os.rename = counted(os.fsync), counted(os.rename)


def attempt(run: str, seconds: float | None, write: int | None) -> bool:
    """Train in a child, to be killed after some seconds or at some write; whether it came to the end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if write is not None:
                die_at(write)
            train(CONFIG, run, evaluate=mean_weight)
            code = 0
        finally:
            os._exit(code)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, "a resumed run must not fail"
    return status == 0


def main(run: str, seed: int) -> None:
    chance = random.Random(seed)
    began = time.perf_counter()
    attempt(run + "-whole", None, None)
    duration = time.perf_counter() - began
    kills = 0
    for number in range(3):
        kills += not attempt(run, None, write=chance.randint(2 + 4 * number, 12 + 6 * number))
        kills += not attempt(run, chance.uniform(0.1, 0.7) * duration, None)
    while not attempt(run, None, None):
        pass
    print(kills)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
