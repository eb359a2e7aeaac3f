"""Drawings: what they look like, and what is said about those that cannot be read."""

from __future__ import annotations

import re
from textwrap import indent

import numpy as np
import pytest

import clew.tokenization.drawings
from clew.errors import UserError
from clew.mazes.maze import Maze, Task
from clew.tokenization.drawings import draw_ascii, parse_drawing

PASSAGES = """\
+--+--+--+
|S>  v|G |
+--+  +  +
|##| >  ^|
+--+--+--+"""

WALLS = """\
S>>v
.##v
..#G"""


def test_walls_between_cells() -> None:
    parsed = parse_drawing(PASSAGES.splitlines())
    assert parsed.path == [(0, 0), (0, 1), (1, 1), (1, 2), (0, 2)]
    assert parsed.task.maze.walls() == [(1, 0)]
    assert (parsed.task.start, parsed.task.goal) == ((0, 0), (0, 2))
    assert not parsed.task.maze.is_open((0, 1), (0, 2))
    assert draw_ascii(parsed.task, parsed.path) == PASSAGES


def test_wall_cells() -> None:
    parsed = parse_drawing(WALLS.splitlines())
    assert parsed.task == Task(Maze.from_walls(3, 4, [(1, 1), (1, 2), (2, 2)]), (0, 0), (2, 3))
    assert parsed.path == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (2, 3)]
    assert draw_ascii(parsed.task, parsed.path) == WALLS


def test_the_examples_of_the_documentation_are_these() -> None:
    for drawing in (PASSAGES, WALLS):
        assert indent(drawing, "    ") in (clew.tokenization.drawings.__doc__ or "")


def test_cells_may_be_drawn_wider_and_free_cells_as_spaces() -> None:
    wide = ["+---+---+", "| S     |", "+   +---+", "|     G |", "+---+---+"]
    assert parse_drawing(wide).task == Task(
        Maze.from_edges(2, 2, [((0, 0), (0, 1)), ((0, 0), (1, 0)), ((1, 0), (1, 1))]), (0, 0), (1, 1)
    )
    assert parse_drawing(["S #", " #", "  G"]).task == Task(Maze.from_walls(3, 3, [(0, 2), (1, 1)]), (0, 0), (2, 2))


def test_a_step_that_is_no_step_is_drawn_as_a_question() -> None:
    task = Task(Maze.from_walls(2, 3, []), (0, 0), (1, 2))
    assert draw_ascii(task, [(0, 0), (0, 1), (1, 2)]) == "S?.\n..G"


def test_walls_between_cells_cannot_be_drawn_as_wall_cells() -> None:
    with pytest.raises(UserError, match="use ascii"):
        draw_ascii(parse_drawing(PASSAGES.splitlines()).task, style="walls")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("+--+--+--+\n|S>", "+--+-+--+\n|S>", "line 5, column 1: here must be the upper wall"),
        ("S>", "q>", "line 6, column 2: 'q' is no part of a maze"),
        ("S>", " >", "drawing has no S: mark the start"),
        ("G ", "  ", "has no G: mark the goal"),
        ("G ", "S ", "line 6, column 8: a second S"),
        ("+--+  +  +", "+--+- +  +", "line 7, column 6: ' ' stands where only - or a space"),
        ("+--+  +  +", "+--+  .  +", "line 7, column 7: '.' stands where a [+] must be"),
        ("v|G", "v:G", "line 6, column 7: ':' is no part of a maze"),
        ("|S>", " S>", "line 6, column 1: the border of a maze is closed, but there is no [|] here"),
        ("##|", "## ", "which does not fit"),
        ("##", "#.", "line 8, column 2: '#' is no part of a maze"),
        ("|##| >  ^|\n+--+--+--+", "|##| >  ^|", "drawing has 4 lines, .* lower wall"),
        ("G |", "G |  |", "line 6, column 11: the line is longer than the upper wall"),
        (" v", " ^", "do not make one path from S to G: look at cell"),
        (" v", "  ", "do not make one path from S to G: look at cell"),
        (" ^", " >", r"do not make one path from S to G: look at cell \(1,3\)"),
    ],
)
def test_wrong_drawings_of_passages(old: str, new: str, message: str) -> None:
    assert old in PASSAGES
    with pytest.raises(UserError, match=message):
        parse_drawing(PASSAGES.replace(old, new).splitlines(), first_line=5)


