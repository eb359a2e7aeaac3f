from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import clew
from clew.cli import run
from clew.data.dataset import open_dataset
from clew.mazes.generate import generate
from clew.mazes.maze import WALL, Maze, Task
from clew.tokenization.read import iter_tasks, write_maze


def test_verify_finds_a_flipped_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "d")
    assert run(["generate", "astar", "--size", "6", "--count", "40", "--test", "10", "--out", out]) == 0
    capsys.readouterr()
    assert run(["data", "verify", out]) == 0
    assert "is sound: 10 files as they were written, 40 + 10 mazes" in capsys.readouterr().out

    file = tmp_path / "d" / "test.cells.npy"
    data = bytearray(file.read_bytes())
    data[-7] ^= 1
    file.write_bytes(data)
    assert run(["data", "verify", out]) == 1
    printed = capsys.readouterr().err
    assert f"{file} is not as it was written" in printed
    assert printed.count("\n") == 1


def test_describe_tells_layouts_walls_and_paths(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(tmp_path / name) for name in ("all", "one", "dfs")]
    for folder, options in zip(
        folders, (["astar"], ["astar", "--tasks-per-layout", "one"], ["dfs", "--test", "0"]), strict=True
    ):
        command = ["generate", *options, "--size", "6", "--count", "200", "--out", folder]
        assert run(command if "--test" in options else [*command, "--test", "30"]) == 0
    capsys.readouterr()
    assert run(["data", "describe", *folders, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["provenance"]["command"] == f"clew data describe {' '.join(folders)} --json"
    rows = value["splits"]
    assert [(row["tasks_per_layout"], row["split"], row["tasks"]) for row in rows] == [
        *(("all", "train", 200), ("all", "test", 30), ("one", "train", 200), ("one", "test", 30)),
        *((None, "train", 200), (None, "test", 0)),
    ]
    assert rows[0]["layouts"] < 40 < rows[2]["layouts"] <= 200
    assert all(0.25 < row["wall_share"] < 0.5 and row["path_cells"] >= 6 for row in rows[:4])
    assert (rows[4]["wall_share"], rows[4]["one_shortest"], rows[5]["path_cells"]) == (0.0, 1.0, 0.0)

    assert run(["data", "describe", folders[2]]) == 0
    head, train, test = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["dataset", "split", "tasks", "layouts"]
    assert train.split()[:3] == [folders[2], "train", "200"]
    assert len({len(line) for line in (head, train, test)}) == 1
    assert run(["data", "describe", str(tmp_path / "absent")]) == 1
    assert "does not exist" in capsys.readouterr().err


def test_verify_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "verify", str(tmp_path / "absent")]) == 1
    assert "does not exist" in capsys.readouterr().err


def maze_lines(count: int, size: int = 6, kind: str = "hrm") -> str:
    batch = generate("astar", size, size, seed=3, first=0, count=count, split="any")
    return "".join(write_maze(kind, task, path if i % 2 else None) + "\n" for i, (task, path) in enumerate(batch))


def test_imported_mazes_make_a_dataset(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "mazes.txt", tmp_path / "data" / "mine"
    file.write_text(maze_lines(80))
    assert run(["data", "import", str(file), "--out", str(out)]) == 0
    dataset = open_dataset(out)
    counts = dataset.settings.counts
    assert f"{counts['train']} mazes to train on and {counts['test']} to test on" in capsys.readouterr().out
    assert counts["train"] + counts["test"] == 80
    assert counts["test"] > 0
    assert (dataset.settings.family, dataset.settings.format) == ("imported", "wall-list")
    assert run(["data", "verify", str(out)]) == 0
    wanted = {read.task.maze for read in iter_tasks(file)}
    assert {task.maze for split in ("train", "test") for task, _ in dataset.split(split)[:80]} == wanted
    capsys.readouterr()
    assert run(["data", "import", str(file), "--out", str(out)]) == 1
    assert "already holds a dataset" in capsys.readouterr().err


def test_layouts_of_the_test_file_are_left_out_of_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test, out = tmp_path / "train.txt", tmp_path / "test.txt", tmp_path / "d"
    lines = maze_lines(20, kind="json").splitlines()
    train.write_text("\n".join(lines))
    task = next(iter(iter_tasks(train))).task
    turned_walls = np.argwhere(np.rot90(task.maze.cells == WALL))
    turn = {(r, c): (5 - c, r) for r in range(6) for c in range(6)}
    turned = Task(Maze.from_walls(6, 6, [(int(r), int(c)) for r, c in turned_walls]), turn[task.start], turn[task.goal])
    test.write_text("\n".join([write_maze("json", turned), lines[-1]]))
    assert run(["data", "import", str(train), "--test", str(test), "--out", str(out)]) == 0
    assert "left out of training, since their layout is in the test split: 2 mazes" in capsys.readouterr().out
    assert open_dataset(out).settings.counts == {"train": 18, "test": 2}
    assert run(["data", "verify", str(out)]) == 0


def test_mazes_that_cannot_be_used_are_refused_by_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "mazes.txt", tmp_path / "d"
    bad = ["S#G\n.#.\n.#.", "S.G\n.?.\n...", "S.G\n...", "S<G\n...\n..."]
    file.write_text("\n\n".join(["S.G\n...\n...", *bad, "S..\n...\n..G", "S..\n#..\n..G"]))
    assert run(["data", "import", str(file), "--out", str(out)]) == 1
    printed = capsys.readouterr().err.splitlines()
    assert [line.split(":")[1][:7] for line in printed] == [" maze 2", " maze 3", " maze 4", " maze 5"]
    assert "no way leads" in printed[0]
    assert "'?'" in printed[1]
    assert "a dataset has one size" in printed[2]
    assert sum(open_dataset(out).settings.counts.values()) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [("S#G\n.#.\n.#.", "none of the mazes"), ("", "holds no maze")],
)
def test_a_file_without_a_maze_to_train_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    file = tmp_path / "mazes.txt"
    file.write_text(text)
    assert run(["data", "import", str(file), "--out", str(tmp_path / "d")]) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


def test_a_model_is_trained_on_and_evaluated_with_imported_mazes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mazes.txt").write_text(maze_lines(60, size=4))
    assert run(["data", "import", "mazes.txt", "--out", "mine"]) == 0
    several_sizes = clew.config("cells-astar-10", **{"data.source": "dataset", "data.folder": "mine"}).data
    assert (several_sizes.family, several_sizes.sizes, several_sizes.format) == ("imported", (4,), "cell-labels")
    options = ["--data.source", "dataset", "--data.folder", "mine", "--steps", "2", "--batch-size", "4"]
    assert run(["train", "tiny", *options, "--held-out", "2", "--out", "run"]) == 0
    for given in ([], ["--data", "mine"], ["--input", "mazes.txt"]):
        capsys.readouterr()
        assert run(["evaluate", "run", *given, "--json"]) == 0
        value = json.loads(capsys.readouterr().out)
        assert value["evaluations"][0]["mazes"] == (
            60 if given[:1] == ["--input"] else open_dataset("mine").settings.counts["test"]
        )


def test_an_empty_test_split_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch = generate("dfs", 4, 4, seed=0, first=0, count=3, split="train")
    (tmp_path / "mazes.txt").write_text("\n\n".join(write_maze("ascii", *task) for task in batch))
    assert run(["data", "import", str(tmp_path / "mazes.txt"), "--out", str(tmp_path / "d")]) == 0
    assert run(["evaluate", "cells-dfs", "--data", str(tmp_path / "d")]) == 1
    assert "the test split of" in capsys.readouterr().err
