"""A* tasks with their traces in plain Python, as one would write them from the rule: what ours is measured against.

Nothing is compiled and nothing is shared with the fast version, so it is also its check. Cells are (x, y) here, as
in the wall-list text. An event is (kind, x, y, g, h).
"""

from __future__ import annotations

import heapq
import random

Cell = tuple[int, int]
Event = tuple[str, int, int, int, int]


def search(width: int, height: int, walls: set[Cell], start: Cell, goal: Cell) -> tuple[list[Cell] | None, list[Event]]:
    """The plan and the trace of the deterministic A*; the plan is None when the goal cannot be reached."""

    def distance(cell: Cell) -> int:
        return abs(cell[0] - goal[0]) + abs(cell[1] - goal[1])

    cost = {start: 0}  # g of the newest copy of every cell, open or closed
    parent: dict[Cell, Cell] = {}
    trace: list[Event] = [("create", *start, 0, distance(start))]
    # The order of the tuples is the tie-break: f, then y, then x. A copy that was replaced stays in the heap and is
    # known by its old g.
    heap = [(distance(start), start[1], start[0], 0)]
    while heap:
        _, y, x, g = heapq.heappop(heap)
        cell = (x, y)
        if g != cost[cell]:
            continue
        trace.append(("close", x, y, g, distance(cell)))
        if cell == goal:
            plan = [goal]
            while plan[-1] != start:
                plan.append(parent[plan[-1]])
            return plan[::-1], trace
        for neighbour in ((x, y + 1), (x, y - 1), (x - 1, y), (x + 1, y)):
            if not (0 <= neighbour[0] < width and 0 <= neighbour[1] < height) or neighbour in walls:
                continue
            # A cell's h is always the same, so comparing f is comparing g.
            if neighbour in cost and cost[neighbour] <= g + 1:
                continue
            cost[neighbour] = g + 1
            parent[neighbour] = cell
            h = distance(neighbour)
            heapq.heappush(heap, (g + 1 + h, neighbour[1], neighbour[0], g + 1))
            trace.append(("create", *neighbour, g + 1, h))
    return None, trace


def random_task(width: int, height: int, rng: random.Random) -> tuple[list[Cell], list[Cell], list[Event]]:
    """(walls, plan, trace) of a fresh task of the A* set."""
    while True:
        cells = [(x, y) for y in range(height) for x in range(width)]
        rng.shuffle(cells)
        tenth = len(cells) // 10
        count = rng.randint(3 * tenth, 5 * tenth)
        walls, free = cells[:count], cells[count:]
        solid = set(walls)
        for _ in range(100):
            plan, trace = search(width, height, solid, rng.choice(free), rng.choice(free))
            if plan is not None and len(plan) >= max(width, height):
                return sorted(walls, key=lambda cell: cell[0] + cell[1] * width), plan, trace
