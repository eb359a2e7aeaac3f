from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.data.batch import cell_batch, encode_tasks, text_seeds
from clew.mazes.generate import generate
from clew.mazes.maze import Task
from clew.mazes.solvers import bfs_path
from clew.tokenization.format import format_named


@settings(max_examples=20, deadline=None)
@given(
    form=st.sampled_from(["edge-list", "wall-list", "wall-list-trace", "grid"]),
    height=st.integers(4, 7),
    width=st.integers(4, 7),
    seed=st.integers(0, 2**63 - 1),
    count=st.integers(1, 9),
)
def test_token_batch_is_the_text_of_every_maze(form: str, height: int, width: int, seed: int, count: int) -> None:
    family = "astar" if form.startswith("wall-list") else "dfs"
    if form.startswith("path-star"):
        family, height, width = "path-star-2x3", 1, width + 1
    tasks = generate(family, height, width, seed=seed, first=0, count=count, split="train")
    index_N = np.arange(count) + 100
    seed_N = text_seeds(seed, "train", index_N)
    batch = encode_tasks(form, tasks, seed_N, index_N)
    vocabulary = format_named(form).vocabulary(height, width)
    assert batch.index_B.tolist() == index_N.tolist()
    for row, (task, path) in enumerate(tasks):
        written = format_named(form).encode(task, path, seed=int(seed_N[row]))
        tokens = batch.tokens_BT[row]
        assert vocabulary.decode(tokens[batch.valid_BT[row]].tolist()) == written.tokens
        assert vocabulary.decode(tokens[batch.response_BT[row]].tolist()) == written.response
        assert written.response[-1] == format_named(form).end_token
    assert batch.tokens_BT.dtype == batch.index_B.dtype == torch.int64
    assert batch.valid_BT.dtype == batch.response_BT.dtype == torch.bool
    assert batch.valid_BT.any(0).all()  # no column of padding only


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**63 - 1), count=st.integers(0, 9))
def test_cell_batch_labels_the_cells_of_the_path_among_those_in_reach(seed: int, count: int) -> None:
    tasks = generate("percolation", 5, 7, seed=seed, first=0, count=count, split="train")
    batch = cell_batch(tasks, np.arange(count))
    for row in range(count):
        path = tasks.path_of(row).tolist()
        assert batch.tokens_BT[row].nonzero()[:, 0].tolist() == sorted(path)
        assert batch.step_BT[row, path].tolist() == list(range(1, len(path) + 1))
        assert (batch.start_B[row], batch.goal_B[row]) == (path[0], path[-1])
        task, _ = tasks[row]
        for cell, reached in enumerate(batch.valid_BT[row].tolist()):
            assert reached == (bfs_path(Task(task.maze, task.start, divmod(cell, 7))) is not None)
    assert torch.equal(batch.valid_BT, batch.response_BT)
    assert batch.tokens_BT.shape == (count, 35)
    assert np.array_equal(batch.cells_BHW.numpy(), tasks.cells_NHW)
    assert batch.cells_BHW.dtype == torch.uint8
    assert batch.start_B.dtype == batch.goal_B.dtype == batch.tokens_BT.dtype == torch.int64


def test_text_seeds_are_a_pure_function_and_all_differ() -> None:
    index_N = np.arange(1000)
    seeds = [text_seeds(seed, source, index_N) for seed in (0, 1) for source in ("train", "test", "stream")]
    assert len(np.unique(np.concatenate(seeds))) == 6000
    assert np.array_equal(text_seeds(0, "train", index_N[::-1]), seeds[0][::-1])
    # Stored nowhere, so they must never change: every text of every dataset would.
    assert text_seeds(0, "train", np.array([0, 1])).tolist() == [4964578127960768432, 5067554077270220563]


def test_an_unknown_source_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        text_seeds(0, "validation", np.array([0]))
