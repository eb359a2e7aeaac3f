"""`clew solve FILE`: solve mazes of a file exactly or with a trained model."""

from __future__ import annotations

import json as json_module
import re
from typing import TYPE_CHECKING, Any

import clew
from clew.commands import ReportedErrors, check_files, progress_bar
from clew.data.readers import iter_mazes
from clew.errors import UserError, counted, report_error
from clew.mazes.maze import Path
from clew.mazes.solvers import is_shortest, path_problem
from clew.tokenization import format as forms
from clew.tokenization.read import ReadTask

if TYPE_CHECKING:
    from clew.solution import Solution
    from clew.trained import TrainedModel

LARGE = 10_000  # cells of a maze that a model takes long for


def solve(
    file: str,  # mazes in any form (docs/data.md): drawings, tokens, JSON, an image; - for standard input
    *,
    solver: str = "astar",  # bfs, astar (with the paper's tie-break), or a model: a run's folder, a shipped one's name
    decoder: str | None = None,  # how to decode a model's answer, as in `clew evaluate`
    trace: bool = False,  # also print the trace of A*, or the order and probabilities in which a model fills in
    json: bool = False,  # print JSON lines instead of drawings
) -> int:
    """Solve the mazes of a file exactly, or with a trained model, and draw them with their paths.

    For example: clew solve mazes.txt --solver astar --trace --json
    or: clew solve mazes.txt --solver cells-dfs

    With --json, one object a line, with cells as [x, y] (docs/api.md). A maze that cannot be read or solved is named on
    stderr and the others are solved. The exit code is 1 if there was one, or if a model's path is not valid.
    """
    is_exact = solver in ("bfs", "astar")
    if trace and solver == "bfs":
        raise UserError("--trace prints the search of A*, and bfs has none; use --solver astar.")
    if decoder is not None and is_exact:
        raise UserError(f"--decoder decodes a model's answer, but {solver} is exact; leave it out.")
    check_files(file)

    model = None if is_exact else clew.load(solver)
    if model is not None and decoder is not None:  # before any maze is read
        from clew.decoding.decode import check_decoder, parse_decoder

        check_decoder(model.model, parse_decoder(decoder), model.codec.vocabulary is None)
    refused, valid = ReportedErrors(), list[bool]()
    with progress_bar("mazes solved", None) as progress:
        for read in iter_mazes(file, on_error=refused):
            try:
                if model is None:
                    text = _exact(read, solver, trace, json)
                else:
                    solution = _solve(model, read, decoder)
                    text = _predicted(read, solution, trace, json)
                    valid.append(solution.is_valid)
                print(text, flush=True)
            except UserError as error:
                refused(f"maze {read.number}, line {read.line}: {error}")
            progress(read.number)
    if not all(valid):
        report_error(f"the model's path is not valid in {valid.count(False):,} of {counted(len(valid), 'maze')}.")
    return 1 if refused or not all(valid) else 0


def _exact(read: ReadTask, method: str, trace: bool, json: bool) -> str:
    """Return what is printed of a shortest path."""
    task = read.task
    if trace and read.kind == "path-star":
        raise UserError("A* searches grids, so a path-star graph has no trace; leave --trace out.")
    found = clew.solve(task, method)  # type: ignore[arg-type]
    shown = " ".join(forms.trace_tokens(found.trace)) if trace else None
    if json:
        # A maze that is open everywhere has both formats; it keeps the one that it was read in.
        if task.maze.has_wall_cells_only and read.kind != "edge-list":
            prompt, plan = forms.prompt_tokens(task), forms.plan_tokens(found.path)
        else:
            form = forms.PathStarList() if read.kind == "path-star" else forms.EdgeList()
            encoded = form.encode(task, found.path, edges=read.edges)
            prompt, plan = encoded.prompt, encoded.response
        value = {"path": _plain(read, found.path), "length": len(found.path), "num_shortest": found.num_shortest}
        return json_module.dumps(value | {"prompt": " ".join(prompt), "plan": " ".join(plan), "trace": shown})
    ways = "the only shortest one" if found.num_shortest == 1 else f"one of {found.num_shortest:,} shortest ones"
    lines = [str(found), f"line {read.line}: a path of {counted(len(found.path), task.maze.cell_word)}, {ways}."]
    if read.path is not None:
        valid = "valid and a shortest one." if is_shortest(task, read.path) else "valid, but not a shortest one."
        lines.append(f"the path given in the file: {path_problem(task, read.path) or valid}")
    return "\n".join([*lines, *filter(None, [shown]), ""])


def _solve(model: TrainedModel, read: ReadTask, decoder: str | None) -> Solution:
    height, width = read.task.maze.cells.shape
    if height * width > LARGE:
        report_error(f"a pass over {height} by {width} cells may take a minute or more; --solver astar is fast.")
    solution = model.solve(read.task, decoder)
    if solution.shortest_path is None:
        raise UserError(str(solution.problem))
    return solution


def _predicted(read: ReadTask, found: Solution, trace: bool, json: bool) -> str:
    """Return what is printed of a model's path."""
    if not json:
        lines = [str(found)]
        for step in found.steps if trace else []:
            filled = zip(step.positions, step.tokens, step.probabilities, strict=True)
            words = [str(i) if step.hidden else f"{i} {token} {p:.3f}" for i, token, p in filled]
            lines.append(f"pass {step.number}{' hides' if step.hidden else ''}: {', '.join(words)}")
        return "\n".join([*lines, ""])
    steps = [
        {
            "pass": step.number,
            "hidden": step.hidden,
            "positions": step.positions,
            "tokens": step.tokens,
            "cells": [cell and _plain(read, [cell])[0] for cell in step.cells],
            "probabilities": [round(probability, 6) for probability in step.probabilities],
        }
        for step in found.steps
    ]
    value = {
        "path": found.path and _plain(read, found.path),
        "length": len(found.path or []),
        "valid": found.is_valid,
        "shortest": found.is_shortest,
        # Messages name cells as (row, col); JSON has one convention, [x, y].
        "problem": found.problem and re.sub(r"\((\d+), (\d+)\)", r"[\2, \1]", found.problem),
        "passes": found.passes,
        "seconds": round(found.seconds, 6),
        "steps": steps if trace else None,
    }
    return json_module.dumps(value)


def _plain(read: ReadTask, path: Path) -> list[Any]:
    """Return the cells as [x, y], or the labels of a path-star graph's nodes."""
    return [col if read.kind == "path-star" else [col, row] for row, col in path]
