"""Mazes of other libraries and of images, as tasks, and tasks as objects of other libraries.

read_mazes(pixels)[0].task                          # maze-dataset's as_pixels()
read_mazes(grid, start=(1, 1), goal=(28, 30))       # numpy, 1 is a wall
read_mazes(graph, start=(0, 0), goal=(4, 4))        # networkx, nodes are (row, column)
read_mazes("maze.png")                              # a picture of a grid maze
read_mazes("mazes.txt")                             # every text that clew.tokenization.read knows
write_object("networkx", task)
"""

from __future__ import annotations

import io
import operator
import os
import sys
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.mazes.maze import MAX_SIDE, WALL, Cell, Maze, Path, Task
from clew.mazes.solvers import astar, path_problem
from clew.tokenization.drawings import Bools, is_lattice, lattice, maze_of_blocks
from clew.tokenization.read import OnError, ReadTask, iter_tasks, tasks_in_text
from clew.tokenization.tokens import Parsed, quoted

IMAGE_HEADS = (b"\x89PNG", b"GIF8", b"BM", b"\xff\xd8\xff", b"RIFF", b"II*\0", b"MM\0*")
MAX_PIXELS = 16_000_000
DARK = 128  # a pixel of less brightness is a wall
MIN_COLOUR = 100  # by how much one channel must exceed the others to be a mark


def read_mazes(source: Any, start: Cell | None = None, goal: Cell | None = None) -> list[ReadTask]:
    """Return the mazes of a text, its lines or tokens, a file given by its name, bytes, or what `read_object` takes."""
    if isinstance(source, os.PathLike) or (isinstance(source, str) and _is_file(source)):
        return list(iter_mazes(source))
    if isinstance(source, bytes):
        if is_image(source):
            return [_read_image(source)]
        try:
            source = source.decode("utf-8")
        except UnicodeDecodeError:
            raise UserError("the bytes are neither an image nor text in UTF-8.") from None
    if isinstance(source, list | tuple) and source and all(isinstance(part, str) for part in source):
        source = " ".join(source) if KIND_OF_WORD.get(source[0]) else "\n".join(source)  # tokens, or lines
    if isinstance(source, str):
        return tasks_in_text(source)
    return [ReadTask(**vars(read_object(source, start, goal)), kind=type(source).__name__)]


def iter_mazes(file: str | os.PathLike[str], on_error: OnError | None = None) -> Iterator[ReadTask]:
    """Yield the mazes of a file, an image among them, or of standard input if it is "-"; see `iter_tasks`."""
    head, path = b"", FilePath(file)
    if str(file) == "-":
        head = sys.stdin.buffer.peek(8) if hasattr(sys.stdin.buffer, "peek") else b""
    elif path.is_file():
        with open(path, "rb") as stream:
            head = stream.read(8)
    if is_image(head):
        yield _read_image(sys.stdin.buffer.read(16 * MAX_PIXELS) if str(file) == "-" else path)
    else:
        yield from iter_tasks(str(file), on_error)


def read_maze(source: Any) -> Task:
    """Return the one maze of a source."""
    if isinstance(source, Task):
        return source
    found = read_mazes(source)
    if len(found) != 1:
        raise UserError(f"the source holds {len(found)} mazes; give one, or a list of them to solve_many.")
    return found[0].task


def true_path(task: Task, given: Path | None = None, where: str = "", shortest: bool = False) -> Path:
    """Return the given path after checking it (with `shortest`, its length too), or else that of the A*."""
    found = astar(task).path
    if found is None:
        raise UserError(
            f"{where}no way leads {task.ends}, so no answer could be right; remove this maze, or open a way."
        )
    problem = None if given is None else path_problem(task, given)
    if shortest and given is not None and not problem and len(given) > len(found):
        problem = f"it has {len(given)} cells and a shortest one {len(found)}; leave it out, and the maze is solved."
    if problem:
        raise UserError(f"{where}the path in the file cannot be the true one, since {problem}")
    return given or found


def _is_file(text: str) -> bool:
    try:
        return "\n" not in text and len(text) < 4096 and FilePath(text).is_file()
    except (OSError, ValueError):
        return False


def _read_image(source: bytes | FilePath) -> ReadTask:
    return ReadTask(**vars(parse_image(source)), kind="image")


