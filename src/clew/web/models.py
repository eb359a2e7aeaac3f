"""JSON of the page: checked requests, mazes, steps, solutions, models, runs and measured results.

Cells are [x, y]; nodes of graphs are numbers. A request names a model or run as it is listed; the name is never used as
a path.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from clew.data.readers import read_mazes
from clew.decoding.decode import TaskStep, decoders_for, default_decoder, is_causal
from clew.errors import UserError
from clew.evaluation.scores import classify
from clew.files import read_json, to_plain
from clew.mazes.maze import Cell, PathStar, Task
from clew.models.cell_network import CellNetwork
from clew.paper.page import main_verdicts, read_results
from clew.paper.results import Report, Result
from clew.paper.studies import STUDIES
from clew.paper.study import parameters_of
from clew.paper.verdict import converged_only
from clew.registry import shipped_models
from clew.solution import Solution
from clew.trained import TrainedModel, load
from clew.training.callbacks import curve, find_runs, run_status
from clew.training.checkpoint import load_config
from clew.web.solving import RequestError, check_running

T = TypeVar("T")

MAX_SIDE = 64
MAX_LOADED = 8
MAX_POINTS = 400  # of a curve


@lru_cache(MAX_LOADED)
def _load(folder: Path, changed: float) -> TrainedModel:
    """Load a model as it was at a time; a newer checkpoint is loaded again."""
    model = load(folder)
    # A pass over a large maze takes seconds; it ends early too.
    for module in model.model.modules():
        module.register_forward_pre_hook(lambda module, inputs: check_running())
    return model


@cache
def _describe(name: str, folder: Path, changed: float) -> dict[str, Any] | None:
    """Return what the page shows of a model; None if it cannot be loaded (`clew runs` says why)."""
    shipped = name in shipped_models()
    try:
        model = _load(folder, changed)
        objective = "next-token" if is_causal(model.model) else "mlm-u"
        return {
            "name": name,
            "shipped": shipped,
            **{key: getattr(model, key) for key in ("tasks", "family", "height", "width", "parameters")},
            "format": model.codec.format_name,
            "objective": objective if shipped else load_config(folder).objective.name,
            "decoders": list(decoders_for(model.model, model.codec)),
            "default_decoder": default_decoder(model.codec),
            "loops": isinstance(model.model, CellNetwork),
        }
    except (UserError, OSError):  # no checkpoint yet, or a damaged one
        return None


class ModelStore:
    """The models that come with Clew, and those of the runs below a folder."""

    def __init__(self, runs: Path | None) -> None:
        self.folder = runs

    def runs(self) -> dict[str, Path]:
        """Return the folders of the runs, by their names below the folder."""
        if self.folder is None or not self.folder.is_dir():
            return {}
        return {str(run.relative_to(self.folder)): run for run in find_runs(self.folder)}

    def sources(self) -> dict[str, tuple[Path, float]]:
        """Return folder and time of each model; a run does not replace a shipped model of the same name."""
        checkpoints = {name: folder / "checkpoints" for name, folder in self.runs().items()}
        found = {name: (path.parent, path.stat().st_mtime) for name, path in checkpoints.items() if path.is_dir()}
        return found | {name: (folder, 0.0) for name, folder in shipped_models().items()}

    def listed(self) -> list[dict[str, Any]]:
        """Return the description of every model that can be loaded, shipped ones first."""
        found = [_describe(name, *source) for name, source in self.sources().items()]
        return sorted(filter(None, found), key=lambda model: (not model["shipped"], model["name"]))

    def load(self, name: str) -> TrainedModel:
        return _load(*lookup(self.sources(), name, "model"))


def lookup(known: Mapping[str, T], name: str, kind: str) -> T:
    """Return what is listed under a name; an error if nothing is."""
    if name not in known:
        raise RequestError(404, f"there is no {kind} {name!r}; GET /api/{kind}s lists them.")
    return known[name]


def run_row(name: str, folder: Path) -> dict[str, Any]:
    """Return what the table shows of a run; one that cannot be read says why in `error`."""
    try:
        config = load_config(folder)
        parameters = parameters_of(config.model)
        return {"name": name, "config": config.to_json(), "parameters": parameters, **run_status(folder)}
    except (UserError, OSError, KeyError, TypeError) as error:
        return {"name": name, "error": str(error), "age": 0}


def curves_json(folder: Path) -> dict[str, Any]:
    """Return the curves of a run, by mazes seen; a long one is thinned to about MAX_POINTS."""
    found = {}
    for y in ("loss", "exact"):
        points = list(curve(folder, y, "mazes"))
        found[y] = [*points[: -1 : 1 + len(points) // MAX_POINTS], *points[-1:]]
    return found


def result_json(folder: Path) -> dict[str, Any]:
    """Return the measured accuracy of shipped models, the paper's main claims, and every study."""
    results = read_results(folder)
    files = {name: folder / f"{name}.json" for name in sorted(shipped_models())}
    return {
        "folder": str(folder),
        "shipped": {name: read_json(file).get("measured", []) for name, file in files.items() if file.is_file()},
        "claims": [{"verdict": main.verdict, **to_plain(main.claim)} for main in main_verdicts(results)],
        "studies": [_study_json(name, results.get(name), folder) for name in STUDIES],
    }


