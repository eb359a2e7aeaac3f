"""Tasks to evaluate on: held-out mazes or those of a file, embedding in larger mazes, and the check for leakage.

    groups = held_out("dfs", 10, 10, count=2000, seed=0)
    groups = from_file("mazes.txt", on_error=print)              # one batch for each size
    larger = embed(tasks, height=20, width=20, seed=0)
    check_leakage([tasks], training_layouts(dataset))

Shape suffixes: N mazes, H rows, W columns of the larger maze.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from clew.data.dataset import Dataset
from clew.data.readers import iter_mazes, true_path
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.generators import MAX_PAIRS
from clew.mazes.layouts import is_held_out, layout_hashes
from clew.mazes.maze import EAST, NORTH, SIDES, SOUTH, WALL, WEST, Cell, Cells, Path, Task, TaskBatch, check_shape
from clew.tokenization.read import OnError

Embedding = Literal["joined", "cut-off"]
MAX_DRAWS = 1000


def held_out(
    family: str,
    height: int,
    width: int,
    *,
    count: int,
    seed: int,
    embedded_in: int | None = None,
    embedding: Embedding = "joined",
    draws: int = MAX_PAIRS,
) -> list[TaskBatch]:
    """Return mazes of the test split, plain or embedded in larger square ones; `draws` is that of `generate`."""
    if count < 1:
        raise UserError(f"{count} mazes leave nothing to evaluate; use 1 or more.")
    tasks = generate(family, height, width, seed=seed, count=count, split="test", draws=draws)
    return [tasks if embedded_in is None else embed(tasks, embedded_in, embedded_in, seed, embedding)]


def default_count(cells: int) -> int:
    """Return how many mazes are evaluated by default: 2,000 of up to 10x10, fewer of larger ones."""
    return max(1, min(2000, 2000 * 100**2 // cells**2))


def from_file(file: str, on_error: OnError) -> list[TaskBatch]:
    """Return the tasks of a file, or of standard input if it is "-", a batch for each size.

    A maze that cannot be read or solved is left out, and `on_error` is called with a sentence that names its line.
    """

    def tasks() -> Iterator[tuple[Task, Path]]:
        for read in iter_mazes(file, on_error):
            try:
                yield read.task, true_path(read.task, read.path)
            except UserError as error:
                on_error(f"maze {read.number}, line {read.line}: {error}")

    return group_tasks(tasks())


def group_tasks(tasks: Iterable[tuple[Task, Path]]) -> list[TaskBatch]:
    """Return tasks with their paths as a batch for each size."""
    groups: dict[tuple[int, ...], list[tuple[Task, Path]]] = {}
    for task, path in tasks:
        groups.setdefault(task.maze.cells.shape, []).append((task, path))
    return [TaskBatch.from_tasks(*map(list, zip(*pairs, strict=True))) for pairs in groups.values()]


class Leakage(NamedTuple):
    mazes: int
    perhaps_trained: int  # mazes whose layout may have been in training
    exact: bool  # compared with the training set itself

    def __str__(self) -> str:
        """Return one sentence."""
        if not self.perhaps_trained:
            return f"none of the {self.mazes:,} mazes has a layout that was trained on."
        was = "was in the training set" if self.exact else "belongs to the split that training takes its mazes from"
        found = f"the layout of {self.perhaps_trained:,} of the {self.mazes:,} mazes {was}"
        return f"{found}: their scores may be too good."


def check_leakage(groups: Sequence[TaskBatch], training: npt.NDArray[np.uint64] | None = None) -> Leakage:
    """Compare the tasks' layouts with the train split, or with the layouts of a training set."""
    found = 0
    for tasks in groups:
        layout_N = layout_hashes(tasks.cells_NHW)
        trained_N = ~is_held_out(layout_N) if training is None else np.isin(layout_N, training)
        found += int(trained_N.sum())
    return Leakage(sum(len(tasks) for tasks in groups), found, exact=training is not None)


