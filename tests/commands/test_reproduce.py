"""clew reproduce: the list, the report, Slurm, and what goes wrong."""

from __future__ import annotations

import pickle
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from clew.cli import run
from clew.files import read_json
from clew.paper.studies import STUDIES
from clew.training.slurm import job_folder


def test_the_list_is_quick() -> None:
    """Without torch, whose import alone takes longer."""
    code = "import sys; from clew.cli import run; run(['reproduce', '--list']); assert 'torch' not in sys.modules"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 2


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
    ("words", "message"),
    [
        (["acuracy-by-size"], "there is no study 'acuracy-by-size'; did you mean accuracy-by-size?"),
        (["astar", "al"], "there is no study 'al'; did you mean all?"),
        (["xyzzy"], "there is no study 'xyzzy'; `clew reproduce --list` shows all."),
        ([], "give the name of a study"),
        (["astar", "--seeds", "0"], "--seeds 0 trains nothing"),
        (["astar", "--minutes", "-1"], "--minutes -1 trains nothing"),
        (["astar", "--processes", "0"], "--processes 0 trains nothing"),
    ],
)
def test_a_wrong_option_is_one_sentence_without_torch(words: list[str], message: str) -> None:
    code = f"import sys; from clew.cli import run; code = run(['reproduce', *{words}]); "
    code += "sys.exit(9 if 'torch' in sys.modules else code)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_study_and_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = ["--root", str(tmp_path)]
    assert run(["reproduce", "path-lengths", "--scale", "smoke", *root]) == 0
    assert "results/path-lengths/smoke.json" in capsys.readouterr().err
    picture = tmp_path / "results" / "path-lengths" / "smoke.png"
    picture.unlink()
    (tmp_path / "docs").mkdir()
    assert run(["reproduce", "report", *root]) == 0
    assert picture.exists()  # drawn anew, from the numbers
    assert "No result yet" in (tmp_path / "docs" / "results.md").read_text()


