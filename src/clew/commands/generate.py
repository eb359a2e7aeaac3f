"""`clew generate FAMILY --out DIR`: make a dataset of mazes with their solutions."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from clew.commands import announce_compilation, progress_bar
from clew.errors import UserError, printable


def generate(
    family: str,
    /,
    *,
    out: Path,
    size: int | None = None,
    height: int | None = None,
    width: int | None = None,
    arms: int | None = None,
    length: int | None = None,
    labels: int | None = None,
    count: int = 100_000,
    test: int = 2_000,
    seed: int = 0,
    format: str | None = None,
    open_share: float | None = None,
    tasks_per_layout: Literal["all", "one"] | None = None,
    min_path: int = 1,
    workers: int | None = None,
) -> None:
    """Make a dataset of mazes with their solutions: memory-mapped arrays and a dataset.json.

    For example: clew generate dfs --size 10 --count 100000 --test 2000 --seed 0 --out data/dfs-10
    or: clew generate path-star --arms 2 --length 5 --labels 9 --out data/path-star-2x5

    No layout is both in train and in test. After an interruption the same command resumes.

    Args:
        family: dfs (the paper's perfect mazes), astar (the paper's A* mazes), wilson and kruskal (perfect mazes of
            other algorithms), percolation (cycles and unreachable cells) or path-star (graphs: arms from one centre).
        out: the folder to make.
        size: rows and columns of a square maze (default 10).
        height: rows, instead of --size.
        width: columns, instead of --size.
        arms: of a path-star graph (default 2).
        length: of a path-star graph, nodes from the centre to an arm's end, both counted (default 5).
        labels: of a path-star graph, from how many its nodes' labels are drawn (by default as many as nodes).
        count: how many mazes to train on (tasks, where layouts have several).
        test: how many held-out mazes.
        seed: the same seed gives the same dataset, byte for byte.
        format: the text that the dataset names as its own (any format can be made from it later); by default
            wall-list for astar, path-star for path-star and edge-list for all others.
        open_share: for percolation, the probability of each passage to be open.
        tasks_per_layout: for astar; all (the default) trains on every good start and goal of 100 draws in a layout, as
            Searchformer does, one on the first of them. Held-out tasks have a layout each in both.
        min_path: the least number of cells on the path, both ends counted; mazes with shorter paths are redrawn.
        workers: threads; by default one for each core.
    """
    star = (arms, length, labels) != (None, None, None)
    if family == "path-star" and (size, height, width) != (None, None, None):
        raise UserError("a path-star graph has no size; give --arms, --length and --labels.")
    if family != "path-star" and star:
        raise UserError(f"--arms, --length and --labels are for path-star graphs, not for {family} mazes.")
    if size is not None and (height is not None or width is not None):
        raise UserError("give either --size or --height and --width, not both.")
    if (height is None) != (width is None):
        raise UserError("--height and --width go together; give both, or --size for a square.")
    size = 10 if size is None else size
    rows, columns = (size, size) if height is None or width is None else (height, width)
    name = family

    from clew.data.config import DatasetSettings
    from clew.data.writer import write_dataset
    from clew.mazes.generators import StarShape

    announce_compilation()
    if family == "path-star":
        shape = StarShape(2 if arms is None else arms, 5 if length is None else length)
        name, rows, columns = shape.family, 1, shape.nodes if labels is None else labels
    counts = {"train": count, "test": test}
    settings = DatasetSettings(name, rows, columns, seed, counts, format or "", open_share, tasks_per_layout, min_path)
    with progress_bar("mazes", settings.total) as progress:
        made = write_dataset(settings, out, workers=workers, progress=progress)
    unit, shown = "mazes", f"{name}, {rows} rows by {columns} columns"
    if family == "path-star":
        unit, shown = "graphs", f"{name}, {columns} labels"
    what = f"{count:,} {unit} to train on and {test:,} to test on, {shown}"
    shown = printable(str(out))
    print(f"{shown}: {what}" if made else f"{shown} is already there, whole, with these settings: {what}")
