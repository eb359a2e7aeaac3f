"""`clew data verify DIR`: check a dataset. `clew data describe DIR ...`: what its tasks are like."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import tyro

from clew.errors import UserError


def verify(directory: Annotated[Path, tyro.conf.Positional]) -> None:
    """Check a dataset: its files against their checksums, and that its mazes, paths and splits are sound.

    Every path must be valid and a shortest one, and no layout may be both in train and in test. If anything is
    wrong, the file is named and the exit code is 1.

    Args:
        directory: the folder of the dataset.
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from clew.data.dataset import open_dataset
    from clew.data.verify import verify_dataset

    total = sum(record.bytes for record in open_dataset(directory).files.values())
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=total)
        dataset = verify_dataset(directory, lambda size: bar.advance(task, size))
    counts = dataset.settings.counts
    print(
        f"{directory} is sound: {len(dataset.files)} files as they were written, {counts['train']:,} + "
        f"{counts['test']:,} mazes with shortest paths, no layout in both splits."
    )


def describe(
    directories: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR ...")],
    json: bool = False,
) -> None:
    """Tell how many tasks and layouts datasets have, their share of wall cells, and how long their paths are.

    For example: clew data describe data/astar-10 --json

    Args:
        directories: the folders of one or more datasets.
        json: print one JSON document instead of a table.
    """
    import json as json_module
    from dataclasses import asdict

    from clew.data.config import SPLITS
    from clew.data.dataset import open_dataset
    from clew.data.verify import describe_split
    from clew.provenance import provenance

    if not directories:
        raise UserError("give the folder of a dataset; `clew generate` makes one.")
    datasets = [open_dataset(directory) for directory in directories]
    facts = [(dataset, name, describe_split(dataset.split(name))) for dataset in datasets for name in SPLITS]
    if json:
        command = shlex.join(["clew", "data", "describe", *(d.as_posix() for d in directories), "--json"])
        rows = [
            {
                "family": dataset.settings.family,
                "height": dataset.settings.height,
                "width": dataset.settings.width,
                "tasks_per_layout": dataset.settings.tasks_per_layout,
                "split": name,
                **asdict(each),
            }
            for dataset, name, each in facts
        ]
        seeds = list(dict.fromkeys(dataset.settings.seed for dataset in datasets))
        print(json_module.dumps({"provenance": provenance(command, seeds), "splits": rows}, indent=2))
        return
    lines = [["dataset", "split", "tasks", "layouts", "wall cells %", "path, cells", "one shortest path %"]]
    for dataset, name, each in facts:
        shares = f"{100 * each.wall_share:.1f}", f"{each.path_cells:.1f}", f"{100 * each.one_shortest:.1f}"
        lines.append([dataset.directory.as_posix(), name, f"{each.tasks:,}", f"{each.layouts:,}", *shares])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        words = [word.ljust(width) for word, width in zip(line[:2], widths[:2], strict=True)]
        words += [word.rjust(width) for word, width in zip(line[2:], widths[2:], strict=True)]
        print("  ".join(words))
