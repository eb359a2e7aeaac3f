"""Solutions step by step: an animated GIF, and HTML with a slider for a notebook.

    animate(solution, "plan.gif")
    animate_attention(task, path, model.attention(task, path), "attention.gif")
    solution_html(solution)

Cells are tinted by the probability that the model gives them (of a text model, that of the token), and marked when they
are committed, in colours from the first pass to the last. The last frame has the path as arrows.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.files import PathLike, atomic_write
from clew.mazes.maze import Cell, Path, PathStar, Task
from clew.solution import Solution
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
    runs,
    scaled_svg,
    shape_svg,
    shapes_image,
    svg_document,
    task_shapes,
    with_text,
)

Grid = npt.NDArray[np.float32]  # the probability of each cell, [H, W]
Frame = tuple[list[Shape], str]  # shapes and caption

TINT = ("#ffffff", "#6fb4ff")  # probability 0 and 1
ORDER = ("#5b2a86", "#2a9d8f", "#f4d35e")  # committed first, halfway, last
MAX_LOOPS = 60  # that are shown of a pass; its first and last among them
_LEVELS = 16  # of the tint
_PIXELS = 420  # of the longer side of a GIF, about
_STEP_MILLISECONDS, _LAST_MILLISECONDS = 800, 3000  # of a frame of attention, and of the path


def animate(solution: Solution, path: PathLike, milliseconds: int = 160) -> int:
    """Write a GIF of loops and steps, `milliseconds` each, and the path, which is held; return the number of frames."""
    return _write_gif(solution.task, frames(solution), path, milliseconds, last_frame(solution))


def animate_attention(task: Task, steps: Path, weight_SHW: npt.NDArray[np.float32], path: PathLike) -> int:
    """Write a GIF of `TrainedModel.attention`: for each step its cell is marked and others are tinted by their weight.

    The largest weight of a step has the darkest tint. Return the number of frames.
    """
    found = [
        ([*_tints(task, weight_HW / max(weight_HW.max(), 1e-9)), *_marks(task, {cell: 1}, 1)], f"step {number}")
        for number, (cell, weight_HW) in enumerate(zip(steps, weight_SHW, strict=True), start=1)
    ]
    return _write_gif(task, found, path, _STEP_MILLISECONDS, (task_shapes(task, predicted=steps)[0], ""))


def _write_gif(task: Task, marked: Sequence[Frame], path: PathLike, milliseconds: int, last: Frame) -> int:
    """Write frames of marks between background and walls, and a last one, which is held; return their number."""
    if not str(path).lower().endswith(".gif"):
        raise UserError(f"{path} must end in .gif, since an animation is a GIF file.")
    from PIL import Image

    size = drawing_size(task)
    cell = min(32.0, max(8.0, _PIXELS / (max(size) + 2 * MARGIN)))
    background, *walls = task_shapes(task)[0]
    drawings = [([background, *marks, *walls], caption) for marks, caption in marked]
    images = [
        with_text(shapes_image(shapes, *size, cell), below=caption).quantize(64, dither=Image.Dither.NONE)
        for shapes, caption in [*drawings, last]
    ]
    durations = [milliseconds] * len(drawings) + [_LAST_MILLISECONDS]
    with atomic_write(path, "wb") as file:
        images[0].save(file, "gif", save_all=True, append_images=images[1:], duration=durations, loop=0)
    return len(images)


def solution_html(solution: Solution) -> str:
    """Return a figure with a slider over loops and steps; without scripts it shows the path."""
    background, *walls = task_shapes(solution.task)[0]
    drawings, end = frames(solution), last_frame(solution)
    last = len(drawings)

    def part(tag: str, number: int, body: str) -> str:
        hidden = "" if number == last else ' style="display:none"'
        return f'<{tag} data-step="{number}"{hidden}>{body}</{tag}>'

    # The walls are written once, above the marks of all steps; the drawing with the path covers them.
    marks = [part("g", number, _svg(shapes)) for number, (shapes, _) in enumerate(drawings)]
    body = "".join([shape_svg(background), *marks, _svg(walls), part("g", last, _svg(end[0]))])
    svg = svg_document(*scaled_svg(solution.task, body))
    captions = "".join(part("span", i, escape(caption)) for i, (_, caption) in enumerate([*drawings, end]))
    # The handler is an attribute, so it needs no id and runs wherever a notebook puts the figure.
    script = "for (const e of this.closest('figure').querySelectorAll('[data-step]')) "
    script += "e.style.display = e.dataset.step === this.value ? '' : 'none'"
    slider = (
        f'<input type="range" min="0" max="{last}" value="{last}" aria-label="step" oninput="{escape(script)}" '
        'style="display:block;width:340px;max-width:100%">'
    )
    return f"<figure>{svg}{slider if last else ''}<figcaption>{captions}</figcaption></figure>"


def _svg(shapes: Sequence[Shape]) -> str:
    return "".join(map(shape_svg, shapes))


def shown_loops(count: int) -> list[int]:
    """Return the indices of at most MAX_LOOPS of so many loops, the first and the last among them."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(count, MAX_LOOPS))})


