"""Exact answers for a task: a shortest path by BFS or A*, A*'s full trace, and the number of shortest paths.

    astar(task).path, astar(task).trace      # the deterministic rule, see astar.py
    astar_random(task, seed=0)               # neighbours shuffled, ties by chance
    bfs_path(task), num_shortest(task)
    one_shortest(batch)                      # whether there is one only, of many tasks, fast
    trace_batch(batch)                       # the deterministic traces of many tasks, fast

In a path-star graph the path is unique; its trace is empty, since A*'s heuristic needs a grid.

A task without a way through has the path None and 0 shortest paths; its trace ends when no cell is open.

Shape suffixes: N tasks, H rows, W columns, C = H * W cells by index, E events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from clew.errors import UserError
from clew.mazes.astar import CLOSE, MAX_EVENTS_PER_CELL, Events, astar_scratch, search_astar, search_astar_random
from clew.mazes.bfs import Indices, search_breadth_first, write_path
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST, Cell, Path, PathStar, Task, TaskBatch
from clew.mazes.pieces import in_pieces
from clew.mazes.random import begin_stream


class Event(NamedTuple):
    """One line of A*'s diary: a cell was put among the open ones (again), or taken from them for good."""

    kind: Literal["create", "close"]
    cell: Cell
    g: int
    h: int


@dataclass(frozen=True)
class AStarResult:
    path: Path | None
    trace: list[Event]


@dataclass(frozen=True)
class TraceBatch:
    """The traces of many tasks; the events of task i are event_E4[offset_N1[i] : offset_N1[i + 1]]."""

    event_E4: Events  # int32 rows (kind, cell index, g, h), kind being astar.CREATE or astar.CLOSE
    offset_N1: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offset_N1) - 1

    def events_of(self, i: int) -> Events:
        return self.event_E4[self.offset_N1[i] : self.offset_N1[i + 1]]


def bfs_path(task: Task) -> Path | None:
    """A shortest path, both ends included; of several, the one breadth-first search meets first."""
    if isinstance(task.maze, PathStar):
        return task.maze.path_between(task.start, task.goal)
    start, goal = _ends(task)
    came_from_C, _, _ = search_breadth_first(task.maze.cells, start, goal)
    return _path(came_from_C, task) if came_from_C[goal] >= 0 else None


def astar(task: Task) -> AStarResult:
    """The path and the trace of A* with the deterministic rule."""
    if isinstance(task.maze, PathStar):
        return AStarResult(task.maze.path_between(task.start, task.goal), [])
    start, goal = _ends(task)
    cells = task.maze.cells.size
    scratch, trace_E4 = astar_scratch(*task.maze.cells.shape), np.empty((MAX_EVENTS_PER_CELL * cells, 4), np.int32)
    length, events = search_astar(task.maze.cells.ravel(), task.maze.width, start, goal, scratch, trace_E4)
    return AStarResult(_path(scratch.came_from_C, task) if length else None, _typed(trace_E4[:events], task.maze.width))


def astar_random(task: Task, seed: int) -> AStarResult:
    """The path and the trace of A* with neighbours in random order and ties broken by chance."""
    if not 0 <= seed < 2**63:
        raise UserError(f"the seed {seed} is out of range; use a whole number from 0 to 2**63 - 1.")
    start, goal = _ends(task)
    cells = task.maze.cells.size
    state = np.empty(1, np.uint64)
    begin_stream(state, seed, 0, 0)
    came_from_C, trace_E4 = np.empty(cells, np.int32), np.empty((MAX_EVENTS_PER_CELL * cells, 4), np.int32)
    found, events = search_astar_random(task.maze.cells, start, goal, state, came_from_C, trace_E4)
    return AStarResult(_path(came_from_C, task) if found else None, _typed(trace_E4[:events], task.maze.width))


def num_shortest(task: Task) -> int:
    """How many shortest paths the task has; exact, though on a large open grid the number outgrows 64 bits."""
    if isinstance(task.maze, PathStar):
        return 0 if bfs_path(task) is None else 1
    start, goal = _ends(task)
    _, queue_C, reached = search_breadth_first(task.maze.cells, start, goal)
    width = task.maze.width
    distance = {start: 0}
    ways = {start: 1}
    for here in queue_C[:reached].tolist():
        if here == goal:
            return ways[goal]
        for row, col in task.maze.neighbours(divmod(here, width)):
            there = row * width + col
            if distance.setdefault(there, distance[here] + 1) == distance[here] + 1:
                ways[there] = ways.get(there, 0) + ways[here]
    return 0


