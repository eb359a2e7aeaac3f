"""Training as a Slurm job, by submitit.

    [job] = submit([work], "runs/x", SlurmOptions(partition="gpu"))                          # work: () -> RunEnd

Slurm starts one process a GPU. Some time before the limit it sends SIGUSR2 to all: the loop saves and stops, and the
job goes back into the queue and resumes later. SIGTERM (`scancel`) also saves, but does not requeue. submitit keeps its
own files (logs, and the pickled job, which only submitit reads) in RUN-slurm/.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clew.errors import UserError, guarded

if TYPE_CHECKING:
    from clew.training.callbacks import RunEnd

REQUEUE_SIGNAL = "USR2"  # submitit's own choice; the loop stops on it (see signals.py)


@dataclass(frozen=True)
class SlurmOptions:
    """Resources of a Slurm job; used with --launcher slurm only."""

    partition: str | None = None  # the partition to submit to
    account: str | None = None  # the account to charge
    qos: str | None = None  # the quality of service
    constraint: str | None = None  # features that a node must have
    nodes: int = 1  # how many nodes
    gpus_per_node: int = 1  # GPUs of each node
    tasks_per_node: int | None = None  # processes on each node; by default one for each GPU, or one
    cpus_per_task: int = 8  # CPU cores of each process
    mem_gb: float | None = None  # memory of a node; by default the cluster's own
    hours: float = 24.0  # the time limit of the job; the run continues when it is requeued
    requeues: int = 100  # how often the job may be requeued
    # Seconds before the limit at which the run is signalled to save: more than a step and a checkpoint take.
    warn_seconds: int = 180
    setup: tuple[str, ...] = ()  # shell lines before the run, such as "module load cuda"

    def __post_init__(self) -> None:
        if min(self.nodes, self.tasks, self.cpus_per_task) < 1 or min(self.gpus_per_node, self.requeues) < 0:
            raise UserError("--slurm nodes, tasks and CPUs must be 1 or more, GPUs and requeues 0 or more.")
        if not 0 < self.warn_seconds < self.hours * 3600:
            raise UserError(f"--slurm.warn-seconds must be above 0 and within the {self.hours:g} --slurm.hours.")

    @property
    def tasks(self) -> int:
        return max(self.gpus_per_node, 1) if self.tasks_per_node is None else self.tasks_per_node

    def for_scoring(self) -> SlurmOptions:
        """Return the options for one process, with one GPU if there are any."""
        return replace(self, nodes=1, gpus_per_node=min(self.gpus_per_node, 1), tasks_per_node=1)


class RequeuedRun:
    """The function of each process of the job; submitit calls `checkpoint` when the job is requeued."""

    def __init__(self, work: Callable[[], RunEnd | None]) -> None:
        self.work = work  # None is as good as "done"

    def __call__(self) -> int:
        """Do the work; return the steps done. Exits without a result if the work failed or is to be resumed."""
        from submitit.helpers import TorchDistributedEnvironment

        # torchrun's variables, which the run reads, from Slurm's.
        TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)
        number = getattr(signal, f"SIG{REQUEUE_SIGNAL}")
        requeue: Any = signal.getsignal(number)  # submitit's; the loop has its own while it runs
        ends: list[RunEnd | None] = []
        if code := guarded(lambda: ends.append(self.work())):
            sys.exit(code)
        end = ends[0]
        if end is None or not end.signal:
            return end.step if end else 0
        if end.signal != number:
            sys.exit(128 + end.signal)
        requeue(number, None)  # does not come back, on the main process
        sys.exit(0)

    def checkpoint(self) -> Any:
        """Return the job to requeue: the same, since the run folder has the progress."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def submit(
    works: Sequence[Callable[[], RunEnd | None]],
    run: str | Path,
    options: SlurmOptions,
    cluster: Literal["slurm", "local"] = "slurm",
    after: Sequence[str] = (),
) -> list[Any]:
    """Submit one function as a job, several as a job array; return submitit's jobs.

    They start when the jobs in `after` have succeeded. `local` starts the same processes here, for tests.
    """
    if importlib.util.find_spec("submitit") is None:
        raise UserError("submitit is not installed; run: pip install 'clew[slurm]', or use examples/train.sbatch.")
    if cluster == "slurm" and not (shutil.which("srun") and shutil.which("sbatch")):
        raise UserError("there is no Slurm here (srun and sbatch); use a login node, or --launcher local.")
    os.environ["SUBMITIT_PREEMPT_SIGNAL"] = REQUEUE_SIGNAL  # read when submitit is imported
    import submitit

    limit = {f"{cluster}_max_num_timeout": options.requeues}
    executor = submitit.AutoExecutor(folder=job_folder(run) / "%j", cluster=cluster, **limit)
    optional = {f"slurm_{name}": getattr(options, name) for name in ("partition", "account", "qos", "constraint")}
    optional |= {"slurm_setup": list(options.setup) or None, "mem_gb": options.mem_gb}
    more: dict[str, Any] = {"requeue": True}  # by Slurm itself, after a node has failed
    if after:
        optional["slurm_dependency"] = f"afterok:{':'.join(after)}"
        more["kill-on-invalid-dep"] = "yes"
    executor.update_parameters(
        name=Path(run).name,
        nodes=options.nodes,
        gpus_per_node=options.gpus_per_node,
        tasks_per_node=options.tasks,
        cpus_per_task=options.cpus_per_task,
        timeout_min=max(round(options.hours * 60), 1),
        slurm_signal_delay_s=options.warn_seconds,
        slurm_additional_parameters=more,
        slurm_srun_args=["--kill-on-bad-exit=1"],  # the others would wait for a process that has failed
        **{name: value for name, value in optional.items() if value is not None},
    )
    try:
        with executor.batch() if len(works) > 1 else nullcontext():
            return [executor.submit(RequeuedRun(work)) for work in works]
    except submitit.core.utils.FailedJobError as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise UserError(f"Slurm refused the job ({reason}); change the --slurm options.") from None


def job_folder(run: str | Path) -> Path:
    """Return the folder of a run's job logs, beside the run folder."""
    return Path(run).absolute().with_name(f"{Path(run).name}-slurm")


def queued_jobs() -> set[str]:
    """Return the numbers of this user's jobs that wait or run; empty without Slurm."""
    if shutil.which("squeue") is None:
        return set()
    done = subprocess.run(["squeue", "--me", "--noheader", "--format=%i"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"squeue does not answer ({(done.stderr.strip() or 'no reason given').splitlines()[-1]}).")
    return set(done.stdout.split())


def submitted_jobs(run: str | Path) -> set[str]:
    """Return the numbers of all jobs that were ever submitted for a run."""
    return {path.name for path in job_folder(run).glob("*/")}
