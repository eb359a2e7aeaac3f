"""`clew generate FAMILY --out DIR`: make a dataset of mazes with their solutions."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from clew.commands import progress_bar, say
from clew.errors import UserError


def generate(
    # dfs (the paper's perfect mazes), astar (the paper's A* mazes), wilson and kruskal (perfect mazes of other
    # algorithms), percolation (cycles and unreachable cells) or path-star (graphs: arms from one centre)
    family: str,
    *,
    out: Path,  # the folder to make
    size: int | None = None,  # rows and columns of a square maze (default 10)
    height: int | None = None,  # rows, instead of --size
    width: int | None = None,  # columns, instead of --size
    arms: int | None = None,  # of a path-star graph (default 2)
    length: int | None = None,  # of a path-star graph, nodes from the centre to an arm's end, both counted (default 5)
    # of a path-star graph, from how many its nodes' labels are drawn (by default as many as nodes)
    labels: int | None = None,
    count: int = 100_000,  # how many mazes to train on (tasks, where layouts have several)
    test: int = 2_000,  # how many held-out mazes
    seed: int = 0,  # the same seed gives the same dataset, byte for byte
    # the text that the dataset names as its own (any format can be made from it later); by default wall-list for astar,
    # path-star for path-star and edge-list for all others
    format: str = "",
    open_share: float | None = None,  # for percolation, the probability of each passage to be open
    # for astar; all (the default) trains on every good start and goal of 100 draws in a layout, as Searchformer does,
    # one on the first of them. Held-out tasks have a layout each in both.
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
    if is_star and (size, height, width) != (None, None, None):
        raise UserError("a path-star graph has no size; give --arms, --length and --labels.")
    if not is_star and (arms, length, labels) != (None, None, None):
        raise UserError(f"--arms, --length and --labels are for path-star graphs, not for {family} mazes.")
    if size is not None and (height is not None or width is not None):
        raise UserError("give either --size or --height and --width, not both.")
    if (height is None) != (width is None):
        raise UserError("--height and --width go together; give both, or --size for a square.")

    from clew.data.config import DatasetSettings
    from clew.data.writer import write_dataset
    from clew.mazes.generators import StarShape

    square = 10 if size is None else size
    rows, columns = (square, square) if height is None or width is None else (height, width)
    shown = f"{family}, {rows} rows by {columns} columns"
    if is_star:
        star = StarShape(2 if arms is None else arms, 5 if length is None else length)
        family, rows, columns = star.family, 1, star.nodes if labels is None else labels
        shown = f"{family}, {columns} labels"
    counts = {"train": count, "test": test}
    settings = DatasetSettings(family, rows, columns, seed, counts, format, open_share, tasks_per_layout, min_path)
    with progress_bar("mazes", settings.total) as progress:
        made = write_dataset(settings, out, workers=workers, progress=progress)
    there = "" if made else " is already there, whole, with these settings"
    say(f"{out}{there}: {count:,} {'graphs' if is_star else 'mazes'} to train on and {test:,} to test on, {shown}")
