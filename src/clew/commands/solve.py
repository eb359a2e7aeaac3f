"""`clew solve FILE`: paths of the mazes in a file, exact ones or those of a trained model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import tyro

from clew.errors import UserError

if TYPE_CHECKING:
    from clew.mazes.maze import Path
    from clew.mazes.solvers import Event
    from clew.tokenization.read import ReadTask


def solve(
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    solver: Annotated[str, tyro.conf.arg(metavar="bfs|astar|RUN")] = "astar",
    decoder: str | None = None,
    trace: bool = False,
    json: bool = False,
) -> None:
    """Solve the mazes of a file exactly, or with a trained model, and draw them with their paths.

    For example: clew solve mazes.txt --solver astar --trace --json
    or: clew solve mazes.txt --solver runs/x

    With --json, one line a maze: {"path":[[x,y],...],"length","num_shortest","prompt","plan","trace"}. The length is
    the number of cells of the path, both ends counted. Prompt and plan are wall-list text for mazes of wall cells, and
    edge-list text for mazes with walls between cells. Of a path-star graph the path is a list of labels, and prompt and
    plan are path-star text. The trace is null without --trace. A maze without a way through ends the command; the
    mazes before it have been printed. A model's line has "path", "length", "valid", "shortest", "problem", "passes"
    and "seconds".

    Args:
        file: mazes as drawings, edge-list, wall-list, grid or path-star text, or JSON lines; - for standard input.
        solver: breadth-first search, or A* with the deterministic rule of the paper's set, or a model: the folder of
            a run, or the name of one that comes with Clew.
        decoder: how to read a model's answer, as in `clew evaluate`.
        trace: also give the log of the A* search, as create and close tokens.
        json: print JSON lines instead of drawings.
    """
    if trace and solver != "astar":
        raise UserError(f"--trace tells how A* searched, which {solver} does not do; use --solver astar.")
    if solver not in ("bfs", "astar"):
        _solve_with_model(file, solver, decoder, json)
        return
    if decoder is not None:
        raise UserError(f"--decoder says how to read a model's answer, but {solver} is exact; leave it out.")

    from clew.tokenization.read import iter_tasks

    for read in iter_tasks(file):
        if trace and read.kind == "path-star":
            raise UserError(f"line {read.line}: A* searches grids, so a path-star graph has no trace; leave it out.")
        path, events = _solve(read, solver)
        print(
            _json_line(read, path, events if trace else None)
            if json
            else _report(read, path, events if trace else None)
        )


def _solve(read: ReadTask, solver: str) -> tuple[Path, list[Event]]:
    """A shortest path, and what A* logged."""
    from clew.mazes.solvers import astar, bfs_path

    events: list[Event] = []
    if solver == "bfs":
        path = bfs_path(read.task)
    else:
        result = astar(read.task)
        path, events = result.path, result.trace
    if path is None:
        raise UserError(f"line {read.line}: no way leads {read.task.ends}; open one and solve again.")
    return path, events


def _solve_with_model(file: str, solver: str, decoder: str | None, json: bool) -> None:
    """Let a model answer, maze by maze, so that the mazes before a bad line come out."""
    import json as json_module

    from clew.tokenization.read import iter_tasks
    from clew.trained import load

    try:
        model = load(solver)
    except UserError as error:
        raise UserError(f"the solver is neither bfs nor astar, and {error}") from None
    for read in iter_tasks(file):
        try:
            found = model.solve(read.task, decoder)
        except UserError as error:
            raise UserError(f"line {read.line}: {error}") from None
        if found.shortest_path is None:
            raise UserError(f"line {read.line}: {found.problem}")
        if not json:
            print(f"{found}\n")
            continue
        answer = {
            "path": None if found.path is None else _plain_path(read, found.path),
            "length": len(found.path or []),
            "valid": found.is_valid,
            "shortest": found.is_shortest,
            "problem": found.problem,
            "passes": found.passes,
            "seconds": round(found.seconds, 6),
        }
        print(json_module.dumps(answer))


def _plain_path(read: ReadTask, path: Path) -> list[Any]:
    """The cells as [x, y], or the labels of a path-star graph's nodes."""
    return [col if read.kind == "path-star" else [col, row] for row, col in path]


def _json_line(read: ReadTask, path: Path, events: list[Event] | None) -> str:
    import json

    from clew.mazes.solvers import num_shortest
    from clew.tokenization.edge_list import EdgeList, shuffled_edges
    from clew.tokenization.path_star import PathStarList
    from clew.tokenization.wall_list import plan_tokens, prompt_tokens, trace_tokens

    task = read.task
    # A maze that is open everywhere is told by both formats; it stays in the one it came in.
    if read.kind == "path-star":
        written = PathStarList().encode_edges(read.edges or [], task, path)
        prompt, plan = written.prompt, written.response
    elif task.maze.has_wall_cells_only and read.kind != "edge-list":
        prompt, plan = prompt_tokens(task), plan_tokens(path)
    else:
        edges = read.edges or shuffled_edges(task.maze, seed=0)
        written = EdgeList().encode_edges(edges, task.start, task.goal, path)
        prompt, plan = written.prompt, written.response
    answer: dict[str, Any] = {
        "path": _plain_path(read, path),
        "length": len(path),
        "num_shortest": num_shortest(task),
        "prompt": " ".join(prompt),
        "plan": " ".join(plan),
        "trace": None if events is None else " ".join(trace_tokens(events)),
    }
    return json.dumps(answer)


def _report(read: ReadTask, path: Path, events: list[Event] | None) -> str:
    """The drawing and what there is to say about it."""
    from clew.mazes.checks import is_shortest, path_problem
    from clew.mazes.solvers import num_shortest
    from clew.tokenization.ascii import draw_ascii
    from clew.tokenization.wall_list import trace_tokens

    ways = num_shortest(read.task)
    lines = [
        draw_ascii(read.task, path),
        f"line {read.line}: a path of {len(path)} {read.task.maze.cell_word}s, "
        + ("the only shortest one." if ways == 1 else f"one of {ways:,} shortest ones."),
    ]
    if read.path is not None:
        problem = path_problem(read.task, read.path)
        if problem is None:
            problem = (
                "valid and a shortest one." if is_shortest(read.task, read.path) else "valid, but not a shortest one."
            )
        lines.append(f"the path given in the file: {problem}")
    if events is not None:
        lines.append(" ".join(trace_tokens(events)))
    return "\n".join(lines) + "\n"
