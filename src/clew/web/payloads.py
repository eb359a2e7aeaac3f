"""JSON of the page's API: checked requests, mazes, steps and solutions. Cells are [x, y]; nodes of graphs are numbers.

task = task_from({"height": 2, "width": 2, "start": [0, 0], "goal": [1, 1], "cells": [[10, 6], [1, 1]]})
maze_json(task)
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from clew.decoding.decode import TaskStep
from clew.errors import UserError
from clew.evaluation.scores import classify
from clew.mazes.maze import Cell, Path, PathStar, Task
from clew.solution import Solution
from clew.tokenization.read import tasks_in_text

MAX_BODY_BYTES = 1_000_000
MAX_SIDE = 64


class NotFound(UserError):
    """A name that the server does not list."""

    status = 404


class TooLarge(UserError):
    """A request or a maze above the limits."""

    status = 413


class Busy(UserError):
    """Too many requests wait already, or a solve took too long."""

    status = 503


def json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise UserError("the request is not valid JSON; send one JSON object.") from None
    if not isinstance(value, dict):
        raise UserError("the request must be a JSON object.")
    return value


def text_field(value: dict[str, Any], name: str, default: str | None = None) -> str:
    found = value.get(name, default)
    if not isinstance(found, str):
        raise UserError(f"the request must give {name} as text.")
    return found


def number_field(value: dict[str, Any], name: str, low: int, high: int, default: int | None = None) -> int:
    """Return a field that must be a whole number from `low` to `high`."""
    found = value.get(name, default)
    if not isinstance(found, int) or isinstance(found, bool) or not low <= found <= high:
        raise UserError(f"the request must give {name} as a whole number from {low:,} to {high:,}.")
    return found


def task_from(maze: Any) -> Task:
    """Return the task of a maze in any text format, or in the JSON of `maze_json`."""
    if isinstance(maze, dict):
        maze = json.dumps(maze)
    if not isinstance(maze, str):
        raise UserError("the request must give maze as text or as a JSON object.")
    found = tasks_in_text(maze)
    if len(found) != 1:
        raise UserError(f"the request holds {len(found)} mazes; give one.")
    task = found[0].task
    check_size(task)
    return task


def check_size(task: Task) -> None:
    """TooLarge if the maze is larger than the page allows."""
    height, width = task.maze.height, task.maze.width
    if max(height, width) > MAX_SIDE:
        raise TooLarge(f"the maze has {height} rows and {width} columns; the page takes at most {MAX_SIDE} of each.")


def maze_json(task: Task) -> dict[str, Any]:
    """Return a task as JSON: the open sides of its cells, or the edges of a path-star graph."""
    if isinstance(task.maze, PathStar):
        edges = sorted((a[1], b[1]) for a, b in task.maze.edges())
        return {"labels": task.maze.width, "edges": edges, "start": task.start[1], "goal": task.goal[1]}
    return {
        "height": task.maze.height,
        "width": task.maze.width,
        "start": cell_json(task, task.start),
        "goal": cell_json(task, task.goal),
        "cells": task.maze.cells.tolist(),
    }


def cell_json(task: Task, cell: Cell) -> Any:
    """Return a cell as [x, y], or a node as its label."""
    return cell[1] if isinstance(task.maze, PathStar) else [cell[1], cell[0]]


def path_json(task: Task, path: Path | None) -> list[Any] | None:
    return None if path is None else [cell_json(task, cell) for cell in path]


def step_json(task: Task, step: TaskStep) -> dict[str, Any]:
    kind = "node" if isinstance(task.maze, PathStar) else "cell"
    filled = []
    columns = (step.positions, step.tokens, step.probabilities, step.cells)
    for position, token, probability, cell in zip(*columns, strict=True):
        item = {"position": position, "token": token, "probability": round(probability, 4)}
        filled.append(item if cell is None else item | {kind: cell_json(task, cell)})
    grid_HW = step.cell_probabilities
    probabilities = None if grid_HW is None else np.round(grid_HW.astype(float), 3).tolist()
    return {"pass": step.number, "hidden": step.hidden, "filled": filled, "probabilities": probabilities}


def solution_json(solution: Solution, exact_path: Path) -> dict[str, Any]:
    """Return a solution, compared with the path that the deterministic A* stores."""
    task, path = solution.task, solution.path
    exact = path is not None and path == exact_path
    return {
        "path": path_json(task, path),
        "exact": exact,
        "valid": solution.is_valid,
        "shortest": solution.is_shortest,
        "failure": None if solution.is_shortest else classify(task, exact_path, path),
        "verdict": solution.verdict,
        "passes": solution.passes,
        "ms": round(1000 * solution.seconds, 2),
        "exact_path": path_json(task, exact_path),
        "steps": [step_json(task, step) for step in solution.steps],
    }
