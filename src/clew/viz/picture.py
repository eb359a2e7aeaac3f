"""Drawn tasks as images and as PNG or SVG files (pillow).

save_picture("mazes.png", [(task, path, None, "DFS 10x10"), (other, path, predicted, "a failure")])
draw_task(ax, task, path=path)      # on the axes of a matplotlib figure
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from clew.errors import UserError
from clew.files import PathLike, atomic_write
from clew.mazes.maze import Cell, Maze, Task
from clew.viz.drawing import MARGIN, TEXT, Fill, Picture, Point, Shape, Word, drawing_size, grid_svg, task_shapes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from PIL.Image import Image

_CELL, _PANEL_LEAST, _PANEL_MOST = 32.0, 430, 2160  # pixels: of a cell, and of a panel's longer side
_MOST_PIXELS = 10_000  # of a PNG's longer side, so that its memory stays bounded
_SMOOTHING = 3  # drawn so many times as large, then reduced: pillow's polygons have hard edges
_TEXT = 18  # pixels


def shapes_image(shapes: Sequence[Shape], width: float, height: float, cell: float) -> Image:
    """Return the shapes of a drawing of so many cells, with a margin, at `cell` pixels a cell."""
    from PIL import Image, ImageDraw, ImageFont

    scale = cell * _SMOOTHING
    size = [round((side + 2 * MARGIN) * cell) for side in (width, height)]
    image = Image.new("RGB", (size[0] * _SMOOTHING, size[1] * _SMOOTHING), "#ffffff")
    canvas = ImageDraw.Draw(image)

    def at(point: Point) -> Point:
        return ((point[0] + MARGIN) * scale, (point[1] + MARGIN) * scale)

    for shape in shapes:
        if isinstance(shape, Word):
            canvas.text(
                at(shape.middle), shape.text, shape.colour, ImageFont.load_default(shape.size * scale), anchor="mm"
            )
        elif isinstance(shape, Fill):
            for polygon in shape.polygons:
                canvas.polygon([at(point) for point in polygon], fill=shape.colour)
        else:
            half = shape.width * scale / 2
            for line in shape.lines:
                points = [at(point) for point in line]
                canvas.line(points, shape.colour, round(2 * half))
                for x, y in points:  # round ends and joints
                    canvas.ellipse((x - half, y - half, x + half, y + half), fill=shape.colour)
    return image.reduce(_SMOOTHING)


def task_image(
    task: Task | Maze, path: Sequence[Cell] | None = None, predicted: Sequence[Cell] | None = None, cell: float = _CELL
) -> Image:
    """Return a drawn task at `cell` pixels a cell."""
    return shapes_image(task_shapes(task, path, predicted)[0], *drawing_size(task), cell)


def with_text(image: Image, above: str = "", below: str = "") -> Image:
    """Return the image with a centred line of text above and below, where it is not empty."""
    from PIL import Image as Images
    from PIL import ImageDraw, ImageFont

    space = round(1.6 * _TEXT)
    top, bottom = space * bool(above), space * bool(below)
    whole = Images.new("RGB", (image.width, image.height + top + bottom), "#ffffff")
    whole.paste(image, (0, top))
    canvas, font = ImageDraw.Draw(whole), ImageFont.load_default(_TEXT)
    for text, y in ((above, top / 2), (below, whole.height - bottom / 2)):
        canvas.text((image.width / 2, y), text, TEXT, font, anchor="mm")
    return whole


def draw_task(
    ax: Axes, task: Task | Maze, path: Sequence[Cell] | None = None, predicted: Sequence[Cell] | None = None
) -> None:
    """Draw a task on matplotlib axes; a note about cells that cannot be drawn goes below."""
    ax.imshow(task_image(task, path, predicted), interpolation="antialiased")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
    ax.set_xlabel(task_shapes(task, path, predicted)[1], fontsize=8, color=TEXT)


def save_picture(file: PathLike, pictures: Sequence[Picture], columns: int | None = None) -> None:
    """Draw tasks in a grid to a .png or .svg file; each picture is (task, path, predicted, title)."""
    ending = check_ending(file)
    if not pictures:
        raise UserError("there is no maze to draw; give at least one.")
    columns = min(len(pictures), columns or math.ceil(math.sqrt(len(pictures))))
    if ending == ".svg":
        with atomic_write(file) as out:
            out.write(grid_svg(pictures, columns))
    else:
        with atomic_write(file, "wb") as out:
            _grid_image(pictures, columns).save(out, "png")


def check_ending(file: PathLike) -> str:
    """Return the file's ending if it names a picture format, otherwise raise UserError."""
    ending = FilePath(file).suffix.lower()
    if ending not in (".png", ".svg"):
        raise UserError(f"{file} must end in .png or .svg, since that says which kind of picture to draw.")
    return ending


def _grid_image(pictures: Sequence[Picture], columns: int) -> Image:
    from PIL import Image

    rows = math.ceil(len(pictures) / columns)
    most = min(_PANEL_MOST, _MOST_PIXELS // max(rows, columns) - 4 * _TEXT)
    images = []
    for task, path, predicted, title in pictures:
        longest = max(drawing_size(task)) + 2 * MARGIN
        cell = min(max(_CELL, _PANEL_LEAST / longest), most / longest)
        image = task_image(task, path, predicted, cell)
        images.append(with_text(image, title, task_shapes(task, path, predicted)[1]))
    width, height = max(image.width for image in images), max(image.height for image in images)
    gap = _TEXT // 2
    whole = Image.new("RGB", (columns * (width + gap) - gap, rows * (height + gap) - gap), "#ffffff")
    for number, image in enumerate(images):
        row, column = divmod(number, columns)
        whole.paste(image, (column * (width + gap) + (width - image.width) // 2, row * (height + gap)))
    return whole
