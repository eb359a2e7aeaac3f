"""`clew draw FILE --out PICTURE`: draw mazes and their paths."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from clew.commands import announce_compilation
from clew.errors import UserError, printable


def draw(
    file: str,
    /,
    *,
    out: Path,
    no_path: bool = False,
    columns: int | None = None,
    limit: int = 16,
) -> None:
    """Draw the mazes of a file to a PNG or SVG picture, with their paths as red lines.

    For example: clew draw mazes.txt --out mazes.png

    Args:
        file: mazes as drawings, edge-list, wall-list, grid or path-star text, or JSON lines; - for standard input.
        out: the picture to write; its ending, .png or .svg, says which kind.
        no_path: draw the mazes alone; otherwise with the path that the file gives, or else a shortest one.
        columns: how many mazes stand side by side; by default as many as there are rows.
        limit: how many mazes to draw at most.
    """
    if columns is not None and columns < 1:
        raise UserError(f"{columns} columns hold no maze; use 1 or more.")
    if limit < 1:
        raise UserError(f"a limit of {limit} leaves no maze to draw; use 1 or more.")

    from clew.mazes.solvers import astar
    from clew.tokenization.read import iter_tasks
    from clew.viz.drawing import Picture
    from clew.viz.picture import check_ending, save_picture

    check_ending(out)  # before anything is read
    announce_compilation()
    read = list(islice(iter_tasks(file), limit + 1))  # one more, to know whether there are more
    pictures: list[Picture] = []
    for item in read[:limit]:
        path = None if no_path else item.path or astar(item.task).path
        pictures.append((item.task, path, None, "" if no_path or path else "no way through"))
    save_picture(out, pictures, columns)
    print(f"{printable(str(out))}: {len(pictures)} maze{'s' if len(pictures) > 1 else ''}")
    if len(read) > limit:
        print(f"only the first {limit} are drawn, there are more; --limit says how many")
