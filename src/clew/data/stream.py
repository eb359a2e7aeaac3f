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


def rank_part(count: int, rank: int, world_size: int) -> slice:
    """The rows of a global batch that belong to a process: every world_size-th, so counts differ by at most one."""
    assert 0 <= rank < world_size
    return slice(rank, count, world_size)


def fresh_tasks(
    config: StreamConfig, step: int, rank: int = 0, world_size: int = 1, workers: int | None = None
) -> TaskBatch:
    """This process's part of the mazes of a step; a maze's number in the stream is step * batch_size + its row."""
    part = rank_part(config.batch_size, rank, world_size)
    return generate_indices(
        config.family,
        config.height,
        config.width,
        np.arange(config.batch_size, dtype=np.uint64)[part] + np.uint64(step * config.batch_size),
        seed=config.seed,
        side="train",
        workers=workers,
        open_share=config.open_share,
    )
