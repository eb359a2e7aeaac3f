"""One process and two give the same run, and hand it on to one another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from shared_worker import CASES, HANDED_ON, run_part
from tiny_runs import last_tensors, losses, mean_weight, metrics

from clew.errors import UserError
from clew.training.distributed import World, joined_world
from clew.training.train import train

WORKER = Path(__file__).with_name("shared_worker.py")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, free_port: int) -> Path:
    """alone/CASE by one process, shared/CASE by two, handed-on/CASE by one, two and one."""
    folder = tmp_path_factory.mktemp("runs")
    for case, config in CASES.items():
        train(config, folder / "alone" / case, evaluate=mean_weight)
    for case in HANDED_ON:
        run_part(case, folder / "handed-on" / case, World(), until=2)
    workers = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(rank), "2", str(free_port), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(2)
    ]
    for worker in workers:
        out, err = worker.communicate(timeout=900)
        assert worker.returncode == 0, err
        assert "already holds a run" in out
    for case in HANDED_ON:
        train(CASES[case], folder / "handed-on" / case, evaluate=mean_weight)
    return folder


def assert_close(one: Path, other: Path) -> None:
    """The same losses, weights, optimizer state and scores to 1e-5."""
    assert losses(one) == pytest.approx(losses(other), abs=1e-5)
    a, b = last_tensors(one), last_tensors(other)
    assert a.keys() == b.keys()
    for name in a:
        assert torch.allclose(a[name], b[name], atol=1e-5, rtol=1e-5), name
    scores = [[line["scores"]["exact"] for line in metrics(run, "evaluation")] for run in (one, other)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)


@pytest.mark.parametrize("case", CASES)
def test_two_processes_do_what_one_does(runs: Path, case: str) -> None:
    assert_close(runs / "alone" / case, runs / "shared" / case)


@pytest.mark.parametrize("case", HANDED_ON)
def test_a_run_is_handed_from_one_process_to_two_and_back(runs: Path, case: str) -> None:
    assert_close(runs / "alone" / case, runs / "handed-on" / case)


def test_only_the_main_process_writes(runs: Path) -> None:
    lines = metrics(runs / "shared" / "average")
    assert [line["step"] for line in lines] == [2, 4, 6]
    assert [line["mazes"] for line in lines] == [16, 32, 48]
    alone, shared = metrics(runs / "alone" / "average"), metrics(runs / "shared" / "average")
    assert [line["accuracy"] for line in alone] == [line["accuracy"] for line in shared]


def test_alone_without_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with joined_world("cpu") as world:
        assert (world.rank, world.size, world.is_main) == (0, 1, True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_reported() -> None:
    with pytest.raises(UserError, match="no CUDA"), joined_world("cuda"):
        pass
