"""JSON of the page: checked requests, mazes, steps, solutions, models, runs and measured results.

Cells are [x, y]; nodes of graphs are numbers. A request names a model or run as it is listed; the name is never used as
a path.
"""

from __future__ import annotations

import json
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
from clew.web.solving import RequestError, check_running

MAX_SIDE = 64
MAX_LOADED = 8
MAX_POINTS = 400  # of a curve
OBJECTIVES = {"mlm-u": "MLM-U", "next-token": "next token"}
# The paper's MLM-U models of 8M parameters: exact %, by family and size.
PAPER_EXACT = {
    "dfs": {"5x5": "100", "10x10": "100", "15x15": "100", "20x20": "100", "30x30": "93.8"},
    "astar": {"10x10": "98.5", "20x20": "95.2", "30x30": "85.5"},
}


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
        """Return a model, loaded again if its run has a newer checkpoint."""
        source = self.sources().get(name)
        if source is None:
            raise RequestError(404, f"there is no model {name!r}; GET /api/models lists them.")
        return _load(*source)


def run_row(name: str, folder: Path) -> dict[str, Any]:
    """Return what the table shows of a run; one that cannot be read says why in `error`."""
    try:
        config = load_config(folder)
        first, last = config.data.shapes[0], config.data.shapes[-1]
        return {
            "name": name,
            "model": kind_of(config.model),
            "objective": OBJECTIVES.get(config.objective.name, config.objective.name),
            "mazes": describe_tasks(config.data.family, *first) + (f" to {last[0]}x{last[1]}" if last != first else ""),
            "parameters": parameters_of(config.model),
            **run_status(folder),
        }
    except (UserError, OSError, KeyError, TypeError) as error:
        return {"name": name, "error": str(error), "age": 0}


def run_json(folder: Path) -> dict[str, Any]:
    """Return the config and the curves of a run, by mazes seen; a long curve is thinned to about MAX_POINTS."""
    curves = {}
    for y in ("loss", "exact"):
        points = list(curve(folder, y, "mazes"))
        curves[y] = [*points[: -1 : 1 + len(points) // MAX_POINTS], *points[-1:]]
    return {"config": load_config(folder).to_json(), "curves": curves}


def result_json(folder: Path) -> dict[str, Any]:
    """Return the accuracy of shipped models, the paper's main claims, and every study: its tables beside ours."""
    results = read_results(folder)
    claims = [
        {"verdict": main.verdict, "text": f"{main.claim.text} (the paper, {main.claim.paper})"}
        for main in main_verdicts(results)
    ]
    studies = []
    for name, study in STUDIES.items():
        state, findings, picture = "not run yet", [], None
        # Of a study without results, the paper's own tables are shown.
        tables = [table for part in study.tables if isinstance(part, Report) for table in part.tables]
        if result := results.get(name):
            # Runs that did not converge are not shown, as in docs/results.md.
            shown, state = converged_only(result), "no run has converged yet"
            findings = [finding for finding in study.findings(result) if not finding.not_converged]
            if shown.runs or not result.runs:
                state, tables = "measured", list(study.report(shown).tables)
                picture = f"/api/results/{name}.png" if any((folder / name).glob("*.png")) else None
        studies.append(
            {
                "title": study.title,
                "question": study.question,
                "paper": study.paper,
                "command": f"clew reproduce {name} --scale laptop",
                "state": state,
                "findings": [{"verdict": f.verdict, "text": f"{f.claim.text}. {f.because}"} for f in findings],
                "tables": [{"title": table.title, "rows": table.rows} for table in tables],
                "picture": picture,
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


def number_field(value: dict[str, Any], name: str, low: int, high: int, default: int) -> int:
    """Return a field that must be a whole number from `low` to `high`."""
    found = value.get(name, default)
    if type(found) is not int or not low <= found <= high:
        raise UserError(f"the request must give {name} as a whole number from {low:,} to {high:,}.")
    return found


def task_from(maze: Any) -> Task:
    """Return the task of a maze in any text format, or in the JSON of `maze_json`."""
    if not isinstance(maze, str | dict):
        raise UserError("the request must give maze as text or as a JSON object.")
    found = tasks_in_text(maze if isinstance(maze, str) else json.dumps(maze))
    if len(found) != 1:
        raise UserError(f"the request holds {len(found)} mazes; give one.")
    return check_size(found[0].task)


def check_size(task: Task) -> Task:
    """Return the task; an error if it is larger than the page allows."""
    height, width = task.maze.cells.shape
    if max(height, width) > MAX_SIDE:
        problem = f"the maze has {height} rows and {width} columns; the page takes at most {MAX_SIDE} of each."
        raise RequestError(413, problem)
    return task


def maze_json(task: Task) -> dict[str, Any]:
    """Return a task as JSON: the open sides of its cells, or the edges of a path-star graph."""
    ends = {"start": cell_json(task, task.start), "goal": cell_json(task, task.goal)}
    if isinstance(task.maze, PathStar):
        return {"labels": task.maze.width, "edges": sorted((a[1], b[1]) for a, b in task.maze.edges()), **ends}
    return {"height": task.maze.height, "width": task.maze.width, **ends, "cells": task.maze.cells.tolist()}


def cell_json(task: Task, cell: Cell) -> Any:
    """Return a cell as [x, y], or a node as its label."""
    return cell[1] if isinstance(task.maze, PathStar) else [cell[1], cell[0]]


def path_json(task: Task, path: list[Cell] | None) -> list[Any] | None:
    return None if path is None else [cell_json(task, cell) for cell in path]


def step_json(task: Task, step: TaskStep) -> dict[str, Any]:
    filled = []
    columns = (step.positions, step.tokens, step.probabilities, step.cells)
    for position, token, probability, cell in zip(*columns, strict=True):
        item = {"position": position, "token": token, "probability": round(probability, 4)}
        filled.append(item if cell is None else item | {task.maze.cell_word: cell_json(task, cell)})
    grid_HW = step.cell_probabilities
    probabilities = None if grid_HW is None else np.round(grid_HW.astype(float), 3).tolist()
    return {"pass": step.number, "hidden": step.hidden, "filled": filled, "probabilities": probabilities}


def solution_json(solution: Solution, exact_path: list[Cell]) -> dict[str, Any]:
    """Return a solution, compared with the path that the deterministic A* stores."""
    task, path = solution.task, solution.path
    return {
        "path": path_json(task, path),
        "exact": path == exact_path,
        "valid": solution.is_valid,
        "shortest": solution.is_shortest,
        "failure": None if solution.is_shortest else classify(task, exact_path, path),
        "verdict": solution.verdict,
        "passes": solution.passes,
        "ms": round(1000 * solution.seconds, 2),
        "exact_path": path_json(task, exact_path),
        "steps": [step_json(task, step) for step in solution.steps],
    }
