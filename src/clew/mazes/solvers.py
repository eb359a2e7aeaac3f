"""Exact solvers: breadth-first search, and the deterministic A* of Searchformer with its trace.

    bfs_path(task), num_shortest(task)
    astar(task).path, astar(task).trace
    trace_batch(batch), one_shortest(batch)      # compiled, for many tasks

A task without a way through has the path None. In a path-star graph there is one path, and no trace.

The rule of A*: unit costs, h = Manhattan distance. Pop the open cell with the smallest f = g + h; ties go to the
smallest index. Neighbours in the order south, north, west, east. Skip a neighbour if an open or closed copy of it has
f <= the new f; otherwise replace the open copy. This needs no heap: a step changes h by exactly 1, so a neighbour has
either the f of the cell that was popped or 2 more, and two sets of bits hold all open cells. A cell is created at most
twice and closed at most once.

Shape suffixes: N tasks, H rows, W columns, C = H * W cells by index, P = C + 2 * W, the cells with a row above and one
below that need no check for the border, B = ceil(C / 64) words of bits, D = 4 steps, E events (kind, cell, g, h).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.cpython.unsafe.numbers import trailing_zeros

from clew.jit import njit
from clew.mazes.compiled import parallel_map
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST, Cell, Cells, Path, PathStar, Task, TaskBatch, offsets

Indices = npt.NDArray[np.int32]
Events = npt.NDArray[np.int32]
Bits = npt.NDArray[np.uint64]

CREATE, CLOSE = 0, 1
MAX_EVENTS_PER_CELL = 3

_NEVER = np.int32(2**31 - 1)
# uint64 objects because numba turns uint64 with int64 into float64.
_ZERO, _ONE, _U2, _U3, _U6, _U32, _U63 = (np.uint64(n) for n in (0, 1, 2, 3, 6, 32, 63))
_NORTH_BIT, _SOUTH_BIT, _WEST_BIT, _EAST_BIT = (np.uint64(side.bit_length() - 1) for side in (NORTH, SOUTH, WEST, EAST))


class Event(NamedTuple):
    """One line of A*'s log: a cell was put on the open list (again), or taken from it for good."""

    kind: Literal["create", "close"]
    cell: Cell
    g: int
    h: int


class AStarResult(NamedTuple):
    path: Path | None
    trace: list[Event]


def bfs_path(task: Task) -> Path | None:
    """Return a shortest path, both ends included; of several, the one that breadth-first search meets first."""
    if isinstance(task.maze, PathStar):
        return task.maze.path_between(task.start, task.goal)
    start, goal, width = task.maze.index(task.start), task.maze.index(task.goal), task.maze.width
    from_P, queue_C = spread_arrays(*task.maze.cells.shape)
    spread(task.maze.cells.ravel(), width, start, from_P, queue_C, True)
    return _path(from_P[width:-width], start, goal, width) if from_P[goal + width] >= 0 else None


def path_through(task: Task, cells: set[Cell]) -> Path | None:
    """Return the path that consists of exactly these cells, or None if they do not determine one."""
    path, left = [task.start], cells - {task.start}
    while path[-1] != task.goal:
        near = [cell for cell in task.maze.neighbours(path[-1]) if cell in left]
        if len(near) != 1:
            return None
        path.append(near[0])
        left.remove(near[0])
    return path if task.start in cells and not left else None


def astar(task: Task) -> AStarResult:
    """Return the path and the trace of the deterministic A*."""
    if isinstance(task.maze, PathStar):
        return AStarResult(task.maze.path_between(task.start, task.goal), [])
    start, goal, width = task.maze.index(task.start), task.maze.index(task.goal), task.maze.width
    scratch = astar_scratch(*task.maze.cells.shape)
    trace_E4 = np.empty((MAX_EVENTS_PER_CELL * task.maze.cells.size, 4), np.int32)
    length, events = search_astar(task.maze.cells.ravel(), width, start, goal, scratch, trace_E4)
    trace = [
        Event("close" if kind == CLOSE else "create", divmod(cell, width), g, h)
        for kind, cell, g, h in trace_E4[:events].tolist()
    ]
    return AStarResult(_path(scratch.came_from_C, start, goal, width) if length else None, trace)


def _path(came_from_C: Indices, start: int, goal: int, width: int) -> Path:
    path = np.empty(came_from_C.size, dtype=np.int32)
    return [divmod(cell, width) for cell in path[: write_path(came_from_C, start, goal, path)].tolist()]


