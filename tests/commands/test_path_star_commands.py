"""Path-star graphs through every command, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clew.cli import run

TEXT = "3 5 | 5 1 | 3 2 | 2 6 | 3 6 <PATH_START>\n3 5 | 5 1 | 3 2 | 2 6 | 3 1 <PATH_START> 3 5 6 <PATH_END>\n"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("data") / "stars")
    shape = ["--arms", "2", "--length", "4", "--labels", "8"]
    assert run(["generate", "path-star", *shape, "--count", "40", "--test", "20", "--out", folder]) == 0
    return folder


@pytest.fixture(scope="module")
def trained(dataset: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("runs") / "star")
    small = ["--model.width", "16", "--model.encoder-depth", "1", "--steps", "2", "--held-out", "5"]
    data = ["--data.source", "dataset", "--data.folder", dataset]
    assert run(["train", "star-2x4-mlmu-sampler", "--out", folder, *small, *data]) == 0
    return folder


def test_a_dataset_says_what_it_holds(dataset: str, capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--arms", "2", "--length", "4", "--labels", "8"]
    assert run(["generate", "path-star", *shape, "--count", "40", "--test", "20", "--out", dataset]) == 0
    whole = "already there, whole, with these settings: 40 graphs to train on and 20 to test on, path-star-2x4, "
    assert f"{whole}8 labels" in capsys.readouterr().out
    assert run(["data", "verify", dataset]) == 0
    described = json.loads((Path(dataset) / "dataset.json").read_text())
    assert (described["family"], described["height"], described["width"]) == ("path-star-2x4", 1, 8)
    assert described["format"] == "path-star"


def test_a_run_takes_family_and_labels_from_its_folder(trained: str) -> None:
    data = json.loads((Path(trained) / "config.json").read_text())["data"]
    assert (data["family"], data["sizes"], data["width"], data["format"]) == ("path-star-2x4", [1], 8, "path-star")


def test_evaluate(trained: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "out.html"
    decoders = ["left-to-right", "right-to-left", "certainty", "repair"]
    arguments = ["--mazes", "6", "--decoder", *decoders, "--report", str(report), "--json"]
    assert run(["evaluate", trained, *arguments]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["mazes"] == "6 held-out path-star-2x4 graphs with 8 labels"
    assert out["leakage"] == ["none of the 6 mazes has a layout that was trained on."]
    assert [each["decoder"] for each in out["evaluations"]] == decoders
    assert list(out["evaluations"][0]["failures"]) == [
        "unparsable",
        "wrong arm",
        "no such edge",
        "wrong end",
        "longer path",
    ]
    assert "wrong arm" in report.read_text()


def test_evaluate_a_file(trained: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "graphs.txt"
    file.write_text(TEXT.splitlines()[0])
    assert run(["evaluate", trained, "--input", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["evaluations"][0]["mazes"] == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--size", "5"], "has labels, not 5 rows"),
        (["--embedded-in", "5"], "leave --embedded-in out"),
        (["--family", "dfs"], "a maze of 1 row"),
    ],
)
def test_evaluate_refuses_what_graphs_have_not(
    trained: str, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["evaluate", trained, "--mazes", "2", *arguments]) == 1
    assert says in capsys.readouterr().err


def test_solve_exactly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "graphs.txt"
    file.write_text(TEXT)
    assert run(["solve", str(file)]) == 0
    out = capsys.readouterr().out
    assert "S3 - 5 - 1\nS3 > 2 > G6\nline 1: a path of 3 nodes, the only shortest one." in out
    assert "the path given in the file: step 2 goes from 5 to 6, but no edge joins them." in out
    assert run(["solve", str(file), "--json", "--solver", "bfs"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    prompt, plan = TEXT.splitlines()[0], "3 2 6 <PATH_END>"
    assert first == {"path": [3, 2, 6], "length": 3, "num_shortest": 1, "prompt": prompt, "plan": plan, "trace": None}
    assert run(["solve", str(file), "--trace"]) == 1
    assert "a path-star graph has no trace" in capsys.readouterr().err


def test_solve_with_a_model(trained: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "graphs.txt"
    file.write_text(TEXT)
    code = run(["solve", str(file), "--solver", trained, "--json"])
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(answers) == 2
    assert code == (0 if all(answer["valid"] for answer in answers) else 1)
    assert all(answer["path"] is None or all(isinstance(node, int) for node in answer["path"]) for answer in answers)
    assert run(["solve", str(file), "--solver", trained]) == code
    assert "S3" in capsys.readouterr().out
    file.write_text("9 8 | 9 1 | 9 8")
    assert run(["solve", str(file), "--solver", trained]) == 1
    assert "the model does not know the token" in capsys.readouterr().err


def test_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "graphs.txt"
    file.write_text(TEXT)
    for ending in ("png", "svg"):
        assert run(["draw", str(file), "--out", str(tmp_path / f"a.{ending}")]) == 0
    drawing = (tmp_path / "a.svg").read_text()
    assert all(f">{label}</text>" in drawing for label in (1, 2, 3, 5, 6))
    assert (tmp_path / "a.png").stat().st_size > 2000


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["path-star", "--size", "5"], "a path-star graph has no size"),
        (["path-star", "--labels", "5"], "5 labels are too few for the 9 nodes"),
        (["path-star", "--arms", "1"], "at least 2 arms"),
        (["path-star", "--format", "grid"], "grid text is for mazes"),
        (["dfs", "--arms", "2"], "are for path-star graphs, not for dfs mazes"),
        (["dfs", "--format", "path-star"], "path-star text is for path-star graphs"),
    ],
)
def test_generate_refuses_what_does_not_fit(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["generate", *arguments, "--count", "5", "--test", "0", "--out", str(tmp_path / "d")]) == 1
    assert says in capsys.readouterr().err


def test_train_refuses_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train", "star-2x4-next", "--data.sizes", "5", "--out", str(tmp_path / "r")]) == 1
    assert "has labels, not 5 rows" in capsys.readouterr().err
