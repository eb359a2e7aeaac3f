"""Every built-in format written plainly, token by token, to be compared with the fast writer of batches."""

from __future__ import annotations

from clew.mazes.maze import SIDES, WALL, Cell, Edge, Path, Task
from clew.mazes.solvers import astar


def plain_text(name: str, task: Task, path: Path | None, edges: list[Edge]) -> tuple[list[str], list[str]]:
    """Prompt and response; edges are in the order and direction of the text, which chance decides."""
    if name == "edge-list":
        prompt = f"<ADJLIST_START> {_each(edges, lambda edge: f'{_cell(edge[0])} {_cell(edge[1])} ;')} <ADJLIST_END>"
        prompt += f" <ORIGIN_START> {_cell(task.start)} <ORIGIN_END> <TARGET_START> {_cell(task.goal)} <TARGET_END>"
        response = f"{_each(path, _cell)} <PATH_END>"
    elif name.startswith("path-star"):
        prompt = f"{_each(edges, lambda edge: f'{edge[0][1]} {edge[1][1]} |')} {task.start[1]} {task.goal[1]}"
        nodes = (path or [])[::-1] if name.endswith("reversed") else path
        response = f"{_each(nodes, lambda node: str(node[1]))} <PATH_END>"
    elif name.startswith("wall-list"):
        walls = _each(task.maze.walls(), lambda cell: f"wall {_x_y(cell)}")
        prompt = f"bos start {_x_y(task.start)} goal {_x_y(task.goal)} {walls} eos"
        trace = astar(task).trace if name.endswith("trace") else []
        steps = _each(trace, lambda event: f"{event.kind} {_x_y(event.cell)} c{event.g} c{event.h}")
        response = f"bos {steps} {_each(path, lambda cell: f'plan {_x_y(cell)}')} eos"
    else:
        rows = [_each(range(task.maze.width), lambda col: _sides(task, (row, col))) for row in range(task.maze.height)]  # noqa: B023
        prompt = f"<GRID_START> {' / '.join(rows)} <GRID_END>"
        response = f"{_each(path, _cell)} <PATH_END>"
    return f"{prompt} <PATH_START>".split(), response.split() if path else []


def _each(items, text) -> str:  # type: ignore[no-untyped-def]
    return " ".join(text(item) for item in items or [])


def _cell(cell: Cell) -> str:
    return f"({cell[0]},{cell[1]})"


def _x_y(cell: Cell) -> str:
    return f"{cell[1]} {cell[0]}"


def _sides(task: Task, cell: Cell) -> str:
    value = int(task.maze.cells[cell])
    sides = "".join(name for bit, name in zip(SIDES, "NSWE", strict=True) if value & bit) or "-"
    roles = [role for role, end in (("start", task.start), ("goal", task.goal)) if end == cell]
    return "#" if value == WALL else "+".join(roles) + ":" * bool(roles) + sides
