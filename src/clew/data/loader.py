"""Endless fresh mazes, as a pure function of (seed, step, rank).

    config = StreamConfig(family="dfs", height=10, width=10, seed=0, batch_size=128)
    tasks = fresh_tasks(config, step=7)                            # the mazes of step 7
    tasks = fresh_tasks(config, step=7, rank=1, world_size=2)      # every second one of them

The mazes of a step are the same however many processes share them. All are on the train side for ever, so none has a
layout that any test set may hold.

Where training takes its batches from: a dataset, epoch after epoch, or a stream of fresh mazes.

    loader = DatasetLoader(open_dataset("data/dfs-10"), "train", "edge-list", batch_size=128, seed=0)
    batch = loader.batch(step, rank, world_size)

A batch is a pure function of (loader, step, rank, world_size), so the step is all there is to save and to resume, and
the global batch of a step is the same mazes however many processes share it.

Shape suffixes: N mazes, S steps of an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from clew.data.batch import Batch, cell_batch, text_seeds, token_batch
from clew.data.dataset import Dataset, Split
from clew.errors import UserError
from clew.mazes.generate import DEFAULT_OPEN_SHARE, generate_indices
from clew.mazes.maze import WALL, TaskBatch
from clew.tokenization.format import format_named


@dataclass(frozen=True)
class StreamConfig:
    """Which fresh mazes; for growing sizes make one config for each shape."""

    family: str
    height: int
    width: int
    seed: int
    batch_size: int  # mazes a step, over all processes
    open_share: float = DEFAULT_OPEN_SHARE  # percolation only
    # This share of the mazes are each the one with the longest path of `longest_of` mazes.
    long_share: float = 0.0
    longest_of: int = 1

    @property
    def long_rows(self) -> int:
        """How many mazes of a step have long paths; they come last."""
        return round(self.long_share * self.batch_size) if self.longest_of > 1 else 0


# Candidates for long paths have numbers of their own, which no other maze of a stream reaches.
_LONG = 1 << 40


def rank_part(count: int, rank: int, world_size: int) -> slice:
    """The rows of a global batch that belong to a process: every world_size-th, so counts differ by at most one."""
    assert 0 <= rank < world_size
    return slice(rank, count, world_size)


def fresh_tasks(
    config: StreamConfig, step: int, rank: int = 0, world_size: int = 1, workers: int | None = None
) -> TaskBatch:
    """This process's part of the mazes of a step; a maze's number in the stream is step * batch_size + its row."""
    row_N = np.arange(config.batch_size)[rank_part(config.batch_size, rank, world_size)]
    number_N = step * config.batch_size + row_N
    is_long_N = row_N >= config.batch_size - config.long_rows
    candidate_LK = _LONG + number_N[is_long_N, None] * config.longest_of + np.arange(config.longest_of)
    ordinary = int((~is_long_N).sum())
    tasks = generate_indices(
        config.family,
        config.height,
        config.width,
        np.concatenate([number_N[~is_long_N], candidate_LK.ravel()]),
        seed=config.seed,
        split="train",
        workers=workers,
        open_share=config.open_share,
    )
    if ordinary == len(row_N):
        return tasks
    place_N = np.empty(len(row_N), dtype=np.int64)
    place_N[~is_long_N] = np.arange(ordinary)
    length_LK = tasks.length_N[ordinary:].reshape(candidate_LK.shape)
    place_N[is_long_N] = ordinary + np.arange(len(length_LK)) * config.longest_of + length_LK.argmax(1)
    return tasks.select(place_N)


# The format whose model reads cells instead of text, so that one model takes mazes of any size.
CELL_LABELS = "cell-labels"
Ints = npt.NDArray[np.int64]


class Loader(Protocol):
    """Gives the batch of any step."""

    def batch(self, step: int, rank: int = 0, world_size: int = 1) -> Batch:
        """This process's part of the global batch of a step."""
        ...


def batches(loader: Loader, first_step: int, rank: int = 0, world_size: int = 1) -> Iterator[Batch]:
    """The batches from a step on, without end."""
    step = first_step
    while True:
        yield loader.batch(step, rank, world_size)
        step += 1


