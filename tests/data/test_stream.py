from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.data.config import DataConfig
from clew.data.loader import StreamLoader, rank_part
from clew.mazes.generate import FAMILIES, generate
from clew.mazes.layouts import is_held_out, layout_hashes


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
    parts = [range(count)[rank_part(count, rank, world_size)] for rank in range(world_size)]
    assert sorted(i for part in parts for i in part) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_long_rows_have_the_longest_of_several_paths() -> None:
    data = DataConfig(sizes=(6,))
    plain = StreamLoader(data, 40).tasks(step=2).length_N
    mixed = StreamLoader(dataclasses.replace(data, long_share=0.25, longest_of=20), 40).tasks(step=2).length_N
    assert mixed[:30].tolist() == plain[:30].tolist()
    assert mixed[30:].min() > plain.mean()
