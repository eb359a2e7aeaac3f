from __future__ import annotations

import dataclasses
import errno
import io
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clew.data.writer as writer
from clew.data.config import DatasetSettings
from clew.data.dataset import DATASET_FILE, UNFINISHED_FILE, open_dataset, verify_dataset
from clew.data.writer import write_dataset
from clew.errors import UserError
from clew.files import read_json, write_json
from clew.mazes.generate import generate
from clew.mazes.maze import Maze, Task
from clew.registry import register

SETTINGS = DatasetSettings("dfs", 4, 4, 0, {"train": 30, "test": 10})
WALLS = DatasetSettings("astar", 6, 5, 0, {"train": 500, "test": 40})


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    directory = tmp_path_factory.mktemp("whole") / "d"
    assert write_dataset(SETTINGS, directory)
    return content(directory)


@pytest.mark.parametrize(("chunk", "workers"), [(5, 1), (7, 2), (1000, None)])
def test_neither_chunks_nor_workers_change_a_byte(
    tmp_path: Path, uninterrupted: dict[str, bytes], chunk: int, workers: int | None
) -> None:
    write_dataset(SETTINGS, tmp_path / "d", chunk=chunk, workers=workers)
    assert content(tmp_path / "d") == uninterrupted


@pytest.fixture(scope="module")
def walls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole") / "astar"
    assert write_dataset(WALLS, directory)
    return directory


@pytest.mark.parametrize(("chunk", "workers"), [(1, 1), (37, 2), (1000, None)])
def test_several_tasks_a_layout_are_the_same_bytes_too(
    tmp_path: Path, walls: Path, chunk: int, workers: int | None
) -> None:
    write_dataset(WALLS, tmp_path / "d", chunk=chunk, workers=workers)
    assert content(tmp_path / "d") == content(walls)


def test_several_tasks_a_layout_are_gone_on_with_after_every_chunk(tmp_path: Path, walls: Path) -> None:
    class Stop(Exception):
        pass

    def stop_after_a_chunk(done: int) -> None:
        if done > reached[-1]:
            reached.append(done)
            raise Stop

    reached = [0]
    while reached[-1] < WALLS.total:
        with pytest.raises(Stop):
            write_dataset(WALLS, tmp_path / "d", chunk=60, progress=stop_after_a_chunk)
    assert len(reached) > 6
    write_dataset(WALLS, tmp_path / "d")
    assert content(tmp_path / "d") == content(walls)


def test_walls_layouts_have_several_tasks_in_train_and_one_in_test(walls: Path) -> None:
    dataset = verify_dataset(walls)  # no layout is in both splits
    tasks = {
        split: [
            (cells.tobytes(), int(start), int(goal))
            for cells, start, goal in zip(mazes.cells_NHW, mazes.start_N, mazes.goal_N, strict=True)
        ]
        for split, mazes in ((split, dataset.split(split)) for split in ("train", "test"))
    }
    assert {split: len(each) for split, each in tasks.items()} == {"train": 500, "test": 40}
    layouts = {split: len({cells for cells, _, _ in each}) for split, each in tasks.items()}
    assert layouts["train"] < 100
    assert layouts["test"] == 40
    assert len(set(tasks["train"])) == 500, "no task is there twice"


def test_one_task_a_layout_is_what_streams_show(tmp_path: Path) -> None:
    settings = DatasetSettings("astar", 6, 5, 0, {"train": 60, "test": 40}, tasks_per_layout="one")
    write_dataset(settings, tmp_path / "d")
    for split in ("train", "test"):
        mazes = open_dataset(tmp_path / "d").split(split)
        streamed = generate("astar", 6, 5, seed=0, first=0, count=len(mazes), split=split)  # type: ignore[arg-type]
        assert np.array_equal(mazes.cells_NHW, streamed.cells_NHW)
        assert np.array_equal(mazes.path, streamed.path)


def test_a_dataset_of_version_0_1_opens(tmp_path: Path) -> None:
    one = DatasetSettings("astar", 6, 5, 0, {"train": 60, "test": 4}, tasks_per_layout="one")
    write_dataset(one, tmp_path / "astar")
    file = tmp_path / "astar" / DATASET_FILE
    older = {name: value for name, value in read_json(file).items() if name != "tasks_per_layout"}
    write_json(file, older, checksum=True)
    assert verify_dataset(tmp_path / "astar").settings == one
    assert not write_dataset(one, tmp_path / "astar")
    with pytest.raises(UserError, match="tasks per layout one and not all"):
        write_dataset(dataclasses.replace(one, tasks_per_layout="all"), tmp_path / "astar")


def run_in_child(work: Callable[[], object]) -> int:
    """Do the work in a copy of this process and give its wait status."""
    return os.waitpid(fork(work), 0)[1]


