"""SIGKILL at any moment, resume, and the end is the same bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tiny_runs import assert_same, last_tensors, losses, metrics

WORKER = Path(__file__).with_name("kill_worker.py")


def test_killed_many_times_it_ends_with_the_same_bits(tmp_path: Path) -> None:
    seed = time.time_ns() % 1_000_000  # another set of moments each time; shown if the test fails
    worker = subprocess.run(
        [sys.executable, str(WORKER), str(tmp_path / "run"), str(seed)],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert worker.returncode == 0, (seed, worker.stderr)
    assert int(worker.stdout) >= 2, seed
    whole, killed = tmp_path / "run-whole", tmp_path / "run"
    assert_same(last_tensors(whole), last_tensors(killed))
    assert losses(whole) == losses(killed)
    assert [line["scores"] for line in metrics(whole, "evaluation")] == [
        line["scores"] for line in metrics(killed, "evaluation")
    ]
    assert sorted(os.listdir(whole / "checkpoints")) == sorted(os.listdir(killed / "checkpoints"))
