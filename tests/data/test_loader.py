"""Batches of datasets and streams, for any number of processes; held-out mazes; prefetching."""

from __future__ import annotations

import dataclasses
import threading
import time
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.data.batch import Batch, CellBatch, TokenBatch, text_seeds
from clew.data.config import DataConfig, DatasetSettings
from clew.data.dataset import Dataset, open_dataset
from clew.data.loader import (
    DatasetLoader,
    Loader,
    StreamLoader,
    build_loader,
    held_out_draws,
    held_out_tasks,
    make_dataset,
    prefetched,
    rank_rows,
    sequence_lengths,
)
from clew.data.writer import write_dataset
from clew.errors import UserError
from clew.mazes.generate import FAMILIES, generate
from clew.mazes.layouts import is_held_out, layout_hashes
from clew.objectives.builtin import build_objective
from clew.objectives.config import ObjectiveConfig, ObjectiveName
from clew.tokenization.format import format_named
from clew.training.distributed import World
from clew.training.train import local_batch


def rows(batch: Batch) -> list[tuple[int, list[int], list[bool]]]:
    """What each maze of a batch says, without padding."""
    return [
        (int(batch.index_B[i]), batch.tokens_BT[i, keep].tolist(), batch.response_BT[i, keep].tolist())
        for i, keep in enumerate(batch.valid_BT)
    ]


