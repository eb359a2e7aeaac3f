"""Generators of layouts, one for each family, and the draw of start and goal.

Each generator overwrites `cells_HW` with a fresh layout; that of a path-star graph is one row (see clew.mazes.maze).
`draw_path` draws a pair in a perfect maze, which joins every two cells. `draw_astar_paths` draws pairs in mazes with
loops and unconnected cells, whose A* path is long enough: the first such pair, or every one of 100 draws, as
Searchformer does.

Shape suffixes: H rows, W columns, C = H * W cells by index, P = C + 2 * W, E events, K draws of a pair, V labels.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from clew.errors import UserError
from clew.jit import njit
from clew.mazes.compiled import Stream, below, njit_inline, shuffle_first, unit
from clew.mazes.maze import ABSENT, EAST, NORTH, SOUTH, WALL, WEST, Cells
from clew.mazes.solvers import (
    MAX_EVENTS_PER_CELL,
    Events,
    Indices,
    Scratch,
    astar_scratch,
    search_astar,
    search_breadth_first,
    write_path,
)

MAX_PAIRS = 100  # draws of start and goal in one layout
PATH_STAR = "path-star"

_SEEN = 32  # a bit that no side uses


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
def _root(parent_C: Indices, cell: int) -> int:
    """Return the root of a cell's tree in the union-find forest, halving the path to it."""
    while parent_C[cell] != cell:
        parent_C[cell] = parent_C[parent_C[cell]]
        cell = parent_C[cell]
    return cell


