"""Tasks to evaluate on: held-out mazes or those of a file, embedding in larger mazes, and the check for leakage.

    groups = held_out("dfs", 10, 10, count=2000, seed=0)
    groups = from_file("mazes.txt")                              # one batch for each size
    larger = embed(tasks, height=20, width=20, seed=0)
    check_leakage([tasks], training_layouts(dataset))

The paths of a file are the true ones where it gives them, and otherwise those of the deterministic A*.

`embed` puts each maze into the upper left corner of a larger one, as the paper does to test models of larger mazes:

- joined, the default: the rest of the larger maze is carved by a randomized depth-first search, and one passage joins
  it to the smaller maze. A perfect maze gives a perfect maze, as in training.
- cut-off, as in the paper's published code: the smaller maze overwrites the corner of a larger depth-first maze, and
  no passage leads out of it. The rest of the larger maze may be disconnected.

In both, the smaller maze and its stored path are unchanged, and no path inside becomes shorter.

Every layout belongs to the train split or to the test split (clew.mazes.layouts), equal for rotations and reflections,
and training uses its own split only. A layout of the train split may have been trained on; if the training set is
available, its layouts decide.

Shape suffixes: N mazes, H rows, W columns of the larger maze.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from clew.data.dataset import Dataset
from clew.data.readers import iter_mazes, true_path
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.generators import MAX_PAIRS, star_shape
from clew.mazes.layouts import is_held_out, layout_hashes
from clew.mazes.maze import EAST, NORTH, SIDES, SOUTH, WALL, WEST, Cell, Path, Task, TaskBatch, check_shape
from clew.tokenization.read import OnError

Embedding = Literal["joined", "cut-off"]
MAX_DRAWS = 1000
CHUNK = 4096  # mazes hashed at once


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
    """Return mazes of the test split, plain or embedded in larger square ones.

    `draws` is as in clew.mazes.generate.generate.
    """
    if count < 1:
        raise UserError(f"{count} mazes leave nothing to evaluate; use 1 or more.")
    if embedded_in is not None and star_shape(family) is not None:
        raise UserError(f"{family} graphs cannot be put into the corner of larger mazes; leave --embedded-in out.")
    tasks = generate(family, height, width, seed=seed, first=0, count=count, split="test", draws=draws)
    return [tasks if embedded_in is None else embed(tasks, embedded_in, embedded_in, seed, embedding)]


def default_count(cells: int) -> int:
    """Return how many mazes are evaluated by default: 2,000 of up to 10x10, fewer of larger ones, which take longer."""
    return max(1, min(2000, 2000 * 100**2 // cells**2))


def from_file(file: str, on_error: OnError | None = None) -> list[TaskBatch]:
    """Return the tasks of a file, or of standard input if it is "-", a batch for each size.

    A maze that cannot be read or solved raises a UserError that names its line; with `on_error` it is left out.
    """

    def tasks() -> Iterator[tuple[Task, Path]]:
        for read in iter_mazes(file, on_error):
            try:
                yield read.task, true_path(read.task, read.path)
            except UserError as error:
                if on_error is None:
                    raise UserError(f"line {read.line}: {error}") from None
                on_error(f"maze {read.number}, line {read.line}: {error}")

    return group_tasks(tasks())


def group_tasks(tasks: Iterable[tuple[Task, Path]]) -> list[TaskBatch]:
    """Return tasks with their paths as a batch for each size."""
    groups: dict[tuple[int, ...], list[tuple[Task, Path]]] = {}
    for task, path in tasks:
        groups.setdefault(task.maze.cells.shape, []).append((task, path))
    return [TaskBatch.from_tasks(*map(list, zip(*pairs, strict=True))) for pairs in groups.values()]


@dataclass(frozen=True)
class Leakage:
    """Number of mazes, and number of those whose layout may have been in training."""

    mazes: int
    perhaps_trained: int
    exact: bool  # compared with the training set itself

    def __str__(self) -> str:
        """Return one sentence."""
        if not self.perhaps_trained:
            return f"none of the {self.mazes:,} mazes has a layout that was trained on."
        was = "was in the training set" if self.exact else "belongs to the split that training takes its mazes from"
        return (
            f"the layout of {self.perhaps_trained:,} of the {self.mazes:,} mazes {was}: their scores may be too good."
        )


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
    cells_NHW = dataset.split("train").cells_NHW
    chunks = [layout_hashes(cells_NHW[i : i + CHUNK]) for i in range(0, len(cells_NHW), CHUNK)]
    return np.unique(np.concatenate([np.empty(0, dtype=np.uint64), *chunks]))


def embed(tasks: TaskBatch, height: int, width: int, seed: int, embedding: Embedding = "joined") -> TaskBatch:
    """Return the tasks in the corner of mazes of `height` rows and `width` columns, all of the test split."""
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
        drawn = generate("dfs", height, width, index_N=left_N * MAX_DRAWS + draw, seed=seed, split="any").cells_NHW
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
        """Open a side of a cell, and return the cell behind it."""
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
