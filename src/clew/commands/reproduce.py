"""`clew reproduce NAME --scale laptop`: one of the paper's tables or figures, from training to picture."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from clew.errors import UserError
from clew.training.slurm import SlurmOptions

if TYPE_CHECKING:
    from clew.experiments.reproduce.runner import Options
    from clew.experiments.reproduce.study import Study

# Slurm's own defaults.
NO_WISHES = SlurmOptions()


def reproduce(
    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="NAME ...")] = (),
    list: bool = False,
    scale: Literal["smoke", "laptop", "paper"] = "laptop",
    seeds: int | None = None,
    minutes: float | None = None,
    threads: int | None = None,
    micro_batch: int | None = None,
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
        scale: smoke takes seconds and its numbers mean nothing; laptop asks the same question of smaller mazes and
            models; paper has the settings of the paper's text, for GPUs.
        seeds: how often each training is done with other chance.
        minutes: of each training, instead of its own budget.
        threads: CPU threads of each training; 1 at laptop scale if nothing is said.
        micro_batch: mazes that a process puts through one forward and backward pass; fewer need less memory, and the
            result stays the same.
        launcher: local trains here; slurm hands every training to the cluster and returns, and when they are done the
            same command without it scores them.
        slurm: what to ask Slurm for.
        root: the folder in which runs/reproduce, data and results are.
    """
    from clew.experiments.reproduce.catalogue import studies_named
    from clew.experiments.reproduce.runner import Options
    from clew.experiments.reproduce.runner import reproduce as run

    if list:
        print_list()
        return
    if not names:
        raise UserError("say which table or figure: `clew reproduce NAME`; `clew reproduce --list` shows them.")
    given = {"seeds": seeds, "minutes": minutes, "threads": threads, "micro-batch": micro_batch}
    for name, value in given.items():
        if value is not None and not value > 0:
            raise UserError(f"--{name} {value:g} trains nothing; use a number above 0.")
    studies = studies_named(names)
    options = Options(scale, root, seeds, minutes, threads, micro_batch)
    if launcher == "slurm":
        launch(studies, options, slurm)
    elif signal := run(studies, options, say=lambda line: print(f"clew: {line}", file=sys.stderr, flush=True)):
        print("clew: saved and stopped; the same command goes on from there.", file=sys.stderr)
        sys.exit(128 + signal)


def report(root: Path = Path()) -> None:
    """Write docs/results.md from results/*/*.json, and draw the pictures again.

    A README.md with the marks for it gets the six main claims with their verdicts.

    Args:
        root: the folder in which docs and results are.
    """
    from clew.experiments.reproduce.catalogue import STUDIES
    from clew.experiments.reproduce.page import MARKS, PAGE, README, draw_claims, main_claims, results_page
    from clew.experiments.reproduce.write import redraw
    from clew.files import atomic_write
    from clew.report.marked import has_marks, write_between_marks

    results = root / "results"
    for name, study in STUDIES.items():
        for file in sorted((results / name).glob("*.json")):
            redraw(study, file)
    draw_claims(results)
    with atomic_write(root / PAGE) as out:
        out.write(results_page(results))
    print(f"{root / PAGE}")
    if has_marks(root / README, MARKS):
        write_between_marks(root / README, MARKS, main_claims(results))
        print(f"{root / README}")


def print_list() -> None:
    """A line for each study and scale, and for all of them."""
    from clew.experiments.reproduce.catalogue import STUDIES
    from clew.experiments.reproduce.estimate import MACHINE, needs
    from clew.experiments.reproduce.study import SCALES

    rows = [["study", "scale", "trainings", "parameters", "time, about"]]
    for name, studies in {**{name: [study] for name, study in STUDIES.items()}, "all": [*STUDIES.values()]}.items():
        for scale in SCALES:
            needed = needs(studies, scale)
            sizes = " to ".join(dict.fromkeys(map(short_count, needed.parameters))) if needed.runs else ""
            time = f"{duration(needed.hours)} of {MACHINE[scale]}" if needed.runs else "seconds"
            rows.append([name, scale, str(needed.runs), sizes, time])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())


def short_count(count: int) -> str:
    """A number of parameters in words."""
    return f"{count / 1e6:.2g}M" if count >= 1e5 else f"{count / 1e3:.0f}K"


def duration(hours: float) -> str:
    """Hours in words."""
    if hours < 1 / 60:
        return "seconds"
    return f"{60 * hours:.0f} minutes" if hours < 2 else f"{hours:,.0f} hours"


def launch(studies: Sequence[Study], options: Options, slurm: SlurmOptions) -> None:
    """Hand every training that is not finished to Slurm."""
    from clew.experiments.reproduce.runner import finished, runs_of, train_run
    from clew.training.slurm import submit

    options = replace(options, root=options.root.absolute())  # jobs may start elsewhere
    place = options.place
    runs = {place.run(run): run for study in studies for run in runs_of(study, options)}
    waiting = {folder: run for folder, run in runs.items() if not finished(run, place)}
    for folder, run in waiting.items():
        folder.parent.mkdir(parents=True, exist_ok=True)
        job = submit(partial(train_run, run, place), folder, slurm)
        print(f"job {job.job_id} trains {folder.name}")
    print(
        f"{len(waiting)} trainings are in the queue and {len(runs) - len(waiting)} were finished before; when all are, "
        "the same command with --launcher local scores them."
    )
