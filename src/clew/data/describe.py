"""What the tasks of a split are like: layouts, walls, path lengths, and how many have one shortest path.

facts = describe_split(open_dataset("data/walls-10").split("train"))
facts.tasks / facts.layouts, facts.wall_share, facts.path_cells, facts.one_shortest
"""

from __future__ import annotations

from dataclasses import dataclass

from clew.data.dataset import Split
from clew.mazes.maze import WALL
from clew.mazes.solve import one_shortest

BLOCK_CELLS = 4_000_000  # cells of mazes that are read at a time


@dataclass(frozen=True)
class SplitFacts:
    """Shares and means are over tasks, so a layout with many tasks counts as often."""

    tasks: int
    layouts: int
    wall_share: float  # of the cells
    path_cells: float  # mean number of cells of a path, both ends counted
    one_shortest: float  # share of the tasks with exactly one shortest path


def describe_split(split: Split) -> SplitFacts:
    """Read a split once, in blocks."""
    if not len(split):
        return SplitFacts(0, 0, 0.0, 0.0, 0.0)
    block = max(1, BLOCK_CELLS // (split.height * split.width))
    walls, unique, layouts = 0, 0, set[bytes]()
    for first in range(0, len(split), block):
        tasks = split.slice(first, first + block)
        walls += int((tasks.cells_NHW == WALL).sum())
        unique += int(one_shortest(tasks).sum())
        layouts.update(cells_HW.tobytes() for cells_HW in tasks.cells_NHW)
    return SplitFacts(
        tasks=len(split),
        layouts=len(layouts),
        wall_share=walls / (len(split) * split.height * split.width),
        path_cells=len(split.path) / len(split),
        one_shortest=unique / len(split),
    )