class DatasetLoader:
    """The mazes of a split in shuffled batches, each maze exactly once an epoch.

    The split is permuted anew each epoch and cut into batches. Sequence length does not decide which mazes share a
    batch: the loss is a mean over a batch's tokens, so batches of one length would give a token of a short path more
    weight than one of a long path. Length only orders the rows within a batch, so that processes, which take every
    world_size-th row, get equal shares of long and short sequences, and micro-batches need little padding. Where the
    mazes do not fill the last batch, all batches are a little smaller instead, equal to within one maze.
    """

    def __init__(
        self,
        dataset: Dataset,
        split: str,
        form: str,
        batch_size: int,
        seed: int,
        limit: int | None = None,
    ) -> None:
        """`limit` takes the first mazes of the split only."""
        self._split: Split = dataset.split(split)
        count = len(self._split) if limit is None else limit
        if batch_size < 1:
            raise UserError(f"a batch size of {batch_size} is impossible; use 1 or more.")
        if not 1 <= count <= len(self._split):
            raise UserError(
                f"{count} mazes cannot be taken from the {len(self._split)} in {split} of {dataset.directory}; "
                f"use 1 to {len(self._split)}."
            )
        self._batcher = _Batcher(form, dataset.settings.seed, split)
        self._count, self._seed = count, seed
        self._length_N = sequence_lengths(self._split, form, count)
        self.steps_per_epoch = -(-count // batch_size)
        self._bound_S1: Ints = count * np.arange(self.steps_per_epoch + 1, dtype=np.int64) // self.steps_per_epoch
        self._permuted: tuple[int, Ints] | None = None

    def batch(self, step: int, rank: int = 0, world_size: int = 1) -> Batch:
        index_N = self.indices(step)
        index_N = index_N[_own_part(len(index_N), rank, world_size)]
        return self._batcher(self._split.select(index_N), index_N)

    def indices(self, step: int) -> Ints:
        """The numbers of the mazes in the global batch of a step, the shortest sequence first."""
        assert step >= 0
        epoch, place = divmod(step, self.steps_per_epoch)
        index_N = self._permutation(epoch)[self._bound_S1[place] : self._bound_S1[place + 1]]
        return index_N[self._length_N[index_N].argsort(kind="stable")]

    def _permutation(self, epoch: int) -> Ints:
        if self._permuted is None or self._permuted[0] != epoch:
            self._permuted = epoch, np.random.default_rng([self._seed, epoch]).permutation(self._count)
        return self._permuted[1]


class StreamLoader:
    """Fresh mazes, never the same twice: an epoch that does not end."""

    def __init__(self, config: StreamConfig, form: str, workers: int | None = None) -> None:
        if config.batch_size < 1:
            raise UserError(f"a batch size of {config.batch_size} is impossible; use 1 or more.")
        self._config, self._workers = config, workers
        self._batcher = _Batcher(form, config.seed, "stream")

    def batch(self, step: int, rank: int = 0, world_size: int = 1) -> Batch:
        assert step >= 0
        part = _own_part(self._config.batch_size, rank, world_size)
        tasks = fresh_tasks(self._config, step, rank, world_size, self._workers)
        index_N = np.arange(self._config.batch_size, dtype=np.int64)[part] + step * self._config.batch_size
        return self._batcher(tasks, index_N)


def _own_part(count: int, rank: int, world_size: int) -> slice:
    """`rank_part`, where every process must get a maze: models know no empty batch."""
    if count < world_size:
        raise UserError(f"a batch of {count} mazes cannot be shared by {world_size} processes; use a larger batch.")
    return rank_part(count, rank, world_size)


class _Batcher:
    """Writes tasks in a format, each text from its own seed."""

    def __init__(self, form: str, seed: int, source: str) -> None:
        self._form = format_named(form).name
        self._seed, self._source = seed, source

    def __call__(self, tasks: TaskBatch, index_N: Ints) -> Batch:
        if self._form == CELL_LABELS:
            return cell_batch(tasks, index_N)
        return token_batch(self._form, tasks, text_seeds(self._seed, self._source, index_N), index_N)


def sequence_lengths(split: Split | TaskBatch, form: str, count: int) -> Ints:
    """A number for each of the first `count` mazes that grows with the length of its sequence.

    Every passage, or every wall cell, and every step of a wall-list path take three tokens. The length of a search
    trace is not known before it is run; it grows with the path too.
    """
    length_N: Ints = np.diff(split.offset_N1[: count + 1])
    # All cells are listed in the cell forms, and path-star graphs of one family have as many edges.
    if form in ("grid", CELL_LABELS) or split.height == 1:
        return length_N
    listed_N = np.empty(count, dtype=np.int64)
    block = max(1, 16_000_000 // (split.height * split.width))
    for first in range(0, count, block):
        cells_NHW = split.cells_NHW[first : min(first + block, count)]
        marks_NHW = (cells_NHW & WALL) // WALL if form.startswith("wall-list") else np.bitwise_count(cells_NHW & 15)
        listed_N[first : first + block] = marks_NHW.sum(axis=(1, 2), dtype=np.int64)
    if form.startswith("wall-list"):
        return 3 * listed_N + 3 * length_N
    return 3 * listed_N // 2 + length_N  # both ends of a passage count it