def one_shortest(batch: TaskBatch) -> npt.NDArray[np.bool_]:
    """Which of many tasks have exactly one shortest path, compiled."""
    one_N = np.zeros(len(batch), np.bool_)
    _one_shortest(batch.cells_NHW, batch.start_N, batch.goal_N, one_N)
    return one_N


def trace_batch(batch: TaskBatch, workers: int | None = None) -> TraceBatch:
    """The deterministic A* trace of every task."""
    count_N = np.empty(len(batch), dtype=np.int64)

    def trace(piece: slice) -> Events:
        event_E4: Events = _trace(batch.cells_NHW[piece], batch.start_N[piece], batch.goal_N[piece], count_N[piece])
        return event_E4

    events = in_pieces(trace, len(batch), batch.height * batch.width, workers)
    return TraceBatch(join_events(events, workers), offsets(count_N))


def offsets(count_N: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each of several lists begins when they stand one after the other, and where the last ends."""
    return np.concatenate([[0], np.cumsum(count_N)]).astype(np.int64)


def join_events(pieces: list[Events], workers: int | None) -> Events:
    """The events of all pieces, one after the other."""
    begin = offsets(np.array([len(piece) for piece in pieces], dtype=np.int64))
    event_E4 = np.empty((begin[-1], 4), dtype=np.int32)

    def copy(some: slice) -> None:
        for i in range(some.start, some.stop):
            event_E4[begin[i] : begin[i + 1]] = pieces[i]

    # Traces are large, and most of the time goes into fetching fresh memory: that too is work for all threads.
    in_pieces(copy, len(pieces), 1, workers)
    return event_E4


@njit(cache=True, nogil=True)
def _one_shortest(
    cells_NHW: npt.NDArray[np.uint8], start_N: Indices, goal_N: Indices, one_N: npt.NDArray[np.bool_]
) -> None:
    count, height, width = cells_NHW.shape
    distance_C, ways_C = np.empty(height * width, np.int32), np.empty(height * width, np.int8)
    for i in range(count):
        flat_C = cells_NHW[i].ravel()
        _, queue_C, reached = search_breadth_first(cells_NHW[i], start_N[i], -1)
        distance_C[:] = -1
        distance_C[start_N[i]], ways_C[start_N[i]] = 0, 1
        for here in queue_C[:reached]:
            for bit, there in ((SOUTH, here + width), (NORTH, here - width), (WEST, here - 1), (EAST, here + 1)):
                if not flat_C[here] & bit:
                    continue
                if distance_C[there] < 0:
                    distance_C[there], ways_C[there] = distance_C[here] + 1, 0
                if distance_C[there] == distance_C[here] + 1:
                    ways_C[there] = min(2, ways_C[there] + ways_C[here])  # more than one is all that counts
        one_N[i] = distance_C[goal_N[i]] >= 0 and ways_C[goal_N[i]] == 1


@njit(cache=True, nogil=True)
def _trace(
    cells_NHW: npt.NDArray[np.uint8], start_N: Indices, goal_N: Indices, count_N: npt.NDArray[np.int64]
) -> Events:
    count, height, width = cells_NHW.shape
    scratch = astar_scratch(height, width)
    event_E4 = np.empty((count * MAX_EVENTS_PER_CELL * height * width, 4), dtype=np.int32)
    used = 0
    for i in range(count):
        cell_C = cells_NHW[i].ravel()
        _, count_N[i] = search_astar(cell_C, width, start_N[i], goal_N[i], scratch, event_E4[used:])
        used += count_N[i]
    return event_E4[:used].copy()


def _ends(task: Task) -> tuple[int, int]:
    width = task.maze.width
    return task.start[0] * width + task.start[1], task.goal[0] * width + task.goal[1]


def _path(came_from_C: Indices, task: Task) -> Path:
    start, goal = _ends(task)
    path = np.empty(task.maze.cells.size, dtype=np.int32)
    length = write_path(came_from_C, start, goal, path)
    return [divmod(cell, task.maze.width) for cell in path[:length].tolist()]


def _typed(event_E4: Events, width: int) -> list[Event]:
    return [
        Event("close" if kind == CLOSE else "create", divmod(cell, width), g, h)
        for kind, cell, g, h in event_E4.tolist()
    ]
