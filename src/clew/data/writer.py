"""Write a dataset chunk by chunk, resumable after a kill.

    write_dataset(settings, Path("data/dfs-10"))  # after a kill, the same call resumes

The .npy files grow under their own names. After each chunk they are flushed to disk, and one line of the journal
records how many mazes and path cells are safe. Resuming truncates every file to the last complete line. A layout is a
function of (seed, split, index), so the result is the same, byte for byte, as without a kill. dataset.json is written
last, atomically.

The journal is locked by the process that writes. Others that need the same dataset, such as the jobs of a cluster, wait
for it, and resume it if that process was killed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from clew.data.config import IMPORTED, SPLITS, DatasetSettings
from clew.data.dataset import (
    ARRAY_DTYPES,
    DATASET_FILE,
    FILE_NAMES,
    JOURNAL_FILE,
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
from clew.files import open_own, write_json
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


@dataclass(frozen=True)
class Safe:
    """The mazes of a split that are flushed to disk."""

    mazes: int = 0
    path_cells: int = 0
    layouts: int = 0


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

    `chunk` is the number of mazes between two lines of the journal; it does not change the result. The mazes are
    generated, or those of `tasks` for each split; then a dataset that exists is never taken for the same one.
    """
    for split, count in settings.counts.items():
        if count and tasks is None:
            _generate(settings, split, Safe(), 1, workers)  # raises early if the shape is too small
    if (directory / DATASET_FILE).exists():
        if tasks is not None:
            raise UserError(f"{directory} already holds a dataset; choose another folder, or remove this one first.")
        if found := open_dataset(directory).settings.differences(settings):
            raise UserError(
                f"{directory} already holds a dataset with other settings ({found}); "
                "choose another folder, or remove this one first."
            )
        _remove_leftovers(directory)
        return False
    _make_folder(directory)
    chunk = chunk or max(1, min(8192, CHUNK_CELLS // (settings.height * settings.width)))
    safe = {split: Safe() for split in SPLITS}
    try:
        with _journal(directory, settings, safe, resume=tasks is None) as journal:
            if (directory / DATASET_FILE).exists():  # another process has finished it a moment ago
                return write_dataset(settings, directory)
            for split in SPLITS:

                def make(count: int, split: str = split) -> tuple[TaskBatch, int]:
                    if tasks is None:
                        return _generate(settings, split, safe[split], count, workers)
                    first = safe[split].mazes
                    return tasks[split][first : first + count], count

                _write_split(settings, directory, split, safe, journal, chunk, make, progress)
            _finish(settings, directory)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        done = sum(part.mazes for part in safe.values())
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
    known = (JOURNAL_FILE, DATASET_FILE)  # another process may finish the dataset right now and remove its journal
    if not any((directory / name).exists() for name in known) and any(directory.iterdir()):
        raise UserError(f"{directory} holds other files; choose an empty or a new folder for the dataset.")


@contextmanager
def _journal(directory: Path, settings: DatasetSettings, safe: dict[str, Safe], resume: bool) -> Iterator[IO[bytes]]:
    """Open and lock the journal, and fill `safe` from it, or empty it."""
    with open_own(directory / JOURNAL_FILE) as journal:
        if sys.platform != "win32":
            try:
                fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report_error(f"waiting for another process that makes the dataset {directory}.")
                fcntl.flock(journal, fcntl.LOCK_EX)
        journal.seek(0)
        text = journal.read()
        whole = text[: text.rfind(b"\n") + 1] if resume else b""  # a kill can cut the last line short
        journal.truncate(len(whole))
        if whole:
            _read_journal(whole, settings, safe, f"the half-made dataset in {directory}")
        else:
            _append_line(journal, settings.to_json())
        yield journal


def _read_journal(text: bytes, settings: DatasetSettings, safe: dict[str, Safe], where: str) -> None:
    """Fill `safe` from the journal; UserError if it is of another dataset."""
    damaged = UserError(f"{where} is damaged; remove the folder and begin again.")
    try:
        lines = [json.loads(line) for line in text.splitlines()]
        # Version 0.1 did not write the number of layouts, each of which had one maze.
        lines[1:] = [line if "layouts" in line else line | {"layouts": line["mazes"]} for line in lines[1:]]
    except (ValueError, TypeError, KeyError):  # not JSON, not text at all, or not an object of ours
        raise damaged from None
    if found := DatasetSettings.from_json(lines[0], where).differences(settings):
        raise UserError(
            f"{where} was begun with other settings ({found}); finish it with the same command, or remove the folder "
            "first."
        )
    for line in lines[1:]:
        match line:
            case {
                "split": "train" | "test" as split,
                "mazes": int(mazes),
                "path_cells": int(path_cells),
                "layouts": int(layouts),
            } if (
                safe[split].mazes < mazes <= settings.counts[split]
                and path_cells > safe[split].path_cells
                and layouts > safe[split].layouts
            ):
                safe[split] = Safe(mazes, path_cells, layouts)
            case _:
                raise damaged


def _append_line(journal: IO[bytes], value: dict[str, Any]) -> None:
    journal.write(json.dumps(value).encode() + b"\n")
    _sync(journal)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _write_split(
    settings: DatasetSettings,
    directory: Path,
    split: str,
    safe: dict[str, Safe],
    journal: IO[bytes],
    chunk: int,
    make: Callable[[int], tuple[TaskBatch, int]],
    progress: Progress,
) -> None:
    """Write the missing mazes of one split, as `make(count)` gives them, and update `safe[split]`."""
    count = settings.counts[split]
    with ExitStack() as stack:
        files = {
            array: stack.enter_context(_open_at(directory, settings, split, array, safe[split]))
            for array in ARRAY_DTYPES
        }
        while (first := safe[split].mazes) < count:
            progress(sum(part.mazes for part in safe.values()))
            tasks, layouts = make(min(chunk, count - first))
            if len(tasks) > count - first:  # the last layout has more tasks than are wanted
                tasks = tasks.select(np.arange(count - first))
            _append(files, tasks, safe[split])
            path_cells = safe[split].path_cells + len(tasks.path)
            new = Safe(first + len(tasks), path_cells, safe[split].layouts + layouts)
            _append_line(journal, {"split": split, **asdict(new)})
            safe[split] = new
        # Only now is it known how many cells the paths have; the header keeps its length.
        files["path"].seek(0)
        files["path"].write(npy_head("path", (safe[split].path_cells,)))
        for file in files.values():
            _sync(file)
    progress(sum(part.mazes for part in safe.values()))


def _generate(
    settings: DatasetSettings, split: str, safe: Safe, count: int, workers: int | None
) -> tuple[TaskBatch, int]:
    """Return the next tasks of a split, about `count`, and the number of their layouts."""
    all_pairs = settings.keeps_all_pairs and split == "train"
    number = -(-count // TASKS_A_LAYOUT) if all_pairs else count
    tasks = generate(
        settings.family,
        settings.height,
        settings.width,
        seed=settings.seed,
        first=safe.layouts,
        count=number,
        split="train" if split == "train" else "test",
        workers=workers,
        open_share=settings.open_share,
        draws=MAX_PAIRS if all_pairs else settings.test_draws,
        all_pairs=all_pairs,
        min_path=settings.min_path,
    )
    return tasks, number


def _open_at(directory: Path, settings: DatasetSettings, split: str, array: str, safe: Safe) -> IO[bytes]:
    """Open the file of one array at its end, truncated to what is safe."""
    path = directory / file_name(split, array)
    head = npy_head(array, array_shapes(settings, settings.counts[split], 0)[array])
    values = math.prod(array_shapes(settings, safe.mazes, safe.path_cells)[array])
    size = len(head) + values * np.dtype(ARRAY_DTYPES[array]).itemsize
    if safe.mazes == 0:
        file = open_own(path, "w+b")
        file.write(head.ljust(size, b"\0"))  # the first path begins at 0
        return file
    if not path.is_file() or path.stat().st_size < size:
        raise UserError(f"{path} lacks mazes that were already made; remove the folder {directory} and begin again.")
    file = open(path, "r+b")  # noqa: SIM115 (the caller closes it)
    file.truncate(size)
    file.seek(0, os.SEEK_END)
    return file


def _append(files: dict[str, IO[bytes]], tasks: TaskBatch, safe: Safe) -> None:
    """Append a chunk to every file and flush it."""
    values = {
        "cells": tasks.cells_NHW,
        "start": tasks.start_N,
        "goal": tasks.goal_N,
        "path": tasks.path,
        "offset": tasks.offset_N1[1:] + safe.path_cells,
    }
    for array, value in values.items():
        files[array].write(np.ascontiguousarray(value, dtype=ARRAY_DTYPES[array]).data)
        _sync(files[array])


def _finish(settings: DatasetSettings, directory: Path) -> None:
    """Check that the splits share no layout, and write dataset.json."""
    records = {name: hash_file(directory / name) for name in FILE_NAMES}
    vocabulary = format_named(settings.format).vocabulary(settings.height, settings.width)
    description = {
        **settings.to_json(),
        "vocabulary": list(vocabulary.tokens),
        "files": {name: asdict(record) for name, record in records.items()},
    }
    dataset = Dataset(directory, settings, vocabulary.tokens, records)
    problem = split_problem(dataset)
    assert problem is None, problem  # the generator keeps the splits apart
    write_json(directory / DATASET_FILE, description, checksum=True)


def _remove_leftovers(directory: Path) -> None:
    """Remove the journal and temporary files, which a kill in the last step leaves behind."""
    for path in [directory / JOURNAL_FILE, *directory.glob(f".{DATASET_FILE}.*.tmp")]:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


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

    if not pairs["train"]:
        raise UserError(f"none of the mazes of {', '.join(files)} can be trained on.")
    train = TaskBatch.from_tasks(*map(list, zip(*pairs["train"], strict=True)))
    hash_N = layout_hashes(train.cells_NHW)
    if test:
        if not pairs["test"]:
            raise UserError(f"none of the mazes of {', '.join(test)} can be tested on.")
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
