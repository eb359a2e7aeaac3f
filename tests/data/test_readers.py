"""Mazes from arrays, images, graphs and maze-dataset objects."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image, ImageDraw

from clew.data.readers import (
    iter_mazes,
    parse_pixels,
    read_image,
    read_mazes,
    read_object,
    true_path,
    write_object,
)
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.maze import SIDES, Task
from clew.tokenization.read import write_maze

COLOURS = {
    ".": (255, 255, 255),
    "#": (0, 0, 0),
    " ": (255, 255, 255),
    "S": (0, 255, 0),
    "E": (255, 0, 0),
    "G": (255, 0, 0),
    "X": (0, 0, 255),
    "o": (0, 0, 255),
}


def draw(task: Task, path: list[tuple[int, int]] | None = None) -> np.ndarray:
    """The pixels of maze-dataset's as_pixels(), or of wall cells."""
    rows = write_maze("block", task, path).split("\n")
    return np.array([[COLOURS[character] for character in row] for row in rows], dtype=np.uint8)


@pytest.fixture(params=["dfs", "astar"])
def maze(request: pytest.FixtureRequest) -> tuple[Task, list[tuple[int, int]]]:
    return generate(request.param, 7, 9, seed=4, first=0, count=1, split="any")[0]


def check(found: object, task: Task, path: object = None) -> None:
    assert np.array_equal(found.task.maze.cells, task.maze.cells)
    assert (found.task.start, found.task.goal) == (task.start, task.goal)
    assert found.path == path


@pytest.mark.parametrize("scale", [1, 2, 7])
def test_pixels_of_any_scale(maze, scale: int) -> None:
    task, path = maze
    pixels = draw(task, path).repeat(scale, 0).repeat(scale, 1)
    check(read_object(pixels), task, path)
    check(read_object(draw(task).repeat(scale, 0).repeat(scale, 1)), task)


def test_thin_walls() -> None:
    task, _ = generate("dfs", 6, 6, seed=1, first=0, count=1, split="any")[0]
    pixels = draw(task)
    widths = [2 if i % 2 == 0 else 11 for i in range(13)]
    check(parse_pixels(pixels.repeat(widths, 0).repeat(widths, 1)), task)


STYLES = {
    "lines": {},
    "one pixel": {"wall": 1},
    "wide lines": {"wall": 4},
    "walls wider than cells": {"wall": 5, "pitch": 7},
    "margin": {"margin": 15},
    "round marks": {"mark": "ellipse"},
    "grey": {"colour": (90, 90, 90)},
    "blue": {"colour": (0, 0, 160)},
    "transparent": {"page": (0, 0, 0, 0)},
}


def picture(
    task: Task, wall=2, pitch=20, margin=0, mark="rectangle", colour=(0, 0, 0), page=(255, 255, 255, 255)
) -> Image.Image:
    """A picture with walls as lines, as drawing programs make it; nothing is drawn where no walls meet."""
    height, width = task.maze.cells.shape
    image = Image.new("RGBA", (width * pitch + wall + 2 * margin, height * pitch + wall + 2 * margin), page)
    pen = ImageDraw.Draw(image)
    for (row, col), green in ((task.start, True), (task.goal, False)):
        top, left = margin + row * pitch + wall, margin + col * pitch + wall
        box = [left, top, left + pitch - wall - 1, top + pitch - wall - 1]
        getattr(pen, mark)(box, fill=(0, 200, 0) if green else (220, 0, 0))
    for (row, col), sides in np.ndenumerate(task.maze.cells):
        top, left = margin + row * pitch, margin + col * pitch
        for bit, (down, right, _) in SIDES.items():
            if not sides & bit:
                y, x = top + pitch * (down > 0), left + pitch * (right > 0)
                pen.rectangle(
                    [x, y, x + wall - 1 + pitch * (down != 0), y + wall - 1 + pitch * (right != 0)], fill=colour
                )
    return image


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("family", ["dfs", "percolation"])
def test_pictures_with_lines_as_walls(family: str, style: str) -> None:
    for shape in ((3, 12), (6, 5)):
        task, _ = generate(family, *shape, seed=1, first=0, count=1, split="any")[0]
        check(read_object(picture(task, **STYLES[style])), task)


