"""Where batches come from: the same mazes however many share them, sizes that grow, and what is held out."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from clew.data.batch import CellBatch
from clew.data.config import DataConfig
from clew.data.dataset import open_dataset
from clew.data.loader import StreamLoader, build_loader, dataset_settings, held_out_draws, held_out_tasks, make_dataset
from clew.data.writer import write_dataset
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.layouts import layout_hashes
from clew.objectives.config import ObjectiveConfig, build_objective
from clew.training.distributed import World
from clew.training.step import draw_part


def mixed(grow_steps: int | None = None, seed: int = 0) -> StreamLoader:
    data = DataConfig(sizes=(2, 3, 6), format="cell-labels", seed=seed)
    if grow_steps is not None:
        data = dataclasses.replace(data, mixture="grow", grow_steps=grow_steps)
    return StreamLoader(data, batch_size=4)


def test_a_step_has_as_many_cells_whatever_its_size() -> None:
    loader = mixed()
    found = {}
    for step in range(20):
        batch = loader.batch(step)
        assert isinstance(batch, CellBatch)
        assert len(batch) == loader.batch_size(step)
        found[batch.cells_BHW.shape[1]] = len(batch)
    assert found == {2: 36, 3: 16, 6: 4}  # 144 cells each


def test_sizes_are_drawn_evenly_or_grow() -> None:
    count = np.bincount([mixed().shape_number(step) for step in range(600)], minlength=3)
    assert count.min() > 150
    growing = [mixed(grow_steps=300).shape_number(step) for step in range(600)]
    assert set(growing[:100]) == {0}
    assert set(growing[100:200]) == {0, 1}
    assert set(growing[200:]) == {0, 1, 2}
    assert growing != [mixed(grow_steps=300, seed=1).shape_number(step) for step in range(600)]


def test_processes_share_a_step_of_any_shape() -> None:
    loader = mixed()
    for step in range(5):
        whole = loader.batch(step)
        assert isinstance(whole, CellBatch)
        for rank in range(3):
            part = loader.batch(step, rank, 3)
            assert isinstance(part, CellBatch)
            assert torch.equal(part.index_B, whole.index_B[rank::3])
            assert torch.equal(part.cells_BHW, whole.cells_BHW[rank::3])


@pytest.mark.parametrize("world_size", [2, 3])
def test_a_maze_of_a_dataset_is_asked_the_same_by_one_process_and_by_many(tmp_path: Path, world_size: int) -> None:
    data = DataConfig("dataset", sizes=(5,), folder=str(tmp_path / "data"), mazes=40)
    make_dataset(data)
    loader, objective = build_loader(data, batch_size=14, seed=0), build_objective(ObjectiveConfig())

    def asked(step: int, world: World) -> dict[int, list[int]]:
        """The places of each maze that are asked for."""
        batch = loader.batch(step, world.rank, world.size)
        part = draw_part(batch, objective, 0, step, loader.batch_size(step), world)
        query_BT = part.targets.query_BT
        return {int(i): row.nonzero()[:, 0].tolist() for i, row in zip(batch.index_B, query_BT, strict=True)}

    for step in range(3):
        shared: dict[int, list[int]] = {}
        for rank in range(world_size):
            shared |= asked(step, World(rank, world_size))
        assert shared == asked(step, World())


def test_a_dataset_is_made_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = DataConfig("dataset", sizes=(3,), mazes=20)
    assert data.dataset_folder == Path("data/dfs-3")
    assert DataConfig("dataset", sizes=(3,), width=5).dataset_folder == Path("data/dfs-3x5")
    with pytest.raises(UserError, match="does not exist"):
        build_loader(data, 8, 0)
    assert make_dataset(data)
    assert not make_dataset(data)
    assert open_dataset(data.dataset_folder).settings.counts == {"train": 20, "test": 2000}

    loader = build_loader(data, 8, 0)
    assert loader.steps_per_epoch == 3
    assert sorted(i for step in range(3) for i in loader.batch(step).index_B.tolist()) == list(range(20))
    assert [loader.batch_size(step) for step in range(3)] == [len(loader.batch(step)) for step in range(3)]

    with pytest.raises(UserError, match="holds dfs mazes of 3 by 3 of seed 0, but the run is for dfs mazes of 4 by 4"):
        build_loader(DataConfig("dataset", sizes=(4,), folder="data/dfs-3"), 8, 0)
    with pytest.raises(UserError, match="30 mazes cannot be taken"):
        build_loader(DataConfig("dataset", sizes=(3,), mazes=30), 8, 0)
    with pytest.raises(UserError, match="fewer than 2001"):
        held_out_tasks(data, 2001)


def test_held_out_mazes_are_the_same_for_dataset_and_stream_and_never_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dataset, stream = DataConfig("dataset", sizes=(4,), mazes=50), DataConfig(sizes=(4,))
    make_dataset(dataset)
    (from_dataset,), (from_stream,) = held_out_tasks(dataset, 40), held_out_tasks(stream, 40)
    assert np.array_equal(from_dataset.cells_NHW, from_stream.cells_NHW)
    assert np.array_equal(from_dataset.path, from_stream.path)

    trained = StreamLoader(DataConfig(sizes=(4,)), 500).tasks(step=0)
    assert not set(layout_hashes(trained.cells_NHW).tolist()) & set(layout_hashes(from_stream.cells_NHW).tolist())


def test_held_out_walls_tasks_are_those_that_the_training_set_was_made_for(tmp_path: Path) -> None:
    def held_out_of(name: str, **settings: str) -> tuple[DataConfig, Path]:
        data = DataConfig("dataset", "astar", (6,), format="wall-list", folder=str(tmp_path / name), mazes=50)
        write_dataset(dataclasses.replace(dataset_settings(data), **settings), tmp_path / name)  # type: ignore[arg-type]
        return data, tmp_path / name

    stream = held_out_tasks(DataConfig("stream", "astar", (6,), format="wall-list"), 40)[0]
    for name, settings in (("all", {}), ("one", {"tasks_per_layout": "one"})):
        data, folder = held_out_of(name, **settings)
        tasks = held_out_tasks(data, 40)[0]
        draws = held_out_draws("astar", folder)
        again = generate("astar", 6, 6, seed=0, first=0, count=40, split="test", draws=draws)
        assert np.array_equal(tasks.path, again.path)
        assert np.array_equal(tasks.cells_NHW, stream.cells_NHW) == (name == "one")
    assert held_out_draws("astar", tmp_path / "absent") == 1
    assert held_out_draws("astar", None) == held_out_draws("dfs", tmp_path / "all") == 100


def test_held_out_mazes_of_several_sizes() -> None:
    sets = held_out_tasks(DataConfig(sizes=(3, 5), format="cell-labels"), 11)
    assert [(len(tasks), tasks.height) for tasks in sets] == [(6, 3), (6, 5)]
