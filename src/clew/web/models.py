"""JSON of the page: checked requests, mazes, steps, solutions, models, runs and measured results.

Cells are [x, y]; nodes of graphs are numbers. A request names a model or run as it is listed; the name is never used as
a path.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from clew.decoding.decode import TaskStep, decoders_for, default_decoder, is_causal
from clew.errors import UserError
from clew.evaluation.scores import classify
from clew.files import read_json
from clew.mazes.generate import describe_tasks
from clew.mazes.maze import Cell, PathStar, Task
from clew.models.cell_network import CellNetwork
from clew.models.config import kind_of
from clew.paper.page import main_verdicts, read_results
from clew.paper.results import Report
from clew.paper.studies import STUDIES
from clew.paper.study import parameters_of
from clew.paper.verdict import converged_only
from clew.registry import shipped_models
from clew.solution import Solution
from clew.tokenization.read import tasks_in_text
from clew.trained import TrainedModel, load
from clew.training.callbacks import curve, find_runs, run_status
from clew.training.checkpoint import load_config
from clew.web.solving import check_running

MAX_BODY_BYTES = 1_000_000
MAX_SIDE = 64
MAX_LOADED = 8
MAX_POINTS = 400  # of a curve
OBJECTIVES = {"mlm-u": "MLM-U", "next-token": "next token"}
# The paper's MLM-U models of 8M parameters: exact %, by family and size.
PAPER_EXACT = {
    "dfs": {"5x5": "100", "10x10": "100", "15x15": "100", "20x20": "100", "30x30": "93.8"},
    "astar": {"10x10": "98.5", "20x20": "95.2", "30x30": "85.5"},
}


class NotFound(UserError):
    """A name that the server does not list."""

    status = 404


class TooLarge(UserError):
    """A request or a maze above the limits."""

    status = 413


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
        named = "next-token" if is_causal(model.model) else "mlm-u"
        objective = named if shipped else load_config(folder).objective.name
    except (UserError, OSError):  # no checkpoint yet, or a damaged one
        return None
    words = OBJECTIVES.get(objective, objective)
    return {
        "name": name,
        "shipped": shipped,
        "summary": f"{model.parameters:,} parameters · {words} · trained on {model.tasks}",
        "family": model.family,
        "height": model.height,
        "width": model.width,
        "format": model.codec.format_name,
        "objective": words,
        "parameters": model.parameters,
        "decoders": list(decoders_for(model.model, model.codec)),
        "default_decoder": default_decoder(model.codec),
        "loops": isinstance(model.model, CellNetwork),
    }


class ModelStore:
    """The models that come with Clew, and those of the runs below a folder."""

    def __init__(self, runs: Path | None = None) -> None:
        self.folder = runs

    def runs(self) -> dict[str, Path]:
        """Return the folders of the runs, by their names below the folder."""
        if self.folder is None or not self.folder.is_dir():
            return {}
        return {str(run.relative_to(self.folder)): run for run in find_runs(self.folder)}

    def run(self, name: str) -> Path:
        if folder := self.runs().get(name):
            return folder
        raise NotFound(f"there is no run {name!r}; GET /api/runs lists them.")

    def sources(self) -> dict[str, tuple[Path, float]]:
        """Return folder and time of each model; a run does not replace a shipped model of the same name."""
        found = {name: (folder, _changed(folder / "checkpoints")) for name, folder in self.runs().items()}
        return found | {name: (folder, 0.0) for name, folder in shipped_models().items()}

    def listed(self) -> list[dict[str, Any]]:
        """Return the description of every model that can be loaded."""
        found = [_describe(name, *source) for name, source in self.sources().items()]
        return sorted(filter(None, found), key=lambda model: (not model["shipped"], model["name"]))

    def load(self, name: str) -> TrainedModel:
        """Return a model, loaded again if its run has a newer checkpoint."""
        source = self.sources().get(name)
        if source is None:
            raise NotFound(f"there is no model {name!r}; GET /api/models lists them.")
        return _load(*source)


def run_row(name: str, folder: Path) -> dict[str, Any]:
    """Return what the table shows of a run; one that cannot be read says why in `error`."""
    try:
        config = load_config(folder)
        first, last = config.data.shapes[0], config.data.shapes[-1]
        mazes = describe_tasks(config.data.family, *first) + (f" to {last[0]}x{last[1]}" if last != first else "")
        return {
            "name": name,
            "model": kind_of(config.model),
            "objective": OBJECTIVES.get(config.objective.name, config.objective.name),
            "mazes": mazes,
            "parameters": parameters_of(config.model),
            **run_status(folder),
        }
    except (UserError, OSError, KeyError, TypeError) as error:
        return {"name": name, "error": str(error), "age": 0}


def run_json(folder: Path) -> dict[str, Any]:
    """Return the config and the curves of a run, by mazes seen; an evaluation lies at the last step before it."""
    curves = {y: _thinned([[*point] for point in curve(folder, y, "mazes")]) for y in ("loss", "exact")}
    return {"config": load_config(folder).to_json(), "curves": curves}


def result_json(folder: Path) -> dict[str, Any]:
    """Return the accuracy of shipped models, the paper's main claims, and every study: its tables beside ours."""
    results = read_results(folder)
    claims = [
        {"verdict": main.verdict, "text": f"{main.text} (the paper, {main.paper})"} for main in main_verdicts(results)
    ]
    studies = []
    for name, study in STUDIES.items():
        result = results.get(name)
        # Runs that did not converge are not shown, as in docs/results.md; the paper's own tables always are.
        shown = converged_only(result) if result else None
        measured = shown is not None and result is not None and (bool(shown.runs) or not result.runs)
        paper = [table for part in study.tables if isinstance(part, Report) for table in part.tables]
        tables = study.report(shown).tables if measured and shown else paper
        findings = [f for f in study.findings(result) if not f.not_converged] if result else []
        studies.append(
            {
                "title": study.title,
                "question": study.question,
                "paper": study.paper,
                "command": f"clew reproduce {name} --scale laptop",
                "state": "measured" if measured else "no run has converged yet" if result else "not run yet",
                "findings": [{"verdict": f.verdict, "text": f"{f.text}. {f.because}"} for f in findings],
                "tables": [{"title": table.title, "rows": table.rows} for table in tables],
                "picture": f"/api/results/{name}.png" if measured and any((folder / name).glob("*.png")) else None,
            }
        )
    return {"folder": str(folder), "shipped": _shipped_rows(folder), "claims": claims, "studies": studies}


