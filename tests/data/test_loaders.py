from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.data.batch import Batch, CellBatch, TokenBatch
from clew.data.batches import text_seeds
from clew.data.dataset import Dataset
from clew.data.loaders import DatasetLoader, Loader, StreamLoader, batches, sequence_lengths
from clew.data.stream import StreamConfig
from clew.errors import UserError
from clew.text.format import format_named


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
    buckets=st.integers(1, 40),
    epoch=st.integers(0, 3),
)
def test_every_maze_occurs_exactly_once_an_epoch(
    small: Dataset, batch_size: int, seed: int, limit: int | None, buckets: int, epoch: int
) -> None:
    loader = DatasetLoader(small, "train", "grid", batch_size, seed, limit, buckets)
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


def test_batches_hold_similar_lengths(small: Dataset) -> None:
    def padding(buckets: int) -> float:
        loader = DatasetLoader(small, "train", "grid", 16, seed=0, buckets=buckets)
        responses = [loader.batch(step).response_BT for step in range(loader.steps_per_epoch)]
        responses = [response_BT[:, response_BT.any(0)] for response_BT in responses]  # prompts are all as long
        return 1 - sum(int(r.sum()) for r in responses) / sum(r.numel() for r in responses)

    assert padding(1) > 0.3
    assert padding(32) < 0.1


def test_batches_of_one_bucket_come_in_no_order_of_length(small: Dataset) -> None:
    loader = DatasetLoader(small, "train", "grid", 16, seed=0)
    length_N = small.split("train").length_N
    means = [length_N[loader.indices(step)].mean() for step in range(loader.steps_per_epoch)]
    assert means != sorted(means)
    assert any(list(length_N[loader.indices(s)]) != sorted(length_N[loader.indices(s)]) for s in range(5))


@pytest.mark.parametrize("form", ["edge-list", "grid", "cell-labels"])
@pytest.mark.parametrize("world_size", [2, 3])
def test_ranks_together_are_one_rank(small: Dataset, form: str, world_size: int) -> None:
    config = StreamConfig("dfs", 5, 6, seed=1, batch_size=16)
    loaders: list[Loader] = [DatasetLoader(small, "train", form, 16, seed=3), StreamLoader(config, form)]
    for loader in loaders:
        for step in (0, 7, 40):
            parts = [loader.batch(step, rank, world_size) for rank in range(world_size)]
            assert [row for part in parts for row in rows(part)] == rows(loader.batch(step))


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
    config = StreamConfig("dfs", 5, 6, seed=7, batch_size=10)
    batch = StreamLoader(config, "cell-labels").batch(4)
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
        ({"form": "prose"}, "no text format 'prose'"),
    ],
)
def test_impossible_loaders_are_refused(small: Dataset, options: dict[str, object], words: str) -> None:
    good: dict[str, object] = {"split": "train", "form": "grid", "batch_size": 4, "seed": 0}
    with pytest.raises(UserError, match=words):
        DatasetLoader(small, **good | options)  # type: ignore[arg-type]


def test_a_wall_list_of_a_maze_without_wall_cells_is_refused(small: Dataset) -> None:
    with pytest.raises(UserError, match="wall-list"):
        DatasetLoader(small, "train", "wall-list", 4, seed=0).batch(0)


def test_no_process_goes_without_mazes(small: Dataset) -> None:
    config = StreamConfig("dfs", 5, 6, seed=1, batch_size=3)
    for loader in (DatasetLoader(small, "train", "grid", 3, seed=0), StreamLoader(config, "grid")):
        assert len(loader.batch(0, rank=2, world_size=3)) == 1
        with pytest.raises(UserError, match="a batch of 3 mazes cannot be shared by 4 processes"):
            loader.batch(0, rank=3, world_size=4)
