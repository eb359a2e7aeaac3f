"""clew reproduce: the list, the report, Slurm, and what goes wrong."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clew.cli import run
from clew.experiments.reproduce.catalogue import STUDIES


def test_the_list_says_what_each_needs_at_each_scale(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["study", "scale", "trainings", "parameters", "time,", "about"]
    assert len(lines) == 1 + 3 * (len(STUDIES) + 1)
    assert [line.split()[0] for line in lines[1::3]] == [*STUDIES, "all"]
    astar = next(line for line in lines if line.startswith("astar") and "paper" in line)
    assert astar.split()[:3] == ["astar", "paper", "9"]
    assert "7.9M to 26M" in astar


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["acuracy-by-size"], "there is no study 'acuracy-by-size'; did you mean accuracy-by-size?"),
        ([], "say which table or figure"),
        (["astar", "--seeds", "0"], "--seeds 0 trains nothing"),
        (["astar", "--minutes", "-1"], "--minutes -1 trains nothing"),
    ],
)
def test_what_goes_wrong_is_one_sentence(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", *words]) == 1
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_a_study_and_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--root", str(tmp_path)]
    assert run(["reproduce", "path-lengths", "--scale", "smoke", *root]) == 0
    assert "results/path-lengths/smoke.json" in capsys.readouterr().err
    picture = tmp_path / "results" / "path-lengths" / "smoke.png"
    picture.unlink()
    (tmp_path / "docs").mkdir()
    assert run(["reproduce", "report", *root]) == 0
    assert picture.exists()  # drawn anew, from the numbers
    assert "Not run yet" in (tmp_path / "docs" / "results.md").read_text()


def test_slurm_gets_each_training_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs: list[Any] = []

    def submit(work: Any, folder: Path, options: Any) -> SimpleNamespace:
        jobs.append((work, folder, options))
        return SimpleNamespace(job_id=len(jobs))

    monkeypatch.setattr("clew.training.slurm.submit", submit)
    words = ["reproduce", "architectures", "accuracy-by-size", "--scale", "smoke", "--root", str(tmp_path)]
    assert run([*words, "--launcher", "slurm", "--slurm.partition", "gpu"]) == 0
    # Two and six trainings, of which one is the same.
    assert len(jobs) == 7
    assert "7 trainings are in the queue and 0 were finished before" in capsys.readouterr().out
    assert jobs[0][2].partition == "gpu"
    assert all(folder.is_absolute() for _, folder, _ in jobs)
    work, folder, _ = jobs[0]
    assert work().reason == "done"
    assert (folder / "finished.json").exists()
    assert run([*words, "--launcher", "slurm"]) == 0
    assert "6 trainings are in the queue and 1 were finished before" in capsys.readouterr().out
