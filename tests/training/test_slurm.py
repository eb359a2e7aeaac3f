"""Jobs that are really submitted and run, by submitit's local executor; Slurm itself is a stand-in that keeps the
script that it is given."""

import functools
import os
import pickle
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import slurm_worker
import torch
from tiny_runs import last_tensors, metrics

from clew.errors import UserError
from clew.training import slurm
from clew.training.distributed import World
from clew.training.slurm import RequeuedRun, SlurmOptions, job_folder, queued_jobs, submit, submitted_jobs
from clew.training.train import held_out_evaluator, train


@pytest.fixture
def importable(monkeypatch):
    """The processes of a job find slurm_worker.py."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)


@pytest.fixture
def one_process(monkeypatch):
    """A job of one process, which is this one."""
    for name, value in {"EXECUTOR": "local", "LOCAL_JOB_ID": "1", "LOCAL_NTASKS": "1", "LOCAL_GLOBALID": "0"}.items():
        monkeypatch.setenv(f"SUBMITIT_{name}", value)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "0")  # so that what the job exports is taken back


def saved_steps(run):
    return sorted(int(path.name) for path in (run / "checkpoints").iterdir())


def test_a_job_that_is_warned_saves_goes_back_into_the_queue_and_ends_as_if_nothing_had_been(tmp_path, importable):
    """Two processes share each batch; the first one is warned, once in a step and once in an evaluation."""
    options = SlurmOptions(gpus_per_node=0, tasks_per_node=2)
    [job] = submit([functools.partial(slurm_worker.work, tmp_path / "job")], tmp_path / "job", options, cluster="local")
    assert job.results() == [12, 12]
    assert saved_steps(tmp_path / "job") == [4, 8, 12]
    assert [line["step"] for line in metrics(tmp_path / "job")] == [2, 4, 6, 8, 10, 12]
    log = job.task(0).stderr()
    assert "parameters on 2 x cpu" in log
    assert "resumes after step 4" in log
    assert "resumes after step 8" in log
    assert "Requeued job" in log + job.task(0).stdout()
    assert "parameters on" not in (job.task(1).stderr() or "")
    train(
        slurm_worker.job_config(), tmp_path / "whole", evaluate=held_out_evaluator(slurm_worker.job_config(), World())
    )
    evaluated = [[line["step"] for line in metrics(tmp_path / run, "evaluation")] for run in ("whole", "job")]
    assert evaluated == [[8, 12]] * 2
    alone, together = last_tensors(tmp_path / "whole"), last_tensors(tmp_path / "job")
    for name, tensor in alone.items():
        assert torch.allclose(tensor, together[name], atol=1e-5), name


def test_a_cancelled_job_saves_and_does_not_come_back(tmp_path, one_process):
    """SIGTERM, in a job of one process that is this one."""
    requeued = []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: requeued.append(number))
    try:
        with pytest.raises(SystemExit) as ended:
            RequeuedRun(functools.partial(slurm_worker.work, tmp_path, signal.SIGTERM))()
        assert (ended.value.code, requeued) == (128 + signal.SIGTERM, [])
        assert saved_steps(tmp_path) == [4]
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_work_without_an_end_is_done(one_process):
    assert RequeuedRun(lambda: None)() == 0


def test_a_job_that_cannot_be_done_says_so_in_one_sentence(one_process, capsys):
    def work():
        raise UserError("the dataset is gone; make it again.")

    with pytest.raises(SystemExit) as ended:
        RequeuedRun(work)()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "clew: the dataset is gone; make it again.\n"


def put_in_path(folder, monkeypatch, **programs):
    for name, text in programs.items():
        file = folder / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_slurm_is_asked_for_what_the_options_say(tmp_path, monkeypatch):
    put_in_path(tmp_path, monkeypatch, srun="exit 1", sbatch=f'cp "$1" {tmp_path}/script; echo Submitted batch job 42')
    options = SlurmOptions(partition="gpu", nodes=2, gpus_per_node=4, hours=2, mem_gb=64, setup=("module load cuda",))
    [job] = submit([functools.partial(slurm_worker.work, tmp_path)], tmp_path / "dfs", options)
    assert job.job_id == "42"
    script = (tmp_path / "script").read_text()
    for line in (
        "#SBATCH --partition=gpu",
        "#SBATCH --nodes=2",
        "#SBATCH --gpus-per-node=4",
        "#SBATCH --ntasks-per-node=4",
        "#SBATCH --time=120",
        "#SBATCH --mem=64GB",
        "#SBATCH --signal=USR2@180",
        "#SBATCH --requeue",
        "#SBATCH --job-name=dfs",
        "module load cuda",
    ):
        assert line in script.splitlines(), line
    assert job_folder(tmp_path / "dfs") == tmp_path / "dfs-slurm"
    assert str(tmp_path / "dfs-slurm") in script


def test_a_scoring_job_waits_for_its_training(tmp_path, monkeypatch):
    put_in_path(
        tmp_path,
        monkeypatch,
        srun="exit 1",
        sbatch=f'cp "$1" {tmp_path}/script; echo Submitted batch job 43',
        squeue="echo 42; echo 43_0",
    )
    options = SlurmOptions(partition="gpu", nodes=2, gpus_per_node=4).for_scoring()
    submit([functools.partial(slurm_worker.work, tmp_path)], tmp_path / "dfs-score", options, after=["41", "42"])
    script = (tmp_path / "script").read_text()
    for line in (
        "#SBATCH --dependency=afterok:41:42",
        "#SBATCH --kill-on-invalid-dep=yes",
        "#SBATCH --nodes=1",
        "#SBATCH --gpus-per-node=1",
        "#SBATCH --ntasks-per-node=1",
    ):
        assert line in script.splitlines(), line
    assert "--kill-on-bad-exit=1" in script
    assert submitted_jobs(tmp_path / "dfs-score") == {"43"}
    assert submitted_jobs(tmp_path / "dfs") == set()
    assert queued_jobs() == {"42", "43_0"}
    put_in_path(tmp_path, monkeypatch, squeue="echo 'slurm_load_jobs error' >&2; exit 1")
    with pytest.raises(UserError, match=r"squeue does not answer \(slurm_load_jobs error\)"):
        queued_jobs()


def test_a_refusal_of_slurm_is_told(tmp_path, monkeypatch):
    put_in_path(tmp_path, monkeypatch, srun="exit 1", sbatch="echo 'invalid partition specified: gpuu' >&2; exit 1")
    with pytest.raises(UserError, match=r"Slurm refused the job \(.*gpuu\); change the --slurm options"):
        submit([functools.partial(slurm_worker.work, tmp_path)], tmp_path / "x", SlurmOptions(partition="gpuu"))


def test_what_is_missing_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="there is no Slurm here"):
        submit([slurm_worker.work], tmp_path / "x", SlurmOptions())
    monkeypatch.setattr(slurm.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'clew\[slurm\]'"):
        submit([slurm_worker.work], tmp_path / "x", SlurmOptions())


@pytest.mark.parametrize(
    "options", [{"nodes": 0}, {"gpus_per_node": -1}, {"tasks_per_node": 0}, {"hours": 0.01}, {"warn_seconds": 0}]
)
def test_impossible_options_get_one_sentence(options):
    with pytest.raises(UserError):
        SlurmOptions(**options)


def test_the_command_submits_and_refuses_an_old_run(tmp_path, monkeypatch, capsys):
    from clew.cli import run

    put_in_path(tmp_path, monkeypatch, srun="exit 1", sbatch=f'cp "$1" {tmp_path}/script; echo Submitted batch job 7')
    arguments = ["train", "tiny", "--out", str(tmp_path / "run"), "--launcher", "slurm", "--slurm.partition", "gpu"]
    assert run(arguments) == 0
    assert f"job 7 trains {tmp_path / 'run'}; its output goes to {tmp_path / 'run'}-slurm/7" in capsys.readouterr().out
    assert "#SBATCH --partition=gpu" in (tmp_path / "script").read_text()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    assert run([*arguments, "--resume", "never"]) == 1
    assert "already holds a run" in capsys.readouterr().err


def test_a_sweep_is_one_job_array(tmp_path, monkeypatch, capsys):
    from clew.cli import run

    put_in_path(tmp_path, monkeypatch, srun="exit 1", sbatch=f'cp "$1" {tmp_path}/script; echo Submitted batch job 7')
    arguments = ["train", "tiny", "--out", str(tmp_path / "sweep"), "--launcher", "slurm", "--slurm.partition", "gpu"]
    assert run([*arguments, "--sweep", "lr=1e-3,3e-4", "--seeds", "2"]) == 0
    script = (tmp_path / "script").read_text().splitlines()
    assert "#SBATCH --array=0-3%4" in script
    assert "#SBATCH --partition=gpu" in script
    printed = capsys.readouterr().out.splitlines()
    names = ["lr=1e-3-seed=0", "lr=1e-3-seed=1", "lr=3e-4-seed=0", "lr=3e-4-seed=1"]
    assert [line.split(";")[0] for line in printed] == [
        f"job 7_{number} trains {tmp_path / 'sweep' / name}" for number, name in enumerate(names)
    ]
    tasks = [pickle.loads((tmp_path / "sweep-slurm" / f"7_{n}" / f"7_{n}_submitted.pkl").read_bytes()) for n in (0, 3)]
    assert [task.function.work.args[0].optimizer.lr for task in tasks] == [1e-3, 3e-4]


def test_the_runs_of_a_sweep_are_trained(tmp_path, importable):
    """By submitit's local executor, which starts the tasks as processes; signal 0 does nothing."""
    works = [functools.partial(slurm_worker.work, tmp_path / name, 0) for name in ("a", "b")]
    jobs = submit(works, tmp_path / "sweep", SlurmOptions(gpus_per_node=0), cluster="local")
    assert [job.results() for job in jobs] == [[12], [12]]


