"""Endless fresh mazes, as a pure function of (seed, step, rank).

    config = StreamConfig(family="dfs", height=10, width=10, seed=0, batch_size=128)
    tasks = fresh_tasks(config, step=7)                            # the mazes of step 7
    tasks = fresh_tasks(config, step=7, rank=1, world_size=2)      # the second half of the same

The mazes of a step are the same however many processes share them. All are on the train side for ever, so none has a
layout that any test set may hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from clew.mazes.generate import DEFAULT_OPEN_SHARE, generate
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
    """Which of `count` mazes belong to a process: equal parts to within one maze, in order, each maze once."""
    assert 0 <= rank < world_size
    return slice(count * rank // world_size, count * (rank + 1) // world_size)


def fresh_tasks(
    config: StreamConfig, step: int, rank: int = 0, world_size: int = 1, workers: int | None = None
) -> TaskBatch:
    """This process's part of the mazes of a step; a maze's number in the stream is step * batch_size + its place."""
    part = rank_part(config.batch_size, rank, world_size)
    return generate(
        config.family,
        config.height,
        config.width,
        seed=config.seed,
        first=step * config.batch_size + part.start,
        count=part.stop - part.start,
        side="train",
        workers=workers,
        open_share=config.open_share,
    )