def test_a_photo_of_lines_is_read() -> None:
    task, _ = generate("dfs", 7, 9, seed=1, first=0, count=1, split="any")[0]
    image = picture(task, wall=3, page=(255, 255, 255)).convert("RGB")
    file = io.BytesIO()
    image.resize((image.width * 2, image.height * 2), Image.Resampling.NEAREST).save(file, "JPEG")
    check(read_image(file.getvalue()), task)


def test_pictures_without_a_certain_grid_are_refused() -> None:
    task, _ = generate("dfs", 7, 9, seed=1, first=0, count=1, split="any")[0]
    rng = np.random.default_rng(0)
    light_on_dark = picture(task, colour=(250, 250, 250), page=(20, 20, 40, 255))
    two_starts = picture(task, mark="ellipse").convert("RGB")
    ImageDraw.Draw(two_starts).rectangle([5, 125, 15, 135], fill=(0, 255, 0))
    stretched = picture(task).resize((500, 140), Image.Resampling.NEAREST)
    for image in (light_on_dark, two_starts, stretched, rng.integers(0, 255, (300, 300, 3))):
        with pytest.raises(UserError, match="no grid of square cells that is certain"):
            read_object(image)
    with pytest.raises(UserError, match="only one of start and goal"):
        read_object(np.array(picture(task).convert("RGB")) & [0, 255, 255])


def test_gaps_in_the_frame_are_start_and_goal() -> None:
    task, _ = generate("dfs", 5, 5, seed=2, first=0, count=1, split="any")[0]
    task = Task(task.maze, (0, 0), (4, 4))
    pixels = np.where((draw(task) == 0).all(-1, keepdims=True), 0, 255).astype(np.uint8).repeat(3, -1)[..., :3]
    pixels[0, 1] = pixels[10, 9] = 255
    check(parse_pixels(pixels.repeat(4, 0).repeat(4, 1)), task)


def test_image_files(maze, monkeypatch: pytest.MonkeyPatch) -> None:
    task, path = maze
    file = io.BytesIO()
    Image.fromarray(draw(task, path).repeat(5, 0).repeat(5, 1)).save(file, "PNG")
    check(read_image(file.getvalue()), task, path)
    check(read_object(Image.open(file)), task, path)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(file.getvalue()))))
    check(next(iter_mazes("-")), task, path)
    for damaged in (file.getvalue()[:60], b"\x89PNG\r\n\x1a\n" + b"x" * 100):
        with pytest.raises(UserError, match="image"):
            read_image(damaged)


def test_grids_of_zeros_and_ones() -> None:
    task, _ = generate("astar", 7, 9, seed=3, first=0, count=1, split="any")[0]
    grid = np.array([[task.maze.is_wall((r, c)) for c in range(9)] for r in range(7)])
    check(read_object(grid, task.start, task.goal), task)
    check(read_object(grid.astype(int), task.start, task.goal), task)
    marked = grid.astype(np.int64)
    marked[task.start], marked[task.goal] = 2, 3
    check(read_object(marked), task)
    check(read_object(marked.tolist()), task)
    check(read_object(marked.astype(float)), task)
    with pytest.raises(UserError, match=r"give start=\(row, column\)"):
        read_object(grid)
    with pytest.raises(UserError, match="the grid holds 7"):
        read_object(np.full((5, 5), 7))
    with pytest.raises(UserError, match=r"the grid holds 0\.5"):
        read_object(np.full((5, 5), 0.5))
    for start in ("ab", 5, (0.5, 0), (1, 2, 3)):
        with pytest.raises(UserError, match="is no cell; give start and goal"):
            read_object(grid, start, task.goal)


