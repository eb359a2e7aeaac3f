"""The benchmark measures what it says; its numbers depend on the machine and are not tested."""

import random
import sys

import generation
import plain_astar
import pytest
from generation import Run

from clew.errors import UserError
from clew.files import read_json
from clew.mazes.maze import Maze, Task
from clew.mazes.solvers import astar, num_shortest


@pytest.fixture
def small(monkeypatch):
    """A benchmark of a moment, without maze-dataset."""
    monkeypatch.setattr(generation, "SIDE", 12)
    monkeypatch.setattr(generation, "JOB_CELLS", 50_000)
    monkeypatch.setattr(generation, "MEMORY_MAZES", 500)
    monkeypatch.setattr(generation, "COST_SIDES", (5, 10))
    monkeypatch.setitem(sys.modules, "maze_dataset", None)


def test_everything_is_measured(small, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks/generation.py", "--seconds", "0.02"])
    generation.main(seconds=0.02, plot=tmp_path / "cost.png", out=tmp_path / "x.json")
    printed = capsys.readouterr()
    report = read_json(tmp_path / "x.json")
    assert [each["what"] for each in report["comparisons"]] == [
        "A* 10x10 tasks with their trace",
        "A* 12x12 tasks with their trace",
    ]
    for each in report["comparisons"]:
        assert each["ratio"] == pytest.approx(each["ours_per_second"] / each["theirs_per_second"])
        assert each["ratio"] > 1
    assert "pip install 'clew[maze-dataset]'" in report["left_out"][0]
    assert 20 < report["peak_memory_mb"] < 1000
    assert report["provenance"]["command"] == "python benchmarks/generation.py --seconds 0.02"
    assert report["provenance"]["seeds"] == [0]
    assert report["load_before"] >= 0
    assert [cost["family"] for cost in report["costs"]] == ["dfs", "astar"]
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")
    assert "measuring: memory" in printed.err
    lines = printed.out.splitlines()
    assert sum("times as fast" in line for line in lines) == 2
    assert any(line.startswith("left out: maze-dataset cannot be imported") for line in lines)


def test_a_straight_line_is_found(monkeypatch):
    """Sizes that cost 3 µs and 0.5 µs a cell."""
    monkeypatch.setattr(generation, "our_job", lambda family, side: lambda: side**2)
    slower = iter([1, 1.5] * 3)  # the slower run of each size was disturbed
    monkeypatch.setattr(generation, "_work", lambda job, _: Run(1000, 1, 1e-3 * (3 + 0.5 * job()) * next(slower)))
    cost = generation.cost("dfs", (5, 10, 20), seconds=0)
    assert cost.microseconds_per_cell == pytest.approx(0.5)
    assert cost.microseconds_at_zero == pytest.approx(3)
    assert cost.r_squared == pytest.approx(1)


def test_the_fastest_way_to_run_theirs_counts(monkeypatch):
    speed = {"ours": 100, "slow": 1, "fast": 4}
    jobs = {name: (lambda name=name: speed[name]) for name in speed}
    monkeypatch.setattr(generation, "_work", lambda job, seconds: Run(job(), 1.0, 2.0 if job is jobs["ours"] else 1.0))
    result = generation.compare("x", "y", jobs["ours"], [jobs["slow"], jobs["fast"]], 1, target=20)
    assert (result.ours_per_second, result.theirs_per_second, result.ratio) == (100, 4, 25)
    assert result.ratio_one_core == 12.5


def test_plain_tasks_are_of_the_astar_set_and_searched_alike():
    rng = random.Random(1)
    for _ in range(30):
        walls, plan, trace = plain_astar.random_task(9, 8, rng)
        assert 3 * 7 <= len(walls) <= 5 * 7
        assert walls == sorted(walls, key=lambda cell: cell[0] + 9 * cell[1])
        task = Task(Maze.from_walls(8, 9, [(y, x) for x, y in walls]), plan[0][::-1], plan[-1][::-1])
        result = astar(task)
        assert result.path == [(y, x) for x, y in plan]
        assert [(e.kind, *e.cell[::-1], e.g, e.h) for e in result.trace] == trace
        assert len(plan) >= 9
        assert num_shortest(task) >= 1


@pytest.mark.parametrize("seconds", [0, float("nan")])
def test_bad_seconds_get_one_sentence(seconds):
    with pytest.raises(UserError, match=f"{seconds} seconds cannot be used"):
        generation.main(seconds=seconds)
