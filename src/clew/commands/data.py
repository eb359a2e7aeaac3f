"""`clew generate FAMILY --out DIR`, and `clew data import|describe|verify`: datasets of mazes."""

from __future__ import annotations

import itertools
import json as json_module
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from clew.commands import ReportedErrors, format_table, print_line, progress_bar, typed_command
from clew.data.config import SPLITS, DatasetSettings
from clew.data.dataset import describe_split, open_dataset, verify_dataset
from clew.data.writer import import_dataset, write_dataset
from clew.errors import UserError, counted
from clew.mazes.generators import StarShape
from clew.provenance import provenance


def generate(
    family: str,  # dfs, astar, wilson, kruskal, percolation (docs/mazes.md), path-star, or a registered one
    *,
    out: Path,  # the folder to make
    size: tuple[int, ...] = (),  # rows and columns of the mazes, or one number for square ones (default 10)
    arms: int | None = None,  # of a path-star graph (default 2)
    length: int | None = None,  # of a path-star graph, nodes from the centre to an arm's end, both counted (default 5)
    labels: int | None = None,  # of a path-star graph, how many labels its nodes are drawn from (default: the nodes)
    count: int = 100_000,  # how many mazes to train on (tasks, where layouts have several)
    test: int = 2_000,  # how many held-out mazes
    seed: int = 0,  # the same seed gives the same dataset, byte for byte
    format: str = "",  # the text that the dataset names as its own (default: wall-list for astar, else edge-list)
    open_share: float | None = None,  # for percolation, the probability of each passage to be open
    # for astar: train on all good starts and goals of 100 draws in a layout, as Searchformer (default), or on the first
    tasks_per_layout: Literal["all", "one"] | None = None,
    min_path: int = 1,  # the least number of cells on the path, both ends counted; mazes with shorter paths are redrawn
    workers: int | None = None,  # threads; by default one for each core
) -> None:
    """Make a dataset of mazes with their solutions: memory-mapped arrays and a dataset.json.

    For example: clew generate dfs --size 10 --count 100000 --test 2000 --seed 0 --out data/dfs-10
    or: clew generate path-star --arms 2 --length 5 --labels 9 --out data/path-star-2x5

    No layout is both in train and in test. After an interruption the same command resumes.
    """
    is_star = family == "path-star"
    if is_star and size:
        raise UserError("a path-star graph has no size; give --arms, --length and --labels.")
    if not is_star and (arms, length, labels) != (None, None, None):
        raise UserError(f"--arms, --length and --labels are for path-star graphs, not for {family} mazes.")
    if len(size) > 2:
        raise UserError("a maze has two sides; give --size one number, or rows and columns.")

    rows, columns = (size or (10,))[0], (size or (10,))[-1]
    shown = f"{rows} rows by {columns} columns"
    if is_star:
        star = StarShape(2 if arms is None else arms, 5 if length is None else length)
        family, rows, columns = star.family, 1, star.nodes if labels is None else labels
        shown = f"{columns} labels"
    counts = {"train": count, "test": test}
    settings = DatasetSettings(family, rows, columns, seed, counts, format, open_share, tasks_per_layout, min_path)
    with progress_bar("mazes", settings.total) as progress:
        made = write_dataset(settings, out, workers=workers, progress=progress)
    what = f"{count:,} {'graphs' if is_star else 'mazes'} to train on and {test:,} to test on, {family}, {shown}"
    print_line(f"{out}: {what}" if made else f"{out} is already there, whole, with these settings: {what}")


def import_mazes(
    # mazes as drawings, token text, HRM lines or CSV, JSON lines, an image; - for standard input
    files: tuple[str, ...],
    *,
    out: Path,  # the folder to make
    test: tuple[str, ...] = (),  # files of the mazes to test on; by default one layout in 16, chosen by its hash
    format: str = "",  # the text that it names as its own (default: wall-list for wall cells, else edge-list)
) -> int:
    """Make a dataset of mazes from files, to train on and to evaluate with.

    For example: clew data import mazes.txt --out data/mine
    then: clew train cells-astar-10 --data.source dataset --data.folder data/mine --out runs/mine

    The mazes have one size. Where a file gives no path, a maze is solved by A*; a given path must be a shortest one.
    Mazes of a layout that is tested, also turned or reflected, are left out of training. A maze that cannot be used is
    named on stderr with its number, the others are imported, and the exit code is 1.
    """
    refused = ReportedErrors()
    with progress_bar("mazes", None) as progress:
        settings, left_out = import_dataset(files, out, test=test, format=format, on_error=refused, progress=progress)
    train = f"{counted(settings.counts['train'], 'maze')} to train on and {settings.counts['test']:,} to test on"
    print_line(f"{out}: {train}, {settings.height} rows by {settings.width} columns")
    if left_out:
        print_line(f"left out of training, since their layout is in the test split: {counted(left_out, 'maze')}")
    return 1 if refused else 0


def describe(
    directories: tuple[Path, ...],  # the folders of one or more datasets
    *,
    json: bool = False,  # print one JSON document instead of a table
) -> None:
    """Print the number of tasks and layouts of datasets, their share of wall cells, and the lengths of their paths.

    For example: clew data describe data/astar-10 --json
    """
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


def verify(
    directory: Path,  # the folder of the dataset
) -> None:
    """Check a dataset: its files against their checksums, and that its mazes, paths and splits are sound.

    Every path must be valid and a shortest one, and no layout may be both in train and in test. If anything is
    wrong, the file is named and the exit code is 1.
    """
    files = len(open_dataset(directory).files)
    with progress_bar("files", files) as progress:
        done = itertools.count(1)
        counts = verify_dataset(directory, lambda size: progress(next(done))).settings.counts
    sound = f"{files} files as they were written, {counts['train']:,} + {counts['test']:,} mazes with shortest paths"
    print_line(f"{directory} is sound: {sound}, no layout in both splits.")
