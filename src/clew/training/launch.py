"""Start a command of Clew as several processes of this machine, one for each GPU: what torchrun does.

    if gpus_here() > 1 and not launched():
        sys.exit(launch(gpus_here(), ["reproduce", "astar", "--scale", "paper"]))

The processes print what they have to say themselves. A signal is passed on to all of them, so that they save and stop.
If one of them is lost, the others are ended.

Run a training on a Slurm cluster, by submitit, in as many parts as the cluster's time limit makes of it.

    clew train PRESET --out RUN --launcher slurm --slurm.partition gpu --slurm.nodes 2 --slurm.gpus-per-node 4

    job = submit(work, "runs/x", SlurmOptions(partition="gpu"))                            # work: () -> RunEnd
    submit(score, "runs/x-score", SlurmOptions(partition="gpu"), after=[job.job_id])       # score: () -> None

Slurm starts one process a GPU. Each learns from Slurm's environment who it is and joins the others. Some time before
the limit Slurm sends SIGUSR2 to all: the loop finishes its step, or breaks off its evaluation, saves and stops, and
the job goes back into the queue, from where it goes on with the last checkpoint. SIGTERM (`scancel`) also saves, but
does not requeue. If a process fails, Slurm ends the others. What a user can mend is one sentence in the job's log.

submitit keeps its own files (logs, and the pickled job, which nobody but submitit reads) in RUN-slurm/.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clew.errors import UserError, guarded

if TYPE_CHECKING:
    from clew.training.callbacks import RunEnd


def gpus_here() -> int:
    """The number of visible GPUs."""
    import torch

    return torch.cuda.device_count()


def launched() -> bool:
    """Whether this process is one of several that torchrun, Slurm or `launch` has started."""
    return "RANK" in os.environ


def launch(processes: int, arguments: Sequence[str]) -> int:
    """Run `clew ARGUMENTS` in so many processes; the exit code of the first one that fails, or 0."""
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // processes, 1)))
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=str(uuid.uuid4()),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    logging.disable(logging.ERROR)  # else torch prints a page for each lost process
    try:
        elastic_launch(config, sys.executable)("-m", "clew", *arguments)
    except SignalException as stopped:
        return 128 + int(stopped.sigval)
    except ChildFailedError as failed:
        rank, failure = failed.get_first_failure()
        if failure.exitcode >= 0:
            return int(failure.exitcode)
        name = signal.Signals(-failure.exitcode).name
        print(
            f"clew: rank {rank} of {processes} was ended by {name} (the system does that when memory is short), so "
            "the others were stopped; the same command resumes from the last checkpoint.",
            file=sys.stderr,
        )
        return 128 - int(failure.exitcode)
    finally:
        logging.disable(logging.NOTSET)
    return 0


REQUEUE_SIGNAL = "USR2"  # submitit's own choice; the loop leaves on it (see signals.py)


@dataclass(frozen=True)
class SlurmOptions:
    """What to ask Slurm for; used with --launcher slurm only."""

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    nodes: int = 1
    gpus_per_node: int = 1
    # Processes on each node; one a GPU if nothing is said, and one if there is none.
    tasks_per_node: int | None = None
    cpus_per_task: int = 8
    # Memory of a node; the cluster's default if nothing is said.
    mem_gb: float | None = None
    # The time limit of a part; the run goes on in the next one.
    hours: float = 24.0
    # How many more parts there may be after the first.
    requeues: int = 100
    # Seconds before the limit at which the run is told to save: more than a step and a checkpoint take.
    warn_seconds: int = 180
    # Shell lines before the run, such as "module load cuda".
    setup: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if min(self.nodes, self.tasks, self.cpus_per_task) < 1 or min(self.gpus_per_node, self.requeues) < 0:
            raise UserError("--slurm nodes, tasks and CPUs must be 1 or more, GPUs and requeues 0 or more.")
        if not 0 < self.warn_seconds < self.hours * 3600:
            raise UserError(
                f"a warning {self.warn_seconds} s before the end does not fit a limit of {self.hours:g} hours; "
                "change --slurm.warn-seconds or --slurm.hours."
            )

    @property
    def tasks(self) -> int:
        """Processes on each node."""
        return max(self.gpus_per_node, 1) if self.tasks_per_node is None else self.tasks_per_node

    def for_scoring(self) -> SlurmOptions:
        """The same for one process with one GPU, if there are any."""
        return replace(self, nodes=1, gpus_per_node=min(self.gpus_per_node, 1), tasks_per_node=1)


Work = Callable[[], "RunEnd | None"]  # None of work that is done, and of which nothing else is to be told


class RequeuedRun:
    """What each process of the job does; submitit asks for `checkpoint` when the job goes back into the queue."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def __call__(self) -> int:
        """Do the work; the steps done. The process ends here, without a result, if it failed or is to go on later."""
        from submitit.helpers import TorchDistributedEnvironment

        # Slurm's words for rank, size and address in those of torchrun, which the run reads.
        TorchDistributedEnvironment().export(set_cuda_visible_devices=False, overwrite=True)
        number = getattr(signal, f"SIG{REQUEUE_SIGNAL}")
        requeue: Any = signal.getsignal(number)  # submitit's; the loop has its own while it runs
        ends: list[RunEnd | None] = []
        if code := guarded(lambda: ends.append(self.work())):
            sys.exit(code)
        end = ends[0]
        if end is None or end.reason != "signal":
            return 0 if end is None else end.step
        if end.signal == number:
            requeue(number, None)  # does not come back, on the main process
        sys.exit(0 if end.signal == number else 128 + end.signal)

    def checkpoint(self) -> Any:
        """The next part: the same, since the run folder knows how far it is."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(RequeuedRun(self.work))


def submit(
    work: Work,
    run: str | Path,
    options: SlurmOptions,
    cluster: Literal["slurm", "local"] = "slurm",
    after: Sequence[str] = (),
) -> Any:
    """Hand the work to Slurm and give submitit's job; `local` starts the same processes here, for tests.

    The job starts when those in `after` have succeeded, and is removed if one of them fails.
    """
    if importlib.util.find_spec("submitit") is None:
        raise UserError("submitit is not installed; run: pip install 'clew[slurm]', or use examples/train.sbatch.")
    if cluster == "slurm" and (shutil.which("srun") is None or shutil.which("sbatch") is None):
        raise UserError(
            "there is no Slurm here (sbatch and srun are not found); use a login node, or --launcher local."
        )
    if os.environ.get("SUBMITIT_PREEMPT_SIGNAL", REQUEUE_SIGNAL) != REQUEUE_SIGNAL:
        raise UserError(f"SUBMITIT_PREEMPT_SIGNAL must be {REQUEUE_SIGNAL}, on which a run saves; unset it.")
    import submitit

    executor = submitit.AutoExecutor(
        folder=job_folder(run) / "%j", cluster=cluster, **{f"{cluster}_max_num_timeout": options.requeues}
    )
    executor.update_parameters(**_parameters(Path(run).name, options, after))
    try:
        return executor.submit(RequeuedRun(work))
    except submitit.core.utils.FailedJobError as error:
        raise UserError(f"Slurm refused the job ({_last_line(error)}); change the --slurm options.") from None


def job_folder(run: str | Path) -> Path:
    """Where submitit keeps the logs of a run: beside its folder, which must be empty before it begins."""
    return Path(run).absolute().with_name(f"{Path(run).name}-slurm")


def queued_jobs() -> set[str]:
    """The numbers of this user's jobs that wait or run; empty if there is no Slurm to ask."""
    if shutil.which("squeue") is None:
        return set()
    done = subprocess.run(["squeue", "--me", "--noheader", "--format=%i"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"squeue does not answer ({(done.stderr.strip() or 'no reason given').splitlines()[-1]}).")
    return set(done.stdout.split())


def submitted_jobs(run: str | Path) -> set[str]:
    """The numbers of all jobs that were ever submitted for a run."""
    folder = job_folder(run)
    return {path.name for path in folder.glob("*/")}


def _parameters(name: str, options: SlurmOptions, after: Sequence[str] = ()) -> dict[str, Any]:
    given = {
        "slurm_partition": options.partition,
        "slurm_account": options.account,
        "slurm_qos": options.qos,
        "slurm_constraint": options.constraint,
        "slurm_setup": list(options.setup) or None,
        "mem_gb": options.mem_gb,
    }
    return {
        "name": name,
        "nodes": options.nodes,
        "gpus_per_node": options.gpus_per_node,
        "tasks_per_node": options.tasks,
        "cpus_per_task": options.cpus_per_task,
        "timeout_min": max(round(options.hours * 60), 1),
        "slurm_signal_delay_s": options.warn_seconds,
        # So that Slurm itself may start the job again, after a node has failed or another job was more urgent.
        "slurm_additional_parameters": {"requeue": True, **({"kill-on-invalid-dep": "yes"} if after else {})},
        # The others would wait for a process that has failed.
        "slurm_srun_args": ["--kill-on-bad-exit=1"],
        **({"slurm_dependency": f"afterok:{':'.join(after)}"} if after else {}),
        **{key: value for key, value in given.items() if value is not None},
    }


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
