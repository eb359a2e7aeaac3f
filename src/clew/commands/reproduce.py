"""`clew reproduce NAME --scale laptop`: one of the paper's tables or figures, from training to picture."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clew.commands import format_table, print_line, typed_command
from clew.errors import UsageError, did_you_mean, is_quiet, report_error
from clew.training.callbacks import format_duration
from clew.training.slurm import SlurmOptions

if TYPE_CHECKING:
    from clew.paper.runner import Options
    from clew.paper.study import Study


def reproduce(
    names: tuple[str, ...] = (),  # the studies, as --list names them, or all
    *,
    list: bool = False,  # print what each needs at each scale, and do nothing
    dry_run: bool = False,  # print what every training needs (parameters, tokens, memory, hours), and do nothing
    collect: bool = False,  # train and evaluate nothing; write the result from what has been evaluated
    scale: Literal["smoke", "laptop", "paper"] = "laptop",  # smoke takes seconds and means nothing; paper is for GPUs
    seeds: int | None = None,  # how many seeds each training has
    minutes: float | None = None,  # of each training, instead of its own budget
    threads: int | None = None,  # CPU threads of each training; 1 at laptop scale by default
    micro_batch: int | None = None,  # mazes in one forward and backward pass; fewer need less memory
    processes: int | None = None,  # that share each training; by default one, at paper scale one for each visible GPU
    timeout_hours: float = 4.0,  # how long one of several processes waits for the others
    launcher: Literal["local", "slurm"] = "local",  # slurm submits jobs for trainings and evaluations, and returns
    slurm: SlurmOptions = SlurmOptions(),  # noqa: B008  (frozen)
    root: Path = Path(),  # the folder in which runs/reproduce, data and results are
) -> int:
    """Run a table or figure of the paper, or a study of our own: train, evaluate, draw, conclude.

    For example: clew reproduce accuracy-by-size --scale laptop --seeds 3

    The same command resumes what was stopped, and writes the result when Slurm's jobs are done. Numbers go to
    results/NAME/SCALE.json, the picture beside it.
    """
    # A file, since to compute it takes seconds and needs torch.
    needs = json.loads((resources.files("clew.paper") / "needs.json").read_text(encoding="utf-8"))
    if list:
        print(format_table([["study", "scale", "trainings", "parameters", "time, about"], *map(_need, needs)], left=5))
        return 0
    if not names:
        raise UsageError("give the name of a study: `clew reproduce NAME`; `clew reproduce --list` shows them.")
    for name in names:
        if name not in (known := [row["study"] for row in needs]):
            hint = did_you_mean(name, known, "`clew reproduce --list` shows all.")
            raise UsageError(f"there is no study {name!r}; {hint}")
    given = {"seeds": seeds, "minutes": minutes, "threads": threads, "micro-batch": micro_batch}
    for name, value in (given | {"processes": processes, "timeout-hours": timeout_hours}).items():
        if value is not None and not value > 0:
            raise UsageError(f"--{name} {value:g} trains nothing; use a number above 0.")

    import torch

    from clew.paper import runner
    from clew.paper.estimate import PAPER_GPUS
    from clew.paper.studies import STUDIES
    from clew.training.distributed import launch

    studies = [*STUDIES.values()] if "all" in names else [STUDIES[name] for name in dict.fromkeys(names)]
    options = runner.Options(scale, root, seeds, minutes, threads, micro_batch, timeout_hours)
    gpus = torch.cuda.device_count()
    count = processes or ((gpus or PAPER_GPUS * dry_run) if scale == "paper" else 1)
    if dry_run:
        print_plan(studies, options, count, slurm if launcher == "slurm" else None)
    elif collect:
        for study in studies:
            runner.collect(study, options, log)
    elif launcher == "slurm":
        submit_jobs(studies, options, slurm)
    elif processes and 0 < gpus < processes:
        raise UsageError(f"{processes} processes cannot share {gpus} GPUs; use --processes {gpus} or fewer.")
    # torchrun, Slurm or `launch` may have started this process as one of several.
    elif count > 1 and "RANK" not in os.environ:
        sys.exit(launch(count, shlex.split(typed_command())[1:]))
    elif signal := runner.reproduce(studies, options, log):
        if os.environ.get("RANK", "0") == "0":
            report_error("saved and stopped; the same command resumes.")
        return 128 + signal
    return 0


def report(
    *,
    root: Path = Path(),  # the folder in which docs and results are
) -> None:
    """Write docs/results.md from results/*/*.json, and draw the pictures again.

    A README.md with the marks for it gets the six main claims with their verdicts.
    """
    from clew.paper.page import write_pages

    for page in write_pages(root):
        print_line(str(page))


def log(line: str) -> None:
    if not is_quiet():
        report_error(line)


def _need(row: dict[str, Any]) -> list[str]:
    """Return what a study needs at a scale, in words."""
    counts = [f"{n / 1e6:.2g}M" if n >= 1e5 else f"{n / 1e3:.0f}K" for n in row["parameters"] if n]
    time = f"{format_duration(3600 * row['hours'])} of {'8 V100' if row['scale'] == 'paper' else 'one core'}"
    return [row["study"], row["scale"], str(row["runs"]), " to ".join(dict.fromkeys(counts)), time]


def print_plan(studies: Sequence[Study], options: Options, gpus: int, slurm: SlurmOptions | None) -> None:
    """Print what every training that is not finished needs, and what would be started or submitted."""
    from clew.paper.estimate import plan
    from clew.paper.runner import unique_runs

    runs = [*unique_runs(studies, options).values()]
    how = "in one process" if gpus == 1 else f"in {gpus} processes, one for each GPU"
    if slurm:
        gpus = slurm.nodes * slurm.tasks
        how = f"as Slurm jobs of {slurm.nodes} x {slurm.gpus_per_node} GPUs and {slurm.hours:g} hours a part"
    print(format_table(plan(runs, gpus), left=99))
    train, evaluate = (sum(not is_done(run) for run in runs) for is_done in (options.is_trained, options.is_scored))
    print(
        f"\nMemory of one of {gpus} GPUs; a pass has as many mazes as fit 32 GB. Memory and hours are estimates, with "
        "one constant fitted to the two runs whose hours the paper gives (docs/reproduce.md#on-gpus).\n"
        f"Would train {train} runs {how}, one after the other, and evaluate {evaluate}."
    )


def submit_jobs(studies: Sequence[Study], options: Options, slurm: SlurmOptions) -> None:
    """Submit every training that is not finished to Slurm, and its evaluation; write what has been evaluated."""
    from clew.paper.runner import collect, score_run, train_run, unique_runs
    from clew.training.slurm import queued_jobs, submit, submitted_jobs

    options = replace(options, root=options.root.absolute())  # jobs may start elsewhere
    queued = queued_jobs()
    for folder, run in unique_runs(studies, options).items():
        if options.is_scored(run):
            continue
        folder.parent.mkdir(parents=True, exist_ok=True)
        scores, after = folder.with_name(f"{folder.name}-score"), sorted(queued & submitted_jobs(folder))
        if not after and not options.is_trained(run):
            [job] = submit([partial(train_run, run, options)], folder, slurm)
            print_line(f"job {job.job_id} trains {folder.name}")
            after = [job.job_id]
        if queued & submitted_jobs(scores):
            print_line(f"{folder.name} is in the queue")
        else:
            [job] = submit([partial(score_run, run, options)], scores, slurm.for_scoring(), after=after)
            print_line(f"job {job.job_id} evaluates {folder.name}")
    for study in studies:
        if all(options.is_scored(run) for run in unique_runs([study], options).values()):
            collect(study, options, log)