def num_shortest(task: Task) -> int:
    """Return how many shortest paths the task has; on a large open grid the number outgrows 64 bits."""
    ways, seen = {task.start: 1}, set[Cell]()  # of the cells at one distance from the start
    while ways and task.goal not in ways:
        seen |= ways.keys()
        onward: dict[Cell, int] = {}
        for cell, count in ways.items():
            for there in task.maze.neighbours(cell):
                if there not in seen:
                    onward[there] = onward.get(there, 0) + count
        ways = onward
    return ways.get(task.goal, 0)


def one_shortest(batch: TaskBatch) -> npt.NDArray[np.bool_]:
    """Return which of many tasks have exactly one shortest path."""
    _, _, ways_N = _measure(batch.cells_NHW, batch.start_N, batch.goal_N, batch.path, batch.offset_N1)
    return np.asarray(ways_N == 1)


def check_batch(batch: TaskBatch) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return (valid_N, shortest_N) of a batch's own paths, which may be empty or leave the maze."""
    if batch.height == 1:  # path-star graphs are small
        checked = [(is_valid(*pair), is_shortest(*pair)) for pair in batch]
        return np.array([valid for valid, _ in checked], bool), np.array([shortest for _, shortest in checked], bool)
    valid_N, steps_N, _ = _measure(batch.cells_NHW, batch.start_N, batch.goal_N, batch.path, batch.offset_N1)
    return valid_N, valid_N & (batch.length_N == steps_N + 1)


def trace_batch(batch: TaskBatch, workers: int | None = None) -> tuple[Events, npt.NDArray[np.int64]]:
    """Return all A* traces, rows (CREATE or CLOSE, cell index, g, h), and where each task's begin and end, [N + 1]."""
    count_N = np.empty(len(batch), dtype=np.int64)

    def trace(chunk: slice) -> Events:
        event_E4: Events = _trace(batch.cells_NHW[chunk], batch.start_N[chunk], batch.goal_N[chunk], count_N[chunk])
        return event_E4

    events = parallel_map(trace, len(batch), batch.height * batch.width, workers)
    return np.concatenate([np.empty((0, 4), dtype=np.int32), *events]), offsets(count_N)


@njit()
def spread_arrays(height: int, width: int) -> tuple[Indices, Indices]:
    """Return arrays for `spread`."""
    return np.full((height + 2) * width, -1, dtype=np.int32), np.empty(height * width + 1, dtype=np.int32)


# _nrt=False: without counting references to arrays, which costs a few percent of a short search.
@njit(_nrt=False)
def spread(cell_C: Cells, width: int, start: int, from_P: Indices, queue_C: Indices, as_tree: bool) -> int:
    """Search breadth-first from `start`, put the cells into `queue_C` in order of distance, and return their number.

    `from_P`, negative before, gets the cell before each one, the start's being itself; the start unless `as_tree`.
    """
    from_P[start + width] = queue_C[0] = start
    head, tail = 0, 1
    while head < tail:
        here = queue_C[head]
        head += 1
        origin = here if as_tree else start
        for side, there in neighbour_sides(here, width):
            # Written in any case, to be overwritten unless counted: a branch would mostly be predicted wrong.
            old = from_P[there + width]
            is_new = ((cell_C[here] & side) != 0) & (old < 0)
            from_P[there + width] = origin if is_new else old
            queue_C[tail] = there
            tail += is_new
    return tail


@njit()
def neighbour_sides(here: int, width: int) -> tuple[tuple[int, int], ...]:
    """Return the sides of a cell with the cells there, in A*'s order."""
    return (SOUTH, here + width), (NORTH, here - width), (WEST, here - 1), (EAST, here + 1)


@njit(_nrt=False)
def write_path(came_from_C: Indices, start: int, goal: int, path: Indices) -> int:
    """Follow `came_from_C` back from the goal, write the path from the start into `path`, and return its length."""
    length, cell = 1, goal
    while cell != start:
        cell = came_from_C[cell]
        length += 1
    cell = goal
    for i in range(length - 1, -1, -1):
        path[i] = cell
        cell = came_from_C[cell]
    return length


