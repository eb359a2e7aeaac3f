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
from clew.viz.drawing import Layer, Polygon, Shape, Word, centres, disc, place, square, task_shapes, to_image, to_svg

Grid = npt.NDArray[np.float32]  # the probability of each cell, [H, W]
Frame = tuple[Sequence[Shape | Word], str]  # shapes and caption

TINT = ("#ffffff", "#6fb4ff")  # probability 0 and 1
ORDER = ("#5b2a86", "#2a9d8f", "#f4d35e")  # committed first, halfway, last
MAX_LOOPS = 60  # that are shown of a pass; its first and last among them
_LEVELS = 16  # of a colour
_PIXELS = 420  # of the longer side of a GIF
_STEP_MILLISECONDS, _LAST_MILLISECONDS = 800, 3000  # of a frame of attention, and of the path


def animate(solution: Solution, path: PathLike, milliseconds: int = 160) -> int:
    """Write a GIF of loops and steps, `milliseconds` each, and the path, which is held; return the number of frames."""
    return _write_gif(solution.task, frames(solution), last_frame(solution), path, milliseconds)


def animate_attention(task: Task, steps: Path, weight_SHW: Grid, path: PathLike) -> int:
    """Write a GIF of `TrainedModel.attention`: for each step its cell is marked and others are tinted by their weight.

    The largest weight of a step has the darkest tint. Return the number of frames.
    """
    found: list[Frame] = [
        ([*_tints(task, weight_HW / max(weight_HW.max(), 1e-9)), *_marks(task, {cell: 1}, 1)], f"step {number}")
        for number, (cell, weight_HW) in enumerate(zip(steps, weight_SHW, strict=True), start=1)
    ]
    return _write_gif(task, found, (task_shapes(task, predicted=steps)[0], "the path"), path, _STEP_MILLISECONDS)


def _write_gif(task: Task, marked: Sequence[Frame], last: Frame, path: PathLike, milliseconds: int) -> int:
    """Write frames of marks between background and walls, and a last one, which is held; return their number."""
    if not str(path).lower().endswith(".gif"):
        raise UserError(f"{path} must end in .gif, since an animation is a GIF file.")
    background, *walls = task_shapes(task)[0]
    images = []
    for shapes, caption in [*(([background, *marks, *walls], caption) for marks, caption in marked), last]:
        drawing = place(task, shapes, caption)
        image = to_image(drawing, _PIXELS / max(drawing.width, drawing.height))
        images.append(image.quantize(64))
    durations = [milliseconds] * len(marked) + [_LAST_MILLISECONDS]
    with atomic_write(path, "wb") as file:
        images[0].save(file, "gif", save_all=True, append_images=images[1:], duration=durations, loop=0)
    return len(images)


def solution_html(solution: Solution) -> str:
    """Return a figure with a slider over loops and steps; without scripts it shows the path."""
    found, end = frames(solution), last_frame(solution)
    last = len(found)

    def step(number: int, frame: Frame) -> list[Layer]:
        attributes = f' data-step="{number}"' + ' style="display:none"' * (number < last)
        return [layer._replace(attributes=attributes) for layer in place(solution.task, *frame).layers]

    background, *walls = task_shapes(solution.task)[0]
    drawing = place(solution.task, [background], end[1])
    layers = [drawing.layers[0], *(layer for i, frame in enumerate(found) for layer in step(i, frame))]
    # The walls are written once, above the marks of all steps; the drawing with the path covers them.
    layers += [layers[0]._replace(shapes=walls), *step(last, end)]
    # The handler is an attribute, so it needs no id and runs wherever a notebook puts the figure.
    script = "for (const e of this.closest('figure').querySelectorAll('[data-step]')) "
    script += "e.style.display = e.dataset.step === this.value ? '' : 'none'"
    slider = f'<input type="range" max="{last}" value="{last}" aria-label="step" style="display:block;width:340px" '
    slider += f'oninput="{escape(script)}">'
    return f"<figure>{to_svg(drawing._replace(layers=layers))}{slider if last else ''}</figure>"


def shown_loops(count: int) -> list[int]:
    """Return the indices of at most MAX_LOOPS of so many loops, the first and the last among them."""
    return sorted({round(i) for i in np.linspace(0, count - 1, min(count, MAX_LOOPS))})


def frames(solution: Solution) -> list[Frame]:
    """Return marks and caption of loops of the first pass and of each step; marks lie between background and walls."""
    task, loops = solution.task, solution.loops
    found: list[Frame] = [(_tints(task, loops[i]), f"loop {i + 1} of {len(loops)}") for i in shown_loops(len(loops))]
    passes: dict[Cell, int] = {}  # in which each cell was committed; 0 for one that was hidden again
    likely_HW = np.zeros(task.maze.cells.shape, dtype=np.float32)
    for step in solution.steps:
        for cell, probability in zip(step.cells, step.probabilities, strict=True):
            if cell is not None and cell in task.maze:
                likely_HW[cell] = 0.0 if step.hidden else probability
                passes[cell] = 0 if step.hidden else step.number
        tints = _tints(task, likely_HW if step.cell_probabilities is None else step.cell_probabilities)
        committed = {cell: number for cell, number in passes.items() if number}
        hidden = ", some hidden again" if step.hidden else ""
        caption = f"pass {step.number} of {solution.passes}: {len(committed)} committed{hidden}"
        found.append((tints + _marks(task, committed, solution.passes), caption))
    return found


def last_frame(solution: Solution) -> Frame:
    """Return the whole drawing of the path, over a shortest one if it is another, and the verdict."""
    true_path = None if solution.is_shortest else solution.shortest_path
    shapes, note = task_shapes(solution.task, true_path, solution.path)
    return shapes, f"{solution.verdict} {note}".strip()


def _tints(task: Task, likely_HW: Grid) -> list[Shape]:
    likely = {cell: float(likely_HW[cell]) for cell in centres(task.maze)}
    return _squares(task, {cell: share for cell, share in likely.items() if share > 0.5 / _LEVELS}, TINT, 0.5)


def _marks(task: Task, passes: dict[Cell, int], last: int) -> list[Shape]:
    return _squares(task, {cell: (number - 1) / max(1, last - 1) for cell, number in passes.items()}, ORDER, 0.36)


def _squares(task: Task, shares: dict[Cell, float], colours: Sequence[str], half: float) -> list[Shape]:
    """Return a square in each cell, or a ring around each node, in the colour of its share."""
    middles = centres(task.maze)
    found: dict[str, list[Polygon]] = {}
    for cell, share in shares.items():
        is_graph = isinstance(task.maze, PathStar)
        polygon = disc(middles[cell], half + 0.1) if is_graph else square(middles[cell], half)
        found.setdefault(_blend(colours, round(share * _LEVELS) / _LEVELS), []).append(polygon)
    return [Shape(colour, polygons) for colour, polygons in found.items()]


def _blend(colours: Sequence[str], share: float) -> str:
    """Return the colour at a share of the way from the first colour to the last."""
    places = np.linspace(0, 1, len(colours))
    channels = ([int(colour[i : i + 2], 16) for colour in colours] for i in (1, 3, 5))
    return "#" + "".join(f"{round(np.interp(share, places, values)):02x}" for values in channels)
