"""`clew reproduce NAME --scale laptop`: one of the paper's tables or figures, from training to picture."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clew.commands import announce_compilation, format_table
from clew.errors import UsageError, is_quiet, printable
from clew.registry import loaded_plugins
from clew.training.launch import SlurmOptions

if TYPE_CHECKING:
    from clew.paper.runner import Options
    from clew.paper.study import Study

ALL = "all"
NO_WISHES = SlurmOptions()  # Slurm's own defaults


def reproduce(
    *names: str,
    list: bool = False,
    dry_run: bool = False,
    collect: bool = False,
    scale: Literal["smoke", "laptop", "paper"] = "laptop",
    seeds: int | None = None,
    minutes: float | None = None,
    threads: int | None = None,
    micro_batch: int | None = None,
    processes: int | None = None,
    timeout_hours: float = 4.0,
    launcher: Literal["local", "slurm"] = "local",
    slurm: SlurmOptions = NO_WISHES,
    root: Path = Path(),
) -> None:
    """Run one of the paper's tables or figures, or one of our own questions: train, score, draw, conclude.

    For example: clew reproduce accuracy-by-size --scale laptop --seeds 3

    The same command goes on where it was stopped. Numbers go to results/NAME/SCALE.json, the picture beside it.

    Args:
        names: which, as --list names them, or all.
        list: print what each needs at each scale, and do nothing.
        dry_run: print what every training needs (parameters, tokens, memory of a GPU, hours) and what would be started
            or submitted, and do nothing.
        collect: train and score nothing; write the result from what has been scored.
        scale: smoke takes seconds and its numbers mean nothing; laptop asks the same question of smaller mazes and
            models; paper has the settings of the paper's text, for GPUs.
        seeds: how often each training is done with other chance.
        minutes: of each training, instead of its own budget.
        threads: CPU threads of each training; 1 at laptop scale if nothing is said.
        micro_batch: mazes that a process puts through one forward and backward pass; fewer need less memory, and the
            result stays the same. At paper scale as many as fit a GPU if nothing is said.
        processes: that share each training on this machine; at paper scale one for each visible GPU if nothing is said.
        timeout_hours: how long one of several processes waits for the others before it gives up.
        launcher: local trains here; slurm hands every training to the cluster, and after each the scoring of it, and
            returns. When the jobs are done, the same command writes the result, and so does --collect.
        slurm: what to ask Slurm for.
        root: the folder in which runs/reproduce, data and results are.
    """
    if list:
        print_list()
        return
    check_names(names)
    given = {"seeds": seeds, "minutes": minutes, "threads": threads, "micro-batch": micro_batch}
    for name, value in (given | {"processes": processes, "timeout-hours": timeout_hours}).items():
        if value is not None and not value > 0:
            raise UsageError(f"--{name} {value:g} trains nothing; use a number above 0.")

    from clew.paper import runner
    from clew.paper.studies import STUDIES
    from clew.training.launch import gpus_here, launch, launched

    announce_compilation()
    studies = [*STUDIES.values()] if ALL in names else [STUDIES[name] for name in dict.fromkeys(names)]
    options = runner.Options(scale, root, seeds, minutes, threads, micro_batch, timeout_hours)
    if dry_run:
        print_plan(studies, options, slurm if launcher == "slurm" else None, processes)
    elif collect:
        for study in studies:
            runner.collect(study, options, say)
    elif launcher == "slurm":
        submit_jobs(studies, options, slurm)
    else:
        if processes and 0 < gpus_here() < processes:
            raise UsageError(
                f"{processes} processes cannot share {gpus_here()} GPUs; use --processes {gpus_here()} or fewer."
            )
        count = processes or (gpus_here() if scale == "paper" else 1)
        if count > 1 and not launched():
            words = ["reproduce", *(study.name for study in studies), "--scale", scale, "--root", str(root)]
            words += options.arguments("seeds", "minutes", "threads", "micro_batch", "timeout_hours")
            sys.exit(launch(count, [*words, *(f"--plugin={module}" for module in loaded_plugins())]))
        if signal := runner.reproduce(studies, options, say):
            if int(os.environ.get("RANK", 0)) == 0:
                print("clew: saved and stopped; the same command goes on from there.", file=sys.stderr)
            sys.exit(128 + signal)


def say(line: str) -> None:
    """Report progress to the user."""
    if not is_quiet():
        print(f"clew: {line}", file=sys.stderr, flush=True)


def read_needs() -> Any:
    """Return what each study needs at each scale, from a file: computing it takes seconds and needs torch."""
    return json.loads((resources.files("clew.paper") / "needs.json").read_text(encoding="utf-8"))


def check_names(names: Sequence[str]) -> None:
    """Raise UsageError unless these are names of studies."""
    if not names:
        raise UsageError("say which table or figure: `clew reproduce NAME`; `clew reproduce --list` shows them.")
    known = [*dict.fromkeys(row["study"] for row in read_needs())]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "`clew reproduce --list` shows all."
            raise UsageError(f"there is no study {printable(name)!r}; {hint}")


def report(*, root: Path = Path()) -> None:
    """Write docs/results.md from results/*/*.json, and draw the pictures again.

    A README.md with the marks for it gets the six main claims with their verdicts.

    Args:
        root: the folder in which docs and results are.
    """
    from clew.paper.page import write_pages

    for page in write_pages(root):
        print(page)


def print_list() -> None:
    """Print a line for each study and scale, and for all of them."""
    rows = [["study", "scale", "trainings", "parameters", "time, about"]]
    for row in read_needs():
        sizes = " to ".join(dict.fromkeys(map(short_count, row["parameters"]))) if row["runs"] else ""
        machine = "8 V100" if row["scale"] == "paper" else "one core"
        time = f"{duration(row['hours'])} of {machine}" if row["runs"] else "seconds"
        rows.append([row["study"], row["scale"], str(row["runs"]), sizes, time])
    print(format_table(rows, left=5))


def short_count(count: int) -> str:
    """Return a number of parameters in words."""
    return f"{count / 1e6:.2g}M" if count >= 1e5 else f"{count / 1e3:.0f}K"


def duration(hours: float) -> str:
    """Return hours in words."""
    if hours < 1 / 60:
        return "seconds"
    return f"{60 * hours:.0f} minutes" if hours < 2 else f"{hours:,.0f} hours"


def print_plan(studies: Sequence[Study], options: Options, slurm: SlurmOptions | None, processes: int | None) -> None:
    """Print what every training that is not finished needs, and what would be started or submitted."""
    from clew.paper.estimate import ACTIVATION_PASSES, BLOCK_SECONDS, PAPER_GPUS, SHARE_OF_PEAK, plan
    from clew.paper.runner import unique_runs
    from clew.training.launch import gpus_here

    runs = [*unique_runs(studies, options).values()]
    train = [run for run in runs if not options.is_trained(run)]
    score = [run for run in runs if not options.is_scored(run)]
    here = processes or ((gpus_here() or PAPER_GPUS) if options.scale == "paper" else 1)
    gpus = slurm.nodes * slurm.tasks if slurm else here
    print(format_table(plan(runs, gpus), left=99))
    print(
        f"""
Memory of one of {gpus} GPUs, estimated; a pass has as many mazes as fit 32 GB. Hours = steps x (passes x blocks x
{1e3 * BLOCK_SECONDS:g} ms + {ACTIVATION_PASSES} x activation bytes / bandwidth
+ operations / ({SHARE_OF_PEAK:g} x peak)).
The first constant is fitted to the paper's 13.7 and 17.7 hours (5x5 mazes on 8 V100), nearly all of which such small
steps spend launching kernels; the other terms are data sheets and assumptions. Evaluation and scoring are not
counted."""
    )
    if slurm:
        where = f"{slurm.nodes} node{'s' * (slurm.nodes > 1)} with {slurm.gpus_per_node} GPUs each"
        print(
            f"Would submit {len(train)} training jobs ({where}, {slurm.hours:g} hours a part) and {len(score)} scoring "
            "jobs (one GPU, each after its training)."
        )
    else:
        what = f"{gpus} processes, one for each GPU" if gpus > 1 else "one process"
        assumed = "" if gpus == 1 or processes or gpus_here() else " No GPU is visible here: the paper's 8 are assumed."
        print(f"Would train {len(train)} runs in {what}, one run after the other, and score {len(score)}.{assumed}")


def submit_jobs(studies: Sequence[Study], options: Options, slurm: SlurmOptions) -> None:
    """Hand every training that is not finished to Slurm, and its scoring; write what has been scored."""
    from clew.paper.runner import collect, score_run, train_run, unique_runs
    from clew.training.launch import queued_jobs, submit, submitted_jobs

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
            job = submit(partial(train_run, run, options), folder, slurm)
            print(f"job {job.job_id} trains {folder.name}")
            trainings, after = trainings + 1, [job.job_id]
        if queued & submitted_jobs(scores):
            waiting += 1
            continue
        job = submit(partial(score_run, run, options), scores, slurm.for_scoring(), after=after)
        print(f"job {job.job_id} scores {folder.name}")
        scorings += 1
    for study in studies:
        if all(options.is_scored(run) for run in unique_runs([study], options).values()):
            collect(study, options, say)
    if trainings + scorings + waiting:
        print(
            f"{trainings} trainings and {scorings} scorings were submitted, and {waiting} runs were in the queue "
            "before; when they are done, the same command with --collect writes the result."
        )