def _study_json(name: str, result: Result | None, folder: Path) -> dict[str, Any]:
    """Return a study with its tables; only the paper's own ones until a run has converged, as in docs/results.md."""
    study, state, findings, picture = STUDIES[name], "not run yet", [], None
    tables = [table for part in study.tables if isinstance(part, Report) for table in part.tables]
    if result is not None:
        shown, state = converged_only(result), "no run has converged yet"
        findings = [finding for finding in study.findings(result) if not finding.not_converged]
        if shown.runs or not result.runs:
            state, tables = "measured", list(study.report(shown).tables)
            picture = f"/api/results/{name}.png" if any((folder / name).glob("*.png")) else None
    texts = {"name": name, "title": study.title, "question": study.question, "paper": study.paper, "state": state}
    return texts | {"findings": to_plain(findings), "tables": to_plain(tables), "picture": picture}


def json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise UserError("the request is not valid JSON; send one JSON object.") from None
    if not isinstance(value, dict):
        raise UserError("the request must be a JSON object.")
    return value


def field(value: dict[str, Any], name: str, default: T, allowed: range | None = None) -> T:
    """Return a field of the default's type; a number must be in the range."""
    found = value.get(name, default)
    if type(found) is not type(default) or (allowed and found not in allowed):
        kind = f"a whole number from {allowed[0]:,} to {allowed[-1]:,}" if allowed else "text"
        raise UserError(f"the request must give {name} as {kind}.")
    return found


def first_task(data: bytes) -> tuple[Task, int]:
    """Return the first maze of a text or a file's bytes, and how many there are."""
    found = read_mazes(data)  # bytes, since a text may be the name of a file
    if not found:
        raise UserError("there is no maze in this.")
    height, width = found[0].task.maze.cells.shape
    if max(height, width) > MAX_SIDE:
        problem = f"the maze has {height} rows and {width} columns; the page takes at most {MAX_SIDE} of each."
        raise RequestError(413, problem)
    return found[0].task, len(found)


def task_from(maze: Any) -> Task:
    """Return the task of a maze in any text format, or in the JSON of `maze_json`."""
    if not isinstance(maze, str | dict):
        raise UserError("the request must give maze as text or as a JSON object.")
    task, count = first_task((maze if isinstance(maze, str) else json.dumps(maze)).encode(errors="replace"))
    if count != 1:
        raise UserError(f"the request holds {count} mazes; give one.")
    return task


def cell_json(task: Task, cell: Cell) -> Any:
    """Return a cell as [x, y], or a node as its label."""
    return cell[1] if isinstance(task.maze, PathStar) else [cell[1], cell[0]]


def maze_json(task: Task) -> dict[str, Any]:
    """Return a task as JSON: the open sides of its cells, or the edges of a path-star graph."""
    ends = {"start": cell_json(task, task.start), "goal": cell_json(task, task.goal)}
    if isinstance(task.maze, PathStar):
        return {"labels": task.maze.width, "edges": sorted((a[1], b[1]) for a, b in task.maze.edges()), **ends}
    return {"height": task.maze.height, "width": task.maze.width, **ends, "cells": task.maze.cells.tolist()}


def step_json(task: Task, step: TaskStep) -> dict[str, Any]:
    columns = zip(step.positions, step.tokens, step.probabilities, step.cells, strict=True)
    filled = [
        {
            "position": position,
            "token": token,
            "probability": round(probability, 4),
            "cell": cell and cell_json(task, cell),
        }
        for position, token, probability, cell in columns
    ]
    grid_HW = step.cell_probabilities
    probabilities = None if grid_HW is None else np.round(grid_HW.astype(float), 3).tolist()
    return {"pass": step.number, "hidden": step.hidden, "filled": filled, "probabilities": probabilities}


def solution_json(solution: Solution, exact_path: list[Cell]) -> dict[str, Any]:
    """Return a solution, compared with the path that the deterministic A* stores."""
    task, path = solution.task, solution.path
    return {
        "path": path and [cell_json(task, cell) for cell in path],
        "exact": path == exact_path,
        "valid": solution.is_valid,
        "shortest": solution.is_shortest,
        "failure": None if solution.is_shortest else classify(task, exact_path, path),
        "verdict": solution.verdict,
        "passes": solution.passes,
        "ms": round(1000 * solution.seconds, 2),
        "exact_path": [cell_json(task, cell) for cell in exact_path],
        "steps": [step_json(task, step) for step in solution.steps],
    }