def test_networkx_graphs() -> None:
    networkx = pytest.importorskip("networkx")
    task, _ = generate("percolation", 6, 6, seed=0, first=0, count=1, split="any")[0]
    graph = networkx.Graph()
    graph.add_nodes_from((r, c) for r in range(6) for c in range(6))
    graph.add_edges_from(task.maze.edges())
    check(read_object(graph, task.start, task.goal), task)
    check(read_object(networkx.MultiGraph(graph), np.array(task.start), np.array(task.goal)), task)
    check(read_object(graph.to_directed(), task.start, task.goal), task)
    with pytest.raises(UserError, match=r"\(0, 1\)\) has one direction only"):
        read_object(networkx.DiGraph([((0, 0), (0, 1)), ((1, 0), (0, 0)), ((0, 0), (1, 0))]), (0, 0), (0, 1))
    for nodes in (networkx.path_graph(4), networkx.Graph([((0.5, 0), (0, 1))])):
        with pytest.raises(UserError, match="pairs"):
            read_object(nodes, (0, 0), (0, 1))


def test_lists_of_tokens_and_of_lines() -> None:
    text = "start 0 1 goal 2 0 wall 1 1 plan 0 1 plan 0 0 plan 1 0 plan 2 0"
    (read,) = read_mazes(text.split())
    assert (read.task.start, read.path) == ((1, 0), [(1, 0), (0, 0), (0, 1), (0, 2)])
    assert [(each.task, each.path) for each in read_mazes(text)] == [(read.task, read.path)]
    assert read_mazes(["S#G", "..."])[0].task == read_mazes("S#G\n...")[0].task


def test_objects_of_maze_dataset() -> None:
    task, path = generate("dfs", 5, 6, seed=0, first=0, count=1, split="any")[0]
    lists = np.zeros((2, 5, 6), dtype=bool)
    for a, b in task.maze.edges():
        first, second = min(a, b), max(a, b)
        lists[int(first[0] == second[0])][first] = True
    solved = SimpleNamespace(
        connection_list=lists, start_pos=np.array(task.start), end_pos=np.array(task.goal), solution=np.array(path)
    )
    check(read_object(solved), task, path)
    check(read_object(SimpleNamespace(connection_list=lists), task.start, task.goal), task)


@pytest.mark.parametrize("value", [3, None, object(), [], np.zeros((4, 4, 4, 4)), np.zeros((2, 2, 3))])
def test_what_is_no_maze_is_refused(value: object) -> None:
    with pytest.raises(UserError):
        read_object(value)


def test_objects_round_trip_and_are_solved() -> None:
    pytest.importorskip("networkx")
    for family in ("dfs", "astar", "percolation"):
        for task, path in generate(family, 7, 9, seed=0, first=0, count=10, split="any"):
            graph = write_object("networkx", task)
            check(read_object(graph), task)
            assert len(true_path(read_object(graph).task)) == len(path)
            if family == "astar":
                check(read_object(write_object("grid", task), task.start, task.goal), task)
                continue
            check(read_object(write_object("pixels", task, path)), task, path)
            # mazelib's form: walls between cells are blocks, so every step is two cells long.
            grid = write_object("grid", task)
            ends = [(2 * r + 1, 2 * c + 1) for r, c in (task.start, task.goal)]
            found = read_object(grid, *ends).task
            assert grid.shape == found.maze.cells.shape == (15, 19)
            assert np.array_equal(write_object("grid", found), grid)
            assert len(true_path(found)) == 2 * len(path) - 1


@pytest.mark.parametrize(("kind", "words"), [("binary", "use one of grid, pixels"), ("maze-dataset", "pip install")])
def test_an_object_that_cannot_be_written_is_one_sentence(
    kind: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "maze_dataset", None)  # as if it were not installed
    task, _ = generate("dfs", 5, 5, seed=0, first=0, count=1, split="any")[0]
    with pytest.raises(UserError, match=words):
        write_object(kind, task)


def test_true_paths_are_checked() -> None:
    (read,) = read_mazes("S..\n...\n..G")
    long = [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (2, 1), (2, 2)]
    assert len(true_path(read.task)) == 5
    assert true_path(read.task, long) == long
    with pytest.raises(UserError, match="it has 7 cells and a shortest one 5"):
        true_path(read.task, long, shortest=True)
    with pytest.raises(UserError, match="line 3: the path in the file cannot be the true one, since step 1"):
        true_path(read.task, [(0, 0), (2, 2)], "line 3: ")
