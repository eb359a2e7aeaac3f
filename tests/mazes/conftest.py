"""Every perfect maze of a small shape, by trying all sets of passages."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from clew.mazes.maze import Maze


@pytest.fixture(scope="session")
def all_perfect_mazes() -> Callable[[int, int], npt.NDArray[np.uint8]]:
    """(height, width) -> cells_NHW of all of them; 4 for 2x2, 15 for 2x3, 192 for 3x3."""

    @cache
    def enumerate_all(height: int, width: int) -> npt.NDArray[np.uint8]:
        cells = [(row, col) for row in range(height) for col in range(width)]
        passages = [((r, c), (r, c + 1)) for r, c in cells if c + 1 < width]
        passages += [((r, c), (r + 1, c)) for r, c in cells if r + 1 < height]
        mazes = (Maze.from_edges(height, width, chosen) for chosen in combinations(passages, len(cells) - 1))
        return np.stack([maze.cells for maze in mazes if _connects_all(maze)])

    return enumerate_all


def _connects_all(maze: Maze) -> bool:
    """Whether every cell can be reached from the first."""
    seen, waiting = {(0, 0)}, [(0, 0)]
    while waiting:
        for cell in maze.neighbours(waiting.pop()):
            if cell not in seen:
                seen.add(cell)
                waiting.append(cell)
    return len(seen) == maze.height * maze.width
