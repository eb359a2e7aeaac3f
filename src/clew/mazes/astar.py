"""The compiled core of A*, deterministic and random, on any maze.

The rule: unit costs, h = Manhattan distance. Pop the open cell with the smallest f = g + h; ties go to the smallest
row, then the smallest column, which is the smallest index. Neighbours in the order south, north, west, east. Skip a
neighbour if an open or closed copy of it has f <= the new f; otherwise replace the open copy.

Why this needs no heap: a step changes h by exactly 1, so a neighbour has either the f of the cell that was popped
(the step leads nearer the goal) or 2 more. Two sets of open cells are enough, those with the present f and those with
f + 2. As sets of bits they give their smallest member in a few instructions.

A trace is one row (kind, cell, g, h) an event. A cell is created at most twice (with f + 2, then with f) and closed at
most once: 3 events a cell.

Shape suffixes: H rows, W columns, C = H * W cells by index, P = C + 2 * W, the cells with a row above and one below
that need no check for the border, B = ceil(C / 64) words of bits, D = 4 steps in the order above, E events.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from clew.mazes.lean import lean
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST, Cells
from clew.mazes.random import Stream, below

Indices = npt.NDArray[np.int32]
Events = npt.NDArray[np.int32]
Bits = npt.NDArray[np.uint64]
CREATE, CLOSE = 0, 1
MAX_EVENTS_PER_CELL = 3

_NEVER = np.int32(2**31 - 1)
# uint64 objects because numba turns uint64 with int64 into float64.
_ZERO, _ONE, _U2, _U3, _U6, _U32, _U63 = (np.uint64(n) for n in (0, 1, 2, 3, 6, 32, 63))
_NORTH_BIT, _SOUTH_BIT, _WEST_BIT, _EAST_BIT = (np.uint64(side.bit_length() - 1) for side in (NORTH, SOUTH, WEST, EAST))


@intrinsic
def _trailing_zeros(_context: Any, _x: Any) -> Any:
    """The place of the lowest 1 bit of a uint64 that is not 0: one instruction that numba has no name for."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@lean
def manhattan(a: int, b: int, width: int) -> int:
    return abs(a // width - b // width) + abs(a % width - b % width)


class Scratch(NamedTuple):
    """What `search_astar` works in; it may serve many searches in mazes of one shape, one after the other."""

    best_g_P: Indices  # g of the newest copy of a cell; the place of a cell is its index + W
    came_from_C: Indices
    open_B2: Bits  # the two sets of open cells
    low_2: Bits  # for each set: no word before this one has a bit
    step_D: Bits  # what a step adds to an index


@njit(cache=True)
def astar_scratch(height: int, width: int) -> Scratch:
    cells = height * width
    below = np.uint64(width)
    return Scratch(
        np.empty(cells + 2 * width, dtype=np.int32),
        np.empty(cells, dtype=np.int32),
        np.empty((cells + 63) // 64 * 2, dtype=np.uint64),
        np.empty(2, dtype=np.uint64),
        np.array([below, _ZERO - below, _ZERO - _ONE, _ONE], dtype=np.uint64),
    )


@lean
def search_astar(
    cell_C: Cells, columns: int, start: int, goal: int, scratch: Scratch, trace_E4: Events
) -> tuple[int, int]:
    """(number of cells of the path, or 0 if there is none; number of events, which are the first in `trace_E4`).

    `scratch.came_from_C` then leads from the goal back to the start.
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
    events = _log(trace_E4, _ZERO, CREATE, first, 0, manhattan(start, goal, columns))

    while True:
        low = low_2[now]
        while low < words and open_B2[low << _ONE | now] == _ZERO:
            low += _ONE
        low_2[now] = low
        if low == words:
            now ^= _ONE  # on to f + 2; the set that is empty now takes what has f + 4
            if low_2[now] == words:
                return 0, np.int64(events)  # type: ignore[return-value]
            continue
        word = open_B2[low << _ONE | now]
        open_B2[low << _ONE | now] = word & (word - _ONE)  # takes the lowest bit away
        here = low << _U6 | np.uint64(_trailing_zeros(word))  # type: ignore[call-arg]

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
        # Over the bits, and not an `if` a neighbour: each is a coin's throw, which would mostly be guessed wrong.
        while wanted != _ZERO:
            d = np.uint64(_trailing_zeros(wanted))
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
    events = _log(trace_E4, _ZERO, CREATE, start, 0, f)
    order = np.arange(4)

    while True:
        if now_count == 0:
            if later_count == 0:
                return False, np.int64(events)  # type: ignore[return-value]
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
            return True, np.int64(events)  # type: ignore[return-value]
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


@lean
def _log(trace_E4: Events, events: np.uint64, kind: int, cell: int | np.uint64, g: int, h: int) -> np.uint64:
    trace_E4[events, 0] = kind
    trace_E4[events, 1] = cell
    trace_E4[events, 2] = g
    trace_E4[events, 3] = h
    return events + _ONE
