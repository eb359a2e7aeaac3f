"""Compiled generators of layouts, of start and goal with their path, and of many tasks (`fill`).

Each layout function overwrites `cells_HW`; a path-star graph is one row (see clew.mazes.maze).

Shape suffixes: H rows, W columns, C = H * W cells by index, P = C + 2 * W, E events, K components or tasks of one
layout, V labels, M = 3 * C layout keys, S = 8 symmetries.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.jit import njit
from clew.mazes.compiled import Stream, begin_stream, below, shuffle_first, unit
from clew.mazes.layouts import HELD_OUT_IN, Keys, layout_hash
from clew.mazes.maze import ABSENT, EAST, NORTH, SOUTH, WALL, WEST, Cells
from clew.mazes.solvers import (
    MAX_EVENTS_PER_CELL,
    Events,
    Indices,
    Scratch,
    astar_scratch,
    search_astar,
    spread,
    spread_arrays,
    write_path,
)

MAX_PAIRS = 100  # draws of start and goal in one layout
PATH_STAR = "path-star"
# In the order of clew.mazes.generate.FAMILIES, and path-star graphs; and of its splits.
DFS, ASTAR, WILSON, KRUSKAL, PERCOLATION, STAR = range(6)
TRAIN, TEST, ANY = range(3)

_SEEN = 32  # a bit that no side uses
_SOUTH, _EAST = 1, 3
_DOWN, _RIGHT = (-1, 1, 0, 0), (0, 0, -1, 1)  # the step to the north, south, west and east


@njit()
def carve_dfs(cells_HW: Cells, state: Stream) -> None:
    """Overwrite `cells_HW` with a perfect maze carved by a depth-first search from a uniform cell."""
    height, width = cells_HW.shape
    # A rim of seen cells around the maze replaces the checks of the border.
    pitch = width + 2
    grid_HW = np.full((height + 2, pitch), _SEEN, dtype=np.uint8)
    grid_HW[1:-1, 1:-1] = 0
    grid = grid_HW.ravel()
    step_of = np.array([-pitch, pitch, -1, 1])  # by side: north, south, west, east
    stack = np.empty(height * width, dtype=np.int64)
    side_4 = np.empty(4, dtype=np.int64)
    first = below(state, height * width)
    here, depth = (first // width + 1) * pitch + first % width + 1, 0
    grid[here] = _SEEN
    while True:
        choices = 0
        for side in range(4):
            side_4[choices] = side  # stays only if counted: a branch would mostly be predicted wrong
            choices += grid[here + step_of[side]] == 0
        if choices == 0:
            if depth == 0:
                break
            depth -= 1
            here = stack[depth]
            continue
        side = side_4[0] if choices == 1 else side_4[below(state, choices)]
        grid[here] |= 1 << side
        stack[depth] = here
        depth += 1
        here += step_of[side]
        grid[here] = 1 << (side ^ 1) | _SEEN  # north and south, west and east are neighbouring bits
    cells_HW[:] = grid_HW[1:-1, 1:-1] & ~_SEEN


@njit()
def carve_wilson(cells_HW: Cells, state: Stream) -> None:
    """Overwrite `cells_HW` with a uniform perfect maze, by Wilson's loop-erased random walks."""
    height, width = cells_HW.shape
    joined_HW = np.zeros((height, width), dtype=np.bool_)
    # The side by which the walk last left each cell. What a loop added is overwritten when the walk comes by again,
    # so that following it from the walk's first cell erases the loops.
    left_by_HW = np.zeros((height, width), dtype=np.uint8)
    cells_HW[:] = 0
    # Any root gives every tree the same chance; walks find the middle soonest.
    joined_HW[height // 2, width // 2] = True
    for first in range(height * width):
        row, col = divmod(first, width)
        while not joined_HW[row, col]:
            side = below(state, 4)
            next_row, next_col = row + _DOWN[side], col + _RIGHT[side]
            if 0 <= next_row < height and 0 <= next_col < width:  # else draw again: uniform over those inside
                left_by_HW[row, col] = side
                row, col = next_row, next_col
        row, col = divmod(first, width)
        while not joined_HW[row, col]:
            joined_HW[row, col] = True
            side = left_by_HW[row, col]
            _open_side(cells_HW, row, col, side)
            row, col = row + _DOWN[side], col + _RIGHT[side]


@njit()
def carve_kruskal(cells_HW: Cells, state: Stream) -> None:
    """Overwrite `cells_HW` with a perfect maze: open passages in random order, each unless it would close a loop."""
    height, width = cells_HW.shape
    cells_HW[:] = 0
    passage, count = np.empty(2 * height * width - height - width, dtype=np.int32), 0  # 4 * cell + side
    for cell in range(height * width):
        for side, is_inside in ((_EAST, cell % width + 1 < width), (_SOUTH, cell // width + 1 < height)):
            if is_inside:
                passage[count] = 4 * cell + side
                count += 1
    shuffle_first(state, passage, count)
    root_C = np.arange(height * width)  # of union-find; a root has itself
    for each in passage:
        cell, side = divmod(each, 4)
        here, there = cell, cell + (1 if side == _EAST else width)
        while root_C[here] != here:
            root_C[here] = root_C[root_C[here]]  # halves the way to the root
            here = root_C[here]
        while root_C[there] != there:
            root_C[there] = root_C[root_C[there]]
            there = root_C[there]
        if here != there:
            root_C[here] = there
            _open_side(cells_HW, cell // width, cell % width, side)


@njit()
def open_passages(cells_HW: Cells, state: Stream, open_share: float) -> None:
    """Overwrite `cells_HW` with a maze in which each passage is open with the chance `open_share`."""
    height, width = cells_HW.shape
    cells_HW[:] = 0
    for row in range(height):
        for col in range(width):
            if col + 1 < width and unit(state) < open_share:
                _open_side(cells_HW, row, col, _EAST)
            if row + 1 < height and unit(state) < open_share:
                _open_side(cells_HW, row, col, _SOUTH)


@njit()
def _open_side(cells_HW: Cells, row: int, col: int, side: int) -> None:
    """Open a passage to the north (side 0), south (1), west (2) or east (3)."""
    cells_HW[row, col] |= 1 << side
    cells_HW[row + _DOWN[side], col + _RIGHT[side]] |= 1 << (side ^ 1)


@njit()
def place_walls(cells_HW: Cells, state: Stream) -> None:
    """Overwrite `cells_HW` with wall cells, their number uniform from 3 * (C // 10) to 5 * (C // 10), at random."""
    height, width = cells_HW.shape
    tenth = height * width // 10
    walls = 3 * tenth + below(state, 2 * tenth + 1)
    order = np.arange(height * width, dtype=np.int32)
    shuffle_first(state, order, walls)
    # 1 where a cell is free, 0 where it is solid and in a rim around the maze. Which cells are solid is random, so sums
    # and products instead of branches, which would mostly be predicted wrong.
    free = np.zeros((height + 2, width + 2), dtype=np.uint8)
    free[1:-1, 1:-1] = 1
    for cell in order[:walls]:
        free[cell // width + 1, cell % width + 1] = 0
    for row in range(height):
        for col in range(width):
            north, south = NORTH * free[row, col + 1], SOUTH * free[row + 2, col + 1]
            west, east = WEST * free[row + 1, col], EAST * free[row + 1, col + 2]
            here = free[row + 1, col + 1]
            cells_HW[row, col] = here * (north + south + west + east) + (1 - here) * WALL


class StarShape(NamedTuple):
    """The number of arms of a path-star graph, and of nodes from its centre to an arm's end."""

    arms: int
    length: int

    @property
    def nodes(self) -> int:
        return self.arms * (self.length - 1) + 1

    @property
    def family(self) -> str:
        return f"{PATH_STAR}-{self.arms}x{self.length}"


def star_shape(family: str) -> StarShape | None:
    """Return the shape that a family's name says, or None if it is no family of path-star graphs."""
    if not f"{family}-".startswith(f"{PATH_STAR}-"):
        return None
    match = re.fullmatch(rf"{PATH_STAR}-([1-9][0-9]{{0,2}})x([1-9][0-9]{{0,2}})", family)
    if not match or min(shape := StarShape(int(match[1]), int(match[2]))) < 2:
        raise UserError(
            f"a family of path-star graphs is named {PATH_STAR}-ARMSxLENGTH, with at least 2 arms and a length of 2, "
            f"such as {PATH_STAR}-2x5; there is no {family}."
        )
    return shape


@njit()
def draw_star(cells_HW: Cells, state: Stream, star: StarShape, label_V: Indices) -> None:
    """Overwrite `cells_HW` with a path-star graph and `label_V` with its labels: the centre's, then arm by arm."""
    arms, length = star
    label_V[:] = np.arange(label_V.size)
    shuffle_first(state, label_V, arms * (length - 1) + 1)
    cells_HW[:] = ABSENT
    cells_HW[0, label_V[0]] = label_V[0]
    for i in range(arms * (length - 1)):
        cells_HW[0, label_V[1 + i]] = label_V[i if i % (length - 1) else 0]


class Request(NamedTuple):
    """What `fill` draws."""

    family: int
    star: StarShape  # of STAR only
    split: int
    seed: int
    open_share: float  # of PERCOLATION only
    min_length: int  # cells of a path
    draws: int  # pairs of start and goal in one layout
    is_perfect: bool  # there is one path between any two cells
    all_pairs: bool  # every good pair is a task, not only the first
    attempts: int  # layouts for one maze


class Workspace(NamedTuple):
    """Arrays that `fill` works in; they serve many mazes of one shape, one after the other."""

    free_C: Indices  # the free cells, or the labels of a graph
    size_C: Indices  # the number of cells of the component that was found from a cell
    from_P: Indices
    queue_C: Indices
    scratch: Scratch
    trace_E4: Events


@njit(nogil=True)
def fill(
    request: Request,
    index_N: npt.NDArray[np.uint64],
    keys_SM: Keys,
    cells_NHW: Cells,
    tasks_N: npt.NDArray[np.int64],
    stop: npt.NDArray[np.bool_],
) -> tuple[Indices, Indices]:
    """Fill `cells_NHW` with layouts and `tasks_N` with their numbers of tasks; return the paths' lengths and cells.

    When a layout cannot be found, set `stop`, which all threads watch, and return.
    """
    count, height, width = cells_NHW.shape
    cell_NC = cells_NHW.reshape(count, height * width)
    state = np.empty(1, dtype=np.uint64)
    cells = height * width
    free_C, size_C = np.empty(cells, dtype=np.int32), np.empty(cells, dtype=np.int32)
    trace_E4 = np.empty((MAX_EVENTS_PER_CELL * cells, 4), dtype=np.int32)
    work = Workspace(free_C, size_C, *spread_arrays(height, width), astar_scratch(height, width), trace_E4)
    most = count * (MAX_PAIRS if request.all_pairs else 1)
    length_K = np.empty(most, dtype=np.int32)
    path = np.empty(most * height * width, dtype=np.int32)  # what is not used takes no memory
    tasks, used = 0, 0
    for i in range(count):
        found, attempt = 0, 0
        while found == 0 and attempt < request.attempts and not stop[0]:
            begin_stream(state, request.seed, index_N[i], attempt)
            attempt += 1
            _draw_layout(request, cells_NHW[i], state, work.free_C)
            if request.split != ANY:
                is_test = layout_hash(cells_NHW[i], keys_SM) % np.uint64(HELD_OUT_IN) == np.uint64(0)
                if is_test != (request.split == TEST):
                    continue
            if request.family == STAR:
                found = _draw_arm(request.star, state, work.free_C, path[used:], length_K[tasks:])
            elif request.is_perfect:
                found = _draw_path(request.min_length, cell_NC[i], width, state, work, path[used:], length_K[tasks:])
            else:
                found = _draw_paths(request, cell_NC[i], width, state, work, path[used:], length_K[tasks:])
        if found == 0:
            stop[0] = True
            break
        tasks_N[i] = found
        for _ in range(found):
            used += length_K[tasks]
            tasks += 1
    return length_K[:tasks].copy(), path[:used].copy()


@njit()
def _draw_layout(request: Request, cells_HW: Cells, state: Stream, label_V: Indices) -> None:
    if request.family == DFS:
        carve_dfs(cells_HW, state)
    elif request.family == ASTAR:
        place_walls(cells_HW, state)
    elif request.family == WILSON:
        carve_wilson(cells_HW, state)
    elif request.family == KRUSKAL:
        carve_kruskal(cells_HW, state)
    elif request.family == PERCOLATION:
        open_passages(cells_HW, state, request.open_share)
    else:
        draw_star(cells_HW, state, request.star, label_V)


@njit()
def _draw_arm(star: StarShape, state: Stream, label_V: Indices, path: Indices, length_K: Indices) -> int:
    """Write the path from the centre to the end of a random arm; return 1."""
    first = below(state, star.arms) * (star.length - 1)
    path[0] = label_V[0]
    path[1 : star.length] = label_V[first + 1 : first + star.length]
    length_K[0] = star.length
    return 1


@njit()
def _draw_path(
    min_length: int, cell_C: Cells, width: int, state: Stream, work: Workspace, path: Indices, length_K: Indices
) -> int:
    """Draw two cells of a perfect maze and write their path; return 1, or 0 if it is too short."""
    start, goal = below(state, cell_C.size), below(state, cell_C.size - 1)
    goal += goal >= start  # any cell but the start
    work.from_P[:] = -1
    spread(cell_C, width, start, work.from_P, work.queue_C, True)
    length_K[0] = write_path(work.from_P[width:], start, goal, path)
    return int(length_K[0] >= min_length)


@njit(_nrt=False)
def _draw_paths(
    request: Request, cell_C: Cells, width: int, state: Stream, work: Workspace, path: Indices, length_K: Indices
) -> int:
    """Draw pairs of free cells, write the A* path of the first good one, or of every one, and return how many."""
    free_C, size_C, from_P, queue_C, scratch, trace_E4 = work
    free = 0
    for cell in range(cell_C.size):
        free_C[free] = cell  # stays only if counted: a branch would mostly be predicted wrong
        free += cell_C[cell] != WALL
    if request.draws > 1:
        from_P[:] = -1
    found, used = 0, 0
    for _ in range(request.draws):
        first = below(state, free)
        second = below(state, free - request.all_pairs)
        start, goal = free_C[first], free_C[second + (request.all_pairs and second >= first)]
        # Most pairs are not connected, and A* would visit a whole component to find that out again and again.
        if request.draws > 1:
            if from_P[start + width] < 0:
                size_C[start] = spread(cell_C, width, start, from_P, queue_C, False)
            component = from_P[start + width]
            if from_P[goal + width] != component or size_C[component] < request.min_length:
                continue
        is_new, begin = True, 0
        for k in range(found):
            is_new &= path[begin] != start or path[begin + length_K[k] - 1] != goal
            begin += length_K[k]
        if not is_new:
            continue
        length, _ = search_astar(cell_C, width, start, goal, scratch, trace_E4)
        if length >= request.min_length:
            write_path(scratch.came_from_C, start, goal, path[used:])
            used += length
            length_K[found] = length
            found += 1
            if not request.all_pairs:
                break
    return found
