"""Endless fresh mazes, as a pure function of (seed, step, rank).

    config = StreamConfig(family="dfs", height=10, width=10, seed=0, batch_size=128)
    tasks = fresh_tasks(config, step=7)                            # the mazes of step 7
    tasks = fresh_tasks(config, step=7, rank=1, world_size=2)      # every second one of them

The mazes of a step are the same however many processes share them. All are on the train side for ever, so none has a
layout that any test set may hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clew.mazes.generate import DEFAULT_OPEN_SHARE, generate_indices
from clew.mazes.maze import TaskBatch


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
        side="train",
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
