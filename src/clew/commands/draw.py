"""`clew draw FILE --out PICTURE`: draw mazes and their paths; `--model NAME --animate GIF`: a model's decoding."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from clew.commands import announce_compilation, check_files
from clew.errors import UsageError, UserError, counted, printable, report_error
from clew.registry import model_folder


def draw(
    *files: str,
    out: Path | None = None,
    no_path: bool = False,
    columns: int | None = None,
    limit: int = 16,
    model: str | None = None,
    decoder: str | None = None,
    animate: Path | None = None,
    attention: Path | None = None,
) -> int:
    """Draw the mazes of files to a PNG or SVG picture, or animate how a model decodes the first one.

    For example: clew draw mazes.txt --out mazes.png
    or: clew draw --model cells-dfs --animate plan.gif

    A maze that cannot be read is named on stderr and left out, and the exit code is 1.

    Args:
        files: mazes as drawings, edge-list, wall-list, grid or path-star text, or JSON lines; - for standard input.
            Without one, a held-out maze of the model.
        out: the picture to write; it ends in .png or .svg.
        no_path: draw the mazes alone; otherwise with the path that the file gives, or else a shortest one.
        columns: how many mazes stand side by side; by default as many as there are rows.
        limit: how many mazes to draw at most.
        model: draw the paths of this model instead: the folder of a run, or the name of a shipped model.
        decoder: how to decode the model's answer, as in `clew evaluate`.
        animate: write a GIF of how the model decodes the first maze; needs --model.
        attention: write a GIF of which cells a text model attends to at each step of the first maze; needs --model.
    """
    gifs = {name: file for name, file in (("--animate", animate), ("--attention", attention)) if file is not None}
    if out is None and not gifs:
        raise UsageError("--out, --animate or --attention must be given: usage: clew draw FILE --out PICTURE [options]")
    if model is None and (gifs or decoder is not None):
        raise UsageError(f"{next(iter(gifs), '--decoder')} needs --model, the model whose steps are shown.")
    for name, file in gifs.items():
        if file.suffix != ".gif":
            raise UserError(f"{file} must end in .gif, the only format of {name}.")
    if not files and model is None:
        raise UsageError("FILE or --model must be given: usage: clew draw FILE --out PICTURE [options]")
    if columns is not None and columns < 1:
        raise UserError(f"{columns} columns hold no maze; use 1 or more.")
    if limit < 1:
        raise UserError(f"a limit of {limit} leaves no maze to draw; use 1 or more.")

    if model is not None:
        model_folder(model)  # a wrong name is reported before torch is imported
    check_files(*files)
    from clew.data.readers import iter_mazes
    from clew.viz.drawing import check_ending

    if out is not None:
        check_ending(out)  # before anything is read
    announce_compilation()
    trained, read = None, []
    left_out: list[int] = []
    if model is not None:
        from clew.trained import load

        trained = load(model)
    if files:
        # One more, to know whether there are more.
        found = (maze for file in files for maze in iter_mazes(file, lambda text: left_out.append(report_error(text))))
        read = list(islice(found, limit + 1))
        if not read:
            return 1
        tasks, paths = [each.task for each in read[:limit]], [each.path for each in read[:limit]]
    else:
        assert trained is not None
        task, path = trained.held_out(n=1)[0][0]
        tasks, paths = [task], [path]
    solutions = trained.solve_many(tasks[: limit if out else 1], decoder) if trained else []
    if animate is not None:
        from clew.viz.animation import animate as write_gif

        print(f"{printable(str(animate))}: {counted(write_gif(solutions[0], animate), 'frame')}")
    if attention is not None:
        from clew.viz.animation import animate_attention

        assert trained is not None
        solution = solutions[0]
        steps = solution.path if solution.is_valid else solution.shortest_path
        if not steps:
            raise UserError(f"there is no path to look at: {solution.problem}")
        count = animate_attention(solution.task, steps, trained.attention(solution.task, steps), attention)
        print(f"{printable(str(attention))}: {counted(count, 'frame')}")
    if out is not None:
        from clew.mazes.solvers import astar
        from clew.viz.drawing import save_picture

        shown = [None if no_path else path or astar(task).path for task, path in zip(tasks, paths, strict=True)]
        titles = ["" if no_path or path else "no way through" for path in shown]
        predicted = [solution.path for solution in solutions] or [None] * len(tasks)
        save_picture(out, [*zip(tasks, shown, predicted, titles, strict=True)], columns)
        print(f"{printable(str(out))}: {counted(len(tasks), 'maze')}")
        if len(read) > limit:
            print(f"only the first {limit} are drawn, there are more; --limit draws more")
    return 1 if left_out else 0
