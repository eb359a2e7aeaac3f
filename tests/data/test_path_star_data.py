"""Path-star graphs on disk and as a stream: the same arrays as mazes, one row high."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from forged_data import forge

from clew.data.config import DataConfig, DatasetSettings
from clew.data.dataset import Dataset, open_dataset, verify_dataset
from clew.data.loader import DatasetLoader, StreamLoader
from clew.data.writer import write_dataset
from clew.errors import UserError
from clew.mazes.maze import ABSENT

SETTINGS = DatasetSettings("path-star-2x4", 1, 9, 3, {"train": 120, "test": 30})


@pytest.fixture(scope="module")
def stars(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    directory = tmp_path_factory.mktemp("data") / "stars"
    write_dataset(SETTINGS, directory, chunk=50)
    return open_dataset(directory)


def test_a_dataset_is_sound_and_reads_back(stars: Dataset) -> None:
    assert verify_dataset(stars.directory).settings == SETTINGS
    assert stars.settings.format == "path-star"
    task, path = stars.split("test")[:1][0]
    assert len(path) == 4
    assert task.maze.path_between(task.start, task.goal) == path


def test_no_graph_is_in_both_splits(stars: Dataset) -> None:
    train, test = ({cells.tobytes() for cells in stars.split(name).cells_NHW} for name in ("train", "test"))
    assert not train & test


def test_wrong_graphs_are_found_even_when_the_checksums_fit(stars: Dataset, tmp_path: Path) -> None:
    train = stars.split("train")
    cells, goal, path = train.cells_NHW.copy(), train.goal_N.copy(), train.path.copy()
    unused = int((cells[5, 0] == ABSENT).argmax())
    cells[5, 0, train.goal_N[5]] = unused  # the goal hangs on a label that no node has
    goal[5] = unused
    path[21] = path[22]
    for name, value, words in (
        ("train.cells.npy", cells, "maze 5 has cells that do not fit together"),
        ("train.goal.npy", goal, "maze 5 has its goal at no node"),
        ("train.path.npy", path, "maze 5 has a path that does not lead"),
    ):
        copy = shutil.copytree(stars.directory, tmp_path / name)
        forge(copy, name, value)
        with pytest.raises(UserError, match=words):
            verify_dataset(copy)


def test_an_epoch_holds_every_graph_once(stars: Dataset) -> None:
    loader = DatasetLoader(stars, "train", "path-star", batch_size=32, seed=0)
    seen = torch.cat([loader.batch(step).index_B for step in range(loader.steps_per_epoch)])
    assert sorted(seen.tolist()) == list(range(120))


def test_a_stream_is_the_same_for_one_process_and_two() -> None:
    stream = StreamLoader(DataConfig("stream", "path-star-3x4", (1,), seed=5, format="path-star"), 12)
    whole = stream.batch(7)
    parts = [stream.batch(7, rank, 2) for rank in range(2)]
    for rank, part in enumerate(parts):
        assert torch.equal(part.tokens_BT, whole.tokens_BT[rank::2])
    assert whole.response_BT.sum(1).tolist() == [5] * 12  # four nodes and the end
    assert whole.valid_BT.all()  # nothing is padded


@pytest.mark.parametrize(
    ("family", "shape", "form", "says"),
    [
        ("path-star-2x4", (1, 9), "grid", "grid text is for mazes"),
        ("dfs", (4, 4), "path-star", "path-star text is for path-star graphs"),
        ("path-star-2x4", (1, 6), "", "too few for the 7 nodes"),
    ],
)
def test_settings_refuse_what_does_not_fit(family: str, shape: tuple[int, int], form: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        DatasetSettings(family, *shape, 0, {"train": 1, "test": 0}, form)
