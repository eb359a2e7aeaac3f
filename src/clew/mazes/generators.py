"""Family `dfs`: a perfect maze carved by a randomized depth-first search.

From a uniform first cell: go on to a uniform unvisited neighbour; where there is none, go back the way you came.

Family `kruskal`: a perfect maze that opens passages in random order, each unless it would close a loop.

Family `wilson`: a perfect maze, every one equally likely, by Wilson's loop-erased random walks.

Family `percolation`: every passage is open with the same chance, by itself: loops, and cells nobody can reach.

Family `astar`: an open field in which 30 to 50 % of the cells, chosen at random, are solid (the A* set).

Start and goal for mazes in which not all cells are connected: pairs whose A* path is long enough.

`draw_astar_task` takes the first good pair of some draws, `draw_all_astar_tasks` every good pair of 100 draws, as
Searchformer does.

Shape suffixes: H rows, W columns, C = H * W cells by index, P = C + 2 * W, E events, K = draws of a pair.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from clew.mazes.jit import njit_inline
from clew.mazes.layouts import mark_component, root_of
from clew.mazes.maze import EAST, NORTH, SOUTH, WALL, WEST, Cells
from clew.mazes.random import Stream, below, shuffle_first, unit
from clew.mazes.solvers import Events, Indices, Scratch, astar_scratch, search_astar, write_path

_SEEN = 32  # a bit that no side uses


@njit(cache=True)
def carve_dfs(cells_HW: Cells, state: Stream) -> None:
    """Overwrite `cells_HW` with a fresh maze."""
    height, width = cells_HW.shape
    # A rim of seen cells around the maze stands in for every check of the border.
    pitch = width + 2
    grid = np.zeros((height + 2) * pitch, dtype=np.uint8)
    grid[:pitch] = _SEEN
    grid[-pitch:] = _SEEN
    for row in range(1, height + 1):
        grid[row * pitch] = _SEEN
        grid[row * pitch + width + 1] = _SEEN

    stack = np.empty(height * width, dtype=np.int32)
    depth = 0
    first = below(state, height * width)
    here = (first // width + 1) * pitch + first % width + 1
    grid[here] = _SEEN
    step_4 = np.empty(4, dtype=np.int64)
    while True:
        # Write every side and advance over the unseen ones only: no branch to guess wrong.
        choices = 0
        step_4[choices] = -pitch
        choices += grid[here - pitch] == 0
        step_4[choices] = pitch
        choices += grid[here + pitch] == 0
        step_4[choices] = -1
        choices += grid[here - 1] == 0
        if grid[here + 1] == 0:
            step_4[choices] = 1
            choices += 1
        if choices == 0:
            if depth == 0:
                break
            depth -= 1
            here = stack[depth]
            continue
        step = step_4[0] if choices == 1 else step_4[below(state, choices)]
        there = here + step
        if step == -pitch:
            out, back = NORTH, SOUTH
        elif step == pitch:
            out, back = SOUTH, NORTH
        elif step == -1:
            out, back = WEST, EAST
        else:
            out, back = EAST, WEST
        grid[here] |= out
        grid[there] = back | _SEEN
        stack[depth] = here
        depth += 1
        here = there

    for row in range(height):
        for col in range(width):
            cells_HW[row, col] = grid[(row + 1) * pitch + col + 1] & ~_SEEN


@njit(cache=True)
def carve_kruskal(cells_HW: Cells, state: Stream) -> None:
    """Overwrite `cells_HW` with a fresh maze."""
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
        root, other = root_of(parent_C, here), root_of(parent_C, there)
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


@njit(cache=True)
def carve_wilson(cells_HW: Cells, state: Stream) -> None:
    """Overwrite `cells_HW` with a fresh maze."""
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


@njit(cache=True)
def _step(row: int, col: int, side: int) -> tuple[int, int]:
    if side == NORTH:
        return row - 1, col
    if side == SOUTH:
        return row + 1, col
    if side == WEST:
        return row, col - 1
    assert side == EAST
    return row, col + 1


@njit(cache=True)
def open_passages(cells_HW: Cells, state: Stream, open_share: float) -> None:
    """Overwrite `cells_HW` with a fresh maze."""
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


@njit(cache=True)
def place_walls(cells_HW: Cells, state: Stream) -> None:
    """Overwrite `cells_HW` with a fresh maze: the number of walls is uniform from 3 * (N // 10) to 5 * (N // 10)."""
    height, width = cells_HW.shape
    tenth = height * width // 10
    walls = 3 * tenth + below(state, 2 * tenth + 1)
    pitch = width + 2  # with a rim around the maze
    order = np.empty(height * width, dtype=np.int32)
    for row in range(height):
        for col in range(width):
            order[row * width + col] = (row + 1) * pitch + col + 1
    shuffle_first(state, order, walls)
    # 1 where a cell is free, 0 where it is solid and in the rim. Whether a cell is solid is a coin's
    # throw, so sums and products instead of branches, which would mostly be guessed wrong.
    free_flat = np.zeros((height + 2) * pitch, dtype=np.uint8)
    for place in order[walls:]:
        free_flat[place] = 1
    free = free_flat.reshape(height + 2, pitch)
    for row in range(height):
        for col in range(width):
            sides = (
                NORTH * free[row, col + 1]
                + SOUTH * free[row + 2, col + 1]
                + WEST * free[row + 1, col]
                + EAST * free[row + 1, col + 2]
            )
            here = free[row + 1, col + 1]
            cells_HW[row, col] = here * sides + (1 - here) * WALL


MAX_PAIRS = 100  # draws of start and goal in one layout


class Workspace(NamedTuple):
    """What the functions below work on; it may serve many mazes of one shape, one after the other."""

    free_C: Indices  # the free cells
    mark_P: Indices
    queue_C: Indices
    size_K: Indices
    search: Scratch


@njit(cache=True)
def clear_workspace(height: int, width: int) -> Workspace:
    cells = height * width
    return Workspace(
        np.empty(cells, dtype=np.int32),
        np.empty(cells + 2 * width, dtype=np.int32),
        np.empty(cells + 1, dtype=np.int32),
        np.empty(MAX_PAIRS + 1, dtype=np.int32),
        astar_scratch(height, width),
    )


@njit_inline
def _list_free_cells(cell_C: Cells, workspace: Workspace) -> int:
    """Write the free cells into `free_C`, clear the marks, and return how many cells are free."""
    free_C = workspace.free_C
    free = 0
    for cell in range(cell_C.size):
        free_C[free] = cell  # stays only if counted: a branch would mostly be guessed wrong
        free += cell_C[cell] != WALL
    workspace.mark_P[:] = 0
    return free


@njit_inline
def _may_be_connected(
    cell_C: Cells, width: int, start: int, goal: int, min_length: int, parts: int, workspace: Workspace
) -> tuple[bool, int]:
    """Whether both cells are in one part of the maze that has at least `min_length` cells, and the parts known now.

    Most pairs have no way between them, and A* would look at a whole part of the maze to find that out again and
    again. So the part of a start is marked with a number, and its size kept.
    """
    _, mark_P, queue_C, size_K, _ = workspace
    if mark_P[start + width] == 0:
        parts += 1
        size_K[parts] = mark_component(cell_C, width, start, parts, mark_P, queue_C)
    part = mark_P[start + width]
    return mark_P[goal + width] == part and size_K[part] >= min_length, parts


@njit_inline
def draw_astar_task(
    cell_C: Cells,
    width: int,
    state: Stream,
    min_length: int,
    draws: int,
    workspace: Workspace,
    path: Indices,
    trace_E4: Events,
) -> tuple[int, int]:
    """Draw pairs of free cells until A* finds a path of at least `min_length` cells; (its length, number of events).

    (0, 0) if none of `draws` pairs, at most MAX_PAIRS, has such a path.
    """
    free_C, search = workspace.free_C, workspace.search
    free = _list_free_cells(cell_C, workspace)
    parts = 0
    for _ in range(draws):
        start, goal = free_C[below(state, free)], free_C[below(state, free)]
        possible, parts = _may_be_connected(cell_C, width, start, goal, min_length, parts, workspace)
        if not possible:
            continue
        length, events = search_astar(cell_C, width, start, goal, search, trace_E4)
        if length >= min_length:
            write_path(search.came_from_C, start, goal, path)
            return length, events
    return 0, 0


@njit_inline
def draw_all_astar_tasks(
    cell_C: Cells,
    width: int,
    state: Stream,
    min_length: int,
    workspace: Workspace,
    path: Indices,
    end_K: Indices,
    trace: Events,
) -> int:
    """Draw MAX_PAIRS pairs of two free cells and write the path of each new one that has at least `min_length` cells.

    Returns how many paths were written. They stand in `path` one after the other, the k-th up to `end_K[k]`; `trace`
    is overwritten by every search.
    """
    free_C, search = workspace.free_C, workspace.search
    free = _list_free_cells(cell_C, workspace)
    parts, found, used = 0, 0, 0
    for _ in range(MAX_PAIRS):
        first, second = below(state, free), below(state, free - 1)
        start, goal = free_C[first], free_C[second + (second >= first)]  # any free cell but the start
        possible, parts = _may_be_connected(cell_C, width, start, goal, min_length, parts, workspace)
        if not possible:
            continue
        new, begin = True, 0
        for k in range(found):
            new &= path[begin] != start or path[end_K[k] - 1] != goal
            begin = end_K[k]
        if not new:
            continue
        length, _ = search_astar(cell_C, width, start, goal, search, trace)
        if length >= min_length:
            write_path(search.came_from_C, start, goal, path[used:])
            used += length
            end_K[found] = used
            found += 1
    return found