def test_the_example_saves_and_requeues(tmp_path, monkeypatch, free_port):
    """Slurm's script with a real torchrun; srun starts it here, and scontrol records its arguments."""
    put_in_path(
        tmp_path,
        monkeypatch,
        srun='exec "$@"',
        scontrol=f'if [ "$1" = show ]; then echo localhost; else echo "$@" > {tmp_path}/arguments; fi',
        torchrun=f'exec {sys.executable} -m torch.distributed.run "$@"',
    )
    slurm = {"SLURM_JOB_ID": "42", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "here", "SLURM_GPUS_ON_NODE": "1"}
    for name, value in {**slurm, "MASTER_PORT": str(free_port)}.items():
        monkeypatch.setenv(name, value)
    run = tmp_path / "run"
    example = Path(__file__).parents[2] / "examples" / "train.sbatch"
    fields = ["--steps", "1000000", "--held-out", "0", "--batch-size", "8"]
    script = subprocess.Popen(["bash", str(example), "tiny", str(run), *fields], cwd=tmp_path)
    try:
        wait_until(lambda: (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").read_text(), script)
        script.send_signal(signal.SIGUSR1)
        assert script.wait(timeout=900) == 0
    finally:
        script.kill()
    assert (tmp_path / "arguments").read_text() == "requeue 42\n"
    assert saved_steps(run)
    assert saved_steps(run)[-1] < 1_000_000


def wait_until(true, process):
    for _ in range(1200):
        if true():
            return
        assert process.poll() is None, "the process ended too early"
        time.sleep(0.1)
    raise AssertionError("waited two minutes for nothing")