@njit(nogil=True)
def reachable(cells_NHW: Cells, start_N: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which cells of each maze its start can reach, [N, C]."""
    count, height, width = cells_NHW.shape
    reached_NC = np.empty((count, height * width), dtype=np.bool_)
    for i in range(count):
        from_P, queue_C = spread_arrays(height, width)
        spread(cells_NHW[i].ravel(), width, start_N[i], from_P, queue_C, False)
        reached_NC[i] = from_P[width:-width] >= 0
    return reached_NC


class Scratch(NamedTuple):
    """Arrays that `search_astar` works in, for any number of searches in mazes of one shape."""

    best_g_P: Indices  # g of the newest copy of a cell; the place of a cell is its index + W
    came_from_C: Indices
    open_B2: Bits  # the two sets of open cells
    low_2: Bits  # for each set: no word before this one has a bit
    step_D: Bits  # what a step adds to an index


@njit()
def astar_scratch(height: int, width: int) -> Scratch:
    cells, down = height * width, np.uint64(width)
    return Scratch(
        np.empty(cells + 2 * width, dtype=np.int32),
        np.empty(cells, dtype=np.int32),
        np.empty((cells + 63) // 64 * 2, dtype=np.uint64),
        np.empty(2, dtype=np.uint64),
        np.array([down, _ZERO - down, _ZERO - _ONE, _ONE], dtype=np.uint64),
    )


@njit(_nrt=False)
def search_astar(
    cell_C: Cells, columns: int, start: int, goal: int, scratch: Scratch, trace_E4: Events
) -> tuple[int, int]:
    """Write the trace into `trace_E4`; return (number of cells of the path, 0 if there is none; number of events).

    `came_from_C` then leads from the goal back to the start.
    """
    best_g_P, came_from_C, open_B2, low_2, step_D = scratch
    # Indices are uint64 here: with int64 numba would ask of every one whether it counts from the end.
    width = np.uint64(columns)
    words = np.uint64(len(open_B2) // 2)
    goal_row, goal_col = goal // columns, goal % columns
    # here // width = here * inverse >> 32, exactly, as long as here * width < 2**32; a division is far slower.
    inverse_width = (_ONE << _U32) // width + _ONE

    best_g_P[:] = _NEVER
    open_B2[:] = 0
    first = np.uint64(start)
    best_g_P[first + width] = 0
    now = _ZERO  # which of the two sets holds the open cells with the present f
    open_B2[first >> _U6 << _ONE] = _ONE << (first & _U63)
    low_2[0], low_2[1] = first >> _U6, words
    distance = abs(start // columns - goal_row) + abs(start % columns - goal_col)
    events = _log(trace_E4, _ZERO, CREATE, first, 0, distance)

    while True:
        low, word = low_2[now], _ZERO
        while low < words:
            word = open_B2[low << _ONE | now]
            if word != _ZERO:
                break
            low += _ONE
        low_2[now] = low
        if word == _ZERO:
            now ^= _ONE  # on to f + 2; the set that is empty now takes what has f + 4
            if low_2[now] == words:
                return 0, np.int64(events)  # type: ignore[return-value]
            continue
        open_B2[low << _ONE | now] = word & (word - _ONE)  # takes the lowest bit away
        here = low << _U6 | trailing_zeros(word)  # type: ignore[call-arg]

        # The neighbours to create, one bit each. A cell's h is always the same, so comparing f is comparing g.
        place = here + width
        g = best_g_P[place] + 1
        sides = np.uint64(cell_C[here])
        wanted = (
            (np.uint64(best_g_P[place + width] > g) & sides >> _SOUTH_BIT)
            | (np.uint64(best_g_P[here] > g) & sides >> _NORTH_BIT) << _ONE
            | (np.uint64(best_g_P[place - _ONE] > g) & sides >> _WEST_BIT) << _U2
            | (np.uint64(best_g_P[place + _ONE] > g) & sides >> _EAST_BIT) << _U3
        )
        row = here * inverse_width >> _U32
        down, right = np.int64(row) - goal_row, np.int64(here - row * width) - goal_col  # of the goal
        h = abs(down) + abs(right)
        events = _log(trace_E4, events, CLOSE, here, g - 1, h)
        if here == np.uint64(goal):
            return g, np.int64(events)
        # Which of the four steps lead away from the goal.
        away = (
            np.uint64(down >= 0)
            | np.uint64(down <= 0) << _ONE
            | np.uint64(right <= 0) << _U2
            | np.uint64(right >= 0) << _U3
        )
        # Over the bits, and not an `if` a neighbour: each is random, so branches would be predicted wrong.
        while wanted != _ZERO:
            d = trailing_zeros(wanted)
            wanted &= wanted - _ONE
            there = here + step_D[d]
            further = away >> d & _ONE
            at, bit = there >> _U6 << _ONE, _ONE << (there & _U63)
            if best_g_P[there + width] != _NEVER:
                open_B2[at | now ^ _ONE] &= ~bit  # the open copy had f + 2
            best_g_P[there + width] = g
            came_from_C[there] = here
            open_B2[at | now ^ further] |= bit
            low_2[now ^ further] = min(low_2[now ^ further], there >> _U6)
            events = _log(trace_E4, events, CREATE, there, g, h - 1 + np.int64(further << _ONE))


@njit(_nrt=False)
def _log(trace_E4: Events, events: np.uint64, kind: int, cell: int | np.uint64, g: int, h: int) -> np.uint64:
    trace_E4[events, 0], trace_E4[events, 1] = kind, cell
    trace_E4[events, 2], trace_E4[events, 3] = g, h
    return events + _ONE


@njit(nogil=True)
def _measure(
    cells_NHW: Cells, start_N: Indices, goal_N: Indices, path: Indices, offset_N1: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.bool_], Indices, Indices]:
    """Return which paths are valid, the steps to the goal, -1 if there is no way, and the shortest paths, at most 2."""
    count, height, width = cells_NHW.shape
    valid_N, steps_N, ways_N = np.empty(count, np.bool_), np.empty(count, np.int32), np.empty(count, np.int32)
    distance_C, ways_C = np.empty(height * width, np.int32), np.empty(height * width, np.int8)
    for i in range(count):
        flat_C, start, own = cells_NHW[i].ravel(), start_N[i], path[offset_N1[i] : offset_N1[i + 1]]
        valid_N[i] = own.size > 0 and own[0] == start and own[-1] == goal_N[i]
        for k in range(own.size - 1):
            is_step = False
            for side, there in neighbour_sides(own[k], width):
                is_step |= there == own[k + 1] and 0 <= own[k] < flat_C.size and flat_C[own[k]] & side != 0
            valid_N[i] &= is_step

        from_P, queue_C = spread_arrays(height, width)
        queue = queue_C[: spread(flat_C, width, start, from_P, queue_C, True)]
        distance_C[:], ways_C[:] = -1, 0
        ways_C[start] = 1
        for cell in queue:
            distance_C[cell] = distance_C[from_P[cell + width]] + 1  # the start comes from itself
        for here in queue:
            for side, there in neighbour_sides(here, width):
                if flat_C[here] & side and distance_C[there] == distance_C[here] + 1:
                    ways_C[there] = min(2, ways_C[there] + ways_C[here])
        steps_N[i], ways_N[i] = distance_C[goal_N[i]], ways_C[goal_N[i]]
    return valid_N, steps_N, ways_N


@njit(nogil=True)
def _trace(cells_NHW: Cells, start_N: Indices, goal_N: Indices, count_N: npt.NDArray[np.int64]) -> Events:
    count, height, width = cells_NHW.shape
    scratch = astar_scratch(height, width)
    event_E4 = np.empty((count * MAX_EVENTS_PER_CELL * height * width, 4), dtype=np.int32)
    used = 0
    for i in range(count):
        cell_C = cells_NHW[i].ravel()
        _, count_N[i] = search_astar(cell_C, width, start_N[i], goal_N[i], scratch, event_E4[used:])
        used += count_N[i]
    return event_E4[:used].copy()


def path_problem(task: Task, path: Path) -> str | None:
    """Return the first thing that is wrong with the path, in one sentence; None if it is valid."""
    name = task.maze.name
    if not path:
        return "the path is empty."
    if path[0] != task.start:
        return f"the path begins at {name(path[0])}, not at the start {name(task.start)}."
    for step, (here, there) in enumerate(pairwise(path), start=1):
        if problem := task.maze.step_problem(here, there):
            return f"step {step} goes from {name(here)} to {name(there)}{problem}"
    if path[-1] != task.goal:
        return f"the path ends at {name(path[-1])}, not at the goal {name(task.goal)}."
    return None


def is_valid(task: Task, path: Path) -> bool:
    """Return whether `path` walks from the start to the goal through open sides."""
    return path_problem(task, path) is None


def is_shortest(task: Task, path: Path) -> bool:
    """Return whether `path` is valid and no valid path is shorter."""
    return is_valid(task, path) and len(path) == len(bfs_path(task) or [])
