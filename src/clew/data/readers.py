"""Mazes of other libraries and of images, as tasks, and tasks as objects of other libraries.

read_mazes(pixels)[0].task                          # maze-dataset's as_pixels()
read_mazes(grid, start=(1, 1), goal=(28, 30))       # numpy, 1 is a wall
read_mazes(graph, start=(0, 0), goal=(4, 4))        # networkx, nodes are (row, column)
read_mazes("maze.png")                              # a picture of a grid maze
read_mazes("mazes.txt")                             # every text that clew.tokenization.read knows
write_object("networkx", task)

Pictures and arrays become rows of characters, as in a drawing, of which `drawings.parse_cells` makes the maze.
"""

from __future__ import annotations

import io
import operator
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import numpy.typing as npt

from clew.errors import UserError
from clew.mazes.maze import MAX_SIDE, WALL, Cell, Maze, Path, Task
from clew.mazes.solvers import astar, path_problem
from clew.tokenization.drawings import is_lattice, lattice, parse_cells, path_blocks
from clew.tokenization.read import FIRST_WORDS, OnError, ReadTask, iter_tasks, tasks_in_text
from clew.tokenization.tokens import Parsed, quoted

IMAGE_HEADS = (b"\x89PNG", b"GIF8", b"BM", b"\xff\xd8\xff", b"RIFF", b"II*\0", b"MM\0*")
MAX_PIXELS = 16_000_000
DARK = 128  # a pixel of less brightness is a wall
MIN_COLOUR = 100  # by how much one channel must exceed the others to be a mark

Bools = npt.NDArray[np.bool_]


def read_mazes(source: Any, start: Cell | None = None, goal: Cell | None = None) -> list[ReadTask]:
    """Return the mazes of a text, its lines or tokens, a file given by its name, bytes, or what `read_object` takes."""
    if isinstance(source, os.PathLike) or (isinstance(source, str) and _is_file(source)):
        return list(iter_mazes(source))
    if isinstance(source, bytes):
        if source.startswith(IMAGE_HEADS):
            return [read_image(source)]
        try:
            source = source.decode("utf-8")
        except UnicodeDecodeError:
            raise UserError("the bytes are neither an image nor text in UTF-8.") from None
    if isinstance(source, list | tuple) and source and all(isinstance(part, str) for part in source):
        source = (" " if source[0] in FIRST_WORDS else "\n").join(source)  # tokens, or lines
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
    if head.startswith(IMAGE_HEADS):
        yield read_image(sys.stdin.buffer.read(16 * MAX_PIXELS) if str(file) == "-" else path)
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
        raise UserError(f"{where}no way leads {task.ends}, so no answer is right; remove this maze, or open a way.")
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


def read_object(value: Any, start: Cell | None = None, goal: Cell | None = None) -> Parsed:
    """Return the task of an array, an image, a graph or another library's maze, which may lack start and goal."""
    start, goal = _pair(start), _pair(goal)
    if isinstance(value, Task):
        return Parsed(value, None)
    if hasattr(value, "connection_list"):
        return _from_maze_dataset(value, start, goal)
    if hasattr(value, "edges") and hasattr(value, "nodes"):
        return _from_graph(value, start, goal)
    if isinstance(value, Maze):
        return Parsed(_task(value, start, goal), None)
    if type(value).__module__.startswith("PIL."):
        return parse_pixels(np.asarray(value.convert("RGBA")), start, goal)
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.empty(0)
    if array.ndim == 3 and array.shape[2] in (3, 4):
        return parse_pixels(array, start, goal)
    if array.ndim == 2 and array.size and array.dtype.kind in "biuf":
        if len(wrong := np.setdiff1d(array, [0, 1, 2, 3])):
            raise UserError(f"the grid holds {wrong[0]}; use 0 for free cells, 1 for walls, 2 for start, 3 for goal.")
        return _parse_grid(np.array(list(".#SG"))[array.astype(int)], start, goal)
    known = "a task, a text, a 0/1 grid, an RGB array, an image, a networkx graph, or a maze of maze-dataset"
    raise UserError(f"{type(value).__name__} is no maze that Clew reads; give {known}.")


def _parse_grid(characters: npt.NDArray[np.str_], start: Cell | None, goal: Cell | None, mark: str = "G") -> Parsed:
    """Return the task of characters, with start and goal (drawn as `mark`) at the given cells."""
    for name, cell in (("S", start), (mark, goal)):
        if cell is not None:
            if not (0 <= cell[0] < len(characters) and 0 <= cell[1] < characters.shape[1]):
                raise UserError(f"cell {cell} lies outside the grid of the maze.")
            if characters[cell] == "#":
                raise UserError(f"the cell {cell} is a wall cell; choose a free cell.")
            characters[characters == name] = "."
            characters[cell] = "B" if name == mark and cell == start else name
    if not np.isin(["S", mark], characters).all() and "B" not in characters:
        raise _without_ends()
    return parse_cells(characters.tolist())