class FakeSlurm:
    """Keeps the jobs that are submitted, and says that some of them are in the queue."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.jobs: list[SimpleNamespace] = []
        self.queued: set[str] = set()
        monkeypatch.setattr("clew.training.slurm.submit", self.submit)
        monkeypatch.setattr("clew.training.slurm.queued_jobs", lambda: self.queued)

    def submit(
        self, works: Sequence[Any], folder: Path, options: Any, after: Sequence[str] = ()
    ) -> list[SimpleNamespace]:
        [work] = pickle.loads(pickle.dumps(works))  # as it comes to a node
        job = SimpleNamespace(job_id=str(len(self.jobs)), work=work, folder=folder, options=options, after=[*after])
        (job_folder(folder) / job.job_id).mkdir(parents=True)  # as submitit does
        self.jobs.append(job)
        self.queued.add(job.job_id)
        return [job]


def test_slurm_gets_each_training_and_its_evaluation_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = FakeSlurm(monkeypatch)
    words = ["reproduce", "architectures", "accuracy-by-size", "--scale", "smoke", "--root", str(tmp_path)]
    words += ["--launcher", "slurm", "--slurm.partition", "gpu", "--slurm.gpus-per-node", "8"]
    assert run(words) == 0
    # Two and five trainings, of which one is the same.
    printed = capsys.readouterr().out
    assert (printed.count(" trains "), printed.count(" evaluates ")) == (6, 6)
    train, score = slurm.jobs[0::2], slurm.jobs[1::2]
    assert all(job.folder.is_absolute() for job in slurm.jobs)
    assert [job.after for job in train] == [[]] * 6
    assert [job.after for job in score] == [[job.job_id] for job in train]
    assert {(job.options.partition, job.options.gpus_per_node, job.options.tasks) for job in train} == {("gpu", 8, 8)}
    assert {(job.options.partition, job.options.gpus_per_node, job.options.tasks) for job in score} == {("gpu", 1, 1)}

    assert run(words) == 0  # while all are in the queue
    assert len(slurm.jobs) == 12
    assert capsys.readouterr().out.count("is in the queue") == 6


def test_slurm_jobs_and_the_same_command_give_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = FakeSlurm(monkeypatch)
    words = ["reproduce", "architectures", "--scale", "smoke", "--root", str(tmp_path)]
    assert run([*words, "--launcher", "slurm"]) == 0
    train, score, second_train, second_score = slurm.jobs
    assert train.work().reason == "done"
    assert (train.folder / "finished.json").exists()
    score.work()
    capsys.readouterr()
    assert run([*words, "--collect"]) == 0
    assert "1 of 2 runs are not evaluated yet: encoder-decoder, seed 0" in capsys.readouterr().err
    result = tmp_path / "results" / "architectures" / "smoke.json"
    partial = read_json(result)
    assert (len(partial["runs"]), partial["missing"]) == (1, ["encoder-decoder, seed 0"])

    slurm.queued.clear()  # the second training was cancelled
    assert run([*words, "--launcher", "slurm"]) == 0
    assert len(slurm.jobs) == 6
    assert (slurm.jobs[-2].folder, slurm.jobs[-1].folder) == (second_train.folder, second_score.folder)
    for job in slurm.jobs[-2:]:
        job.work()
    assert run([*words, "--launcher", "slurm"]) == 0  # nothing is left to submit
    assert len(slurm.jobs) == 6
    whole = read_json(result)
    assert (len(whole["runs"]), "missing" in whole) == (2, False)


def test_collecting_nothing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "architectures", "--scale", "smoke", "--root", str(tmp_path), "--collect"]) == 1
    assert "no training of architectures at smoke scale has been evaluated" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


def test_a_dry_run_tells_memory_hours_and_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["reproduce", "accuracy-by-size", "--scale", "paper", "--root", str(tmp_path), "--dry-run"]
    assert run(words) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    for head in ("parameters", "tokens", "steps", "activations, GB", "optimizer, GB", "in all, GB", "hours, 8 V100"):
        assert head in lines[0]
    assert lines[1].startswith("next token, 5x5, seed 0    7,947,648")
    assert "Would train 10 runs in 8 processes, one for each GPU, one after the other, and evaluate 10." in printed
    assert run([*words, "--processes", "2"]) == 0
    assert "Would train 10 runs in 2 processes, one for each GPU, one after" in capsys.readouterr().out
    assert run([*words, "--launcher", "slurm", "--slurm.nodes", "2", "--slurm.gpus-per-node", "4"]) == 0
    printed = capsys.readouterr().out
    assert "Would train 10 runs as Slurm jobs of 2 x 4 GPUs and 24 hours a part, one after the other" in printed
    assert not any(tmp_path.iterdir())


def test_a_dry_run_of_every_study_has_no_empty_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "all", "--scale", "paper", "--root", str(tmp_path), "--dry-run"]) == 0
    printed = capsys.readouterr().out
    head, *rows = printed.split("\n\n")[0].splitlines()
    assert len(rows) > 100
    columns = [head.index(name) for name in ("weights, GB", "optimizer, GB", "activations, GB")]
    total, first = head.index("in all, GB"), head.index("hours, 8 V100")
    for row in rows:
        assert all(float(row[column:].split()[0]) >= 0 for column in columns)
        assert 1 < float(row[total:].split()[0]) <= 32
        assert [float(hours.replace(",", "")) >= 0 for hours in row[first:].split()] == [True] * 3


@pytest.mark.parametrize(
    ("words", "gpus", "processes"),
    [
        (["--scale", "paper"], 4, 4),
        (["--scale", "paper", "--processes", "2"], 4, 2),
        (["--scale", "smoke", "--processes", "2"], 0, 2),
    ],
)
def test_a_node_uses_all_of_its_gpus(
    words: list[str], gpus: int, processes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[int, list[str]]] = []

    def launch(count: int, arguments: list[str]) -> int:
        started.append((count, arguments))
        return 7

    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.setattr("clew.training.distributed.launch", launch)
    command = ["reproduce", "astar", *words, "--quiet", "--seeds", "2", "--root", str(tmp_path / "a folder")]
    with pytest.raises(SystemExit) as ended:
        run(command)
    assert (ended.value.code, started) == (7, [(processes, command)])


def test_more_processes_than_gpus_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("clew.training.distributed.launch", lambda *arguments: 0)
    assert run(["reproduce", "astar", "--scale", "paper", "--processes", "3"]) == 2
    assert "3 processes cannot share 2 GPUs; use --processes 2 or fewer" in capsys.readouterr().err