def fork(work: Callable[[], object]) -> int:
    """Do the work in a copy of this process; its number."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def test_a_kill_at_every_step_and_the_same_bytes(tmp_path: Path, uninterrupted: dict[str, bytes]) -> None:
    """Die just before or just after the k-th time that something is made safe or gets its name, for every k."""

    def write_and_die(directory: Path, k: int) -> None:
        calls, late = 0, k % 2 == 1

        def dying(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **options: Any) -> Any:
                nonlocal calls
                calls += 1
                result = function(*arguments, **options) if late else None
                if calls == k:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result if late else function(*arguments, **options)

            return call

        os.fsync, os.replace, os.unlink = dying(os.fsync), dying(os.replace), dying(os.unlink)
        write_dataset(SETTINGS, directory, chunk=20, workers=1)

    killed = 0
    for k in range(1, 200):
        directory = tmp_path / str(k)
        status = run_in_child(lambda directory=directory, k=k: write_and_die(directory, k))  # type: ignore[misc]
        if not os.WIFSIGNALED(status):
            assert status == 0
            break
        killed += 1
        whole = (directory / DATASET_FILE).exists()
        if not whole:
            with pytest.raises(UserError, match="half made"):
                open_dataset(directory)
        assert write_dataset(SETTINGS, directory, workers=1) is not whole
        assert content(directory) == uninterrupted, k
    assert killed > 25


def test_kills_at_random_moments(tmp_path: Path) -> None:
    """The same with a real process that knows nothing of it, killed again and again."""
    settings = DatasetSettings("astar", 8, 8, 5, {"train": 4000, "test": 300})
    write_dataset(settings, tmp_path / "whole")
    directory = tmp_path / "killed"
    program = (
        "import sys; from pathlib import Path; from clew.data.writer import write_dataset;"
        "from clew.data.config import DatasetSettings as S;"
        "s = S('astar', 8, 8, 5, {'train': 4000, 'test': 300});"
        "write_dataset(s, Path(sys.argv[1]), chunk=2, workers=1,"
        " progress=lambda mazes: print(mazes, flush=True))"
    )
    chance = random.Random(1)
    reached = []
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", program, str(directory)], stdout=subprocess.PIPE, text=True
        ) as run:
            assert run.stdout is not None
            first = run.stdout.readline()
            time.sleep(chance.uniform(0, 0.15))
            run.kill()
            reached.append(int(first))
    assert reached == sorted(reached)  # each went on where the last one was
    assert not (directory / DATASET_FILE).exists()
    write_dataset(settings, directory)
    assert content(directory) == content(tmp_path / "whole")


def half_made(directory: Path, mazes: int = 20, stop_at: int = 20) -> None:
    """Stop after some chunks, as a kill would."""

    class Stop(Exception):
        pass

    def stop(done: int) -> None:
        if done >= stop_at:
            raise Stop

    with pytest.raises(Stop):
        write_dataset(SETTINGS, directory, chunk=mazes, progress=stop)


@pytest.mark.parametrize("damage", [b"", b"not a chunk", None])
def test_a_chunk_that_is_damaged_or_missing_is_made_again(
    tmp_path: Path, uninterrupted: dict[str, bytes], damage: bytes | None
) -> None:
    directory = tmp_path / "d"
    half_made(directory, mazes=10, stop_at=30)
    chunks = sorted(directory.glob(".*.npz"))
    assert len(chunks) == 3
    (directory / ".train.cells.npy.x.tmp").write_bytes(b"half a file")
    if damage is None:
        chunks[1].unlink()
    else:
        chunks[1].write_bytes(chunks[1].read_bytes()[:-40] + damage)
    write_dataset(SETTINGS, directory, chunk=7)
    assert content(directory) == uninterrupted


def test_going_on_with_other_settings_is_refused(tmp_path: Path) -> None:
    half_made(tmp_path / "d")
    with pytest.raises(UserError, match=r"begun with other settings \(seed 0 and not 1\)"):
        write_dataset(DatasetSettings("dfs", 4, 4, 1, SETTINGS.counts), tmp_path / "d")


@pytest.mark.parametrize("begun", [b"[]", b"nonsense", b"\xff", b"7"])
def test_a_half_made_dataset_with_damaged_settings_is_refused(tmp_path: Path, begun: bytes) -> None:
    half_made(tmp_path / "d")
    (tmp_path / "d" / UNFINISHED_FILE).write_bytes(begun)
    with pytest.raises(UserError, match=r"half-made dataset in .* (is damaged; remove|does not describe)"):
        write_dataset(SETTINGS, tmp_path / "d")


def test_a_finished_dataset_is_left_alone(tmp_path: Path, uninterrupted: dict[str, bytes]) -> None:
    directory = tmp_path / "d"
    assert write_dataset(SETTINGS, directory) is True
    assert write_dataset(SETTINGS, directory) is False
    with pytest.raises(UserError, match=r"already holds a dataset with other settings \(counts"):
        write_dataset(DatasetSettings("dfs", 4, 4, 0, {"train": 31, "test": 10}), directory)
    assert content(directory) == uninterrupted


def test_foreign_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds other files"):
        write_dataset(SETTINGS, tmp_path)
    with pytest.raises(UserError, match="is a file"):
        write_dataset(SETTINGS, tmp_path / "notes.txt")
    assert content(tmp_path) == {"notes.txt": b"mine"}


@pytest.mark.parametrize("killed", [False, True])
def test_a_second_process_waits_for_the_first(tmp_path: Path, uninterrupted: dict[str, bytes], killed: bool) -> None:
    directory, begun, waits = tmp_path / "d", tmp_path / "begun", tmp_path / "waits"

    def first(done: int) -> None:
        begun.touch()
        wait_for(waits)

    one = fork(lambda: write_dataset(SETTINGS, directory, chunk=10, progress=first))
    wait_for(begun)
    two = fork(lambda: write_waiting(directory, waits, one if killed else None))
    assert [os.waitpid(child, 0)[1] for child in (one, two)] == [signal.SIGKILL if killed else 0, 0]
    assert content(directory) == uninterrupted


def write_waiting(directory: Path, waits: Path, kill: int | None) -> None:
    """Make the dataset; when that has to wait for another process, touch a file, or kill the other process."""
    sys.stderr = io.StringIO()
    lock = writer.fcntl.flock

    def flock(file: Any, how: int) -> None:
        if not how & writer.fcntl.LOCK_NB:
            assert "waiting for another process" in sys.stderr.getvalue()  # type: ignore[attr-defined]
            waits.touch() if kill is None else os.kill(kill, signal.SIGKILL)
        lock(file, how)

    writer.fcntl.flock = flock  # type: ignore[assignment]
    assert write_dataset(SETTINGS, directory) is (kill is not None)
    assert waits.exists() is (kill is None)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_full_disk_keeps_what_was_made(
    tmp_path: Path, uninterrupted: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / "d"
    save = np.savez

    def full(file: Any, **arrays: Any) -> None:
        if len(list(directory.glob(".*.npz"))) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(file, **arrays)

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        write_dataset(SETTINGS, directory, chunk=20)
    monkeypatch.undo()
    first_seen: list[int] = []
    write_dataset(SETTINGS, directory, progress=first_seen.append)
    assert first_seen[0] == 20
    assert content(directory) == uninterrupted


@pytest.mark.parametrize(
    ("family", "height", "width"), [("dfs", 2, 2), ("dfs", 2, 3), ("astar", 4, 4), ("kruskal", 3, 2)]
)
def test_tiny_mazes_repeat_but_never_across_the_splits(tmp_path: Path, family: str, height: int, width: int) -> None:
    settings = DatasetSettings(family, height, width, 0, {"train": 200, "test": 50})
    write_dataset(settings, tmp_path / "d")
    dataset = verify_dataset(tmp_path / "d")
    layouts = [{cells.tobytes() for cells in dataset.split(split).cells_NHW} for split in ("train", "test")]
    assert len(layouts[1]) < 50  # they do repeat
    assert not layouts[0] & layouts[1]


def test_a_shape_without_test_mazes_leaves_no_folder(tmp_path: Path) -> None:
    """The only 3x3 mazes of this family have no wall at all: one layout, which cannot be on both sides."""
    with pytest.raises(UserError, match="in the test split"):
        write_dataset(DatasetSettings("astar", 3, 3, 0, {"train": 5, "test": 5}), tmp_path / "d")
    assert not (tmp_path / "d").exists()


@register("family", "striped")
class Striped:
    """Wall cells in every other row, start and goal in opposite corners."""

    def generate(self, height: int, width: int, rng: np.random.Generator) -> Task:
        walls = [(row, col) for row in range(1, height, 2) for col in range(width) if rng.random() < 0.6]
        return Task(Maze.from_walls(height, width, walls), (0, 0), (height - 1, width - 1))


@pytest.mark.parametrize("format_name", ["edge-list", "wall-list", "grid"])
def test_a_registered_family_makes_datasets(tmp_path: Path, format_name: str) -> None:
    write_dataset(DatasetSettings("striped", 5, 6, 0, {"train": 30, "test": 5}, format=format_name), tmp_path / "d")
    dataset = verify_dataset(tmp_path / "d")
    assert dataset.settings.format == format_name
    task, path = dataset.split("test")[:5][0]
    assert (path[0], path[-1]) == (task.start, task.goal) == ((0, 0), (4, 5))