def _shipped_rows(folder: Path) -> list[list[str]]:
    """Return the measured accuracy of shipped models beside the paper's, with a head; nothing without files."""
    rows = []
    for name in (name for name in sorted(shipped_models()) if (folder / f"{name}.json").is_file()):
        for report in read_json(folder / f"{name}.json").get("measured", []):
            *_, family, _, _, size = report["mazes"].split()  # 2,000 held-out dfs mazes of 5x5
            paper = PAPER_EXACT.get(family, {}).get(size, "")
            for each in report["evaluations"] if paper else report["evaluations"][:1]:
                share, low, high = (100 * each["exact"][key] for key in ("share", "low", "high"))
                row = [name, f"{each['mazes']:,} of {size}", each["decoder"], f"{share:.1f} ({low:.1f} to {high:.1f})"]
                rows.append([*row, paper, f"{100 * each['shortest']['share']:.1f}", f"{each['passes']:.1f}"])
    head = ["model", "mazes", "decoder", "exact, % (95 %)", "the paper, exact %", "valid and shortest, %", "passes"]
    return [head, *rows] if rows else []


def _thinned(points: Sequence[list[float]]) -> list[list[float]]:
    """Return at most MAX_POINTS of the points, the last one among them."""
    step = max(1, -(-len(points) // MAX_POINTS))
    return [*points[:-1:step], *points[-1:]]


def _changed(path: Path) -> float:
    return path.stat().st_mtime if path.exists() else 0.0


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


def path_json(task: Task, path: list[Cell] | None) -> list[Any] | None:
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


def solution_json(solution: Solution, exact_path: list[Cell]) -> dict[str, Any]:
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
