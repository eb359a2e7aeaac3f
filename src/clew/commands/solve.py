"""`clew solve FILE`: solve mazes of a file exactly or with a trained model."""

from __future__ import annotations

import json as json_module
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from clew.commands import announce_compilation, check_files, progress_bar
from clew.errors import UserError, counted, report_error
from clew.registry import model_folder

if TYPE_CHECKING:
    from clew.api import ExactSolution
    from clew.decoding.decode import TaskStep
    from clew.mazes.maze import Path, Task
    from clew.models.cell_network import CellNetwork
    from clew.tokenization.read import ReadTask


def solve(
    file: str, /, *, solver: str = "astar", decoder: str | None = None, trace: bool = False, json: bool = False
) -> int:
    """Solve the mazes of a file exactly, or with a trained model, and draw them with their paths.

    For example: clew solve mazes.txt --solver astar --trace --json
    or: clew solve mazes.txt --solver cells-dfs

    With --json, one line a maze: {"path","length","num_shortest","prompt","plan","trace"}, and with a model
    {"path","length","valid","shortest","problem","passes","seconds","steps"}. Cells are [x, y] everywhere in the JSON,
    as in JSON mazes: x is the column and y the row, both from 0 at the top left. The length is the number of cells of
    the path, both ends counted. Prompt and plan are wall-list text for mazes of wall cells and edge-list text for
    others; of a path-star graph the path is a list of labels, and prompt and plan are path-star text. Trace and steps
    are null without --trace. A step is {"pass","hidden","positions","tokens","cells","probabilities"}: the positions of
    the response that a forward pass filled in, or hid again, in their order (of a cell network row * width + column).

    A maze that cannot be read or solved is named on stderr and the others are solved. The exit code is 1 if there was
    one, or if a model's path is not valid.

    Args:
        file: mazes as drawings, token text, HRM lines or CSV, JSON lines, an image (docs/data.md); - for standard
            input.
        solver: bfs (breadth-first search), astar (with the tie-break of the paper's set), or a model: the folder of a
            run, or the name of a shipped model.
        decoder: how to decode a model's answer, as in `clew evaluate`.
        trace: also print the trace of the A* search, as create and close tokens, or the order and the probabilities
            in which a model fills in its answer.
        json: print JSON lines instead of drawings.
    """
    if trace and solver == "bfs":
        raise UserError("--trace prints the search of A*, and bfs has none; use --solver astar.")
    if decoder is not None and solver in ("bfs", "astar"):
        raise UserError(f"--decoder decodes a model's answer, but {solver} is exact; leave it out.")

    if is_model := solver not in ("bfs", "astar"):
        try:
            model_folder(solver)  # a wrong name is reported before torch is imported
        except UserError as error:
            raise UserError(f"the solver is neither bfs nor astar, and {error}") from None
    check_files(file)

    from clew.data.readers import iter_mazes

    announce_compilation()
    answer = _with_model(solver, decoder, trace, json) if is_model else _exact(solver, trace, json)
    invalid = solved = 0
    failed: list[int] = []
    with progress_bar("mazes solved", None) as progress:
        for read in iter_mazes(file, on_error=lambda sentence: failed.append(report_error(sentence))):
            try:
                text, valid = answer(read)
            except UserError as error:
                failed.append(report_error(f"maze {read.number}, line {read.line}: {error}"))
                continue
            print(text, flush=True)
            solved += 1
            invalid += not valid
            progress(solved)
    if invalid:
        report_error(f"the model's path is not valid in {invalid:,} of {counted(solved, 'maze')}.")
    return 1 if failed or invalid else 0


LARGE = 10_000  # cells of a maze that a model takes long for
# What a solver returns for a maze: the text to print, and whether the path is valid.
Answer = Callable[["ReadTask"], tuple[str, bool]]


def _exact(solver: str, trace: bool, json: bool) -> Answer:
    from clew import api

    def answer(read: ReadTask) -> tuple[str, bool]:
        if trace and read.kind == "path-star":
            raise UserError("A* searches grids, so a path-star graph has no trace; leave --trace out.")
        found = api.solve(read.task, solver)  # type: ignore[arg-type]
        return (_json_line if json else _report)(read, found, trace), True

    return answer