def frames(solution: Solution) -> list[Frame]:
    """Return marks and caption of loops of the first pass and of each step; marks lie between background and walls."""
    task, loops = solution.task, solution.loops
    found = [(_tints(task, loops[i]), f"loop {i + 1} of {len(loops)}") for i in shown_loops(len(loops))]
    passes: dict[Cell, int] = {}  # in which each committed cell was committed
    likely_HW = np.zeros(task.maze.cells.shape, dtype=np.float32)
    for step in solution.steps:
        for cell, probability in zip(step.cells, step.probabilities, strict=True):
            if cell is None or cell not in task.maze:
                continue
            if step.hidden:
                passes.pop(cell, None)
            else:
                passes[cell] = step.number
            likely_HW[cell] = 0.0 if step.hidden else probability
        tints = _tints(task, likely_HW if step.cell_probabilities is None else step.cell_probabilities)
        caption = f"pass {step.number} of {solution.passes}: {len(passes)} committed"
        found.append(
            (tints + _marks(task, passes, solution.passes), caption + ", some hidden again" * bool(step.hidden))
        )
    return found


def last_frame(solution: Solution) -> Frame:
    """Return the whole drawing of the path, over a shortest one if it is another, and the verdict."""
    true_path = None if solution.is_shortest else solution.shortest_path
    shapes, note = task_shapes(solution.task, true_path, solution.path)
    return shapes, f"{solution.verdict} {note}".strip()


def _tints(task: Task, likely_HW: Grid) -> list[Shape]:
    levels_HW = np.rint(likely_HW * _LEVELS)
    shapes: list[Shape] = []
    for level in range(1, _LEVELS + 1):
        at_HW = levels_HW == level
        if isinstance(task.maze, PathStar):
            polygons = [_polygon(task, (int(row), int(col)), 0.5) for row, col in np.argwhere(at_HW)]
        else:
            polygons = [box(first, row, after - first, 1) for row, first, after in runs(at_HW)]
        if polygons:
            shapes.append(Fill(_blend(TINT, level / _LEVELS), polygons))
    return shapes


def _marks(task: Task, passes: dict[Cell, int], last: int) -> list[Shape]:
    groups: dict[int, list[Polygon]] = {}
    for cell, number in passes.items():
        groups.setdefault(number, []).append(_polygon(task, cell, 0.36))
    return [Fill(_blend(ORDER, (number - 1) / max(1, last - 1)), groups[number]) for number in sorted(groups)]


def _polygon(task: Task, cell: Cell, half: float) -> Polygon:
    """Return a square in a maze; around a node of a graph a ring, since the node itself is drawn above it."""
    middle = centres(task.maze)(cell)
    return disc(middle, 0.1 + half) if isinstance(task.maze, PathStar) else rounded_square(middle, half)


def _blend(colours: Sequence[str], share: float) -> str:
    """Return the colour at a share of the way from the first colour to the last."""
    places = np.linspace(0, 1, len(colours))
    channels = ([int(colour[i : i + 2], 16) for colour in colours] for i in (1, 3, 5))
    return "#" + "".join(f"{round(np.interp(share, places, values)):02x}" for values in channels)
