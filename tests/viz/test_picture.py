"""Drawn mazes are read back, from the SVG's text and from the PNG's pixels, and must be the mazes that were drawn."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from PIL import Image

from clew.errors import UserError
from clew.mazes.maze import Cell, Maze, PathStar, Task
from clew.viz.drawing import (
    BROKEN,
    GOAL,
    MARGIN,
    PREDICTED,
    START,
    STONE,
    TRUE_PATH,
    Word,
    draw_task,
    drawing_size,
    grid_svg,
    place,
    save_picture,
    task_shapes,
    task_svg,
    to_image,
)

CORRIDOR = Task(Maze.from_edges(2, 3, [((0, 0), (0, 1)), ((0, 1), (0, 2)), ((0, 2), (1, 2))]), (0, 0), (1, 2))
ROOM = Task(Maze.from_walls(3, 3, [(1, 1), (1, 2)]), (0, 0), (2, 2))


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """Mazes of both families, with any passages or any wall cells."""
    height, width = draw(st.integers(2, 5)), draw(st.integers(2, 5))
    cells = [(row, col) for row in range(height) for col in range(width)]
    start = draw(st.sampled_from(cells))
    goal = draw(st.sampled_from(cells))
    if draw(st.booleans()):
        walls = draw(st.lists(st.sampled_from(cells)))
        return Task(Maze.from_walls(height, width, [cell for cell in walls if cell not in (start, goal)]), start, goal)
    edges = Maze.from_walls(height, width, []).edges()
    return Task(Maze.from_edges(height, width, draw(st.lists(st.sampled_from(edges)))), start, goal)


def closed_between_free(maze: Maze) -> set[tuple[Cell, Cell]]:
    """Neighbouring free cells without a passage, which is where a wall line belongs."""
    return {
        (a, b)
        for a, b in Maze.from_walls(maze.height, maze.width, []).edges()
        if not (maze.is_open(a, b) or maze.is_wall(a) or maze.is_wall(b))
    }


def stone_paths(svg: str, attribute: str) -> str:
    namespace = "{http://www.w3.org/2000/svg}"
    found = [path.get("d", "") for path in ET.fromstring(svg).iter(f"{namespace}path") if path.get(attribute) == STONE]
    return "".join(found)


@given(tasks())
@settings(max_examples=60, deadline=None)
def test_the_walls_in_the_svg_are_the_mazes(task: Task) -> None:
    svg = task_svg(task)
    maze = task.maze
    lines: set[tuple[Cell, Cell]] = set()
    for found in re.findall(r"M(\d+) (\d+)L(\d+) (\d+)(?!L)(?=M|$)", stone_paths(svg, "stroke")):
        x, y, to_x, to_y = map(int, found)
        assert (to_x - x, to_y - y) in ((1, 0), (0, 1))
        lines.add(((y - 1, x), (y, x)) if to_x > x else ((y, x - 1), (y, x)))
    assert lines == closed_between_free(maze)
    corners = re.findall(r"M(-?[\d.]+) (-?[\d.]+)", stone_paths(svg, "fill"))
    assert {(round(float(y)), round(float(x))) for x, y in corners} == set(maze.walls())


def pixels(task: Task, path: list[Cell] | None = None, predicted: list[Cell] | None = None) -> npt.NDArray[np.uint8]:
    """The task drawn with 40 pixels a cell, the margin cut off."""
    edge = round(40 * MARGIN)
    drawing = place(task, task_shapes(task, path, predicted)[0])
    return np.asarray(to_image(drawing, 40 / drawing.layers[0].scale))[edge:-edge, edge:-edge]


def colour_at(image: npt.NDArray[np.uint8], row: float, col: float) -> str:
    """The colour at a place given in cells."""
    return "#" + "".join(f"{value:02x}" for value in image[round(row * 40), round(col * 40)])


@given(tasks())
@settings(max_examples=15, deadline=None)
def test_the_walls_in_the_png_are_the_mazes(task: Task) -> None:
    image, maze = pixels(task), task.maze
    closed = closed_between_free(maze)
    for (row, col), (row2, col2) in Maze.from_walls(maze.height, maze.width, []).edges():
        if maze.is_wall((row, col)) or maze.is_wall((row2, col2)):
            continue
        between = colour_at(image, (row + row2 + 1) / 2, (col + col2 + 1) / 2)
        assert (between == STONE) == (((row, col), (row2, col2)) in closed)
    for row, col in np.ndindex(maze.cells.shape):
        stone = colour_at(image, row + 0.5, col + 0.5) == STONE
        assert stone == maze.is_wall((row, col))


def test_start_goal_and_path_have_their_colours() -> None:
    image = pixels(CORRIDOR, path=[(0, 0), (0, 1), (0, 2), (1, 2)])
    assert colour_at(image, 0.25, 0.5) == START
    assert colour_at(image, 1.75, 2.5) == GOAL
    for row, col in [(0.5, 0.5), (0.5, 1.0), (0.5, 1.5), (0.5, 2.5), (1.0, 2.5), (1.5, 2.5)]:
        assert colour_at(image, row, col) == TRUE_PATH
    assert colour_at(image, 1.5, 0.5) == "#ffffff"


def test_a_prediction_breaks_where_the_maze_has_no_step() -> None:
    # along the corridor, then through the wall to (1, 1), then a gap of two columns
    image = pixels(CORRIDOR, predicted=[(0, 0), (0, 1), (1, 1), (1, 2), (1, 0)])
    assert colour_at(image, 0.5, 1.25) == PREDICTED
    assert colour_at(image, 1.25, 1.5) == BROKEN
    assert TRUE_PATH not in str(task_shapes(CORRIDOR, predicted=[(0, 0), (0, 1)]))


def test_a_sound_prediction_is_not_marked_broken() -> None:
    shapes, note = task_shapes(ROOM, predicted=[(0, 0), (1, 0), (2, 0), (2, 1), (2, 2)])
    assert note == ""
    assert PREDICTED in [shape.colour for shape in shapes]
    assert BROKEN not in [shape.colour for shape in shapes]


def test_steps_there_and_back_do_not_cover_each_other() -> None:
    image = pixels(ROOM, predicted=[(0, 0), (0, 1), (0, 0)])
    assert colour_at(image, 0.5 - 0.17, 0.9) == PREDICTED
    assert colour_at(image, 0.5 + 0.17, 0.9) == PREDICTED


@pytest.mark.parametrize(
    ("predicted", "note"),
    [
        ([(0, 0), (0, 99)], "1 predicted cell outside the maze"),
        ([(-1, 0), (0, 0), (7, 7)], "2 predicted cells outside the maze"),
        ([(9, 9)], "1 predicted cell outside the maze"),
        ([(0, 0), (0, 0)], ""),
        ([], ""),
    ],
)
def test_cells_outside_are_left_out_and_told(predicted: list[Cell], note: str) -> None:
    assert task_shapes(ROOM, predicted=predicted)[1] == note
    assert not note or note in task_svg(ROOM, predicted=predicted)


cells = st.tuples(st.integers(-2, 7), st.integers(-2, 7))


@given(tasks(), st.lists(cells, max_size=8), st.lists(cells, max_size=8))
@settings(max_examples=60, deadline=None)
def test_no_prediction_is_too_broken_to_draw(task: Task, path: list[Cell], predicted: list[Cell]) -> None:
    ET.fromstring(grid_svg([(task, path, predicted, "<&>")], 1))
    draw_task(Figure().add_subplot(), task, path, predicted)


def test_many_are_laid_out_in_a_grid(tmp_path: Path) -> None:
    pictures = [(ROOM, None, None, f"maze {k}") for k in range(5)]
    three, five = (ET.fromstring(grid_svg(pictures, columns)) for columns in (3, 5))
    titles = three.findall(".//{http://www.w3.org/2000/svg}text")
    assert [title.text for title in titles] == [f"maze {k}" for k in range(5)]
    assert float(three.get("width", 0)) < float(five.get("width", 0))
    assert float(three.get("height", 0)) > float(five.get("height", 0))
    save_picture(tmp_path / "a.png", pictures, columns=5)
    save_picture(tmp_path / "b.png", pictures, columns=1)
    wide, tall = Image.open(tmp_path / "a.png"), Image.open(tmp_path / "b.png")
    assert wide.width > 3 * wide.height
    assert tall.height > 3 * tall.width


def test_both_endings_give_their_format(tmp_path: Path) -> None:
    save_picture(tmp_path / "a.PNG", [(ROOM, None, None, "")])
    save_picture(str(tmp_path / "a.svg"), [(ROOM, None, None, "")])
    assert (tmp_path / "a.PNG").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.svg").read_text().startswith("<svg ")


@pytest.mark.parametrize("name", ["a.jpg", "a", "png", "a.png.bak"])
def test_another_ending_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"must end in \.png or \.svg"):
        save_picture(tmp_path / name, [(ROOM, None, None, "")])
    assert os.listdir(tmp_path) == []


def test_no_maze_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no maze to draw"):
        save_picture(tmp_path / "a.png", [])


GRAPH = Task(PathStar.from_pairs(8, [(3, 5), (5, 1), (3, 2), (2, 6)]), (0, 3), (0, 6))


def test_a_path_star_graph_is_drawn_arm_by_arm() -> None:
    """Two arms of three nodes: the centre between them, an arrow of another colour where no edge is."""
    true, predicted = [(0, 3), (0, 2), (0, 6)], [(0, 3), (0, 5), (0, 6), (0, 7)]
    shapes, note = task_shapes(GRAPH, true, predicted)
    words = {shape.text: shape.middle for shape in shapes if isinstance(shape, Word)}
    assert words == {"3": (0.5, 1.0), "5": (1.5, 0.5), "1": (2.5, 0.5), "2": (1.5, 1.5), "6": (2.5, 1.5)}
    lines = {shape.colour: shape.lines for shape in shapes if not isinstance(shape, Word)}
    assert lines[TRUE_PATH] == [[words["3"], words["2"], words["6"]]]
    assert len(lines[BROKEN]) == 1
    assert note == "1 predicted node outside the maze"
    assert drawing_size(GRAPH.maze) == (3, 2)


def test_a_path_star_graph_goes_to_png_and_svg(tmp_path: Path) -> None:
    picture = (GRAPH, [(0, 3), (0, 2), (0, 99)], None, "")  # a given path may name what is not there
    for ending in ("png", "svg"):
        save_picture(tmp_path / f"a.{ending}", [picture, (CORRIDOR, None, None, "")])
    assert ET.fromstring((tmp_path / "a.svg").read_text()).tag.endswith("svg")
    pixels = np.asarray(Image.open(tmp_path / "a.png").convert("RGB"))
    assert (pixels.reshape(-1, 3) == [0x3F, 0xAE, 0x6A]).all(1).any()
