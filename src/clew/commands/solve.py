"""`clew solve FILE`: exact shortest paths of the mazes in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from clew.errors import UserError

if TYPE_CHECKING:
    from clew.mazes.maze import Path
    from clew.mazes.solve import Event
    from clew.text.read_tasks import ReadTask


def solve(
    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")],
    solver: Literal["bfs", "astar"] = "astar",
    trace: bool = False,
    json: bool = False,
) -> None:
    """Solve the mazes of a file exactly, and draw them with a shortest path.

    For example: clew solve mazes.txt --solver astar --trace --json

    With --json, one line a maze: {"path":[[x,y],...],"length","num_shortest","prompt","plan","trace"}. The length is
    the number of cells of the path, both ends counted. Prompt and plan are wall-list text for mazes of wall cells, and
    edge-list text for mazes with walls between cells. The trace is null without --trace. A maze without a way through
    ends the command; the mazes before it have been printed.

    Args:
        file: mazes as drawings, edge-list, wall-list or grid text, or JSON lines; - for standard input.
        solver: breadth-first search, or A* with the deterministic rule of the paper's set.
        trace: also give the log of the A* search, as create and close tokens.
        json: print JSON lines instead of drawings.
    """
    if trace and solver != "astar":
        raise UserError(f"--trace tells how A* searched, which {solver} does not do; use --solver astar.")

    from clew.text.read_tasks import iter_tasks

    for read in iter_tasks(file):
        path, events = _solve(read, solver)
        print(
            _json_line(read, path, events if trace else None)
            if json
            else _report(read, path, events if trace else None)
        )


def _solve(read: ReadTask, solver: str) -> tuple[Path, list[Event]]:
    """A shortest path, and what A* logged."""
    from clew.mazes.solve import astar, bfs_path

    events: list[Event] = []
    if solver == "bfs":
        path = bfs_path(read.task)
    else:
        result = astar(read.task)
        path, events = result.path, result.trace
    if path is None:
        raise UserError(
            f"line {read.line}: no way leads from the start {read.task.start} to the goal {read.task.goal} (row, col); "
            "open one and solve again."
        )
    return path, events


def _json_line(read: ReadTask, path: Path, events: list[Event] | None) -> str:
    import json

    from clew.mazes.solve import num_shortest
    from clew.text.edge_list import EdgeList, shuffled_edges
    from clew.text.wall_list import plan_tokens, prompt_tokens, trace_tokens

    task = read.task
    # A maze that is open everywhere is told by both formats; it stays in the one it came in.
    if task.maze.has_wall_cells_only and read.kind != "edge-list":
        prompt, plan = prompt_tokens(task), plan_tokens(path)
    else:
        edges = read.edges or shuffled_edges(task.maze, seed=0)
        written = EdgeList().encode_edges(edges, task.start, task.goal, path)
        prompt, plan = written.prompt, written.response
    answer: dict[str, Any] = {
        "path": [[col, row] for row, col in path],
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
    from clew.mazes.solve import num_shortest
    from clew.text.ascii import draw_ascii
    from clew.text.wall_list import trace_tokens

    ways = num_shortest(read.task)
    lines = [
        draw_ascii(read.task, path),
        f"line {read.line}: a path of {len(path)} cells, "
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
