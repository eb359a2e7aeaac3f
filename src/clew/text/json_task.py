"""A task as one JSON object: `{"width","height","start":[x,y],"goal":[x,y],"walls":[[x,y],...]}`.

A `"path":[[x,y],...]` or a `"plan"` in wall-list text gives the path. Other keys are ignored, so that the lines of
other tools can be read as they are.
"""

from __future__ import annotations

import json
from typing import Any

from clew.errors import UserError
from clew.mazes.maze import Cell, Maze, Path, Task, check_shape
from clew.text.token_reader import shown
from clew.text.wall_list import WallList
from clew.text.written import Parsed

_KEYS = ("width", "height", "start", "goal", "walls")


def parse_json_task(line: str) -> Parsed:
    """The task that the line says, or a UserError that names what is wrong."""
    try:
        value = json.loads(line)
    except RecursionError:
        raise UserError("the JSON is nested too deeply to be a maze.") from None
    except json.JSONDecodeError as error:
        raise UserError(
            f"the JSON is broken at character {error.pos + 1} ({error.msg}); each line must hold one whole object."
        ) from None
    except ValueError:
        raise UserError("the JSON holds a number that is too large.") from None
    if not isinstance(value, dict):
        raise UserError("a maze must be a JSON object {...}.")
    if missing := [key for key in _KEYS if key not in value]:
        raise UserError(f"the JSON lacks {', '.join(missing)}: a maze needs {', '.join(_KEYS)}.")
    height, width = _whole_number(value, "height"), _whole_number(value, "width")
    check_shape(height, width)
    walls = _cells(value, "walls", height, width)
    start, goal = (_cell(value[key], key, height, width) for key in ("start", "goal"))
    task = Task(Maze.from_walls(height, width, walls), start, goal)
    return Parsed(task, _path(value, height, width))


def _whole_number(value: dict[str, Any], key: str) -> int:
    number = value[key]
    if not isinstance(number, int) or isinstance(number, bool):
        raise UserError(f"{key} is {shown(json.dumps(number))}, but it must be a whole number.")
    return number


def _cell(value: Any, name: str, height: int, width: int) -> Cell:
    match value:
        case [int(x), int(y)] if type(x) is int and type(y) is int:  # bool is an int too
            if 0 <= x < width and 0 <= y < height:
                return y, x
            raise UserError(f"{name} is [{x},{y}], which lies outside the maze of width {width} and height {height}.")
    raise UserError(f"{name} is {shown(json.dumps(value))}, but it must be a cell [x,y].")


def _cells(value: dict[str, Any], key: str, height: int, width: int) -> list[Cell]:
    if not isinstance(value[key], list):
        raise UserError(f"{key} is {shown(json.dumps(value[key]))}, but it must be a list of cells [[x,y],...].")
    return [_cell(item, f"number {i + 1} of {key}", height, width) for i, item in enumerate(value[key])]


def _path(value: dict[str, Any], height: int, width: int) -> Path | None:
    if value.get("path") is not None:
        return _cells(value, "path", height, width) or None
    plan = value.get("plan")
    if plan is None:
        return None
    if not isinstance(plan, str):
        raise UserError(f"plan is {shown(json.dumps(plan))}, but it must be a text such as plan 0 1 plan 0 2.")
    try:
        return WallList(with_trace=False).parse_response(plan.split(), height=height, width=width)
    except UserError as error:
        raise UserError(f"plan: {error}") from None