@settings(max_examples=40, deadline=None)
@given(
    batch_size=st.integers(1, 330),
    seed=st.integers(0, 5),
    limit=st.none() | st.integers(1, 303),
    epoch=st.integers(0, 3),
)
def test_every_maze_occurs_exactly_once_an_epoch(
    small: Dataset, batch_size: int, seed: int, limit: int | None, epoch: int
) -> None:
    loader = DatasetLoader(small, "train", "grid", batch_size, seed, limit)
    count = limit or 303
    assert loader.steps_per_epoch == -(-count // batch_size)
    first = epoch * loader.steps_per_epoch
    groups = [loader.indices(step) for step in range(first, first + loader.steps_per_epoch)]
    assert sorted(np.concatenate(groups)) == list(range(count))
    sizes = [len(group) for group in groups]
    assert max(sizes) <= batch_size
    assert max(sizes) - min(sizes) <= 1


def test_epochs_and_seeds_differ_and_access_is_random(small: Dataset) -> None:
    loader = DatasetLoader(small, "train", "grid", 32, seed=0)
    steps = loader.steps_per_epoch
    forward = [loader.indices(step).tolist() for step in range(3 * steps)]
    assert forward[:steps] != forward[steps : 2 * steps]
    backward = [loader.indices(step).tolist() for step in reversed(range(3 * steps))]
    assert forward == backward[::-1]
    assert DatasetLoader(small, "train", "grid", 32, seed=1).indices(0).tolist() != forward[0]


def test_a_batch_is_a_slice_of_a_plain_shuffle(small: Dataset) -> None:
    loader = DatasetLoader(small, "train", "grid", 101, seed=5)
    for epoch in range(2):
        shuffled = np.random.default_rng([5, epoch]).permutation(303)
        for step in range(3):
            found = loader.indices(3 * epoch + step)
            assert sorted(found) == sorted(shuffled[101 * step : 101 * (step + 1)])


@pytest.fixture(scope="module")
def dfs_10(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("data") / "dfs-10"
    write_dataset(DatasetSettings("dfs", 10, 10, 0, {"train": 4096, "test": 0}), folder)
    return open_dataset(folder)


@pytest.mark.parametrize("objective", ["next-token", "mlm-u"])
def test_every_token_has_the_loss_weight_of_a_plain_shuffle(dfs_10: Dataset, objective: ObjectiveName) -> None:
    """The loss of a step is a mean over its queried tokens, so batches sorted by length would weigh all mazes alike."""
    loader = DatasetLoader(dfs_10, "train", "grid", batch_size=64, seed=0)
    length_N = dfs_10.split("train").length_N
    weight_N = np.zeros(len(length_N))  # of each maze in the loss of an epoch, whose steps weigh alike
    for step in range(loader.steps_per_epoch):
        part = local_batch(loader.batch(step), build_objective(ObjectiveConfig(objective)), 0, step, 64, World())
        weight_B = (part.targets.weight_BT * part.targets.query_BT).sum(1).double()
        weight_N[part.batch.index_B] = (weight_B / weight_B.sum()).numpy() / loader.steps_per_epoch
    quarters = np.array_split(length_N.argsort(kind="stable"), 4)
    tokens_N = length_N + 1  # the path and its end
    for quarter in (quarters[0], quarters[-1]):
        expected = tokens_N[quarter].sum() / tokens_N.sum()
        assert weight_N[quarter].sum() == pytest.approx(expected, abs=0.02)
        assert abs(expected - 0.25) > 0.1  # the share with batches of one length


def test_ranks_get_equal_shares_of_long_sequences(dfs_10: Dataset) -> None:
    loader = DatasetLoader(dfs_10, "train", "edge-list", batch_size=64, seed=0)
    for step in range(10):
        tokens = [int(loader.batch(step, rank, 4).valid_BT.sum()) for rank in range(4)]
        longest = int(loader.batch(step).valid_BT.sum(1).max())
        assert max(tokens) - min(tokens) <= longest


@pytest.mark.parametrize("form", ["edge-list", "grid", "cell-labels"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_together_are_one_rank(small: Dataset, form: str, world_size: int) -> None:
    data = DataConfig(sizes=(5,), width=6, seed=1, format=form)
    loaders: list[Loader] = [DatasetLoader(small, "train", form, 16, seed=3), StreamLoader(data, 16)]
    for loader in loaders:
        for step in (0, 7, 40):
            whole = rows(loader.batch(step))
            for rank in range(world_size):
                assert rows(loader.batch(step, rank, world_size)) == whole[rank::world_size]


def test_a_dataset_batch_is_the_text_of_its_mazes(small: Dataset, small_walls: Dataset) -> None:
    for dataset, form in ((small, "edge-list"), (small_walls, "wall-list"), (small_walls, "wall-list-trace")):
        batch = DatasetLoader(dataset, "test", form, 8, seed=0).batch(1)
        assert type(batch) is TokenBatch
        test, kind = dataset.split("test"), format_named(form)
        vocabulary = kind.vocabulary(test.height, test.width)
        for index, tokens, response in rows(batch):
            task, path = test[index : index + 1][0]
            text_seed = text_seeds(dataset.settings.seed, "test", np.array([index]))[0]
            written = kind.encode(task, path, seed=int(text_seed))
            assert vocabulary.decode(tokens) == written.tokens
            assert response == [False] * len(written.prompt) + [True] * len(written.response)


def test_stream_batches(small: Dataset) -> None:
    data = DataConfig(sizes=(5,), width=6, seed=7, format="cell-labels")
    batch = StreamLoader(data, 10).batch(4)
    assert isinstance(batch, CellBatch)
    assert batch.index_B.tolist() == list(range(40, 50))
    # The same seed and split as the dataset's, so the same mazes.
    assert np.array_equal(batch.cells_BHW.numpy(), small.split("train").cells_NHW[40:50])
    assert batch.tokens_BT.sum(1).tolist() == small.split("train").length_N[40:50].tolist()


def test_batches_go_on_from_any_step(small: Dataset) -> None:
    loader = DatasetLoader(small, "train", "edge-list", 100, seed=0)
    assert loader.steps_per_epoch == 4
    straight = list(islice(prefetched(loader, 0), 9))
    resumed = list(islice(prefetched(DatasetLoader(small, "train", "edge-list", 100, seed=0), 5), 4))
    for a, b in zip(straight[5:], resumed, strict=True):
        assert torch.equal(a.tokens_BT, b.tokens_BT)


def test_sequence_lengths_are_the_lengths_of_the_texts(small: Dataset, small_walls: Dataset) -> None:
    for dataset, form in ((small, "edge-list"), (small_walls, "wall-list"), (small, "grid")):
        length_N = sequence_lengths(dataset.split("train"), form, 50)
        loader = DatasetLoader(dataset, "train", form, 50, seed=0, limit=50)
        batch = loader.batch(0)
        difference = batch.valid_BT.sum(1).numpy() - length_N[batch.index_B.numpy()]
        assert (difference == difference[0]).all()  # up to a constant


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"limit": 304}, "304 mazes cannot be taken from the 303 in train"),
        ({"limit": 0}, "0 mazes cannot be taken"),
        ({"batch_size": 0}, "batch of 0 mazes"),
        ({"format_name": "prose"}, "no text format 'prose'"),
    ],
)
def test_impossible_loaders_are_refused(small: Dataset, options: dict[str, object], words: str) -> None:
    good: dict[str, object] = {"split": "train", "format_name": "grid", "batch_size": 4, "seed": 0}
    with pytest.raises(UserError, match=words):
        DatasetLoader(small, **good | options)  # type: ignore[arg-type]


def test_a_wall_list_of_a_maze_without_wall_cells_is_refused(small: Dataset) -> None:
    with pytest.raises(UserError, match="wall-list"):
        DatasetLoader(small, "train", "wall-list", 4, seed=0).batch(0)


def test_no_process_goes_without_mazes(small: Dataset) -> None:
    data = DataConfig(sizes=(5,), width=6, seed=1, format="grid")
    for loader in (DatasetLoader(small, "train", "grid", 3, seed=0), StreamLoader(data, 3)):
        assert len(loader.batch(0, rank=2, world_size=3)) == 1
        with pytest.raises(UserError, match="a batch of 3 mazes cannot be shared by 4 processes"):
            loader.batch(0, rank=3, world_size=4)