def read_object(value: Any, start: Cell | None = None, goal: Cell | None = None) -> Parsed:
    """Return the task of an array, an image, a graph or another library's maze, which may lack start and goal."""
    start, goal = _pair(start), _pair(goal)
    if isinstance(value, Task):
        return Parsed(value, None)
    if hasattr(value, "connection_list"):
        return _from_maze_dataset(value, start, goal)
    if hasattr(value, "edges") and hasattr(value, "nodes"):
        return _from_graph(value, start, goal)
    if isinstance(getattr(value, "grid", None), np.ndarray):
        return _from_mazelib(value, start, goal)
    if isinstance(value, Maze):
        return Parsed(Task(value, *_ends(start, goal)), None)
    if type(value).__module__.startswith("PIL."):
        return parse_pixels(np.asarray(value.convert("RGBA")), start, goal)
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(0)
    if array.ndim == 3 and array.shape[2] in (3, 4):
        return parse_pixels(array, start, goal)
    if array.ndim == 2 and array.dtype.kind in "biuf":
        return _from_grid(array, start, goal)
    raise UserError(
        f"{type(value).__name__} is no maze that Clew reads; give a task, a text, a 0/1 grid, an RGB array, an image, "
        "a networkx graph, or a maze of maze-dataset or mazelib."
    )


def is_image(data: bytes) -> bool:
    """Return whether a file's first bytes are those of an image."""
    return data.startswith(IMAGE_HEADS)