def training_layouts(dataset: Dataset) -> npt.NDArray[np.uint64]:
    """Return the layout hashes of a dataset's training mazes."""
    return np.unique(dataset.split("train").layout_hashes())


def embed(tasks: TaskBatch, height: int, width: int, seed: int, embedding: Embedding = "joined") -> TaskBatch:
    """Return the tasks in the upper left corner of mazes of `height` rows and `width` columns, all of the test split.

    - joined: the rest of the larger maze is carved by a randomized depth-first search, and one passage joins it to the
      smaller maze. A perfect maze gives a perfect maze, as in training.
    - cut-off, as in the paper's published code: the smaller maze overwrites the corner of a larger depth-first maze,
      and no passage leads out of it.

    In both, the smaller maze and its stored path are unchanged, and no path inside becomes shorter.
    """
    check_shape(height, width)
    if tasks.height == 1:
        raise UserError("graphs cannot be put into the corner of larger mazes; leave --embedded-in out.")
    if height < tasks.height or width < tasks.width or (height, width) == (tasks.height, tasks.width):
        raise UserError(
            f"mazes of {tasks.height} rows and {tasks.width} columns cannot be put into the corner of mazes of "
            f"{height} rows and {width} columns; give a larger size."
        )
    embedded = [_embed_one(cells_HW, height, width, seed, i, embedding) for i, cells_HW in enumerate(tasks.cells_NHW)]

    def moved(index: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        return (index // tasks.width * width + index % tasks.width).astype(np.int32)

    return TaskBatch(np.stack(embedded), moved(tasks.start_N), moved(tasks.goal_N), moved(tasks.path), tasks.offset_N1)


def _embed_one(small: Cells, height: int, width: int, seed: int, index: int, embedding: Embedding) -> Cells:
    rng = np.random.default_rng([seed, index])
    for draw in range(MAX_DRAWS):
        if embedding == "joined":
            cells = _join(small, height, width, rng)
        else:
            cells = _overwrite(small, height, width, seed, index * MAX_DRAWS + draw)
        if is_held_out(layout_hashes(cells[None]))[0]:
            return cells
    raise UserError(
        f"no held-out maze of {height} rows and {width} columns has this maze in its corner; give a larger size."
    )


def _overwrite(small: Cells, height: int, width: int, seed: int, index: int) -> Cells:
    rows, cols = small.shape
    cells: Cells = generate("dfs", height, width, first=index, count=1, seed=seed, split="any").cells_NHW[0]
    cells[:rows, :cols] = small
    cells[rows : rows + 1, :cols] &= np.uint8(255 - NORTH)
    cells[:rows, cols : cols + 1] &= np.uint8(255 - WEST)
    return cells


def _join(small: Cells, height: int, width: int, rng: np.random.Generator) -> Cells:
    rows, cols = small.shape
    cells = np.zeros((height, width), dtype=np.uint8)
    cells[:rows, :cols] = small
    left = {(row, col) for row in range(height) for col in range(width) if row >= rows or col >= cols}  # to be carved
    # One passage from the small maze's lower or right border; a wall cell has no sides to open.
    doors = [(rows - 1, col, SOUTH) for col in range(cols)] + [(row, cols - 1, EAST) for row in range(rows)]
    doors = [
        (row, col, side)
        for row, col, side in doors
        if not small[row, col] & WALL and (row + SIDES[side][0], col + SIDES[side][1]) in left
    ]
    if not doors:
        raise UserError("a maze whose lower and right borders are all walls cannot be joined to a larger one.")
    row, col, side = doors[int(rng.integers(len(doors)))]
    stack: list[Cell] = []
    while True:
        down, right, back = SIDES[side]
        cells[row, col] |= side
        row, col = row + down, col + right
        cells[row, col] |= back
        left.remove((row, col))
        stack.append((row, col))
        while not (sides := [bit for bit, (dr, dc, _) in SIDES.items() if (row + dr, col + dc) in left]):
            stack.pop()
            if not stack:
                return cells
            row, col = stack[-1]
        side = sides[int(rng.integers(len(sides)))]
