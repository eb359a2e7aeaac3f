"""Write a dataset, resumable after a kill, and import one from files of mazes.

    write_dataset(settings, Path("data/dfs-10"))  # after a kill, the same call resumes

Mazes are made in chunks, each a file that is written atomically and joined with the others at the end; dataset.json is
written last. A chunk is a function of (settings, split, mazes before it), so the result is the same, byte for byte, as
without a kill. The process that writes holds a lock; others that need the same dataset wait for it.
"""

from __future__ import annotations

import contextlib
import json
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    file_record,
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
from clew.tokenization.read import OnError

if sys.platform != "win32":
    import fcntl

TASKS_A_LAYOUT = 20  # about as many as layouts have whose tasks are all kept
CHUNK_CELLS = 4_000_000  # cells of mazes made at once: a few tens of MB, whatever their shape

Progress = Callable[[int], None]  # called with the number of mazes on disk
# (split, mazes and layouts before, about how many) -> the next tasks of a split, and the number of their layouts
_Make = Callable[[str, int, int, int], tuple[TaskBatch, int]]


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

    def make(split: str, mazes: int, layouts: int, count: int) -> tuple[TaskBatch, int]:
        return _generate(settings, split, layouts, count, workers) if tasks is None else (tasks[split][mazes:], count)

    for split, count in settings.counts.items():
        if count:
            make(split, 0, 0, 1)  # raises early if the shape is too small
    if (directory / DATASET_FILE).exists():
        if found := open_dataset(directory).settings.differences(settings):
            problem = f"{directory} already holds a dataset with other settings ({found})"
            raise UserError(f"{problem}; choose another folder, or remove this one first.")
        _remove_leftovers(directory)
        return False
    _make_folder(directory)
    chunk = chunk or max(1, min(8192, CHUNK_CELLS // (settings.height * settings.width)))
    with _locked(directory, settings):
        if (directory / DATASET_FILE).exists():  # another process has finished it a moment ago
            return write_dataset(settings, directory)
        if tasks is not None:
            _remove(directory, ".*.npz")  # of other mazes
        for split in SPLITS:
            _write_split(directory, settings, split, _make_chunks(directory, settings, split, chunk, make, progress))
        _finish(settings, directory)
    _remove_leftovers(directory)
    return True


def _generate(
    settings: DatasetSettings, split: str, first: int, count: int, workers: int | None
) -> tuple[TaskBatch, int]:
    """Return the tasks of a split from a layout on, about `count`, and the number of their layouts."""
    all_pairs = settings.keeps_all_pairs and split == "train"
    layouts = -(-count // TASKS_A_LAYOUT) if all_pairs else count
    tasks = generate(
        settings.family,
        settings.height,
        settings.width,
        seed=settings.seed,
        first=first,
        count=layouts,
        split="train" if split == "train" else "test",
        workers=workers,
        open_share=settings.open_share,
        draws=MAX_PAIRS if all_pairs else settings.test_draws,
        all_pairs=all_pairs,
        min_path=settings.min_path,
    )
    return tasks, layouts


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
            problem = f"{where} was begun with other settings ({found})"
            raise UserError(f"{problem}; finish it with the same command, or remove the folder first.")
        yield


def _make_chunks(
    directory: Path, settings: DatasetSettings, split: str, chunk: int, make: _Make, progress: Progress
) -> list[Path]:
    """Return the files with the mazes of a split, in order; those that are missing or damaged are made."""
    count, files = settings.counts[split], list[Path]()
    mazes = layouts = path_cells = 0
    before = settings.counts["train"] if split == "test" else 0
    while mazes < count or not files:
        file = directory / f".{split}-{mazes}.npz"
        if not (arrays := _load_chunk(file)):
            progress(before + mazes)
            tasks, made = make(split, mazes, layouts, min(chunk, count - mazes))
            tasks = tasks[: count - mazes]  # the last layout may have more tasks than are wanted
            offset = tasks.offset_N1[bool(files) :] + path_cells  # the first path begins at 0
            values: list[npt.NDArray[Any]] = [tasks.cells_NHW, tasks.start_N, tasks.goal_N, tasks.path, offset]
            arrays = {
                name: array.astype(kind) for (name, kind), array in zip(ARRAY_DTYPES.items(), values, strict=True)
            }
            arrays["layouts"] = np.array(made)
            with atomic_write(file, "wb") as stream:
                np.savez(stream, **arrays)  # type: ignore[arg-type]
        mazes += len(arrays["start"])
        layouts += int(arrays["layouts"])
        path_cells += len(arrays["path"])
        files.append(file)
    progress(before + mazes)
    return files


def _load_chunk(file: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a chunk; none if it is missing or damaged."""
    try:
        with np.load(file) as arrays:
            return dict(arrays)
    except (OSError, ValueError, zipfile.BadZipFile):
        return {}


def _write_split(directory: Path, settings: DatasetSettings, split: str, chunks: list[Path]) -> None:
    path_cells = int(_load_chunk(chunks[-1])["offset"][-1])
    for array, shape in array_shapes(settings, settings.counts[split], path_cells).items():
        with atomic_write(directory / file_name(split, array), "wb") as stream:
            stream.write(npy_head(array, shape))
            for chunk in chunks:
                with np.load(chunk) as arrays:
                    stream.write(arrays[array].tobytes())


def _finish(settings: DatasetSettings, directory: Path) -> None:
    """Check that the splits share no layout, and write dataset.json."""
    files = {name: file_record(directory / name) for name in FILE_NAMES}
    vocabulary = format_named(settings.format).vocabulary(settings.height, settings.width).tokens
    problem = split_problem(Dataset(directory, settings, files))
    assert problem is None, problem  # the generator keeps the splits apart
    description = {**settings.to_json(), "vocabulary": list(vocabulary), "files": files}
    write_json(directory / DATASET_FILE, description, checksum=True)


def _remove(directory: Path, *patterns: str) -> None:
    for pattern in patterns:
        for file in directory.glob(pattern):
            file.unlink(missing_ok=True)


def _remove_leftovers(directory: Path) -> None:
    """Remove what a dataset needs until it is finished, and temporary files that a kill has left."""
    with contextlib.suppress(OSError):
        _remove(directory, ".*.npz", ".*.tmp", UNFINISHED_FILE)


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
    pairs: dict[str, list[tuple[Task, MazePath]]] = {"train": [], "test": []}
    first: Task | None = None
    done = 0
    for split, name in [*(("train", name) for name in files), *(("test", name) for name in test)]:
        where = f"{name}: " if len(files) + len(test) > 1 else ""
        for read in iter_mazes(name, lambda sentence, where=where: on_error(where + sentence)):  # type: ignore[misc]
            first, done = first or read.task, done + 1
            progress(done)
            try:
                if read.task.maze.cells.shape != first.maze.cells.shape:
                    raise UserError(f"a dataset has one size, but this is {read.task.maze} and not {first.maze}.")
                pairs[split].append((read.task, true_path(read.task, read.path, shortest=True)))
            except UserError as error:
                on_error(f"{where}maze {read.number}, line {read.line}: {error}")
    for split, names in (("train", files), ("test", test)):
        if names and not pairs[split]:
            raise UserError(f"none of the mazes of {', '.join(names)} can be used to {split}.")
    splits = {
        split: TaskBatch.from_tasks(*map(list, zip(*found, strict=True))) for split, found in pairs.items() if found
    }
    hash_N = layout_hashes(splits["train"].cells_NHW)
    is_test_N = np.isin(hash_N, layout_hashes(splits["test"].cells_NHW)) if test else is_held_out(hash_N)
    if not test:
        splits["test"] = splits["train"].select(np.flatnonzero(is_test_N))
    splits["train"] = splits["train"].select(np.flatnonzero(~is_test_N))
    if not format:
        only_walls = all(task.maze.has_wall_cells_only for task, _ in [*pairs["train"], *pairs["test"]])
        format = PATH_STAR if splits["train"].height == 1 else "wall-list" if only_walls else "edge-list"
    counts = {split: len(splits[split]) for split in SPLITS}
    settings = DatasetSettings(IMPORTED, splits["train"].height, splits["train"].width, 0, counts, format)
    write_dataset(settings, directory, tasks=splits)
    return settings, int(is_test_N.sum()) if test else 0
