"""The demo's first seconds: it tells, shows and draws what it says."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from clew.demo.first_mazes import FirstMazes, coloured, make_mazes, show, solve_mazes
from clew.mazes.maze import Maze, Task, TaskBatch
from clew.viz.drawing import GOAL, START, TRUE_PATH


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo")
    console = Console(file=io.StringIO(), width=100, highlight=False)
    show(FirstMazes(size=6, count=20, drawn=2, shown_size=5), folder, console)
    assert isinstance(console.file, io.StringIO)
    return folder, console.file.getvalue()


def test_it_tells_what_it_did(small: tuple[Path, str]) -> None:
    told = small[1]
    assert "Making 40 mazes of 6x6 cells" in told
    assert "DFS paths of " in told
    assert "100% of the mazes have one shortest path only" in told  # a DFS maze has one path


def test_it_shows_a_maze_of_each_family(small: tuple[Path, str]) -> None:
    told = small[1]
    assert "+--+--+--+--+--+" in told
    assert "##" in told
    assert told.count("S") >= 2


def test_it_draws_both_families(small: tuple[Path, str]) -> None:
    picture = np.asarray(Image.open(small[0] / "mazes.png").convert("RGB"))
    for colour in (START, GOAL, TRUE_PATH):
        found = (picture == [int(colour[i : i + 2], 16) for i in (1, 3, 5)]).all(axis=-1)
        middle = found.shape[0] // 2
        assert found[:middle].any()
        assert found[middle:].any()


def test_a_wrong_stored_path_would_be_noticed() -> None:
    batch = make_mazes(FirstMazes(size=4, count=3))["dfs"]
    longer = np.where(np.arange(4) > 2, batch.offset_N1 + 1, batch.offset_N1)
    path = np.append(batch.path, batch.path[-1])
    with pytest.raises(AssertionError):
        solve_mazes({"dfs": TaskBatch(batch.cells_NHW, batch.start_N, batch.goal_N, path, longer)})


def test_wall_cells_look_square_and_the_path_is_red() -> None:
    task = Task(Maze.from_walls(2, 3, [(1, 0)]), (0, 0), (1, 2))
    text = coloured(task, [(0, 0), (0, 1), (0, 2), (1, 2)])
    assert text.plain == "S > v \n##. G "
    assert {text.plain[span.start : span.end] for span in text.spans if span.style == "bold red"} == {">", "v"}