def parse_image(source: bytes | FilePath) -> Parsed:
    """Return the task of a picture of a grid maze: dark walls, a green start and a red end, or gaps in the frame."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the size is checked below
            image = Image.open(io.BytesIO(source) if isinstance(source, bytes) else source)
        with image:
            if image.width * image.height > MAX_PIXELS:
                raise UserError(f"the image has {image.width} x {image.height} pixels; use at most {MAX_PIXELS:,}.")
            pixels = np.asarray(image.convert("RGBA"))
    except UserError:
        raise
    except Exception as error:  # a damaged image makes pillow's decoders raise anything
        raise UserError(f"the image cannot be read: {error}.") from None
    return parse_pixels(pixels)


def parse_pixels(pixels_HW3: npt.NDArray[Any], start: Cell | None = None, goal: Cell | None = None) -> Parsed:
    """Return the task of an RGB picture of a grid maze, whose walls are lines between square cells, or blocks.

    UserError where the cells are not certain.
    """
    if pixels_HW3.dtype.kind in "bf":
        pixels_HW3 = pixels_HW3 * (255 if pixels_HW3.max(initial=0) <= 1 else 1)
    colour = pixels_HW3[..., :3].astype(np.int64)
    if pixels_HW3.shape[2] == 4:  # what is transparent shows a white page
        colour = 255 + (colour - 255) * pixels_HW3[..., 3:].astype(np.int64) // 255
    if min(colour.shape[:2]) < 3:
        raise UserError("the image is too small to be a maze.")
    code_HW = _codes(colour)
    marks = [code for code in (_START, _GOAL) if start is None and goal is None and (code_HW == code).any()]
    if len(marks) == 1:
        raise UserError("the image marks only one of start and goal; paint the start green and the goal red.")
    found = _blocks_of(code_HW, marks)
    if found is None:
        raise UserError(
            "the image shows no grid of square cells that is certain; crop it to the maze, with dark walls, one green "
            "start and one red goal in the middle of their cells."
        )
    blocks_HW, ends = found
    solid_HW = blocks_HW == _WALL
    if start is not None or goal is not None:
        ends = [_double(cell) if is_lattice(solid_HW) else cell for cell in _ends(start, goal)]
    first, last = ends or _gaps(solid_HW)
    marked = {(int(r), int(c)) for r, c in np.argwhere(blocks_HW == _PATH)}
    return maze_of_blocks(solid_HW, first, last, {first, last, *marked} if marked else None, halved=True)


_FREE, _WALL, _START, _GOAL, _PATH = range(5)
Codes = npt.NDArray[np.int64]


def _codes(colour: npt.NDArray[np.int64]) -> Codes:
    """Return what each pixel shows: dark pixels are walls, green start, red goal, blue path, all others free."""
    red, green, blue = colour[..., 0], colour[..., 1], colour[..., 2]
    is_dark = (colour.sum(-1) < 3 * DARK) & (colour.max(-1) < 160)  # the second leaves out the blurred edges of marks
    code_HW = np.where(is_dark, _WALL, _FREE)
    for code, channel, others in (
        (_START, green, (red, blue)),
        (_GOAL, red, (green, blue)),
        (_PATH, blue, (red, green)),
    ):
        code_HW[channel - np.maximum(*others) > MIN_COLOUR] = code
    if not (code_HW == _WALL).any():
        code_HW[code_HW == _PATH] = _WALL  # blue walls
    return code_HW


def _blocks_of(code_HW: Codes, marks: list[int]) -> tuple[Codes, list[Cell]] | None:
    """Return what each block of a picture shows, and the blocks of the marks; None if no grid fits.

    Walls that are lines make 2H + 1 by 2W + 1 blocks. Grids of whole pixels are tried before others, large cells before
    small ones.
    """
    lines, blocks = _cropped(code_HW, 2), _cropped(code_HW, 1 if marks else 2)
    for picture, has_lines, tolerance, smallest in (
        (lines, True, 0, 2),
        (blocks, False, 0, 3),
        (lines, True, 1, 8),
        (blocks, False, 1, 6),
        (blocks, False, 0, 1),
    ):
        wall_HW = picture == _WALL
        wall = min(_frame_width(wall_HW, tolerance), _frame_width(wall_HW.T, tolerance)) if has_lines else 0
        for shown in (wall_HW,) if has_lines else (picture, wall_HW):
            changes = [_changes(shown), _changes(shown.T)]
            for number in range(2, MAX_SIDE + 1 if has_lines else 2 * MAX_SIDE + 2):
                pitch = (len(picture) - wall) / number
                numbers = number, round((picture.shape[1] - wall) / pitch)
                if pitch < max(smallest, wall + 1) or (has_lines and not wall):
                    break
                rest = abs(numbers[1] * pitch + wall - picture.shape[1])
                if pitch == 2 * wall or numbers[1] < 2 or rest > tolerance or (not tolerance and pitch % 1):
                    continue
                bounds = [_bounds(size, n, wall) for size, n in zip(picture.shape, numbers, strict=True)]
                if all(map(_fits, changes, bounds, [tolerance] * 2)) and (found := _sampled(picture, bounds, marks)):
                    if has_lines:
                        found[0][::2, ::2] = _WALL  # where no walls meet nothing is drawn
                    return found
    return None


def _cropped(code_HW: Codes, most_gaps: int) -> Codes:
    """Return the picture without the margin around a frame that has at most so many gaps."""
    rows, columns = (np.flatnonzero((code_HW == _WALL).any(axis)) for axis in (1, 0))
    if not len(rows):
        return code_HW
    box = code_HW[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    border = [(side != _WALL).all(0) for side in (box[:2], box[-2:], box[:, :2].T, box[:, -2:].T)]
    gaps = sum(np.count_nonzero(np.diff(side, prepend=False) & side) for side in border)
    is_inside = np.count_nonzero(box > _WALL) == np.count_nonzero(code_HW > _WALL)
    return box if gaps <= most_gaps and max(side.mean() for side in border) < 0.5 and is_inside else code_HW


def _changes(picture_HW: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return in how many pixels a row differs from the one before; there is one more beyond the last."""
    return np.pad((picture_HW[1:] != picture_HW[:-1]).sum(1), 1)


def _frame_width(wall_HW: Bools, tolerance: int) -> int:
    """Return the number of the first rows that are the frame; in a blurred picture, those that are mostly walls."""
    if wall_HW[:2].any(0).mean() < 0.5:
        return 0
    return int((wall_HW.mean(1) <= 0.5 if tolerance else _changes(wall_HW) > 0).argmax())


def _bounds(size: int, number: int, wall: int) -> npt.NDArray[np.float64]:
    """Return where the blocks of a side begin and end: walls of this width and what is between them, or all alike."""
    begin = np.linspace(0.0, size - wall, number + 1)
    return np.stack([begin, begin + wall], 1).ravel() if wall else begin


def _fits(changes: npt.NDArray[np.int64], bounds: npt.NDArray[np.float64], tolerance: int) -> bool:
    """Return whether rows change at these bounds only; nearly so with a tolerance in pixels, for blurred pictures."""
    near = np.zeros(len(changes), dtype=bool)
    for shift in range(-tolerance, tolerance + 1):
        near[np.clip(np.rint(bounds).astype(int) + shift, 0, len(changes) - 1)] = True
    return bool(changes[near].sum() >= (1 - 0.1 * tolerance) * changes.sum())


