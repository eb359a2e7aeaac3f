from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.data.batch import Batch, CellBatch, TokenBatch, text_seeds
from clew.data.config import DataConfig, DatasetSettings
from clew.data.dataset import Dataset, open_dataset
from clew.data.loader import DatasetLoader, Loader, StreamLoader, batches, sequence_lengths
from clew.data.writer import write_dataset
from clew.errors import UserError
from clew.objectives.config import ObjectiveConfig, ObjectiveName, build_objective
from clew.tokenization.format import format_named
from clew.training.distributed import World
from clew.training.step import draw_part


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
    """The loss of a step is a mean over its asked tokens, so batches sorted by length would weigh all mazes alike."""
    loader = DatasetLoader(dfs_10, "train", "grid", batch_size=64, seed=0)
    length_N = dfs_10.split("train").length_N
    weight_N = np.zeros(len(length_N))  # of each maze in the loss of an epoch, whose steps weigh alike
    for step in range(loader.steps_per_epoch):
        part = draw_part(loader.batch(step), build_objective(ObjectiveConfig(objective)), 0, step, 64, World())
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
            task, path = test.slice(index, index + 1)[0]
            text_seed = text_seeds(dataset.settings.seed, "test", np.array([index]))[0]
            written = kind.encode(task, path, seed=int(text_seed))
            assert vocabulary.decode(tokens) == written.tokens
            assert response == [False] * len(written.prompt) + [True] * len(written.response)


def test_stream_batches(small: Dataset) -> None:
    data = DataConfig(sizes=(5,), width=6, seed=7, format="cell-labels")
    batch = StreamLoader(data, 10).batch(4)
    assert isinstance(batch, CellBatch)
    assert batch.index_B.tolist() == list(range(40, 50))
    # The same seed and side as the dataset's, so the same mazes.
    assert np.array_equal(batch.cells_BHW.numpy(), small.split("train").cells_NHW[40:50])
    assert batch.tokens_BT.sum(1).tolist() == small.split("train").length_N[40:50].tolist()


def test_batches_go_on_from_any_step(small: Dataset) -> None:
    loader = DatasetLoader(small, "train", "edge-list", 100, seed=0)
    assert loader.steps_per_epoch == 4
    straight = list(islice(batches(loader, 0), 9))
    resumed = list(islice(batches(DatasetLoader(small, "train", "edge-list", 100, seed=0), 5), 4))
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
        ({"batch_size": 0}, "batch size of 0"),
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
