"""A smaller maze in the upper left corner of a larger random one, as the paper tests models of larger mazes.

    larger = embed(tasks, height=20, width=20, seed=0, embedding="cut-off")

Two forms:

- joined, the default: the rest of the larger maze is carved by a randomized depth-first search, and one passage joins
  it to the smaller maze. A perfect maze gives a perfect maze, as in training.
- cut-off, as in the paper's published code: the smaller maze overwrites the corner of a larger depth-first maze, and
  no passage leads out of it. What is left of the larger maze may be in several parts.

In both the smaller maze and its stored path stay as they are, and no path inside becomes shorter. Layouts that
training might have seen are drawn again.

Shape suffixes: N mazes, H rows, W columns of the larger maze.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.mazes.generate import generate_indices
from clew.mazes.layouts import is_held_out, layout_hashes
from clew.mazes.maze import EAST, NORTH, SIDES, SOUTH, WALL, WEST, Cell, TaskBatch, check_shape

Embedding = Literal["joined", "cut-off"]

MAX_DRAWS = 1000


def embed(tasks: TaskBatch, height: int, width: int, seed: int, embedding: Embedding = "joined") -> TaskBatch:
    """The tasks in mazes of `height` rows and `width` columns, all of them of the held-out side."""
    check_shape(height, width)
    if height < tasks.height or width < tasks.width or (height, width) == (tasks.height, tasks.width):
        raise UserError(
            f"mazes of {tasks.height} rows and {tasks.width} columns cannot be put into the corner of mazes of "
            f"{height} rows and {width} columns; give a larger size."
        )
    if embedding == "cut-off":
        cells_NHW = _cut_off(tasks, height, width, seed)
    else:
        small_NHW = tasks.cells_NHW
        cells_NHW = np.stack([_join_held_out(cells, height, width, [seed, i]) for i, cells in enumerate(small_NHW)])

    def moved(index: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        return (index // tasks.width * width + index % tasks.width).astype(np.int32)

    return TaskBatch(cells_NHW, moved(tasks.start_N), moved(tasks.goal_N), moved(tasks.path), tasks.offset_N1)


def _cut_off(tasks: TaskBatch, height: int, width: int, seed: int) -> npt.NDArray[np.uint8]:
    cells_NHW = np.empty((len(tasks), height, width), dtype=np.uint8)
    left_N = np.arange(len(tasks))
    for draw in range(MAX_DRAWS):
        if not len(left_N):
            return cells_NHW
        drawn = generate_indices("dfs", height, width, left_N * MAX_DRAWS + draw, seed=seed, split="any").cells_NHW
        drawn[:, : tasks.height, : tasks.width] = tasks.cells_NHW[left_N]
        drawn[:, tasks.height : tasks.height + 1, : tasks.width] &= np.uint8(255 - NORTH)
        drawn[:, : tasks.height, tasks.width : tasks.width + 1] &= np.uint8(255 - WEST)
        good_N = is_held_out(layout_hashes(drawn))
        cells_NHW[left_N[good_N]] = drawn[good_N]
        left_N = left_N[~good_N]
    raise _none_held_out(height, width)


def _none_held_out(height: int, width: int) -> UserError:
    return UserError(
        f"no held-out maze of {height} rows and {width} columns has this maze in its corner; give a larger size."
    )


def _join_held_out(small: npt.NDArray[np.uint8], height: int, width: int, seed: list[int]) -> npt.NDArray[np.uint8]:
    rng = np.random.default_rng(seed)
    for _ in range(MAX_DRAWS):
        cells_HW = _join_one(small, height, width, rng)
        if is_held_out(layout_hashes(cells_HW[None]))[0]:
            return cells_HW
    raise _none_held_out(height, width)


def _join_one(small: npt.NDArray[np.uint8], height: int, width: int, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
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
