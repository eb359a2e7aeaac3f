"""Maze, PathStar, Task and TaskBatch: the types that every other module works on.

    maze = Maze.from_edges(2, 2, [((0, 0), (0, 1)), ((0, 1), (1, 1))])
    task = Task(maze, start=(0, 0), goal=(1, 1))
    len(batch), batch[0]                      # a TaskBatch gives (task, path) pairs, and smaller batches for slices

A cell is (row, col), row 0 at the top; its index is row * width + col. A path-star graph is a maze of one row, in which
node v is cell (0, v) and an edge may join any two cells, so batches, datasets, decoders and scores treat both alike.

Shape suffixes: N mazes, H rows, W columns, V labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, overload

import numpy as np
import numpy.typing as npt

from clew.errors import UserError, counted

# The open sides of a cell, one bit each, and the mark of a solid cell; a free cell may have no open side either.
NORTH, SOUTH, WEST, EAST, WALL = 1, 2, 4, 8, 16
# side -> (row step, column step, the same passage seen from the other cell)
SIDES = {NORTH: (-1, 0, SOUTH), SOUTH: (1, 0, NORTH), WEST: (0, -1, EAST), EAST: (0, 1, WEST)}

MIN_SIDE, MAX_SIDE = 2, 255  # an index must fit 16 bits on disk
# In a path-star graph: no node has this label. Labels must fit a byte beside it.
ABSENT = 255
MIN_LABELS, MAX_LABELS = 2, 255

Cell = tuple[int, int]
Path = list[Cell]
Edge = tuple[Cell, Cell]
Cells = npt.NDArray[np.uint8]


def check_shape(height: int, width: int) -> None:
    """Raise UserError unless a maze may have this many rows and columns."""
    if not (MIN_SIDE <= height <= MAX_SIDE and MIN_SIDE <= width <= MAX_SIDE):
        raise UserError(
            f"a maze of {counted(height, 'row')} and {counted(width, 'column')} is outside what Clew handles: "
            f"use between {MIN_SIDE} and {MAX_SIDE} for each."
        )


def check_labels(labels: int) -> None:
    """Raise UserError unless a path-star graph may draw its labels from so many."""
    if not MIN_LABELS <= labels <= MAX_LABELS:
        raise UserError(
            f"{labels} labels are outside what Clew handles in a path-star graph: use {MIN_LABELS} to {MAX_LABELS}."
        )


def _check_inside(what: str, cell: Cell, height: int, width: int) -> None:
    if not (0 <= cell[0] < height and 0 <= cell[1] < width):
        raise UserError(f"{what} {cell} lies outside the maze of {height} rows and {width} columns.")


def _svg(shown: Maze | Task) -> str:
    from clew.viz.drawing import task_svg

    return task_svg(shown)


@dataclass(frozen=True, eq=False)
class Maze:
    """A grid of cells; `cells[row, col]` holds the open sides of a cell, or WALL."""

    cells: Cells
    cell_word: ClassVar[str] = "cell"  # what messages call a cell
    solid: ClassVar[int] = WALL  # what marks a cell that no path enters

    def __post_init__(self) -> None:
        cells = np.array(self.cells, dtype=np.uint8, order="C")  # a copy, so that a maze cannot be changed from outside
        if cells.ndim != 2:
            raise UserError(f"a maze is a grid of rows and columns, not an array of {cells.ndim} dimensions.")
        self._check(cells)
        cells.flags.writeable = False
        object.__setattr__(self, "cells", cells)

    def _check(self, cells: Cells) -> None:
        check_shape(*cells.shape)
        if (bad_HW := misfits(cells[None])[0]).any():
            row, col = np.argwhere(bad_HW)[0].tolist()
            raise UserError(
                f"cell {(row, col)} holds {cells[row, col]}, which does not fit: a cell has open sides (0 to 15), each "
                "towards a cell that is open on the opposite side, or is a wall (16)."
            )

    @classmethod
    def from_edges(cls, height: int, width: int, edges: Iterable[Edge]) -> Maze:
        """Return the maze without wall cells whose passages are the given pairs of neighbouring cells."""
        check_shape(height, width)
        cells = np.zeros((height, width), dtype=np.uint8)
        for a, b in edges:
            for cell in (a, b):
                _check_inside("cell", cell, height, width)
            side = next((side for side, (down, right, _) in SIDES.items() if b == (a[0] + down, a[1] + right)), 0)
            if not side:
                raise UserError(f"cells {a} and {b} are not neighbours, so no passage can join them.")
            cells[a] |= side
            cells[b] |= SIDES[side][2]
        return cls(cells)

    @classmethod
    def from_walls(cls, height: int, width: int, walls: Iterable[Cell]) -> Maze:
        """Return the maze in which the given cells are solid and all others are open towards each other."""
        check_shape(height, width)
        solid = np.zeros((height, width), dtype=bool)
        for cell in walls:
            _check_inside("wall cell", cell, height, width)
            solid[cell] = True
        return cls(cells_from_solid(solid))

    @property
    def height(self) -> int:
        return int(self.cells.shape[0])

    @property
    def width(self) -> int:
        return int(self.cells.shape[1])

    @property
    def has_wall_cells_only(self) -> bool:
        """Whether all neighbouring free cells are open to each other, so that the wall cells determine the maze."""
        return self.height > 1 and np.array_equal(self.cells, cells_from_solid((self.cells & WALL) != 0))

    def __contains__(self, cell: Cell) -> bool:
        return 0 <= cell[0] < self.height and 0 <= cell[1] < self.width

    def index(self, cell: Cell) -> int:
        return cell[0] * self.width + cell[1]

    def is_wall(self, cell: Cell) -> bool:
        """Return whether a cell is solid, or no node of a graph has this label."""
        return bool(self.cells[cell] == self.solid)

    def is_open(self, a: Cell, b: Cell) -> bool:
        """Return whether one step leads from `a` to `b`."""
        return a in self and b in self.neighbours(a)

    def neighbours(self, cell: Cell) -> Iterator[Cell]:
        """Yield the cells that one step leads to."""
        sides = int(self.cells[cell])
        return ((cell[0] + down, cell[1] + right) for side, (down, right, _) in SIDES.items() if sides & side)

    def name(self, cell: Cell) -> str:
        return str(cell)

    def step_problem(self, here: Cell, there: Cell) -> str | None:
        """Return why no step leads from `here` to `there`, as the end of a sentence; None if one does."""
        if self.is_open(here, there):
            return None
        if there not in self:
            return ", outside the maze."
        if abs(here[0] - there[0]) + abs(here[1] - there[1]) != 1:
            return ", which is not a neighbour."
        return ", a wall cell." if self.is_wall(there) else " through a wall."

    def edges(self) -> list[Edge]:
        """Return every passage once, in index order, first cell above or left of the second."""
        cells: Iterable[Cell] = np.ndindex(self.height, self.width)
        return [(cell, there) for cell in cells for there in sorted(self.neighbours(cell)) if there > cell]

    def walls(self) -> list[Cell]:
        """Return every wall cell, in index order."""
        return [cell for cell in np.ndindex(self.height, self.width) if self.is_wall(cell)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Maze) and np.array_equal(self.cells, other.cells)

    def __hash__(self) -> int:
        return hash((self.cells.shape, self.cells.tobytes()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.height}x{self.width}, {len(self.edges())} edges)"

    _repr_svg_ = _svg


class PathStar(Maze):
    """A tree of labelled nodes whose edges lead away from a centre: a maze of one row, node v being cell (0, v).

    `cells[0, v]` is the label of the node before v on the way from the centre, v itself at the centre, and ABSENT where
    no node has the label v. `clew generate path-star` makes arms of equal length; any other tree may be read.
    """

    cell_word = "node"
    solid = ABSENT

    def _check(self, cells: Cells) -> None:
        if cells.shape[0] != 1:
            raise UserError(f"a path-star graph is one row of labels, not an array of shape {cells.shape}.")
        check_labels(cells.shape[1])
        if layout_problems(cells[None])[0]:
            raise UserError("the edges do not lead away from one centre without cycles: check the list of edges.")

    @classmethod
    def from_pairs(cls, labels: int, pairs: Iterable[tuple[int, int]]) -> PathStar:
        """Return the graph whose edges are the given pairs, the node nearer to the centre first."""
        check_labels(labels)
        before: dict[int, int] = {}
        for a, b in pairs:
            for node in (a, b):
                if not 0 <= node < labels:
                    raise UserError(f"node {node} is not among the {labels} labels: use 0 to {labels - 1}.")
            if a == b or b in before:
                raise UserError(
                    f"the edges lead to node {b} from {before.get(b, b)} and from {a}, but they must form a tree, "
                    "centre first."
                )
            before[b] = a
        cells = np.full((1, labels), ABSENT, dtype=np.uint8)
        for b, a in before.items():
            cells[0, b], cells[0, a] = a, before.get(a, a)
        return cls(cells)

    def is_open(self, a: Cell, b: Cell) -> bool:
        return a in self and b in self and a != b and bool(self.cells[a] == b[1] or self.cells[b] == a[1])

    def neighbours(self, cell: Cell) -> Iterator[Cell]:
        return (other for edge in self.edges() if cell in edge for other in edge if other != cell)

    def name(self, cell: Cell) -> str:
        return str(cell[1])

    def step_problem(self, here: Cell, there: Cell) -> str | None:
        return None if self.is_open(here, there) else ", but no edge joins them."

    def edges(self) -> list[Edge]:
        """Return every edge once, the node nearer to the centre first, in the order of the second node's label."""
        befores = enumerate(self.cells[0].tolist())
        return [((0, before), (0, node)) for node, before in befores if before not in (node, ABSENT)]

    def branches(self) -> list[Path]:
        """Return the path from the centre to each leaf, in the order of the leaves' labels."""
        inner = {before for before, _ in self.edges()}
        return [self._from_centre(leaf) for _, leaf in self.edges() if leaf not in inner]

    def path_between(self, start: Cell, goal: Cell) -> Path:
        """Return the only path that visits no node twice."""
        there, back = self._from_centre(start), self._from_centre(goal)
        shared = sum(a == b for a, b in zip(there, back, strict=False))
        return [*reversed(there[shared:]), back[shared - 1], *back[shared:]]

    def _from_centre(self, cell: Cell) -> Path:
        path = [cell]
        while (before := (0, int(self.cells[path[-1]]))) != path[-1]:
            path.append(before)
        return path[::-1]


