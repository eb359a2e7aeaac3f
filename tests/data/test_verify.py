from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from forged_data import forge
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.data.dataset import (
    DATASET_FILE,
    FILE_NAMES,
    HEAD_BYTES,
    Dataset,
    split_problem,
    verify_dataset,
)
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.layouts import layout_hashes
from clew.mazes.maze import WALL


def test_sound_datasets_pass(small: Dataset, small_walls: Dataset) -> None:
    sizes: list[int] = []
    assert verify_dataset(small.directory, sizes.append) == small
    assert sum(sizes) == sum(record["bytes"] for record in small.files.values())
    verify_dataset(small_walls.directory)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_flipped_bit_is_found(
    small: Dataset, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([DATASET_FILE, *FILE_NAMES]))
    original = (small.directory / name).read_bytes()
    position = data.draw(st.integers(0, len(original) - 1))
    flipped = bytearray(original)
    flipped[position] ^= 1 << data.draw(st.integers(0, 7))
    copy = shutil.copytree(small.directory, tmp_path_factory.mktemp("flip") / "d")
    (copy / name).write_bytes(flipped)
    with pytest.raises(UserError) as caught:
        verify_dataset(copy)
    if name != DATASET_FILE:  # a wrong number there may look like another file's fault
        assert name in str(caught.value)
        if position >= HEAD_BYTES and "offset" not in name:  # opening the dataset sees no difference, the checksum does
            assert f"{name} is not as it was written" in str(caught.value)
    shutil.rmtree(copy)


def test_wrong_mazes_are_found_even_when_the_checksums_fit(small: Dataset, tmp_path: Path) -> None:
    train = small.split("train")
    maze = 5
    first, last = train.offset_N1[maze], train.offset_N1[maze + 1]

    def check(name: str, value: np.ndarray, words: str) -> None:
        copy = shutil.copytree(small.directory, tmp_path / name, dirs_exist_ok=True)
        forge(copy, name, value)
        with pytest.raises(UserError, match=words):
            verify_dataset(copy)
        shutil.rmtree(copy)

    cells = train.cells_NHW.copy()
    cells[maze, 0, 0] ^= 1  # opens to the north, outside
    check("train.cells.npy", cells, r"train.cells.npy is wrong: maze 5 has cells that do not fit together")
    cells = train.cells_NHW.copy()
    cells[maze, 2, 2] ^= 8
    check("train.cells.npy", cells, r"maze 5 has cells that do not fit together")
    start = train.start_N.copy()
    start[maze] = 30
    check("train.start.npy", start, r"train.start.npy names a cell outside the maze")
    goal = train.goal_N.copy()
    goal[maze] = (goal[maze] + 1) % 30
    check("train.goal.npy", goal, r"train.path.npy is wrong: maze 5 has a path that does not lead")
    path = train.path.copy()
    path[first:last] = path[first:last][::-1]
    check("train.path.npy", path, r"train.path.npy is wrong: maze 5 has a path that does not lead")
    offset = train.offset_N1.copy()
    offset[maze] = offset[maze + 1]
    check("train.offset.npy", offset, r"train.offset.npy does not match the paths")
    check("test.cells.npy", train.cells_NHW[:40], r"test.(path|cells).npy")


def test_a_start_in_a_wall_is_found(small_walls: Dataset, tmp_path: Path) -> None:
    copy = shutil.copytree(small_walls.directory, tmp_path / "d")
    train = small_walls.split("train")
    start = train.start_N.copy()
    start[3] = (train.cells_NHW[3] == WALL).argmax()
    forge(copy, "train.start.npy", start)
    with pytest.raises(UserError, match=r"train.start.npy is wrong: maze 3 has its start in a wall cell"):
        verify_dataset(copy)


def test_harmless_changes_of_the_description_are_found(small: Dataset, tmp_path: Path) -> None:
    """JSON does not mind another space, but it is not what was written."""
    copy = shutil.copytree(small.directory, tmp_path / "d")
    text = (copy / DATASET_FILE).read_text()
    (copy / DATASET_FILE).write_text(text.replace("\n  ", "\n\t ", 1))
    with pytest.raises(UserError, match=r"dataset.json is not as it was written"):
        verify_dataset(copy)


def test_a_detour_is_found(small_walls: Dataset, tmp_path: Path) -> None:
    """One step back and forth keeps a path valid, but not shortest."""
    copy = shutil.copytree(small_walls.directory, tmp_path / "d")
    train = small_walls.split("train")
    forge(copy, "train.path.npy", np.concatenate([train.path[:2], train.path[:]]))
    offset = train.offset_N1.copy()
    offset[1:] += 2
    forge(copy, "train.offset.npy", offset)
    with pytest.raises(UserError, match=r"train.path.npy is wrong: maze 0 has a path that is not a shortest one"):
        verify_dataset(copy)


def test_overlap_is_found_by_hash_and_by_split() -> None:
    def problem(train: np.ndarray, test: np.ndarray) -> str | None:
        hashes = {"train": layout_hashes(train), "test": layout_hashes(test)}
        splits = {name: SimpleNamespace(layout_hashes=lambda found=found: found) for name, found in hashes.items()}
        return split_problem(SimpleNamespace(split=splits.__getitem__, settings=SimpleNamespace(family="dfs")))

    train = generate("dfs", 6, 6, seed=0, first=0, count=50, split="train").cells_NHW
    test = generate("dfs", 6, 6, seed=0, first=0, count=50, split="test").cells_NHW
    assert problem(train, test) is None
    assert problem(train, test[:0]) is None
    mirrored = np.rot90(test[:1], 2, axes=(1, 2))
    turned = sum(((mirrored & a) != 0) * b for a, b in ((1, 2), (2, 1), (4, 8), (8, 4))).astype(np.uint8)
    both = problem(np.concatenate([train, turned]), test)
    assert both == "1 layouts are both in train and in test"
    fresh = generate("dfs", 6, 6, seed=1, first=0, count=3, split="train").cells_NHW
    both = problem(train, fresh)
    assert both == "0 mazes in train and 3 in test have a layout of the other split"