@pytest.mark.parametrize(
    ("drawing", "message"),
    [
        ("S.\n.?\n.G", r"line 2, column 2: '\?' is no part of a maze"),
        ("S..\n.\n..G", "line 2, column 2: no cell is drawn here"),
        ("S..\n..\n..G", "line 2, column 3: no cell is drawn here"),
        ("SG", "maze of 1 row and 2 columns"),
        ("S\nG", "maze of 2 rows and 1 column"),
        ("S" + "." * 255 + "\n" + "G" + "." * 255, "256 columns"),
        ("S.\n..", "has no G"),
        ("S.S\n..G", "line 1, column 3: a second S"),
        ("BG\n..", "line 1, column 2: a second G"),
        ("S..\n..>\n..G", "do not make one path"),
        ("S>G\n.>.", "do not make one path"),
        ("S.>G\n....", "do not make one path"),
        ("S.\n>G\n<<", "do not make one path"),
        ("", "there is no maze"),
    ],
)
def test_wrong_drawings_of_wall_cells(drawing: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_drawing(drawing.splitlines())


@pytest.mark.parametrize(
    "drawing",
    [
        "  #####\n  #S G#\n  #####",
        "# # # # #\n# S   G #\n# # # # #",
        "  # # # # #\n  # S   G #\n  # # # # #",
        "+-----+\n|#####|\n|#S G#|\n|#####|\n+-----+",
        "  ┌─────┐\n  │#####│\n  │#S G#│\n  │#####│\n  └─────┘",
        "# # # # #\n# S . G #\n# # # # #",
        "\t#####\n\t#S.G#\n\t#####",
        "#  #  #  #  #\n#  S     G  #\n#  #  #  #  #",
        "   \n#####\n#S G#   \n#####\n    ",
        "██████████\n██S   G ██\n██████████",
    ],
)
def test_indented_framed_spaced_and_doubled_drawings_are_read_as_drawn(drawing: str) -> None:
    task = parse_drawing(drawing.split("\n")).task
    assert task == Task(
        Maze.from_walls(3, 5, [(r, c) for r in range(3) for c in range(5) if r != 1 or c in (0, 4)]), (1, 1), (1, 3)
    )


@pytest.mark.parametrize(
    ("drawing", "message"),
    [
        ("  S #\n  # G", "line 1, column 1: the spaces here may be free cells"),
        ("S #\n# G ", "line 2, column 4: the spaces here may be free cells"),
        ("   \nS##\n# G", "line 0, column 1: the spaces here may be free cells"),
        ("S##\n# G\n   ", "line 3, column 1: the spaces here may be free cells"),
        ("S   # # G\n#   #", "line 1, column 2: the columns between the cells are empty"),
        ("S  G\n#  #", "line 1, column 2: the columns between the cells are empty"),
        ("+-----+\n|S   G|\n|# # #|\n+-----+", "line 2, column 3: the columns between the cells are empty"),
        ("########\n##S  G##\n########", "line 1, column 2: every character stands twice"),
        ("S .#\n...G", "line 1, column 2: no cell is drawn here"),
        ("  S.\n..G.", "line 1, column 1: no cell is drawn here"),
        ("S.\n\t.G", "line 1, column 3: no cell is drawn here"),
        ("S     ##\n##    ##\n    GG##", "line 1, column 2: every character stands twice"),
        ("S ....##\n##....##\n....G.##", "line 1, column 2: no cell is drawn here"),
        ("+---+\n|S#G|\n|.. \n+---+", "line 3, column 3: the frame of the drawing is open"),
        ("+---+\n|S#G|\n|...|", "line 3, column 5: the frame of the drawing is open"),
        ("┌───────┐\n│S     G│\n│       │\n│       │\n└───────┘", "line 1, column 3: a cell may end here or not"),
        ("┌─┬─┐\n│S│G│\n│ │ │\n└─┴─┘", "odd number"),
        ("┌───┬──┐\n│ S │G │\n│   │  │\n│   │  │\n└───┴──┘", "line 1, column 1: here must be the upper wall"),
        ("┌──┬──┐\n│S #G │\n│  ╵  │\n│     │\n└─────┘", r"line 2, column 4: '#' stands where only"),
    ],
)
def test_drawings_whose_columns_are_not_certain_are_refused(drawing: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_drawing(drawing.split("\n"))


DECORATIONS = {
    "plain": lambda rows: rows,
    "indented": lambda rows: ["   " + row for row in rows],
    "spaces at the right": lambda rows: [row + "  " for row in rows],
    "a space after each cell": lambda rows: [" ".join(row) for row in rows],
    "two spaces after each cell": lambda rows: ["  ".join(row) for row in rows],
    "twice": lambda rows: ["".join(c + (c if c in "# " else " ") for c in row) for row in rows],
    "framed": lambda rows: [f"+{'-' * len(rows[0])}+", *(f"|{row}|" for row in rows), f"+{'-' * len(rows[0])}+"],
}


@pytest.mark.parametrize("name", DECORATIONS)
def test_random_drawings_are_read_as_drawn_or_refused(name: str) -> None:
    rng, read, messages = np.random.default_rng(0), 0, []
    for number in range(200):
        solid = np.pad(rng.random(rng.integers(2, 9, size=2)) < 0.4, number % 2, constant_values=True)
        free = [(int(r), int(c)) for r, c in np.argwhere(~solid)]
        if len(free) < 2:
            continue
        walls = [(int(r), int(c)) for r, c in np.argwhere(solid)]
        task = Task(Maze.from_walls(*solid.shape, walls), free[0], free[-1])
        drawing = DECORATIONS[name](draw_ascii(task).replace(".", " ").split("\n"))
        try:
            found = parse_drawing(drawing).task
        except UserError as error:
            messages.append(str(error))
            continue
        assert found == task, drawing
        read += 1
    assert read > 40
    assert all(re.match(r"line -?\d+, column \d+: ", message) for message in messages)


@pytest.mark.timeout(20)
def test_a_drawing_with_a_long_line_is_refused_at_once() -> None:
    with pytest.raises(UserError, match="line 1, column 4081: no drawing of a maze is so wide"):
        parse_drawing(["#" * 1_000_000, *["#"] * 300, "#S G"])


@pytest.mark.timeout(20)
def test_a_field_of_arrows_is_refused_at_once() -> None:
    with pytest.raises(UserError, match="do not make one path"):
        parse_drawing(["S" + "v" * 254, *["<" * 255] * 253, "." * 254 + "G"])


def test_maze_dataset_drawing_has_walls_between_cells() -> None:
    task = parse_drawing(["#######", "#S#   #", "# # # #", "#   #E#", "#######"]).task
    assert (task.maze.height, task.maze.width, task.start, task.goal) == (2, 3, (0, 0), (1, 2))
    assert task.maze.is_open((0, 1), (0, 2))
    assert not task.maze.is_open((0, 0), (0, 1))


def test_box_drawing_with_corners_only_where_walls_meet() -> None:
    task = parse_drawing(["┌──┬──┐", "│S │G │", "│  ╵  │", "│     │", "└─────┘"]).task
    assert (task.maze.height, task.maze.width) == (2, 2)
    assert not task.maze.is_open((0, 0), (0, 1))
    assert task.maze.is_open((1, 0), (1, 1))
    for light, heavy in (("┌┬┐│└─┘╵", "┏┳┓┃┗━┛╹"), ("┌┬┐│└─┘╵", "╔╦╗║╚═╝╨")):
        style = str.maketrans(light, heavy)
        drawing = ["┌──┬──┐", "│S │G │", "│  ╵  │", "│     │", "└─────┘"]
        assert parse_drawing([line.translate(style) for line in drawing]).task == task
    wide = parse_drawing(["┌───────┐", "│ S   G │", "│   ╷   │", "│   │   │", "└───┴───┘"]).task
    assert (wide.maze.height, wide.maze.width) == (2, 2)


@pytest.mark.parametrize(
    "rows",
    [
        ["0 0 1", "2 1 1", "0 0 3"],
        ["001", "211", "003"],
        ["[0,0,1],", "[2,1,1],", "[0,0,3]"],
        ["[[0 0", "  1]", " [2 1", "  1]", " [0 0", "  3]]"],  # rows that numpy has wrapped
        ["[[0,0,1],[2,1,1],", "[0,0,3]]"],
        ["001", "S11", "00G"],
    ],
)
def test_rows_of_zeros_and_ones(rows: list[str]) -> None:
    assert parse_drawing(rows).task == Task(Maze.from_walls(3, 3, [(0, 2), (1, 1), (1, 2)]), (1, 0), (2, 2))


@pytest.mark.parametrize(
    ("drawing", "column"),
    [
        ("S 1\n1 G", "line 1, column 1"),  # a space may be a free cell
        (" 10\nS0 \n0 G", "line 2, column 1"),
        ("2  13\n00  0", "line 2, column 1"),
        ("[2 1 3\n[0 1 0]", "line 1, column 1"),
        ("[[2,1,3],[0,0]]", "line 1, column 1"),
        ("[[2,12],[0,3]]", "line 1, column 1"),
    ],
)
def test_zeros_and_ones_in_uncertain_columns_are_refused(drawing: str, column: str) -> None:
    with pytest.raises(UserError, match=f"{column}: the columns of the 0 and 1 are not certain"):
        parse_drawing(drawing.split("\n"))
