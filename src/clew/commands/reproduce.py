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

from clew.commands import format_table, say, typed_command
from clew.errors import UsageError, did_you_mean, is_quiet, report_error
from clew.training.slurm import SlurmOptions

if TYPE_CHECKING:
    from clew.paper.runner import Options
    from clew.paper.study import Study


def reproduce(
    names: tuple[str, ...] = (),  # the studies, as --list names them, or all
    *,
    list: bool = False,  # print what each needs at each scale, and do nothing
    # print what every training needs (parameters, tokens, memory of a GPU, hours) and what would be started or
    # submitted, and do nothing
    dry_run: bool = False,
    collect: bool = False,  # train and evaluate nothing; write the result from what has been evaluated
    # smoke takes seconds and its numbers mean nothing; laptop has smaller mazes and models; paper has the settings of
    # the paper's text, for GPUs
    scale: Literal["smoke", "laptop", "paper"] = "laptop",
    seeds: int | None = None,  # how many seeds each training has
    minutes: float | None = None,  # of each training, instead of its own budget
    threads: int | None = None,  # CPU threads of each training; 1 at laptop scale by default
    # mazes that a process puts through one forward and backward pass; fewer need less memory, and the result stays the
    # same. On a GPU, by default as many as fit.
    micro_batch: int | None = None,
    # that share each training on this machine; by default one, at paper scale one for each visible GPU
    processes: int | None = None,
    timeout_hours: float = 4.0,  # how long one of several processes waits for the others
    # local trains here; slurm submits a job for every training, and after each one for its evaluation, and returns.
    # When the jobs are done, the same command writes the result, and so does --collect.
    launcher: Literal["local", "slurm"] = "local",
    slurm: SlurmOptions = SlurmOptions(),  # noqa: B008  (frozen)
    root: Path = Path(),  # the folder in which runs/reproduce, data and results are
) -> int:
    """Run a table or figure of the paper, or a study of our own: train, evaluate, draw, conclude.

    For example: clew reproduce accuracy-by-size --scale laptop --seeds 3

    The same command resumes what was stopped. Numbers go to results/NAME/SCALE.json, the picture beside it.
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
    from clew.paper.studies import STUDIES
    from clew.training.distributed import launch

    studies = [*STUDIES.values()] if "all" in names else [STUDIES[name] for name in dict.fromkeys(names)]
    options = runner.Options(scale, root, seeds, minutes, threads, micro_batch, timeout_hours)
    gpus = torch.cuda.device_count()
    if dry_run:
        print_plan(studies, options, slurm if launcher == "slurm" else None, processes)
    elif collect:
        for study in studies:
            runner.collect(study, options, log)
    elif launcher == "slurm":
        submit_jobs(studies, options, slurm)
    elif processes and 0 < gpus < processes:
        raise UsageError(f"{processes} processes cannot share {gpus} GPUs; use --processes {gpus} or fewer.")
    # torchrun, Slurm or `launch` may have started this process as one of several.
    elif (count := processes or (gpus if scale == "paper" else 1)) > 1 and "RANK" not in os.environ:
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
        say(str(page))


def log(line: str) -> None:
    if not is_quiet():
        report_error(line)


def _need(row: dict[str, Any]) -> list[str]:
    """Return what a study needs at a scale, in words."""
    counts = [f"{n / 1e6:.2g}M" if n >= 1e5 else f"{n / 1e3:.0f}K" for n in row["parameters"] if n]
    hours, machine = row["hours"], "8 V100" if row["scale"] == "paper" else "one core"
    time = f"{60 * hours:.0f} minutes of {machine}" if hours < 2 else f"{hours:,.0f} hours of {machine}"
    time = "seconds" if hours < 1 / 60 else time
    return [row["study"], row["scale"], str(row["runs"]), " to ".join(dict.fromkeys(counts)), time]


def print_plan(studies: Sequence[Study], options: Options, slurm: SlurmOptions | None, processes: int | None) -> None:
    """Print what every training that is not finished needs, and what would be started or submitted."""
    import torch

    from clew.paper.estimate import PAPER_GPUS, plan
    from clew.paper.runner import unique_runs

    runs = [*unique_runs(studies, options).values()]
    train = sum(not options.is_trained(run) for run in runs)
    evaluate = sum(not options.is_scored(run) for run in runs)
    visible = torch.cuda.device_count()
    gpus = processes or ((visible or PAPER_GPUS) if options.scale == "paper" else 1)
    gpus = slurm.nodes * slurm.tasks if slurm else gpus
    print(format_table(plan(runs, gpus), left=99))
    say("")
    say(
        f"Memory of one of {gpus} GPUs; a pass has as many mazes as fit 32 GB. Memory and hours are estimates, with "
        "one constant fitted to the two runs whose hours the paper gives (docs/reproduce.md#on-gpus)."
    )
    if slurm:
        where = f"{slurm.nodes} node{'s' * (slurm.nodes > 1)} with {slurm.gpus_per_node} GPUs each"
        say(
            f"Would submit {train} training jobs ({where}, {slurm.hours:g} hours a part) and {evaluate} evaluation "
            "jobs (one GPU, each after its training)."
        )
    else:
        what = f"{gpus} processes" if gpus > 1 else "one process"
        what += ", one for each GPU" if gpus > 1 and (visible or not processes) else ""
        assumed = "" if visible or processes or gpus == 1 else " No GPU is visible here: the paper's 8 are assumed."
        say(f"Would train {train} runs in {what}, one run after the other, and evaluate {evaluate}.{assumed}")


def submit_jobs(studies: Sequence[Study], options: Options, slurm: SlurmOptions) -> None:
    """Submit every training that is not finished to Slurm, and its evaluation; write what has been evaluated."""
    from clew.paper.runner import collect, score_run, train_run, unique_runs
    from clew.training.slurm import queued_jobs, submit, submitted_jobs

    options = replace(options, root=options.root.absolute())  # jobs may start elsewhere
    queued = queued_jobs()
    trainings = scorings = waiting = 0
    for folder, run in unique_runs(studies, options).items():
        scores = folder.with_name(f"{folder.name}-score")
        if options.is_scored(run):
            continue
        folder.parent.mkdir(parents=True, exist_ok=True)
        after = sorted(queued & submitted_jobs(folder))
        if not after and not options.is_trained(run):
            [job] = submit([partial(train_run, run, options)], folder, slurm)
            say(f"job {job.job_id} trains {folder.name}")
            trainings, after = trainings + 1, [job.job_id]
        if queued & submitted_jobs(scores):
            waiting += 1
            continue
        [job] = submit([partial(score_run, run, options)], scores, slurm.for_scoring(), after=after)
        say(f"job {job.job_id} evaluates {folder.name}")
        scorings += 1
    for study in studies:
        if all(options.is_scored(run) for run in unique_runs([study], options).values()):
            collect(study, options, log)
    if trainings + scorings + waiting:
        say(
            f"{trainings} trainings and {scorings} evaluations were submitted, and {waiting} runs were in the queue "
            "before; when they are done, the same command with --collect writes the result."
        )