def _sampled(
    code_HW: Codes, bounds: list[npt.NDArray[np.float64]], marks: list[int]
) -> tuple[Codes, list[Cell]] | None:
    """Return the code in the middle of each block, and the blocks of the marks; None if they do not make the picture.

    A mark must be in the middle of its block, and a free block must not be as dark as a wall.
    """
    codes = code_HW[np.ix_(*(((bound[:-1] + bound[1:]) / 2).astype(int) for bound in bounds))]
    blocks = [
        np.searchsorted(bound, np.arange(size) + 0.5) - 1 for bound, size in zip(bounds, code_HW.shape, strict=True)
    ]
    if ((codes == _WALL)[np.ix_(*blocks)] == (code_HW == _WALL)).mean() < 0.95:
        return None
    ends: list[Cell] = []
    for mark in marks:
        place, is_mark = [], code_HW == mark
        for axis, bound in enumerate(bounds):
            counts = is_mark.sum(1 - axis)
            middle = (counts @ (np.arange(len(counts)) + 0.5)) / counts.sum()
            block = int(np.searchsorted(bound, middle)) - 1
            low, high = bound[block : block + 2]
            inside = counts[max(round(low) - 1, 0) : round(high) + 1].sum()
            if abs(middle - (low + high) / 2) > 0.2 * (high - low) or inside < 0.98 * counts.sum():
                return None
            place.append(block)
        ends.append((place[0], place[1]))
        codes[ends[-1]] = mark
    return codes, ends


def _gaps(solid_HW: Bools) -> list[Cell]:
    """Return the two free blocks of the frame, moved inside by one where the walls lie between cells."""
    height, width = solid_HW.shape
    border = [(r, c) for r in range(height) for c in range(width) if r in (0, height - 1) or c in (0, width - 1)]
    free = [(r, c) for r, c in border if not solid_HW[r, c]]
    if len(free) != 2:
        raise UserError(
            f"the image has no green start and red goal, and its frame has {len(free)} gaps instead of two; mark them."
        )
    if not is_lattice(solid_HW):
        return free
    return [(min(max(r, 1), height - 2), min(max(c, 1), width - 2)) for r, c in free]


def _from_grid(array: npt.NDArray[Any], start: Cell | None, goal: Cell | None) -> Parsed:
    """Return the task of a grid in which 0 is free and 1 a wall; 2 and 3 may mark start and goal."""
    if len(wrong := np.setdiff1d(array, [0, 1, 2, 3])):
        raise UserError(f"the grid holds {wrong[0]}; use 0 for free cells, 1 for walls, 2 for start, 3 for goal.")
    marks = [np.argwhere(array == code) for code in (2, 3)] if array.dtype != bool else [np.empty((0, 2))] * 2
    given = [start, goal]
    for i, found in enumerate(marks):
        if given[i] is None and len(found) == 1:
            given[i] = (int(found[0][0]), int(found[0][1]))
    first, last = _ends(*given)
    return maze_of_blocks(array == 1, first, last, None, halved=False)


def _from_mazelib(maze: Any, start: Cell | None, goal: Cell | None) -> Parsed:
    """Return the task of a mazelib Maze, whose start and end may be walls of the frame: they are opened."""
    ends = _ends(start or _pair(getattr(maze, "start", None)), goal or _pair(getattr(maze, "end", None)))
    solid_HW = np.array(maze.grid) == 1
    for row, col in ends:
        if not (0 <= row < solid_HW.shape[0] and 0 <= col < solid_HW.shape[1]):
            raise UserError(f"cell {(row, col)} lies outside the grid of the maze.")
        solid_HW[row, col] = False
    return maze_of_blocks(solid_HW, *ends, None, halved=False)


def _from_graph(graph: Any, start: Cell | None, goal: Cell | None) -> Parsed:
    """Return the task of a grid graph whose nodes are (row, column); cells that are no nodes are wall cells."""
    try:
        cells = {(operator.index(r), operator.index(c)) for r, c in graph.nodes}
    except (TypeError, ValueError):
        cells = set()
    if not cells or min(min(cell) for cell in cells) < 0:
        raise UserError("the nodes of a grid graph must be pairs (row, column), counted from 0.")
    if graph.is_directed() and (one_way := [edge for edge in graph.edges() if not graph.has_edge(*edge[::-1])]):
        raise UserError(f"the edge {one_way[0]} has one direction only; mazes have passages in both.")
    height, width = 1 + max(r for r, _ in cells), 1 + max(c for _, c in cells)
    maze = Maze.from_edges(height, width, [((int(a[0]), int(a[1])), (int(b[0]), int(b[1]))) for a, b in graph.edges()])
    values = maze.cells.copy()
    for cell in set(np.ndindex(height, width)) - cells:
        values[cell] = WALL
    details = getattr(graph, "graph", {})
    return Parsed(Task(Maze(values), *_ends(start or details.get("start"), goal or details.get("goal"))), None)


