"""Solutions step by step: an animated GIF, and HTML with a slider for a notebook.

    animate(solution, "plan.gif", loops=loop_probabilities(model.model, task))      # loops: only of cell networks
    solution_html(solution)

Cells are tinted by the probability that the model gives them, and marked when they are committed, in colours from the
first pass (purple) to the last (yellow). The last frame has the path as arrows. Everything comes from
`Solution.steps`; for a text model the probability of a cell is that of its token.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.files import PathLike, atomic_write
from clew.mazes.maze import Cell, Path, PathStar, Task
from clew.viz.drawing import (
    MARGIN,
    Fill,
    Polygon,
    Shape,
    box,
    centres,
    disc,
    drawing_size,
    rounded_square,
    scaled_svg,
    shape_svg,
    svg_document,
    task_shapes,
)
from clew.viz.picture import shapes_image, with_text

Grid = npt.NDArray[np.float32]  # the probability of each cell, [H, W]

TINT = ("#ffffff", "#6fb4ff")  # probability 0 and 1
ORDER = ("#5b2a86", "#2a9d8f", "#f4d35e")  # committed first, halfway, last
_LEVELS = 16  # of the tint
_PIXELS = 420  # of the longer side of a GIF, about
_LAST_MILLISECONDS = 3000


class Solved(Protocol):
    """The part of clew.solution.Solution that is drawn."""

    @property
    def task(self) -> Task: ...
    @property
    def path(self) -> Path | None: ...
    @property
    def shortest_path(self) -> Path | None: ...
    @property
    def is_shortest(self) -> bool: ...
    @property
    def steps(self) -> Sequence[Any]: ...
    @property
    def passes(self) -> int: ...
    @property
    def verdict(self) -> str: ...


def animate(solution: Solved, path: PathLike, milliseconds: int = 160, loops: Sequence[Grid] = ()) -> None:
    """Write a GIF with one frame a loop and step, `milliseconds` each; the last frame, with the path, is held."""
    if not str(path).lower().endswith(".gif"):
        raise UserError(f"{path} must end in .gif, since an animation is a GIF file.")
    from PIL import Image

    size = drawing_size(solution.task)
    cell = min(32.0, max(8.0, _PIXELS / (max(size) + 2 * MARGIN)))
    images = [
        with_text(shapes_image(shapes, *size, cell), below=caption).quantize(64, dither=Image.Dither.NONE)
        for shapes, caption in frames(solution, loops)
    ]
    durations = [milliseconds] * (len(images) - 1) + [_LAST_MILLISECONDS]
    with atomic_write(path, "wb") as file:
        images[0].save(file, "gif", save_all=True, append_images=images[1:], duration=durations, loop=0)


def solution_html(solution: Solved, loops: Sequence[Grid] = ()) -> str:
    """Return a figure with a slider over loops and steps; without scripts it shows the last one."""
    groups, captions, last = [], [], len(solution.steps) + len(loops)
    for number, (shapes, caption) in enumerate(frames(solution, loops)):
        hidden = "" if number == last else ' style="display:none"'
        groups.append(f'<g data-step="{number}"{hidden}>{"".join(map(shape_svg, shapes))}</g>')
        captions.append(f'<span data-step="{number}"{hidden}>{escape(caption)}</span>')
    svg = svg_document(*scaled_svg(solution.task, "".join(groups)))
    # The handler is an attribute, so it needs no id and runs wherever a notebook puts the figure.
    script = "for (const e of this.closest('figure').querySelectorAll('[data-step]')) "
    script += "e.style.display = e.dataset.step === this.value ? '' : 'none'"
    slider = f'<input type="range" min="0" max="{last}" value="{last}" aria-label="step" oninput="{escape(script)}">'
    return f"<figure>{svg}{slider if last else ''}<figcaption>{''.join(captions)}</figcaption></figure>"


def frames(solution: Solved, loops: Sequence[Grid] = ()) -> list[tuple[list[Shape], str]]:
    """Return shapes and caption of each loop of the first pass, of each step, and of the path."""
    task = solution.task
    background, *above = task_shapes(task)[0]
    passes: dict[Cell, int] = {}  # in which each committed cell was committed
    likely: dict[Cell, float] = {}
    found = [
        ([background, *_tints(task, _by_cell(on_HW)), *above], f"loop {number} of {len(loops)}")
        for number, on_HW in enumerate(loops, 1)
    ]
    for step in solution.steps:
        for cell, probability in zip(step.cells, step.probabilities, strict=True):
            if step.hidden:
                passes.pop(cell, None)
                likely.pop(cell, None)
            elif cell is not None and cell in task.maze:
                passes[cell], likely[cell] = step.number, probability
        if step.cell_probabilities is not None:
            likely = _by_cell(step.cell_probabilities)
        marks = _tints(task, likely) + _marks(task, passes, solution.passes)
        caption = f"pass {step.number} of {solution.passes}: {len(passes)} committed"
        found.append(([background, *marks, *above], f"{caption}, some hidden again" if step.hidden else caption))
    shapes, note = task_shapes(task, None if solution.is_shortest else solution.shortest_path, solution.path)
    return [*found, (shapes, f"{solution.verdict} {note}".strip())]


def _by_cell(on_HW: Grid) -> dict[Cell, float]:
    return {(row, col): float(on_HW[row, col]) for row, col in np.ndindex(on_HW.shape)}


def _tints(task: Task, likely: dict[Cell, float]) -> list[Shape]:
    levels: dict[int, list[Cell]] = {}
    for cell, probability in likely.items():
        levels.setdefault(round(probability * _LEVELS), []).append(cell)
    polygons = {level: [_polygon(task, cell, 0.5) for cell in cells] for level, cells in levels.items() if level > 0}
    return [Fill(_blend(TINT, level / _LEVELS), polygons[level]) for level in sorted(polygons)]


def _marks(task: Task, passes: dict[Cell, int], last: int) -> list[Shape]:
    groups: dict[int, list[Polygon]] = {}
    for cell, number in passes.items():
        groups.setdefault(number, []).append(_polygon(task, cell, 0.36))
    return [Fill(_blend(ORDER, (number - 1) / max(1, last - 1)), groups[number]) for number in sorted(groups)]


def _polygon(task: Task, cell: Cell, half: float) -> Polygon:
    """Return a square in a maze; around a node of a graph a ring, since the node itself is drawn above it."""
    x, y = centres(task.maze)(cell)
    if isinstance(task.maze, PathStar):
        return disc((x, y), 0.1 + half)
    return rounded_square((x, y), half) if half < 0.5 else box(x - half, y - half, 1, 1)


def _blend(colours: Sequence[str], share: float) -> str:
    """Return the colour at a share of the way from the first colour to the last."""
    place = min(max(share, 0.0), 1.0) * (len(colours) - 1)
    one, other = list(pairwise(colours))[min(int(place), len(colours) - 2)]
    part = place - min(int(place), len(colours) - 2)
    mixed = [round(int(one[i : i + 2], 16) * (1 - part) + int(other[i : i + 2], 16) * part) for i in (1, 3, 5)]
    return "#" + "".join(f"{value:02x}" for value in mixed)
