"""`clew data verify DIR`, `clew data describe DIR ...` and `clew data import FILE ... --out DIR`."""

from __future__ import annotations

import itertools
import json as json_module
from dataclasses import asdict
from pathlib import Path

from clew.commands import Refused, format_table, progress_bar, say, typed_command
from clew.errors import UsageError, counted


def verify(
    directory: Path,  # the folder of the dataset
) -> None:
    """Check a dataset: its files against their checksums, and that its mazes, paths and splits are sound.

    Every path must be valid and a shortest one, and no layout may be both in train and in test. If anything is
    wrong, the file is named and the exit code is 1.
    """
    from clew.data.dataset import open_dataset, verify_dataset

    files = len(open_dataset(directory).files)
    with progress_bar("files", files) as progress:
        done = itertools.count(1)
        counts = verify_dataset(directory, lambda size: progress(next(done))).settings.counts
    say(
        f"{directory} is sound: {files} files as they were written, {counts['train']:,} + {counts['test']:,} mazes "
        "with shortest paths, no layout in both splits."
    )


def describe(
    directories: tuple[Path, ...] = (),  # the folders of one or more datasets
    *,
    json: bool = False,  # print one JSON document instead of a table
) -> None:
    """Print the number of tasks and layouts of datasets, their share of wall cells, and the lengths of their paths.

    For example: clew data describe data/astar-10 --json
    """
    from clew.data.config import SPLITS
    from clew.data.dataset import describe_split, open_dataset
    from clew.provenance import provenance

    if not directories:
        raise UsageError("give the folder of a dataset: clew data describe DIR; `clew generate` makes one.")
    datasets = [open_dataset(directory) for directory in directories]
    facts = [(dataset, name, describe_split(dataset.split(name))) for dataset in datasets for name in SPLITS]
    if json:
        fields = ("family", "height", "width", "tasks_per_layout")
        rows = [
            {field: getattr(dataset.settings, field) for field in fields} | {"split": name, **asdict(each)}
            for dataset, name, each in facts
        ]
        seeds = list(dict.fromkeys(dataset.settings.seed for dataset in datasets))
        print(json_module.dumps({"provenance": provenance(typed_command(), seeds), "splits": rows}, indent=2))
        return
    lines = [["dataset", "split", "tasks", "layouts", "wall cells %", "path, cells", "one shortest path %"]]
    for dataset, name, each in facts:
        shares = f"{100 * each.wall_share:.1f}", f"{each.path_cells:.1f}", f"{100 * each.one_shortest:.1f}"
        lines.append([dataset.directory.as_posix(), name, f"{each.tasks:,}", f"{each.layouts:,}", *shares])
    print(format_table(lines))


def import_mazes(
    # mazes as drawings, token text, HRM lines or CSV, JSON lines, an image; - for standard input
    files: tuple[str, ...] = (),
    *,
    out: Path,  # the folder to make
    # files of the mazes to test on. Mazes of the same layout, also turned or reflected, are left out of training. By
    # default one layout in 16 is held out, chosen by its hash as in all datasets.
    test: tuple[str, ...] = (),
    # the text that the dataset names as its own; by default wall-list for mazes of wall cells, edge-list for walls
    # between cells
    format: str = "",
) -> int:
    """Make a dataset of mazes from files, to train on and to evaluate with.

    For example: clew data import mazes.txt --out data/mine
    then: clew train cells-astar-10 --data.source dataset --data.folder data/mine --out runs/mine

    The mazes have one size. Where a file gives no path, a maze is solved by A*; a given path must be a shortest one. A
    maze that cannot be used is named on stderr with its number, the others are imported, and the exit code is 1.
    """
    from clew.data.writer import import_dataset

    if not files:
        raise UsageError("give a file of mazes: clew data import FILE --out DIR.")
    refused = Refused()
    with progress_bar("mazes", None) as progress:
        settings, left_out = import_dataset(files, out, test=test, format=format, on_error=refused, progress=progress)
    train = f"{counted(settings.counts['train'], 'maze')} to train on and {settings.counts['test']:,} to test on"
    say(f"{out}: {train}, {settings.height} rows by {settings.width} columns")
    if left_out:
        say(f"left out of training, since their layout is in the test split: {counted(left_out, 'maze')}")
    return 1 if refused else 0