@settings(max_examples=25, deadline=None)
@given(
    step=st.integers(0, 2**40),
    world_size=st.integers(1, 5),
    batch_size=st.integers(1, 17),
    family=st.sampled_from(list(FAMILIES)),
    seed=st.integers(0, 2**63 - 1),
    long_share=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_the_global_batch_does_not_depend_on_the_processes(
    step: int, world_size: int, batch_size: int, family: str, seed: int, long_share: float
) -> None:
    data = DataConfig("stream", family, (5,), 4, seed=seed, long_share=long_share, longest_of=3)
    loader = StreamLoader(data, batch_size)
    whole = loader.tasks(step)
    parts = [loader.tasks(step, rank, world_size) for rank in range(world_size)]
    assert len(whole) == batch_size
    for rank, part in enumerate(parts):
        own = whole.select(np.arange(batch_size)[rank::world_size])
        for name in ("cells_NHW", "start_N", "goal_N", "path"):
            assert np.array_equal(getattr(part, name), getattr(own, name))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_stream_never_shows_a_test_layout(family: str) -> None:
    loader = StreamLoader(DataConfig("stream", family, (4,), seed=3), 300)
    hash_N = np.concatenate([layout_hashes(loader.tasks(step).cells_NHW) for step in range(4)])
    assert not is_held_out(hash_N).any()
    test_N = layout_hashes(generate(family, 4, 4, seed=3, first=0, count=300, split="test").cells_NHW)
    assert not np.intersect1d(hash_N, test_N).size


def test_steps_are_fresh() -> None:
    loader = StreamLoader(DataConfig(sizes=(8,)), 64)
    mazes = {cells.tobytes() for step in range(5) for cells in loader.tasks(step).cells_NHW}
    assert len(mazes) == 5 * 64


@given(count=st.integers(0, 1000), world_size=st.integers(1, 64))
def test_parts_cover_everything_once_and_are_equal_to_within_one(count: int, world_size: int) -> None:
    parts = [range(count)[rank_rows(count, rank, world_size)] for rank in range(world_size)]
    assert sorted(i for part in parts for i in part) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_long_rows_have_the_longest_of_several_paths() -> None:
    data = DataConfig(sizes=(6,))
    plain = StreamLoader(data, 40).tasks(step=2).length_N
    mixed = StreamLoader(dataclasses.replace(data, long_share=0.25, longest_of=20), 40).tasks(step=2).length_N
    assert mixed[:30].tolist() == plain[:30].tolist()
    assert mixed[30:].min() > plain.mean()


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
def test_a_maze_of_a_dataset_has_the_same_queries_in_one_process_and_in_many(tmp_path: Path, world_size: int) -> None:
    data = DataConfig("dataset", sizes=(5,), folder=str(tmp_path / "data"), mazes=40)
    make_dataset(data)
    loader, objective = build_loader(data, batch_size=14, seed=0), build_objective(ObjectiveConfig())

    def queries(step: int, world: World) -> dict[int, list[int]]:
        """Return the queried positions of each maze."""
        batch = loader.batch(step, world.rank, world.size)
        part = local_batch(batch, objective, 0, step, loader.batch_size(step), world)
        query_BT = part.targets.query_BT
        return {int(i): row.nonzero()[:, 0].tolist() for i, row in zip(batch.index_B, query_BT, strict=True)}

    for step in range(3):
        shared: dict[int, list[int]] = {}
        for rank in range(world_size):
            shared |= queries(step, World(rank, world_size))
        assert shared == queries(step, World())


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
    with pytest.raises(UserError, match="not 2001"):
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
        made = DatasetSettings("astar", 6, 6, data.seed, {"train": 50, "test": 2000}, **settings)  # type: ignore[arg-type]
        write_dataset(made, tmp_path / name)
        return data, tmp_path / name

    stream = held_out_tasks(DataConfig("stream", "astar", (6,), format="wall-list"), 40)[0]
    for name, changes in (("all", {}), ("one", {"tasks_per_layout": "one"})):
        data, folder = held_out_of(name, **changes)
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


class Counted:
    """A loader whose batch is the step, and which fails at step 7."""

    steps_per_epoch = None

    def __init__(self) -> None:
        self.made: list[int] = []

    def batch(self, step: int, rank: int = 0, world_size: int = 1) -> Any:
        if step == 7:
            raise ValueError("the seventh")
        self.made.append(step)
        return step

    def batch_size(self, step: int) -> int:
        return 1


def alive() -> int:
    return sum(thread.name.startswith("clew-prefetch") for thread in threading.enumerate())


def test_batches_are_made_ahead_in_order_but_not_far() -> None:
    loader = Counted()
    with closing(prefetched(loader, 2)) as ready:
        assert next(ready) == 2
        time.sleep(0.2)
        assert loader.made == [2, 3, 4, 5]  # one taken, three made
        assert [next(ready), next(ready)] == [3, 4]
    assert alive() == 0
    assert list(ready) == []


def test_an_error_of_the_loader_arrives_in_its_place() -> None:
    ready = prefetched(Counted(), 5)
    assert [next(ready), next(ready)] == [5, 6]
    with pytest.raises(ValueError, match="the seventh"):
        next(ready)
    assert alive() == 0


def test_leaving_by_an_exception_stops_the_thread() -> None:
    def use() -> None:
        with closing(prefetched(Counted(), 0)) as ready:
            next(ready)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        use()
    assert alive() == 0