def _with_model(solver: str, decoder: str | None, trace: bool, json: bool) -> Answer:
    from clew.decoding.decode import check_decoder, parse_decoder
    from clew.models.cell_network import CellNetwork
    from clew.trained import load

    model = load(solver)
    if decoder is not None:
        check_decoder(model.model, parse_decoder(decoder), model.codec.vocabulary is None)

    def answer(read: ReadTask) -> tuple[str, bool]:
        if read.task.maze.cells.size > LARGE and isinstance(model.model, CellNetwork):
            _announce_duration(model.model, read.task)
        found = model.solve(read.task, decoder)
        if found.shortest_path is None:
            raise UserError(str(found.problem))
        if not json:
            lines = [str(found)]
            for step in found.steps if trace else []:
                if step.hidden:
                    lines.append(f"pass {step.number} hides {' '.join(map(str, step.positions))}")
                else:
                    filled = zip(step.positions, step.tokens, step.probabilities, strict=True)
                    lines.append(f"pass {step.number}: " + ", ".join(f"{i} {token} {p:.3f}" for i, token, p in filled))
            return "\n".join([*lines, ""]), found.is_valid
        value = {
            "path": None if found.path is None else _plain_path(read, found.path),
            "length": len(found.path or []),
            "valid": found.is_valid,
            "shortest": found.is_shortest,
            # Messages name cells as (row, col); JSON has one convention, [x, y].
            "problem": found.problem and re.sub(r"\((\d+), (\d+)\)", r"[\2, \1]", found.problem),
            "passes": found.passes,
            "seconds": round(found.seconds, 6),
            "steps": [_plain_step(read, step) for step in found.steps] if trace else None,
        }
        return json_module.dumps(value), found.is_valid

    return answer


def _announce_duration(network: CellNetwork, task: Task) -> None:
    """Print how long a pass takes at least: labels are first read after half of the config's loops."""
    from clew.decoding.cells import loop_probabilities
    from clew.training.callbacks import format_duration

    height, width = task.maze.cells.shape
    loop_probabilities(network, task, loops=1)  # loads the kernels
    began = time.perf_counter()
    loop_probabilities(network, task, loops=1)
    least = format_duration((time.perf_counter() - began) * network.config.loops(height, width) / 2)
    report_error(f"a pass over {height} by {width} cells takes the model {least} or more; --solver astar is fast.")


def _plain_step(read: ReadTask, step: TaskStep) -> dict[str, Any]:
    return {
        "pass": step.number,
        "hidden": step.hidden,
        "positions": step.positions,
        "tokens": step.tokens,
        "cells": [None if cell is None else _plain_path(read, [cell])[0] for cell in step.cells],
        "probabilities": [round(probability, 6) for probability in step.probabilities],
    }


def _plain_path(read: ReadTask, path: Path) -> list[Any]:
    """Return the cells as [x, y], or the labels of a path-star graph's nodes."""
    return [col if read.kind == "path-star" else [col, row] for row, col in path]


def _json_line(read: ReadTask, found: ExactSolution, trace: bool) -> str:
    from clew.tokenization import format as forms

    task = read.task
    # A maze that is open everywhere has both formats; it keeps the one that it was read in.
    if task.maze.has_wall_cells_only and read.kind != "edge-list":
        prompt, plan = forms.prompt_tokens(task), forms.plan_tokens(found.path)
    else:
        form = forms.PathStarList() if read.kind == "path-star" else forms.EdgeList()
        encoded = form.encode(task, found.path, edges=read.edges)
        prompt, plan = encoded.prompt, encoded.response
    answer: dict[str, Any] = {
        "path": _plain_path(read, found.path),
        "length": len(found.path),
        "num_shortest": found.num_shortest,
        "prompt": " ".join(prompt),
        "plan": " ".join(plan),
        "trace": " ".join(forms.trace_tokens(found.trace)) if trace else None,
    }
    return json_module.dumps(answer)


def _report(read: ReadTask, found: ExactSolution, trace: bool) -> str:
    """Return the drawing with the length of the path, a check of the path in the file, and the trace."""
    from clew.mazes.solvers import is_shortest, path_problem
    from clew.tokenization.format import trace_tokens

    ways = "the only shortest one" if found.num_shortest == 1 else f"one of {found.num_shortest:,} shortest ones"
    lines = [str(found), f"line {read.line}: a path of {counted(len(found.path), read.task.maze.cell_word)}, {ways}."]
    if read.path is not None:
        valid = "valid and a shortest one." if is_shortest(read.task, read.path) else "valid, but not a shortest one."
        lines.append(f"the path given in the file: {path_problem(read.task, read.path) or valid}")
    if trace:
        lines.append(" ".join(trace_tokens(found.trace)))
    return "\n".join(lines) + "\n"