def _from_maze_dataset(maze: Any, start: Cell | None, goal: Cell | None) -> Parsed:
    """Return the task of a LatticeMaze, TargetedLatticeMaze or SolvedMaze."""
    down_HW, right_HW = np.asarray(maze.connection_list, dtype=bool)
    edges = [((r, c), (r + 1, c)) for r, c in np.argwhere(down_HW[:-1]).tolist()]
    edges += [((r, c), (r, c + 1)) for r, c in np.argwhere(right_HW[:, :-1]).tolist()]
    solution = getattr(maze, "solution", None)
    path = None if solution is None else [(int(r), int(c)) for r, c in np.asarray(solution)]
    start = start or _pair(getattr(maze, "start_pos", None)) or (path and path[0]) or None
    goal = goal or _pair(getattr(maze, "end_pos", None)) or (path and path[-1]) or None
    height, width = down_HW.shape
    return Parsed(Task(Maze.from_edges(height, width, edges), *_ends(start, goal)), path)


WRITTEN_OBJECTS = ("grid", "pixels", "networkx", "maze-dataset")


def write_object(kind: str, task: Task, path: Path | None = None) -> Any:
    """Return a task as a 0/1 grid, as maze-dataset's pixels, as a networkx graph or as a maze-dataset SolvedMaze.

    Walls between cells make a grid of 2H + 1 by 2W + 1 (mazelib's form). Only maze-dataset and pixels hold the path.
    """
    if kind not in WRITTEN_OBJECTS:
        raise UserError(f"a maze cannot be made into {kind!r}; use one of {', '.join(WRITTEN_OBJECTS)}.")
    maze = task.maze
    if kind == "grid":
        solid_HW = (maze.cells & WALL) != 0 if maze.has_wall_cells_only else lattice(maze)
        return solid_HW.astype(np.uint8)
    if kind == "networkx":
        from networkx import Graph

        graph = Graph(start=task.start, goal=task.goal)
        graph.add_nodes_from(cell for cell in np.ndindex(maze.cells.shape) if not maze.is_wall(cell))
        graph.add_edges_from(maze.edges())
        return graph
    solid_HW = lattice(maze)
    if kind == "pixels":
        pixels = np.where(solid_HW[..., None], 0, 255).astype(np.uint8).repeat(3, -1)
        inner = [(a[0] + b[0] + 1, a[1] + b[1] + 1) for a, b in pairwise(path or [])]
        marks = {(2 * r + 1, 2 * c + 1): (0, 0, 255) for r, c in path or []} | dict.fromkeys(inner, (0, 0, 255))
        for (row, col), colour in (marks | {_double(task.start): (0, 255, 0), _double(task.goal): (255, 0, 0)}).items():
            pixels[row, col] = colour
        return pixels
    try:
        from maze_dataset import SolvedMaze, TargetedLatticeMaze
    except ImportError:
        raise UserError("objects of maze-dataset need that library; use pip install 'clew[maze-dataset]'.") from None
    lists = np.stack([~solid_HW[2::2, 1::2], ~solid_HW[1::2, 2::2]])
    if path is None:
        return TargetedLatticeMaze(connection_list=lists, start_pos=np.array(task.start), end_pos=np.array(task.goal))
    return SolvedMaze(connection_list=lists, solution=np.array(path))


def _double(cell: Cell) -> Cell:
    return 2 * cell[0] + 1, 2 * cell[1] + 1


def _pair(value: Any) -> Cell | None:
    if value is None:
        return None
    try:
        row, col = map(operator.index, value)
    except (TypeError, ValueError):
        raise UserError(f"{quoted(str(value))} is no cell; give start and goal as (row, column).") from None
    return row, col


def _ends(start: Any, goal: Any) -> tuple[Cell, Cell]:
    first, last = _pair(start), _pair(goal)
    if first is None or last is None:
        raise UserError(
            "the maze does not say where start and goal are; give start=(row, column) and goal=(row, column)."
        )
    return first, last
