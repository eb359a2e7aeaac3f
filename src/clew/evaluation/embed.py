"""A smaller maze in the upper left corner of a larger random one, as the paper tests models of larger mazes.

    larger = embed(tasks, height=20, width=20, seed=0)

The rest of the larger maze is carved by a randomized depth-first search, and one passage joins it to the smaller maze,
which stays as it is. So no path inside the smaller maze becomes shorter, a perfect maze gives a perfect maze, and the
stored path is still the answer. Layouts that training might have seen are drawn again.

Shape suffixes: N mazes, H rows, W columns of the larger maze.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.mazes.layout import is_held_out, layout_hashes
from clew.mazes.maze import EAST, SIDES, SOUTH, WALL, Cell, TaskBatch, check_shape

MAX_DRAWS = 1000


def embed(tasks: TaskBatch, height: int, width: int, seed: int) -> TaskBatch:
    """The tasks in mazes of `height` rows and `width` columns, all of them of the held-out side."""
    check_shape(height, width)
    if height < tasks.height or width < tasks.width or (height, width) == (tasks.height, tasks.width):
        raise UserError(
            f"mazes of {tasks.height} rows and {tasks.width} columns cannot be put into the corner of mazes of "
            f"{height} rows and {width} columns; give a larger size."
        )
    cells_NHW = np.stack([_embed_held_out(cells, height, width, [seed, i]) for i, cells in enumerate(tasks.cells_NHW)])

    def moved(index: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        return (index // tasks.width * width + index % tasks.width).astype(np.int32)

    return TaskBatch(cells_NHW, moved(tasks.start_N), moved(tasks.goal_N), moved(tasks.path), tasks.offset_N1)


def _embed_held_out(small: npt.NDArray[np.uint8], height: int, width: int, seed: list[int]) -> npt.NDArray[np.uint8]:
    rng = np.random.default_rng(seed)
    for _ in range(MAX_DRAWS):
        cells_HW = _embed_one(small, height, width, rng)
        if is_held_out(layout_hashes(cells_HW[None]))[0]:
            return cells_HW
    raise UserError(
        f"no held-out maze of {height} rows and {width} columns has this maze in its corner; give a larger size."
    )


def _embed_one(
    small: npt.NDArray[np.uint8], height: int, width: int, rng: np.random.Generator
) -> npt.NDArray[np.uint8]:
    cells = np.zeros((height, width), dtype=np.uint8)
    rows, cols = small.shape
    cells[:rows, :cols] = small

    def outside(cell: Cell) -> bool:
        return 0 <= cell[0] < height and 0 <= cell[1] < width and (cell[0] >= rows or cell[1] >= cols)

    def join(cell: Cell, side: int) -> Cell:
        """Open a side of a cell, and give the cell behind it."""
        down, right, back = SIDES[side]
        there = (cell[0] + down, cell[1] + right)
        cells[cell] |= side
        cells[there] |= back
        return there

    # One passage from the small maze's lower or right border; a wall cell has no sides to open.
    doors = [((rows - 1, col), SOUTH) for col in range(cols) if rows < height]
    doors += [((row, cols - 1), EAST) for row in range(rows) if cols < width]
    doors = [door for door in doors if not small[door[0]] & WALL]
    if not doors:
        raise UserError("a maze whose lower and right borders are all walls cannot be joined to a larger one.")
    here = join(*doors[int(rng.integers(len(doors)))])
    stack, seen = [here], {here}
    while stack:
        row, col = stack[-1]
        choices = [
            side
            for side, (down, right, _) in SIDES.items()
            if outside((row + down, col + right)) and (row + down, col + right) not in seen
        ]
        if not choices:
            stack.pop()
            continue
        there = join((row, col), choices[int(rng.integers(len(choices)))])
        stack.append(there)
        seen.add(there)
    return cells
