"""`clew solve`, called as the command line calls it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path as FilePath

import pytest

from clew.cli import run
from clew.mazes.solvers import is_shortest
from clew.tokenization.read import iter_tasks

GOLDEN = FilePath(__file__).parents[1] / "golden"
FIELDS = ["path", "length", "num_shortest", "prompt", "plan", "trace"]
OPEN = '{"width": 3, "height": 2, "start": [0, 0], "goal": [2, 0], "walls": [[1, 0]]}'
BLOCKED = '{"width": 3, "height": 2, "start": [0, 0], "goal": [2, 0], "walls": [[1, 0], [1, 1]]}'


def solve(capsys: pytest.CaptureFixture[str], *arguments: str | FilePath) -> str:
    assert run(["solve", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | FilePath) -> tuple[str, str]:
    """What was printed before the command failed, and its one sentence."""
    assert run(["solve", *map(str, arguments)]) == 1
    captured = capsys.readouterr()
    err = "".join(line for line in captured.err.splitlines(keepends=True) if "compiling kernels" not in line)
    assert err.count("\n") == 1
    return captured.out, err


def test_the_astar_set_is_solved_as_published(capsys: pytest.CaptureFixture[str]) -> None:
    golden = [json.loads(line) for line in (GOLDEN / "astar.jsonl").read_text().splitlines()]
    answers = [json.loads(line) for line in solve(capsys, GOLDEN / "astar.jsonl", "--trace", "--json").splitlines()]
    assert len(answers) == len(golden) == 171
    for answer, line in zip(answers, golden, strict=True):
        assert list(answer) == FIELDS
        for field in ("prompt", "plan", "trace"):
            assert answer[field] == line[field]
        assert answer["length"] == len(answer["path"]) == line["plan"].count("plan")
        assert answer["path"][0] == line["start"]
        assert answer["num_shortest"] >= 1


def test_edge_list_lines_come_back_token_for_token(capsys: pytest.CaptureFixture[str]) -> None:
    lines = (GOLDEN / "dfs-5.txt").read_text().splitlines()
    answers = [json.loads(line) for line in solve(capsys, GOLDEN / "dfs-5.txt", "--json").splitlines()]
    assert [f"{answer['prompt']} {answer['plan']}" for answer in answers] == lines
    assert {answer["num_shortest"] for answer in answers} == {1}
    assert {answer["trace"] for answer in answers} == {None}


def test_bfs_paths_are_as_short(capsys: pytest.CaptureFixture[str]) -> None:
    by_bfs = [
        json.loads(line) for line in solve(capsys, GOLDEN / "astar.jsonl", "--solver", "bfs", "--json").splitlines()
    ]
    for read, answer in zip(iter_tasks(GOLDEN / "astar.jsonl"), by_bfs, strict=True):
        assert is_shortest(read.task, [(y, x) for x, y in answer["path"]])


def test_the_drawing_shows_the_path(capsys: pytest.CaptureFixture[str], tmp_path: FilePath) -> None:
    file = tmp_path / "mazes.txt"
    file.write_text("S#G\n...\n\n+--+--+\n|S    |\n+--+  +\n|G    |\n+--+--+\n")
    assert solve(capsys, file) == (
        "S#G\n>>^\nline 1: a path of 5 cells, the only shortest one.\n\n"
        "+--+--+\n|S>  v|\n+--+  +\n|G   <|\n+--+--+\nline 4: a path of 4 cells, the only shortest one.\n\n"
    )
    file.write_text("S..\n..G")
    assert "one of 3 shortest ones" in solve(capsys, file)
    assert "create 0 0 c0 c3 close 0 0 c0 c3" in solve(capsys, file, "--trace")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ([[0, 0], [1, 0], [2, 0]], "valid and a shortest one."),
        ([[0, 0], [0, 1], [1, 1], [1, 0], [2, 0]], "valid, but not a shortest one."),
        ([[0, 0], [2, 0]], "step 1 goes from (0, 0) to (0, 2), which is not a neighbour."),
    ],
)
def test_a_given_path_is_judged(
    capsys: pytest.CaptureFixture[str], tmp_path: FilePath, path: list[list[int]], said: str
) -> None:
    file = tmp_path / "mazes.jsonl"
    file.write_text(json.dumps({"width": 3, "height": 2, "start": [0, 0], "goal": [2, 0], "walls": [], "path": path}))
    assert f"the path given in the file: {said}" in solve(capsys, file)


@pytest.mark.parametrize("solver", ["bfs", "astar"])
@pytest.mark.parametrize("as_json", [True, False])
def test_a_maze_without_a_way_is_named_and_the_others_are_solved(
    capsys: pytest.CaptureFixture[str], tmp_path: FilePath, solver: str, as_json: bool
) -> None:
    file = tmp_path / "mazes.jsonl"
    file.write_text("\n".join([OPEN, BLOCKED, OPEN, "", OPEN]))
    out, err = failure(capsys, file, "--solver", solver, *["--json"] * as_json)
    assert out.count('"length": 5' if as_json else "a path of 5 cells") == 3
    assert err.startswith("clew: maze 2, line 2: no way leads from the start (0, 0) to the goal (0, 2)")


def test_a_maze_that_cannot_be_read_is_named_and_the_others_are_solved(
    capsys: pytest.CaptureFixture[str], tmp_path: FilePath
) -> None:
    file = tmp_path / "mazes.txt"
    file.write_text("S.G\n...\n\nS?G\n...\n\nS.G\n...\n")
    out, err = failure(capsys, file)
    assert out.count("a path of 3 cells") == 2
    assert err.startswith("clew: maze 2, line 4, column 2: '?' is no part of a maze")


@pytest.mark.parametrize("decoder", ["nope", "left-to-right"])
def test_a_wrong_decoder_is_one_sentence_for_all_mazes(
    capsys: pytest.CaptureFixture[str], tmp_path: FilePath, decoder: str
) -> None:
    file = tmp_path / "mazes.txt"
    file.write_text("S.G\n...\n\nS.G\n...\n")
    out, err = failure(capsys, file, "--solver", "cells-dfs", "--decoder", decoder)
    assert (out, err.count("\n")) == ("", 1)


def test_the_exit_code_tells_that_a_models_path_is_not_valid(
    capsys: pytest.CaptureFixture[str], tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    from clew.trained import TrainedModel, load

    model = load("cells-dfs")
    solved = model.solve("S.G\n...")
    monkeypatch.setattr(TrainedModel, "solve", lambda self, task, decoder: dataclasses.replace(solved, problem="no."))
    file = tmp_path / "mazes.txt"
    file.write_text("S.G\n...\n")
    _, err = failure(capsys, file, "--solver", "cells-dfs")
    assert err == "clew: the model's path is not valid in 1 of 1 maze.\n"


def test_a_large_maze_says_how_long_a_model_takes(
    capsys: pytest.CaptureFixture[str], tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "maze.txt").write_text("S..\n.#.\n..G\n")
    assert run(["solve", str(tmp_path / "maze.txt"), "--solver", "cells-astar"]) == 0
    assert "a pass over" not in capsys.readouterr().err
    monkeypatch.setattr("clew.commands.solve.LARGE", 8)
    assert run(["solve", str(tmp_path / "maze.txt"), "--solver", "cells-astar"]) == 0
    assert (
        "clew: a pass over 3 by 3 cells may take a minute or more; --solver astar is fast.\n" in capsys.readouterr().err
    )


def test_wall_list_and_mixed_mazes_can_be_solved(capsys: pytest.CaptureFixture[str], tmp_path: FilePath) -> None:
    file = tmp_path / "mazes.txt"
    file.write_text("bos start 0 0 goal 2 0 wall 1 0 eos")
    assert json.loads(solve(capsys, file, "--json"))["prompt"] == "start 0 0 goal 2 0 wall 1 0"
    file.write_text("<GRID_START> start:E SW / # goal:N / - - <GRID_END>")  # a wall cell and walls between cells
    answer = json.loads(solve(capsys, file, "--json", "--trace"))
    assert answer["plan"] == "(0,0) (0,1) (1,1) <PATH_END>"
    assert answer["prompt"].startswith("<ADJLIST_START> ")
    assert answer["trace"].startswith("create 0 0 c0 c2 close 0 0 c0 c2")


def test_bad_calls(capsys: pytest.CaptureFixture[str], tmp_path: FilePath) -> None:
    assert "use --solver astar" in failure(capsys, GOLDEN / "dfs-5.txt", "--solver", "bfs", "--trace")[1]
    assert "cannot read" in failure(capsys, tmp_path / "missing")[1]
    (tmp_path / "empty").touch()
    assert "holds no maze" in failure(capsys, tmp_path / "empty")[1]
