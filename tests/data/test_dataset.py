from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clew.data.config import DatasetSettings
from clew.data.dataset import DATASET_FILE, FILE_NAMES, UNFINISHED_FILE, Dataset, open_dataset
from clew.data.writer import write_dataset
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.maze import TaskBatch


def same(a: TaskBatch, b: TaskBatch) -> bool:
    names = ("cells_NHW", "start_N", "goal_N", "path", "offset_N1")
    return all(
        np.array_equal(getattr(a, n), getattr(b, n)) and getattr(a, n).dtype == getattr(b, n).dtype for n in names
    )


def test_a_split_holds_the_generated_mazes(small: Dataset) -> None:
    made = generate("dfs", 5, 6, seed=7, first=0, count=303, split="train")
    train = small.split("train")
    assert len(train) == 303
    assert (train.height, train.width) == (5, 6)
    assert same(train[:303], made)
    index_N = np.array([302, 0, 17, 17])
    assert same(train.select(index_N), made.select(index_N))
    assert same(train[100:110], made.select(np.arange(100, 110)))
    assert same(train[300:400], made.select(np.arange(300, 303)))
    assert np.array_equal(train.length_N, made.length_N)
    assert same(small.split("test")[:40], generate("dfs", 5, 6, seed=7, first=0, count=40, split="test"))


def test_opening_reads_no_mazes(small: Dataset) -> None:
    """The arrays are mapped: their memory is the file's."""
    for array in (small.split("train").cells_NHW, small.split("train").path):
        base = array
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        assert isinstance(base, np.memmap)
        assert not array.flags.writeable


def test_a_dataset_without_test_mazes(tmp_path: Path) -> None:
    write_dataset(DatasetSettings("dfs", 3, 3, 0, {"train": 5, "test": 0}), tmp_path / "d")
    test = open_dataset(tmp_path / "d").split("test")
    assert len(test) == len(test[:10]) == 0


def test_description(small: Dataset) -> None:
    value = json.loads((small.directory / DATASET_FILE).read_text())
    assert {"family", "height", "width", "seed", "format", "vocabulary", "version", "counts", "files"} <= set(value)
    assert set(value["files"]) == set(FILE_NAMES)
    assert {"(4,5)", "<PATH_END>"} < set(value["vocabulary"])


def edit(name: str, change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda d: (d / name).write_bytes(change((d / name).read_bytes()))


def set_field(name: str, value: object) -> Callable[[Path], object]:
    """Change a field, and leave the checksum out, as someone who means it."""

    def change(text: bytes) -> bytes:
        content = {key: old for key, old in json.loads(text).items() if key != "sha256"}
        return json.dumps(content | {name: value}).encode()

    return edit(DATASET_FILE, change)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda d: shutil.rmtree(d), "does not exist or is a file; make a dataset with `clew generate"),
        (lambda d: (d / DATASET_FILE).unlink(), "holds no dataset"),
        (lambda d: (d / DATASET_FILE).rename(d / UNFINISHED_FILE), "only half made; run the same `clew generate`"),
        (edit(DATASET_FILE, lambda text: text[:100]), "dataset.json is not whole JSON"),
        (edit(DATASET_FILE, lambda text: b""), "dataset.json is empty"),
        (edit(DATASET_FILE, lambda text: b"[]"), "dataset.json does not describe a dataset"),
        (set_field("version", 2), "is of version 2 and this Clew reads version 1"),
        (set_field("format", "prose"), "there is no text format 'prose'"),
        (set_field("family", "spiral"), "'spiral'"),
        (set_field("files", 3), "dataset.json says nothing of train.cells.npy"),
        (set_field("files", {}), "dataset.json says nothing of train.cells.npy"),
        (set_field("height", 6), "train.cells.npy has 9218 bytes instead of 11036"),
        (lambda d: (d / "test.path.npy").unlink(), "test.path.npy is missing"),
        (edit("train.path.npy", lambda data: data[:-1]), "train.path.npy has [0-9]+ bytes instead of"),
        (edit("train.goal.npy", lambda data: b"x" * len(data)), "train.goal.npy does not begin as an array of uint16"),
        (edit("train.goal.npy", lambda data: data.replace(b"<u2", b"<i2")), "train.goal.npy does not begin as"),
        (edit("train.offset.npy", lambda data: data[:-8] + bytes(8)), "train.offset.npy does not match"),
    ],
)
def test_damage_gets_one_sentence(small: Dataset, tmp_path: Path, harm: Callable[[Path], object], words: str) -> None:
    copy = shutil.copytree(small.directory, tmp_path / "copy")
    harm(copy)
    with pytest.raises(UserError, match=words) as caught:
        open_dataset(copy)
    assert "\n" not in str(caught.value)


def test_numpy_reads_the_files(small: Dataset) -> None:
    train = small.split("train")
    for array, values in (("cells", train.cells_NHW), ("path", train.path), ("offset", train.offset_N1)):
        assert np.array_equal(np.load(small.directory / f"train.{array}.npy"), values)


def test_other_wrong_places(small: Dataset) -> None:
    with pytest.raises(UserError, match=r"does not exist or is a file; make a dataset"):
        open_dataset(small.directory / DATASET_FILE)
    with pytest.raises(UserError, match="no split 'validation'"):
        small.split("validation")
