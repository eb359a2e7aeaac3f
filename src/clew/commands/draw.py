"""`clew draw FILE --out PICTURE`: draw mazes and their paths; `--model NAME --animate GIF`: a model's decoding."""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path

import clew
from clew.commands import ReportedErrors, check_files, print_line
from clew.data.readers import iter_mazes
from clew.errors import UsageError, UserError, counted
from clew.mazes.solvers import astar
from clew.viz.drawing import check_ending, save_picture


def draw(
    files: tuple[str, ...] = (),  # mazes in any form (docs/data.md), - for standard input; default: one of the model's
    *,
    out: Path | None = None,  # the picture to write; it ends in .png or .svg
    no_path: bool = False,  # draw the mazes alone; otherwise with the path that the file gives, or else a shortest one
    limit: int = 16,  # how many mazes to draw at most
    model: str | None = None,  # draw the paths of this model instead: a run's folder, or a shipped model's name
    decoder: str | None = None,  # how to decode the model's answer, as in `clew evaluate`
    animate: Path | None = None,  # write a GIF of how the model decodes the first maze; needs --model
    attention: Path | None = None,  # write a GIF of which cells a text model attends to at each step; needs --model
) -> int:
    """Draw the mazes of files to a PNG or SVG picture, or animate how a model decodes the first one.

    For example: clew draw mazes.txt --out mazes.png
    or: clew draw --model cells-dfs --animate plan.gif

    A maze that cannot be read is named on stderr and left out, and the exit code is 1.
    """
    if not (out or animate or attention) or not (files or model):
        raise UsageError(
            "FILE or --model, and --out, --animate or --attention must be given: usage: clew draw FILE --out PICTURE"
        )
    if model is None and (animate or attention or decoder):
        raise UsageError("--animate, --attention and --decoder need --model, the model whose steps are shown.")
    for gif in filter(None, (animate, attention)):
        if gif.suffix != ".gif":
            raise UserError(f"{gif} must end in .gif, the only format of animations.")
    if limit < 1:
        raise UserError(f"a limit of {limit} leaves no maze to draw; use 1 or more.")
    check_files(*files)
    if out is not None:
        check_ending(out)  # before anything is read
    trained = None if model is None else clew.load(model)

    refused = ReportedErrors()
    if files:
        # One more, to know whether there are more.
        read = islice(chain.from_iterable(iter_mazes(file, refused) for file in files), limit + 1)
        mazes = [(each.task, each.path) for each in read]
    else:
        assert trained is not None
        mazes = [*trained.held_out(n=1)[0]]
    if not mazes:
        return 1
    more, mazes = len(mazes) > limit, mazes[:limit]
    wanted = [task for task, _ in (mazes if out else mazes[:1])]
    solutions = trained.solve_many(wanted, decoder) if trained else []
    if animate is not None:
        from clew.viz.animation import animate as write_gif

        print_line(f"{animate}: {counted(write_gif(solutions[0], animate), 'frame')}")
    if attention is not None:
        from clew.viz.animation import animate_attention

        assert trained is not None
        solution = solutions[0]
        steps = solution.path if solution.is_valid else solution.shortest_path
        if not steps:
            raise UserError(f"there is no path to look at: {solution.problem}")
        count = animate_attention(solution.task, steps, trained.attention(solution.task, steps), attention)
        print_line(f"{attention}: {counted(count, 'frame')}")
    if out is not None:
        pictures = []
        for i, (task, path) in enumerate(mazes):
            shown = None if no_path else path or astar(task).path
            title = "" if no_path or shown else "no way through"
            pictures.append((task, shown, solutions[i].path if solutions else None, title))
        save_picture(out, pictures)
        print_line(f"{out}: {counted(len(pictures), 'maze')}")
        if more:
            print_line(f"only the first {limit} are drawn, there are more; --limit draws more")
    return 1 if refused else 0