@njit()
def carve_kruskal(cells_HW: Cells, state: Stream) -> None:
    """Overwrite `cells_HW` with a perfect maze: open passages in random order, each unless it would close a loop."""
    height, width = cells_HW.shape
    cells_HW[:] = 0
    # Passage 2 * cell leads east from the cell, 2 * cell + 1 leads south.
    passage = np.empty(2 * height * width - height - width, dtype=np.int32)
    count = 0
    for cell in range(height * width):
        if cell % width + 1 < width:
            passage[count] = 2 * cell
            count += 1
        if cell // width + 1 < height:
            passage[count] = 2 * cell + 1
            count += 1
    shuffle_first(state, passage, count)

    parent_C = np.arange(height * width, dtype=np.int32)
    missing = height * width - 1
    for p in passage:
        here = p // 2
        there = here + (width if p % 2 else 1)
        root, other = _root(parent_C, here), _root(parent_C, there)
        if root == other:
            continue
        parent_C[root] = other
        if p % 2:
            cells_HW[here // width, here % width] |= SOUTH
            cells_HW[there // width, there % width] |= NORTH
        else:
            cells_HW[here // width, here % width] |= EAST
            cells_HW[there // width, there % width] |= WEST
        missing -= 1
        if missing == 0:
            break


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
    for first_row in range(height):
        for first_col in range(width):
            row, col = first_row, first_col
            while not joined_HW[row, col]:
                side = 1 << below(state, 4)
                next_row, next_col = _step(row, col, side)
                if 0 <= next_row < height and 0 <= next_col < width:  # else draw again: uniform over those inside
                    left_by_HW[row, col] = side
                    row, col = next_row, next_col
            row, col = first_row, first_col
            while not joined_HW[row, col]:
                joined_HW[row, col] = True
                side = left_by_HW[row, col]
                cells_HW[row, col] |= side
                row, col = _step(row, col, side)
                # NORTH, SOUTH, WEST, EAST are 1, 2, 4, 8: the opposite is the other of the pair.
                cells_HW[row, col] |= side << 1 if side in (NORTH, WEST) else side >> 1


@njit()
def _step(row: int, col: int, side: int) -> tuple[int, int]:
    if side == NORTH:
        return row - 1, col
    if side == SOUTH:
        return row + 1, col
    if side == WEST:
        return row, col - 1
    assert side == EAST
    return row, col + 1


@njit()
def open_passages(cells_HW: Cells, state: Stream, open_share: float) -> None:
    """Overwrite `cells_HW` with a maze in which each passage is open with the chance `open_share`."""
    height, width = cells_HW.shape
    cells_HW[:] = 0
    for row in range(height):
        for col in range(width):
            if col + 1 < width and unit(state) < open_share:
                cells_HW[row, col] |= EAST
                cells_HW[row, col + 1] |= WEST
            if row + 1 < height and unit(state) < open_share:
                cells_HW[row, col] |= SOUTH
                cells_HW[row + 1, col] |= NORTH


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


class Workspace(NamedTuple):
    """Arrays that the functions below work in; they serve many mazes of one shape, one after the other."""

    path: Indices  # the paths of one layout, one after the other
    end_K: Indices  # where each path ends
    free_C: Indices  # the free cells
    mark_P: Indices  # the component of a cell, counted from 1; its place is the cell's index + W
    queue_C: Indices
    size_K: Indices  # the number of cells of each component
    search: Scratch
    trace_E4: Events


@njit()
def make_workspace(height: int, width: int, paths: int) -> Workspace:
    """Return a workspace for layouts with up to `paths` paths."""
    cells = height * width
    return Workspace(
        np.empty(paths * cells, dtype=np.int32),
        np.empty(paths, dtype=np.int32),
        np.empty(cells, dtype=np.int32),
        np.empty(cells + 2 * width, dtype=np.int32),
        np.empty(cells + 1, dtype=np.int32),
        np.empty(MAX_PAIRS + 1, dtype=np.int32),
        astar_scratch(height, width),
        np.empty((MAX_EVENTS_PER_CELL * cells, 4), dtype=np.int32),
    )


@njit()
def draw_path(cells_HW: Cells, state: Stream, min_length: int, path: Indices, end_K: Indices) -> int:
    """Draw two cells of a perfect maze and write their path; return 1, or 0 if it has fewer than `min_length` cells."""
    start = below(state, cells_HW.size)
    goal = below(state, cells_HW.size - 1)
    if goal >= start:  # any cell but the start
        goal += 1
    came_from_C, _, _ = search_breadth_first(cells_HW, start, goal)
    end_K[0] = write_path(came_from_C, start, goal, path)
    return int(end_K[0] >= min_length)


@njit_inline
def draw_astar_paths(
    cell_C: Cells, width: int, state: Stream, min_length: int, draws: int, all_pairs: bool, workspace: Workspace
) -> int:
    """Draw up to `draws` pairs of free cells, write A* paths of at least `min_length` cells, and return how many.

    The first one alone, or with `all_pairs` that of every pair, each pair once.
    """
    path, end_K, free_C, mark_P, queue_C, size_K, search, trace_E4 = workspace
    free = 0
    for cell in range(cell_C.size):
        free_C[free] = cell  # stays only if counted: a branch would mostly be predicted wrong
        free += cell_C[cell] != WALL
    mark_P[:] = 0
    components, found, used = 0, 0, 0
    for _ in range(draws):
        first = below(state, free)
        second = below(state, free - 1 if all_pairs else free)
        start, goal = free_C[first], free_C[second + (all_pairs and second >= first)]
        # Most pairs are not connected, and A* would visit a whole component to find that out again and again.
        if mark_P[start + width] == 0:
            components += 1
            size_K[components] = _mark_component(cell_C, width, start, components, mark_P, queue_C)
        component = mark_P[start + width]
        if mark_P[goal + width] != component or size_K[component] < min_length:
            continue
        is_new, begin = True, 0
        for k in range(found):
            is_new &= path[begin] != start or path[end_K[k] - 1] != goal
            begin = end_K[k]
        if not is_new:
            continue
        length, _ = search_astar(cell_C, width, start, goal, search, trace_E4)
        if length >= min_length:
            write_path(search.came_from_C, start, goal, path[used:])
            used += length
            end_K[found] = used
            found += 1
            if not all_pairs:
                break
    return found


@njit_inline
def _mark_component(cell_C: Cells, width: int, start: int, mark: int, mark_P: Indices, queue_C: Indices) -> int:
    """Set `mark_P`, 0 before, to `mark` at all cells connected with `start`, and return how many they are."""
    mark_P[start + width] = mark
    queue_C[0] = start
    head, tail = 0, 1
    while head < tail:
        here = queue_C[head]
        head += 1
        sides = cell_C[here]
        for side, there in ((SOUTH, here + width), (NORTH, here - width), (WEST, here - 1), (EAST, here + 1)):
            # Written in any case, to be overwritten unless counted: a branch would mostly be predicted wrong.
            old = mark_P[there + width]
            is_new = ((sides & side) != 0) & (old == 0)
            mark_P[there + width] = mark if is_new else old
            queue_C[tail] = there
            tail += is_new
    return tail


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
def draw_star(cells_HW: Cells, state: Stream, arms: int, length: int, label_V: Indices) -> None:
    """Overwrite `cells_HW` with a path-star graph and `label_V` with its labels: the centre's, then arm by arm."""
    for v in range(label_V.size):
        label_V[v] = v
    shuffle_first(state, label_V, arms * (length - 1) + 1)
    cells_HW[:] = ABSENT
    cells_HW[0, label_V[0]] = label_V[0]
    for i in range(arms * (length - 1)):
        cells_HW[0, label_V[1 + i]] = label_V[i if i % (length - 1) else 0]


@njit()
def draw_star_path(state: Stream, arms: int, length: int, label_V: Indices, path: Indices, end_K: Indices) -> int:
    """Write the path from the centre to the end of a random arm; return 1."""
    first = below(state, arms) * (length - 1)
    path[0] = label_V[0]
    for step in range(1, length):
        path[step] = label_V[first + step]
    end_K[0] = length
    return 1
