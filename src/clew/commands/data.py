"""`clew data verify DIR`: check a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro


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