def _from_graph(graph: Any, start: Cell | None, goal: Cell | None) -> Parsed:
    """Return the task of a grid graph whose nodes are (row, column); cells that are no nodes are wall cells."""
    problem = "the nodes of a grid graph must be pairs (row, column), counted from 0."
    cells = [_cell(node, problem) for node in graph]
    if not cells or min(map(min, cells)) < 0:
        raise UserError(problem)
    if graph.is_directed() and (one_way := [edge for edge in graph.edges() if not graph.has_edge(*edge[::-1])]):
        raise UserError(f"the edge {one_way[0]} has one direction only; mazes have passages in both.")
    height, width = (1 + max(numbers) for numbers in zip(*cells, strict=True))
    maze = Maze.from_edges(height, width, [((int(a[0]), int(a[1])), (int(b[0]), int(b[1]))) for a, b in graph.edges()])
    is_node = np.zeros((height, width), dtype=bool)
    is_node[tuple(zip(*cells, strict=True))] = True
    details = getattr(graph, "graph", {})
    start, goal = start or _pair(details.get("start")), goal or _pair(details.get("goal"))
    return Parsed(_task(Maze(np.where(is_node, maze.cells, WALL)), start, goal), None)


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
    return Parsed(_task(Maze.from_edges(height, width, edges), start, goal), path)


def _pair(value: Any) -> Cell | None:
    problem = f"{quoted(str(value))} is no cell; give start and goal as (row, column)."
    return None if value is None else _cell(value, problem)


def _cell(value: Any, problem: str) -> Cell:
    try:
        row, col = map(operator.index, value)
    except (TypeError, ValueError):
        raise UserError(problem) from None
    return row, col


def _task(maze: Maze, start: Cell | None, goal: Cell | None) -> Task:
    if start is None or goal is None:
        raise _without_ends()
    return Task(maze, start, goal)


def _without_ends() -> UserError:
    return UserError("the maze lacks start or goal; give start=(row, column) and goal=(row, column).")


def read_image(source: bytes | FilePath) -> ReadTask:
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
    return ReadTask(**vars(parse_pixels(pixels)), kind="image")


_FREE, _WALL, _START, _GOAL, _PATH = range(5)
_CHARACTERS = np.array(list(" #SEX"))  # of maze-dataset's drawings
Codes = npt.NDArray[np.int64]


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
    code_HW, is_given = _codes(colour), start is not None or goal is not None
    marks = [code for code in (_START, _GOAL) if not is_given and (code_HW == code).any()]
    if len(marks) == 1:
        raise UserError("the image marks only one of start and goal; paint the start green and the goal red.")
    blocks_HW = _blocks_of(code_HW, marks)
    if blocks_HW is None:
        wanted = "dark walls, one green start and one red goal in the middle of their cells"
        raise UserError(f"the image shows no grid of square cells that is certain; crop it to the maze, with {wanted}.")
    solid_HW = blocks_HW == _WALL
    if is_given and is_lattice(solid_HW):
        start, goal = (cell and (2 * cell[0] + 1, 2 * cell[1] + 1) for cell in (start, goal))
    elif not is_given and not marks:
        start, goal = _gaps(solid_HW)
    return _parse_grid(_CHARACTERS[blocks_HW], start, goal, mark="E")


def _codes(colour: Codes) -> Codes:
    """Return what each pixel shows: dark pixels are walls, green start, red goal, blue path, all others free."""
    red, green, blue = colour[..., 0], colour[..., 1], colour[..., 2]
    is_dark = (colour.sum(-1) < 3 * DARK) & (colour.max(-1) < 160)  # the second leaves out the blurred edges of marks
    code_HW = np.where(is_dark, _WALL, _FREE)
    code_HW[green - np.maximum(red, blue) > MIN_COLOUR] = _START
    code_HW[red - np.maximum(green, blue) > MIN_COLOUR] = _GOAL
    code_HW[blue - np.maximum(red, green) > MIN_COLOUR] = _PATH
    if not (code_HW == _WALL).any():
        code_HW[code_HW == _PATH] = _WALL  # blue walls
    return code_HW


def _gaps(solid_HW: Bools) -> list[Cell]:
    """Return the two free blocks of the frame, moved inside by one where the walls lie between cells."""
    inner = np.pad(np.ones(np.subtract(solid_HW.shape, 2), dtype=bool), 1)
    free: list[Cell] = [(row, col) for row, col in np.argwhere(~solid_HW & ~inner).tolist()]
    if len(free) != 2:
        problem = f"the image has no green start and red goal, and its frame has {len(free)} gaps instead of two"
        raise UserError(f"{problem}; mark them.")
    if not is_lattice(solid_HW):
        return free
    height, width = solid_HW.shape
    return [(min(max(r, 1), height - 2), min(max(c, 1), width - 2)) for r, c in free]


