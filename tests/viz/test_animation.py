"""Animations: the frames show the decoder's own steps, in a GIF and in HTML."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import clew
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.maze import Maze, Task
from clew.solution import Solution
from clew.viz.animation import MAX_LOOPS, ORDER, TINT, animate, frames, last_frame, shown_loops, solution_html
from clew.viz.drawing import GOAL, PREDICTED, START, TRUE_PATH, Shape

ROOM = Task(Maze.from_walls(2, 3, [(0, 1)]), (0, 0), (0, 2))
PATH = [(0, 0), (1, 0), (1, 1), (1, 2), (0, 2)]


class Step:
    """As clew.decoding.decode.TaskStep."""

    def __init__(self, number: int, cells: list, hidden: bool = False, grid: list | None = None) -> None:
        self.number, self.cells, self.hidden = number, tuple(cells), hidden
        self.probabilities = (0.5,) * len(cells)
        self.cell_probabilities = None if grid is None else np.array(grid, dtype=np.float32)


def solved(*steps: Step) -> Solution:
    return Solution(ROOM, PATH, None, True, PATH, steps, passes=3, seconds=0.0)  # type: ignore[arg-type]


class SolvedInLoops(Solution):
    """A solution of a cell network whose loops are given."""

    loops = np.array([[[0, 0, 0], [0, 0, 0]], [[1, 0, 0], [1, 0, 0]]], dtype=np.float32)


def fills(shapes: list[Shape]) -> dict[str, int]:
    return {shape.colour: len(shape.lines) for shape in shapes if isinstance(shape, Shape)}


def test_cells_are_tinted_by_probability_and_marked_by_pass() -> None:
    grid = [[1, 0, 0.01], [1, 0.5, 0]]
    solution = solved(Step(1, PATH[:2], grid=grid), Step(3, PATH[2:], grid=grid))
    first, last = frames(solution)
    path = last_frame(solution)
    assert fills(first[0])[TINT[1]] == 2
    assert fills(first[0])["#b7daff"] == 1  # halfway
    assert TINT[0] not in fills(first[0])  # unlikely cells are left as they are
    assert fills(first[0])[ORDER[0]] == 2
    assert (fills(last[0])[ORDER[0]], fills(last[0])[ORDER[-1]]) == (2, 3)
    assert first[1] == "pass 1 of 3: 2 committed"
    assert PREDICTED in fills(path[0])
    assert "a path of 5 cells, valid and a shortest one." in path[1]
    assert {START, GOAL} <= set(fills(path[0]))


def test_loops_come_before_the_steps() -> None:
    solution = SolvedInLoops(ROOM, PATH, None, True, PATH, (Step(1, PATH),), passes=1, seconds=0.0)  # type: ignore[arg-type]
    one, two, three = frames(solution)
    assert [caption for _, caption in (one, two, three)] == ["loop 1 of 2", "loop 2 of 2", "pass 1 of 1: 5 committed"]
    assert (fills(one[0]).get(TINT[1]), fills(two[0])[TINT[1]]) == (None, 2)
    assert 'max="3" value="3"' in solution_html(solution)


def test_at_most_some_loops_are_shown_the_first_and_the_last_among_them() -> None:
    assert shown_loops(0) == []
    assert shown_loops(3) == [0, 1, 2]
    many = shown_loops(822)
    assert (many[0], many[-1], len(many)) == (0, 821, MAX_LOOPS)


def test_hidden_cells_lose_their_mark_and_tokens_without_a_cell_have_none() -> None:
    first, second = frames(solved(Step(1, [(0, 0), (1, 0), None, (9, 9)]), Step(1, [(1, 0)], hidden=True)))
    assert fills(first[0])[ORDER[0]] == 2
    assert fills(first[0])["#b7daff"] == 2  # of a text model, the probability of the tokens
    assert fills(second[0])[ORDER[0]] == 1
    assert "hidden again" in second[1]


def test_a_longer_path_is_drawn_over_a_shortest_one() -> None:
    shapes, _ = last_frame(replace(solved(), is_shortest=False))
    assert TRUE_PATH in [shape.colour for shape in shapes]


def test_the_gif_has_a_frame_a_step_and_holds_the_last(tmp_path: Path) -> None:
    steps = [Step(1, PATH[:2]), Step(2, PATH[2:4]), Step(3, PATH[4:])]
    assert animate(solved(*steps), tmp_path / "a.gif", milliseconds=100) == 4
    gif = Image.open(tmp_path / "a.gif")
    durations = []
    for number in range(gif.n_frames):
        gif.seek(number)
        durations.append(gif.info["duration"])
    assert durations == [100, 100, 100, 3000]
    assert gif.info["loop"] == 0
    found = np.asarray(gif.convert("RGB")).astype(int)
    amber = [int(PREDICTED[i : i + 2], 16) for i in (1, 3, 5)]
    assert (abs(found - amber).max(-1) < 12).sum() > 100
    with pytest.raises(UserError, match=r"must end in \.gif"):
        animate(solved(), tmp_path / "a.png")


def test_the_html_shows_one_step_at_a_time() -> None:
    html = solution_html(solved(Step(1, PATH[:2]), Step(2, PATH[2:])))
    # Marks and caption of each step, and the path with its verdict.
    assert re.findall(r'<g data-step="(\d)" style="display:none"', html) == ["0", "0", "1", "1"]
    assert len(re.findall(r'<g data-step="2" transform', html)) == 2
    assert [caption in html for caption in ("pass 1 of 3", "pass 2 of 3", "a path of 5 cells")] == [True] * 3
    assert 'max="2" value="2"' in html
    assert not re.search(r"<script|src=|\bid=", html)
    assert "<input" not in solution_html(solved())


@pytest.mark.parametrize("decoder", ["walk:query=cell", None])
def test_loops_and_steps_of_a_shipped_model_are_drawn(decoder: str | None, tmp_path: Path) -> None:
    task, path = generate("dfs", 6, 6, seed=3, first=0, count=1, split="test")[0]
    solution = clew.load("cells-dfs").solve(task, decoder)
    assert solution.path == path
    assert len(solution.loops) > 5
    found = frames(solution)
    assert len(found) == len(solution.loops) + len(solution.steps)
    assert sum(count for colour, count in fills(found[-1][0]).items() if colour in ORDER) >= 1
    # The GIF and the notebook's slider have them all, and the path; the GIF joins frames that are equal.
    solution.animate(tmp_path / "a.gif")
    assert getattr(Image.open(tmp_path / "a.gif"), "n_frames", 1) > len(solution.loops)
    html = solution._repr_html_()
    assert html.count("<g data-step=") == 2 * (len(found) + 1)
    assert f'max="{len(found)}"' in html


def test_text_models_have_no_loops() -> None:
    task, _ = generate("dfs", 4, 4, seed=3, first=0, count=1, split="test")[0]
    solution = clew.load("text-dfs-4-mlmu").solve(task)
    assert solution.loops == []
    assert len(frames(solution)) == len(solution.steps) > 1


def test_path_star_graphs_are_drawn() -> None:
    task, path = generate("path-star-2x3", 1, 5, seed=3, first=0, count=1, split="test")[0]
    solution = Solution(task, path, None, True, path, (Step(1, path),), passes=1, seconds=0.0)  # type: ignore[arg-type]
    shapes, _ = frames(solution)[0]
    assert fills(shapes)[ORDER[0]] == len(path)
    assert solution_html(solution).count("<svg") == 1
