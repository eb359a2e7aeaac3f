"""`clew solve FILE`: solve mazes of a file exactly or with a trained model."""

from __future__ import annotations

import json as json_module
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import clew
from clew.commands import Refused, check_files, progress_bar
from clew.errors import UserError, counted, report_error

if TYPE_CHECKING:
    from clew.mazes.maze import Path
    from clew.tokenization.read import ReadTask
    from clew.trained import TrainedModel

LARGE = 10_000  # cells of a maze that a model takes long for
# What a solver returns for a maze: the text to print, and whether the path is valid.
Answer = Callable[["ReadTask"], tuple[str, bool]]


def solve(
    # mazes as drawings, token text, HRM lines or CSV, JSON lines, an image (docs/data.md); - for standard input
    file: str,
    *,
    # bfs (breadth-first search), astar (with the tie-break of the paper's set), or a model: the folder of a run, or the
    # name of a shipped model
    solver: str = "astar",
    decoder: str | None = None,  # how to decode a model's answer, as in `clew evaluate`
    # also print the trace of the A* search, as create and close tokens, or the order and the probabilities in which a
    # model fills in its answer
    trace: bool = False,
    json: bool = False,  # print JSON lines instead of drawings
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
    """
    is_exact = solver in ("bfs", "astar")
    if trace and solver == "bfs":
        raise UserError("--trace prints the search of A*, and bfs has none; use --solver astar.")
    if decoder is not None and is_exact:
        raise UserError(f"--decoder decodes a model's answer, but {solver} is exact; leave it out.")
    check_files(file)

    from clew.data.readers import iter_mazes

    answer = _exact(solver, trace, json) if is_exact else _with_model(clew.load(solver), decoder, trace, json)
    invalid = solved = 0
    refused = Refused()
    with progress_bar("mazes solved", None) as progress:
        for read in iter_mazes(file, on_error=refused):
            try:
                text, valid = answer(read)
            except UserError as error:
                refused(f"maze {read.number}, line {read.line}: {error}")
                continue
            print(text, flush=True)
            solved += 1
            invalid += not valid
            progress(solved)
    if invalid:
        report_error(f"the model's path is not valid in {invalid:,} of {counted(solved, 'maze')}.")
    return 1 if refused or invalid else 0


def _exact(method: str, trace: bool, json: bool) -> Answer:
    from clew.mazes.solvers import is_shortest, path_problem
    from clew.tokenization import format as forms

    def answer(read: ReadTask) -> tuple[str, bool]:
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
                encoded = form.encode_edges(read.edges or forms.shuffled_edges(task.maze, seed=0), task, found.path)
                prompt, plan = encoded.prompt, encoded.response
            value = {"path": _plain(read, found.path), "length": len(found.path), "num_shortest": found.num_shortest}
            return json_module.dumps(value | {"prompt": " ".join(prompt), "plan": " ".join(plan), "trace": shown}), True
        ways = "the only shortest one" if found.num_shortest == 1 else f"one of {found.num_shortest:,} shortest ones"
        lines = [str(found), f"line {read.line}: a path of {counted(len(found.path), task.maze.cell_word)}, {ways}."]
        if read.path is not None:
            valid = "valid and a shortest one." if is_shortest(task, read.path) else "valid, but not a shortest one."
            lines.append(f"the path given in the file: {path_problem(task, read.path) or valid}")
        return "\n".join([*lines, *filter(None, [shown]), ""]), True

    return answer


def _with_model(model: TrainedModel, decoder: str | None, trace: bool, json: bool) -> Answer:
    from clew.decoding.decode import check_decoder, parse_decoder

    if decoder is not None:  # before any maze is read
        check_decoder(model.model, parse_decoder(decoder), model.codec.vocabulary is None)

    def answer(read: ReadTask) -> tuple[str, bool]:
        if read.task.maze.cells.size > LARGE:
            _announce_duration(model, read)
        found = model.solve(read.task, decoder)
        if found.shortest_path is None:
            raise UserError(str(found.problem))
        if json:
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
            return json_module.dumps(value), found.is_valid
        lines = [str(found)]
        for step in found.steps if trace else []:
            filled = zip(step.positions, step.tokens, step.probabilities, strict=True)
            words = [str(i) if step.hidden else f"{i} {token} {p:.3f}" for i, token, p in filled]
            lines.append(f"pass {step.number}{' hides' if step.hidden else ''}: {', '.join(words)}")
        return "\n".join([*lines, ""]), found.is_valid

    return answer


def _announce_duration(model: TrainedModel, read: ReadTask) -> None:
    """Print how long a pass takes at least: labels are first read after half of the config's loops."""
    from clew.decoding.cells import loop_probabilities
    from clew.models.cell_network import CellNetwork
    from clew.training.callbacks import format_duration

    if isinstance(model.model, CellNetwork):
        height, width = read.task.maze.cells.shape
        loop_probabilities(model.model, read.task, loops=1)  # loads the kernels
        began = time.perf_counter()
        loop_probabilities(model.model, read.task, loops=1)
        least = format_duration((time.perf_counter() - began) * model.config.loops(height, width) / 2)
        report_error(f"a pass over {height} by {width} cells takes the model {least} or more; --solver astar is fast.")


def _plain(read: ReadTask, path: Path) -> list[Any]:
    """Return the cells as [x, y], or the labels of a path-star graph's nodes."""
    return [col if read.kind == "path-star" else [col, row] for row, col in path]