def _blocks_of(code_HW: Codes, marks: list[int]) -> Codes | None:
    """Return what each block of a picture shows; None if no grid of whole pixels fits.

    Walls that are lines make 2H + 1 by 2W + 1 blocks. Sharp pictures are tried before blurred ones, large cells before
    small ones.
    """
    lines, blocks = _cropped(code_HW, 2), _cropped(code_HW, 1 if marks else 2)
    for picture, has_lines, blur, smallest in (
        (lines, True, 0, 2),
        (blocks, False, 0, 3),
        (lines, True, 1, 8),
        (blocks, False, 1, 6),
        (blocks, False, 0, 1),
    ):
        is_wall = picture == _WALL
        if has_lines and min(is_wall[0].mean(), is_wall[:, 0].mean()) < 0.5:
            continue  # there is no frame
        for shown in (is_wall,) if has_lines else (picture, is_wall):
            # In how many pixels each row, and each column, differs from the one before.
            changes = [(side[1:] != side[:-1]).sum(1) for side in (shown, shown.T)]
            if not any(side.any() for side in changes):
                continue  # an empty picture fits any grid
            wall = min(1 + int((side > blur * len(side) / 4).argmax()) for side in changes) if has_lines else 0
            most = 1 + MAX_SIDE * (1 if has_lines else 2)
            for pitch in range(min(picture.shape) // 2, max(smallest - 1, wall, max(picture.shape) // most), -1):
                if pitch == 2 * wall or any((size - wall) % pitch for size in picture.shape):
                    continue
                near = {(place + shift) % pitch for place in (0, wall) for shift in range(-blur, blur + 1)}
                at_bounds = (side[np.isin(np.arange(1, len(side) + 1) % pitch, [*near])].sum() for side in changes)
                if any(here < (1 - 0.1 * blur) * side.sum() for here, side in zip(at_bounds, changes, strict=True)):
                    continue
                bounds = [np.arange(0, size, pitch) for size in picture.shape]
                if has_lines:  # each wall, and what is between two
                    bounds = [np.stack([begin, begin + wall], 1).ravel() for begin in bounds]
                else:
                    bounds = [np.append(begin, size) for begin, size in zip(bounds, picture.shape, strict=True)]
                if (found := _sampled(picture, bounds, marks)) is not None:
                    if has_lines:
                        found[::2, ::2] = _WALL  # where no walls meet nothing is drawn
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


def _sampled(code_HW: Codes, bounds: list[Codes], marks: list[int]) -> Codes | None:
    """Return the code in the middle of each block; None if the blocks, or the marks in their middle, are others."""
    codes: Codes = code_HW[np.ix_(*((bound[:-1] + bound[1:]) // 2 for bound in bounds))]
    drawn = (codes == _WALL).repeat(np.diff(bounds[0]), 0).repeat(np.diff(bounds[1]), 1)
    if (drawn == (code_HW == _WALL)).mean() < 0.95:
        return None
    for mark in marks:
        place = []
        for bound, pixel in zip(bounds, np.nonzero(code_HW == mark), strict=True):
            middle = pixel.mean() + 0.5
            block = int(np.searchsorted(bound, middle)) - 1
            low, high = bound[block : block + 2]
            inside = (pixel >= low - 1) & (pixel <= high)
            if abs(middle - (low + high) / 2) > 0.2 * (high - low) or inside.mean() < 0.98:
                return None
            place.append(block)
        codes[tuple(place)] = mark
    return codes


WRITTEN_OBJECTS = ("grid", "pixels", "networkx", "maze-dataset")


def write_object(kind: str, task: Task, path: Path | None = None) -> Any:
    """Return a task as a 0/1 grid, as maze-dataset's pixels, as a networkx graph or as a maze-dataset SolvedMaze.

    Walls between cells make a grid of 2H + 1 by 2W + 1 (mazelib's form). Only maze-dataset and pixels hold the path.
    """
    if kind not in WRITTEN_OBJECTS:
        raise UserError(f"a maze cannot be made into {kind!r}; use one of {', '.join(WRITTEN_OBJECTS)}.")
    maze = task.maze
    if kind == "grid":
        return (maze.cells == WALL if maze.has_wall_cells_only else lattice(maze)).astype(np.uint8)
    if kind == "networkx":
        from networkx import Graph

        graph = Graph(start=task.start, goal=task.goal)
        graph.add_nodes_from(cell for cell in np.ndindex(maze.cells.shape) if not maze.is_wall(cell))
        graph.add_edges_from(maze.edges())
        return graph
    solid_HW = lattice(maze)
    if kind == "pixels":
        pixels = np.where(solid_HW[..., None], 0, 255).astype(np.uint8).repeat(3, -1)
        for colour, cells in (((0, 0, 255), path or []), ((0, 255, 0), [task.start]), ((255, 0, 0), [task.goal])):
            for block in path_blocks(cells):
                pixels[block] = colour
        return pixels
    try:
        from maze_dataset import SolvedMaze, TargetedLatticeMaze
    except ImportError:
        raise UserError("objects of maze-dataset need that library; use pip install 'clew[maze-dataset]'.") from None
    lists = np.stack([~solid_HW[2::2, 1::2], ~solid_HW[1::2, 2::2]])
    if path is None:
        return TargetedLatticeMaze(connection_list=lists, start_pos=np.array(task.start), end_pos=np.array(task.goal))
    return SolvedMaze(connection_list=lists, solution=np.array(path))
