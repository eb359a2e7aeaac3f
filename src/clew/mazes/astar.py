"""The compiled core of A*, deterministic and random, on any maze.

The rule: unit costs, h = Manhattan distance. Pop the open cell with the smallest f = g + h; ties go to the smallest
row, then the smallest column, which is the smallest index. Neighbours in the order south, north, west, east. Skip a
neighbour if an open or closed copy of it has f <= the new f; otherwise replace the open copy.

Why this needs no heap: a step changes h by exactly 1, so a neighbour has either the f of the cell that was popped
(the step leads nearer the goal) or 2 more. Two sets of open cells are enough, those with the present f and those with
f + 2. As sets of bits they give their smallest member in a few instructions.

A trace is one row (kind, cell, g, h) an event. A cell is created at most twice (with f + 2, then with f) and closed at
most once: 3 events a cell.

Shape suffixes: H rows, W columns, C = H * W cells by index, B = ceil(C / 64) words of bits, E events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

from clew.mazes.maze import EAST, NORTH, SOUTH, WEST, Cells
from clew.mazes.random import Stream, below

Indices = npt.NDArray[np.int32]
Events = npt.NDArray[np.int32]
CREATE, CLOSE = 0, 1
MAX_EVENTS_PER_CELL = 3

_NEVER = np.int32(2**31 - 1)
_ONE = np.uint64(1)


@intrinsic
def _trailing_zeros(_context: Any, _x: Any) -> Any:
    """The place of the lowest 1 bit of a uint64 that is not 0: one instruction that numba has no name for."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@njit(cache=True)
def manhattan(a: int, b: int, width: int) -> int:
    return abs(a // width - b // width) + abs(a % width - b % width)


@njit(cache=True)
def search_astar(
    cells_HW: Cells, start: int, goal: int, best_f_C: Indices, came_from_C: Indices, trace_E4: Events, keep_trace: bool
) -> tuple[bool, int]:
    """(whether the goal was reached, number of events); `came_from_C` then leads from the goal back to the start.

    `best_f_C` and `came_from_C` are scratch; `trace_E4` is written only if `keep_trace`.
    """
    width = cells_HW.shape[1]
    flat_C = cells_HW.ravel()
    goal_row, goal_col = goal // width, goal % width
    # here // width = here * inverse >> 32, exactly, as long as here * width < 2**32; a division is far slower.
    inverse_width = (1 << 32) // width + 1
    best_f_C[:] = _NEVER
    words = (flat_C.size + 63) // 64
    now_B = np.zeros(words, dtype=np.uint64)  # open cells with the present f
    later_B = np.zeros(words, dtype=np.uint64)  # open cells with f + 2
    f = manhattan(start, goal, width)
    best_f_C[start] = f
    now_B[start >> 6] = _ONE << np.uint64(start & 63)
    # No word before these has a bit.
    now_low, later_low = start >> 6, words
    events = 0
    if keep_trace:
        events = _log(trace_E4, events, CREATE, start, 0, f)

    while True:
        while now_low < words and now_B[now_low] == 0:
            now_low += 1
        if now_low == words:
            if later_low == words:
                return False, events
            now_B, later_B = later_B, now_B  # the one set is empty now
            now_low, later_low = later_low, words
            f += 2
            continue
        word = now_B[now_low]
        now_B[now_low] = word & (word - _ONE)  # takes the lowest bit away
        here = now_low * 64 + _trailing_zeros(word)  # type: ignore[call-arg]
        row = (here * inverse_width) >> 32
        col = here - row * width
        h = abs(row - goal_row) + abs(col - goal_col)
        if keep_trace:
            events = _log(trace_E4, events, CLOSE, here, f - h, h)
        if here == goal:
            return True, events
        sides = flat_C[here]
        for side, there, nearer in (
            (SOUTH, here + width, row < goal_row),
            (NORTH, here - width, row > goal_row),
            (WEST, here - 1, col > goal_col),
            (EAST, here + 1, col < goal_col),
        ):
            if not sides & side:
                continue
            there_f = f if nearer else f + 2
            if best_f_C[there] <= there_f:
                continue
            bit = _ONE << np.uint64(there & 63)
            if nearer:
                later_B[there >> 6] &= ~bit  # the open copy, if there is one, had f + 2
                now_B[there >> 6] |= bit
                now_low = min(now_low, there >> 6)
            else:
                later_B[there >> 6] |= bit
                later_low = min(later_low, there >> 6)
            best_f_C[there] = there_f
            came_from_C[there] = here
            if keep_trace:
                g = f - h + 1
                events = _log(trace_E4, events, CREATE, there, g, there_f - g)


@njit(cache=True)
def search_astar_random(
    cells_HW: Cells, start: int, goal: int, state: Stream, came_from_C: Indices, trace_E4: Events
) -> tuple[bool, int]:
    """The nondeterministic variant: neighbours in random order, and a random one of the open cells of smallest f."""
    height, width = cells_HW.shape
    flat_C = cells_HW.ravel()
    best_f_C = np.full(height * width, _NEVER, dtype=np.int32)
    closed_C = np.zeros(height * width, dtype=np.bool_)
    # A cell is created at most twice and so stands at most once in each list. A copy that was replaced stays in
    # `later` until its turn, when it is found closed.
    now, later = np.empty(height * width, dtype=np.int32), np.empty(height * width, dtype=np.int32)
    f = manhattan(start, goal, width)
    best_f_C[start] = f
    now[0] = start
    now_count, later_count = 1, 0
    events = _log(trace_E4, 0, CREATE, start, 0, f)
    order = np.arange(4)

    while True:
        if now_count == 0:
            if later_count == 0:
                return False, events
            now, later = later, now
            now_count, later_count = later_count, 0
            f += 2
            continue
        drawn = below(state, now_count)
        here = now[drawn]
        now_count -= 1
        now[drawn] = now[now_count]
        if closed_C[here]:
            continue
        closed_C[here] = True
        h = manhattan(here, goal, width)
        g = f - h
        events = _log(trace_E4, events, CLOSE, here, g, h)
        if here == goal:
            return True, events
        for i in range(3):
            j = i + below(state, 4 - i)
            order[i], order[j] = order[j], order[i]
        for side in order:
            if not flat_C[here] & (1 << side):
                continue
            there = here + (-width if side == 0 else width if side == 1 else -1 if side == 2 else 1)
            there_h = manhattan(there, goal, width)
            there_f = g + 1 + there_h
            if best_f_C[there] <= there_f:
                continue
            if there_f == f:
                now[now_count] = there
                now_count += 1
            else:
                later[later_count] = there
                later_count += 1
            best_f_C[there] = there_f
            came_from_C[there] = here
            events = _log(trace_E4, events, CREATE, there, g + 1, there_h)


@njit(cache=True)
def _log(trace_E4: Events, events: int, kind: int, cell: int, g: int, h: int) -> int:
    trace_E4[events, 0] = kind
    trace_E4[events, 1] = cell
    trace_E4[events, 2] = g
    trace_E4[events, 3] = h
    return events + 1
