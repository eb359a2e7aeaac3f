"""Write a dataset, resumable after a kill, and import one from files of mazes.

    write_dataset(settings, Path("data/dfs-10"))  # after a kill, the same call resumes

Mazes are made in chunks, each a file that is written atomically and joined with the others at the end; dataset.json is
written last. A chunk is a function of (settings, split, mazes before it), so the result is the same, byte for byte, as
without a kill.

The process that writes holds a lock. Others that need the same dataset, such as the jobs of a cluster, wait for it, and
resume it if that process was killed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from clew.data.config import IMPORTED, SPLITS, DatasetSettings
from clew.data.dataset import (
    ARRAY_DTYPES,
    DATASET_FILE,
    FILE_NAMES,
    UNFINISHED_FILE,
    Dataset,
    array_shapes,
    file_name,
    hash_file,
    npy_head,
    open_dataset,
    split_problem,
)
from clew.data.readers import iter_mazes, true_path
from clew.errors import UserError, report_error
from clew.files import atomic_write, open_own, write_json
from clew.mazes.generate import generate
from clew.mazes.generators import MAX_PAIRS, PATH_STAR
from clew.mazes.layouts import is_held_out, layout_hashes
from clew.mazes.maze import Path as MazePath
from clew.mazes.maze import Task, TaskBatch
from clew.tokenization.format import format_named
from clew.tokenization.read import OnError, ReadTask

if sys.platform != "win32":
    import fcntl

TASKS_A_LAYOUT = 20  # about as many as layouts have whose tasks are all kept
CHUNK_CELLS = 4_000_000  # cells of mazes made at once: a few tens of MB, whatever their shape

Progress = Callable[[int], None]  # called with the number of mazes on disk
Arrays = dict[str, npt.NDArray[Any]]


def write_dataset(
    settings: DatasetSettings,
    directory: Path,
    *,
    workers: int | None = None,
    chunk: int | None = None,
    progress: Progress = lambda mazes: None,
    tasks: dict[str, TaskBatch] | None = None,
) -> bool:
    """Make or finish the dataset in `directory`; False if it exists already with these settings.

    `chunk` is the number of mazes of a file; it does not change the result. The mazes are generated, or those of
    `tasks` for each split, which the caller does not give for a dataset that exists.
    """
    for split, count in settings.counts.items():
        if count and tasks is None:
            _generate(settings, split, 0, 1, workers)  # raises early if the shape is too small
    if (directory / DATASET_FILE).exists():
        if found := open_dataset(directory).settings.differences(settings):
            raise UserError(
                f"{directory} already holds a dataset with other settings ({found}); "
                "choose another folder, or remove this one first."
            )
        _remove_leftovers(directory)
        return False
    _make_folder(directory)
    chunk = chunk or max(1, min(8192, CHUNK_CELLS // (settings.height * settings.width)))

    def make(split: str, mazes: int, layouts: int, count: int) -> tuple[TaskBatch, int]:
        return _generate(settings, split, layouts, count, workers) if tasks is None else (tasks[split][mazes:], count)

    try:
        with _locked(directory, settings):
            if (directory / DATASET_FILE).exists():  # another process has finished it a moment ago
                return write_dataset(settings, directory)
            if tasks is not None:
                _remove_chunks(directory)  # of other mazes
            for split in SPLITS:
                files = _make_chunks(directory, split, settings.counts, chunk, make, progress)
                _join_chunks(files, directory, settings, split)
            _finish(settings, directory)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        done = sum(len(_load_chunk(file).get("start", ())) for file in directory.glob(CHUNKS))
        raise UserError(
            f"the disk is full after {done} of {settings.total} mazes in {directory}; make room and run the same "
            "command again to go on from there."
        ) from None
    _remove_leftovers(directory)
    return True


def _make_folder(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        raise UserError(f"{directory} is a file; give the name of a folder.")
    directory.mkdir(parents=True, exist_ok=True)
    known = (UNFINISHED_FILE, DATASET_FILE)  # another process may finish the dataset right now and remove the first
    if not any((directory / name).exists() for name in known) and any(directory.iterdir()):
        raise UserError(f"{directory} holds other files; choose an empty or a new folder for the dataset.")


@contextmanager
def _locked(directory: Path, settings: DatasetSettings) -> Iterator[None]:
    """Lock the unfinished dataset; UserError if it was begun with other settings."""
    with open_own(directory / UNFINISHED_FILE) as file:
        if sys.platform != "win32":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report_error(f"waiting for another process that makes the dataset {directory}.")
                fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        where = f"the half-made dataset in {directory}"
        try:
            begun = json.loads(file.read() or "null")
        except ValueError:
            raise UserError(f"{where} is damaged; remove the folder and begin again.") from None
        if begun is None:
            file.write(json.dumps(settings.to_json()).encode())
            file.flush()
        elif found := DatasetSettings.from_json(begun, where).differences(settings):
            raise UserError(
                f"{where} was begun with other settings ({found}); finish it with the same command, or remove the "
                "folder first."
            )
        yield


def _make_chunks(
    directory: Path,
    split: str,
    counts: dict[str, int],
    chunk: int,
    make: Callable[[str, int, int, int], tuple[TaskBatch, int]],
    progress: Progress,
) -> list[Path]:
    """Return the files with the mazes of a split, in order; those that are missing or damaged are made.

    `make(split, mazes, layouts, count)` gives the next mazes, about `count`, and the number of their layouts.
    """
    count, files = counts[split], list[Path]()
    mazes = layouts = path_cells = 0
    before = counts["train"] if split == "test" else 0
    while mazes < count or not files:
        file = directory / f".{split}-{mazes}.npz"
        if not (arrays := _load_chunk(file)):
            progress(before + mazes)
            tasks, made = make(split, mazes, layouts, min(chunk, count - mazes))
            tasks = tasks[: count - mazes]  # the last layout may have more tasks than are wanted
            arrays = {
                "cells": tasks.cells_NHW,
                "start": tasks.start_N,
                "goal": tasks.goal_N,
                "path": tasks.path,
                "offset": tasks.offset_N1[bool(files) :] + path_cells,  # the first path begins at 0
            }
            arrays = {name: array.astype(ARRAY_DTYPES[name]) for name, array in arrays.items()}
            arrays["layouts"] = np.array(made)
            _save_chunk(file, arrays)
        mazes += len(arrays["start"])
        layouts += int(arrays["layouts"])
        path_cells += len(arrays["path"])
        files.append(file)
    progress(before + mazes)
    return files


CHUNKS = ".*.npz"


def _save_chunk(file: Path, arrays: Arrays) -> None:
    with atomic_write(file, "wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]


def _load_chunk(file: Path) -> Arrays:
    """Return the arrays of a chunk; none if it is missing or damaged."""
    try:
        with np.load(file) as arrays:
            return dict(arrays)
    except (OSError, ValueError, zipfile.BadZipFile):
        return {}


def _join_chunks(files: list[Path], directory: Path, settings: DatasetSettings, split: str) -> None:
    path_cells = int(_load_chunk(files[-1])["offset"][-1])
    for array, shape in array_shapes(settings, settings.counts[split], path_cells).items():
        with atomic_write(directory / file_name(split, array), "wb") as stream:
            stream.write(npy_head(array, shape))
            for file in files:
                with np.load(file) as arrays:
                    stream.write(arrays[array].tobytes())


def _generate(
    settings: DatasetSettings, split: str, first: int, count: int, workers: int | None
) -> tuple[TaskBatch, int]:
    """Return the next tasks of a split from a layout on, about `count`, and the number of their layouts."""
    all_pairs = settings.keeps_all_pairs and split == "train"
    number = -(-count // TASKS_A_LAYOUT) if all_pairs else count
    tasks = generate(
        settings.family,
        settings.height,
        settings.width,
        seed=settings.seed,
        first=first,
        count=number,
        split="train" if split == "train" else "test",
        workers=workers,
        open_share=settings.open_share,
        draws=MAX_PAIRS if all_pairs else settings.test_draws,
        all_pairs=all_pairs,
        min_path=settings.min_path,
    )
    return tasks, number


def _finish(settings: DatasetSettings, directory: Path) -> None:
    """Check that the splits share no layout, and write dataset.json."""
    records = {name: hash_file(directory / name) for name in FILE_NAMES}
    vocabulary = format_named(settings.format).vocabulary(settings.height, settings.width)
    description = {
        **settings.to_json(),
        "vocabulary": list(vocabulary.tokens),
        "files": {name: asdict(record) for name, record in records.items()},
    }
    problem = split_problem(Dataset(directory, settings, vocabulary.tokens, records))
    assert problem is None, problem  # the generator keeps the splits apart
    write_json(directory / DATASET_FILE, description, checksum=True)


def _remove_chunks(directory: Path) -> None:
    for file in directory.glob(CHUNKS):
        file.unlink(missing_ok=True)


def _remove_leftovers(directory: Path) -> None:
    """Remove what a dataset needs until it is finished, and temporary files that a kill has left."""
    with contextlib.suppress(OSError):
        _remove_chunks(directory)
        for file in [*directory.glob(".*.tmp"), directory / UNFINISHED_FILE]:
            file.unlink(missing_ok=True)


def import_dataset(
    files: Sequence[str],
    directory: Path,
    *,
    test: Sequence[str] = (),
    format: str = "",
    on_error: OnError,
    progress: Progress = lambda mazes: None,
) -> tuple[DatasetSettings, int]:
    """Make a dataset of the mazes of files; return its settings and how many mazes were left out of training.

    Where a file gives no path, the maze is solved by A*. Without files for `test`, the mazes of the held-out layouts
    (one in 16, clew.mazes.layouts) are the test split. With them, mazes whose layout, also turned or reflected, is
    among theirs are left out of training. `on_error` gets a sentence about each maze that is refused.
    """
    if (directory / DATASET_FILE).exists():
        raise UserError(f"{directory} already holds a dataset; choose another folder, or remove this one first.")
    first: ReadTask | None = None
    pairs: dict[str, list[tuple[Task, MazePath]]] = {"train": [], "test": []}
    done = 0
    for split, name in [*(("train", name) for name in files), *(("test", name) for name in test)]:
        where = f"{name}: " if len(files) + len(test) > 1 else ""
        for maze in iter_mazes(name, lambda sentence, where=where: on_error(where + sentence)):  # type: ignore[misc]
            first = first or maze
            done += 1
            progress(done)
            try:
                if maze.task.maze.cells.shape != first.task.maze.cells.shape:
                    raise UserError(f"a dataset has one size, but this is {maze.task.maze} and not {first.task.maze}.")
                pairs[split].append((maze.task, true_path(maze.task, maze.path, shortest=True)))
            except UserError as error:
                on_error(f"{where}maze {maze.number}, line {maze.line}: {error}")

    for split, names in (("train", files), ("test", test)):
        if names and not pairs[split]:
            raise UserError(f"none of the mazes of {', '.join(names)} can be used to {split}.")
    train = TaskBatch.from_tasks(*map(list, zip(*pairs["train"], strict=True)))
    hash_N = layout_hashes(train.cells_NHW)
    if test:
        held_out = TaskBatch.from_tasks(*map(list, zip(*pairs["test"], strict=True)))
        is_test_N = np.isin(hash_N, layout_hashes(held_out.cells_NHW))
    else:
        is_test_N = is_held_out(hash_N)
        held_out = train.select(np.flatnonzero(is_test_N))
    left_out = int(is_test_N.sum()) if test else 0
    train = train.select(np.flatnonzero(~is_test_N))
    if not format:
        only_walls = all(task.maze.has_wall_cells_only for task, _ in [*pairs["train"], *pairs["test"]])
        format = PATH_STAR if train.height == 1 else "wall-list" if only_walls else "edge-list"
    counts = {"train": len(train), "test": len(held_out)}
    settings = DatasetSettings(IMPORTED, train.height, train.width, 0, counts, format)
    directory.parent.mkdir(parents=True, exist_ok=True)
    write_dataset(settings, directory, tasks={"train": train, "test": held_out})
    return settings, left_out