def layout_problems(cells_NHW: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return which layouts have cells that do not fit together or, of one row, are not trees with one centre."""
    count, height, width = cells_NHW.shape
    if height > 1:
        return np.asarray(misfits(cells_NHW).any((1, 2)))
    before_NV = np.full((count, width + 1), width, dtype=np.int64)  # the last column stands for no label
    before_NV[:, :width] = np.minimum(cells_NHW[:, 0], width)
    is_centre_NV = before_NV[:, :width] == np.arange(width)
    # From every node, as many steps as there are labels lead to the centre, unless there is a cycle.
    for _ in range(width.bit_length()):
        before_NV = np.take_along_axis(before_NV, before_NV, axis=1)  # twice as many at once
    lost_NV = (cells_NHW[:, 0] != ABSENT) & (before_NV[:, :width] != is_centre_NV.argmax(1)[:, None])
    return np.asarray(lost_NV.any(1) | (is_centre_NV.sum(1) != 1))


def misfits(cells_NHW: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return which cells do not fit to their neighbours."""
    _, height, width = cells_NHW.shape
    # With a rim of closed cells, a passage to the outside is one that is open on one side only.
    rim_NHW = np.pad(cells_NHW, ((0, 0), (1, 1), (1, 1)))
    bad_NHW: npt.NDArray[np.bool_] = cells_NHW > WALL
    for side, (down, right, opposite) in SIDES.items():
        there_NHW = rim_NHW[:, 1 + down : 1 + down + height, 1 + right : 1 + right + width]
        bad_NHW |= ((cells_NHW & side) != 0) != ((there_NHW & opposite) != 0)
    return bad_NHW


def maze_of(cells: Cells) -> Maze:
    """Return the maze, or the path-star graph, of a layout."""
    return PathStar(cells) if cells.shape[0] == 1 else Maze(cells)


@dataclass(frozen=True)
class Task:
    """A maze with a start and a goal."""

    maze: Maze
    start: Cell
    goal: Cell

    def __post_init__(self) -> None:
        for name, cell in (("start", self.start), ("goal", self.goal)):
            _check_inside(f"the {name}", cell, self.maze.height, self.maze.width)
            if self.maze.is_wall(cell):
                raise UserError(f"the {name} {cell} is a wall cell; choose a free cell.")

    @property
    def ends(self) -> str:
        unit = "" if isinstance(self.maze, PathStar) else " (row, col)"
        return f"from the start {self.maze.name(self.start)} to the goal {self.maze.name(self.goal)}{unit}"

    _repr_svg_ = _svg


def cells_from_solid(solid: npt.NDArray[np.bool_]) -> Cells:
    """Return the cells of the mazes [..., H, W] with these wall cells, all other neighbours being open."""
    free = np.zeros((*solid.shape[:-2], solid.shape[-2] + 2, solid.shape[-1] + 2), dtype=np.uint8)
    free[..., 1:-1, 1:-1] = ~solid
    cells: Cells = NORTH * free[..., :-2, 1:-1] + SOUTH * free[..., 2:, 1:-1]
    cells += WEST * free[..., 1:-1, :-2] + EAST * free[..., 1:-1, 2:]
    cells[solid] = WALL
    return cells


def offsets(count_N: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return where each of several lists begins when they stand one after the other, and where the last ends."""
    return np.concatenate([[0], np.cumsum(count_N)]).astype(np.int64)


@dataclass(frozen=True, repr=False)
class TaskBatch:
    """Many tasks of one shape with a path each, as arrays; cells are given by their index row * width + col."""

    cells_NHW: npt.NDArray[np.uint8]
    start_N: npt.NDArray[np.int32]
    goal_N: npt.NDArray[np.int32]
    # All paths one after the other; path i is path[offset_N1[i] : offset_N1[i + 1]], both ends included.
    path: npt.NDArray[np.int32]
    offset_N1: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.start_N)

    @property
    def height(self) -> int:
        return int(self.cells_NHW.shape[1])

    @property
    def width(self) -> int:
        return int(self.cells_NHW.shape[2])

    @property
    def length_N(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offset_N1)

    def path_of(self, i: int) -> npt.NDArray[np.int32]:
        return self.path[self.offset_N1[i] : self.offset_N1[i + 1]]

    @overload
    def __getitem__(self, i: int) -> tuple[Task, Path]: ...
    @overload
    def __getitem__(self, i: slice) -> TaskBatch: ...
    def __getitem__(self, i: int | slice) -> tuple[Task, Path] | TaskBatch:
        if isinstance(i, slice):
            return self.select(np.arange(len(self))[i])
        task = Task(maze_of(self.cells_NHW[i]), self.cell(self.start_N[i]), self.cell(self.goal_N[i]))
        return task, [self.cell(index) for index in self.path_of(i % len(self))]

    def __iter__(self) -> Iterator[tuple[Task, Path]]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        what = f"graphs with {self.width} labels" if self.height == 1 else f"mazes of {self.height}x{self.width}"
        return f"TaskBatch({len(self):,} {what}, each with a path)"

    def _repr_svg_(self) -> str | None:
        from clew.viz.drawing import grid_svg

        return grid_svg([(task, path, None, "") for task, path in self[:8]], columns=4) if len(self) else None

    def cell(self, index: int | np.integer) -> Cell:
        return divmod(int(index), self.width)

    def select(self, index_N: npt.NDArray[np.integer]) -> TaskBatch:
        """Return the tasks with these indices, in this order."""
        length_N = self.offset_N1[index_N + 1] - self.offset_N1[index_N]
        offset_N1 = offsets(length_N)
        # The index in `path` of every cell that is kept.
        kept = np.repeat(self.offset_N1[index_N] - offset_N1[:-1], length_N) + np.arange(offset_N1[-1])
        return TaskBatch(
            self.cells_NHW[index_N], self.start_N[index_N], self.goal_N[index_N], self.path[kept], offset_N1
        )

    @classmethod
    def from_tasks(cls, tasks: Sequence[Task], paths: Sequence[Path]) -> TaskBatch:
        """Stack tasks of one shape, at least one, and their paths."""
        assert len({task.maze.cells.shape for task in tasks}) == 1
        index = tasks[0].maze.index
        return cls(
            np.stack([task.maze.cells for task in tasks]),
            np.array([index(task.start) for task in tasks], dtype=np.int32),
            np.array([index(task.goal) for task in tasks], dtype=np.int32),
            np.array([index(cell) for path in paths for cell in path], dtype=np.int32),
            offsets([len(path) for path in paths]),
        )
