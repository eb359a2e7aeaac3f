"""`clew evaluate` and `clew solve --solver RUN`, as a user calls them."""

import json
import re

import pytest

import clew
from clew.cli import run
from clew.data.config import DataConfig
from clew.evaluation.tasks import default_count
from clew.mazes.solvers import bfs_path, path_problem
from clew.models.build import build_model
from clew.models.config import CellNetworkConfig, DecoderOnlyConfig, EncoderDecoderConfig
from clew.objectives.config import ObjectiveConfig
from clew.solution import Solution
from clew.tokenization.read import write_maze
from clew.trained import export_weights, load
from clew.training.checkpoint import begin_run, locked_run, write_checkpoint
from clew.training.config import Budget, TrainConfig

WALLS = "S...\n.##.\n....\n...G\n"
PERFECT = "+--+--+--+\n|S       |\n+--+--+  +\n|G       |\n+  +--+--+\n|        |\n+--+--+--+\n"


def make_run(folder, data, model, objective="mlm-u", **changes):
    config = TrainConfig(
        data=data, model=model, budget=Budget(steps=1), objective=ObjectiveConfig(name=objective), **changes
    )
    with locked_run(folder):
        begin_run(folder, config, resume="never")
        tensors = {"model": build_model(model, seed=0).state_dict()}
        write_checkpoint(folder, 0, tensors, {"step": 0, "best": None})
    return str(folder)


@pytest.fixture(scope="module")
def cell_run(tmp_path_factory):
    data = DataConfig(sizes=(4,), format="cell-labels")
    return make_run(tmp_path_factory.mktemp("runs") / "cells", data, CellNetworkConfig(width=16, hidden=16))


@pytest.fixture(scope="module")
def text_run(tmp_path_factory):
    data = DataConfig(sizes=(4,))
    model = EncoderDecoderConfig(data.vocabulary, width=16, heads=2, encoder_depth=1, decoder_depth=1)
    return make_run(tmp_path_factory.mktemp("runs") / "mlmu", data, model)


@pytest.fixture(scope="module")
def next_token_run(tmp_path_factory):
    data = DataConfig(sizes=(4,))
    model = DecoderOnlyConfig(data.vocabulary, width=16, heads=2, depth=1)
    return make_run(tmp_path_factory.mktemp("runs") / "next", data, model, "next-token")


def test_everything_at_once(cell_run, text_run, next_token_run, tmp_path, capsys):
    report = tmp_path / "out.html"
    arguments = [cell_run, "--mazes", "3", "--decoder", "all", "--compare", text_run, next_token_run]
    assert run(["evaluate", *arguments, "--report", str(report), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["mazes"] == "3 held-out dfs mazes of 4x4"
    command = f"clew evaluate {cell_run} --mazes 3 --decoder all --compare {text_run} {next_token_run}"
    command += f" --report {report} --json"
    assert out["provenance"]["command"] == command
    assert out["leakage"] == ["none of the 3 mazes has a layout that was trained on."] * 3
    pairs = [(each["model"], each["decoder"]) for each in out["evaluations"]]
    assert [decoder for model, decoder in pairs if model == "cells"] == ["one-pass", "walk", "walk-repair"]
    assert ("mlmu", "repair") in pairs
    assert [decoder for model, decoder in pairs if model == "next"] == ["left-to-right"]
    assert all(each["mazes"] == 3 and each["passes"] >= 1 for each in out["evaluations"])
    page = report.read_text()
    assert f"Made by <code>{command}</code>. Seed 0." in page
    assert page.count("all 3 mazes</summary>") == len(pairs)
    assert page.count('class="chart"') == 2  # too few tokens for one of calibration
    assert "http://www.w3.org" in page
    assert "https://" not in page
    assert "<codec" not in page


def test_the_decoder_where_nothing_is_said(cell_run, text_run, next_token_run, capsys):
    assert run(["evaluate", cell_run, "--mazes", "3", "--compare", text_run, next_token_run]) == 0
    captured = [line.split()[:2] for line in capsys.readouterr().out.splitlines()[2:5]]
    assert captured == [["cells", "walk-repair"], ["mlmu", "left-to-right"], ["next", "left-to-right"]]


def test_larger_mazes_are_fewer_where_nothing_is_said():
    assert [default_count(side**2) for side in (2, 5, 10, 20, 30)] == [2000, 2000, 2000, 125, 24]
    assert default_count(10**6) == 1


def test_the_table(cell_run, capsys):
    assert run(["evaluate", cell_run, "--mazes", "5", "--decoder", "one-pass", "walk:origin=goal"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "5 held-out dfs mazes of 4x4:"
    assert lines[2].split()[:2] == ["cells", "one-pass"]
    assert lines[3].split()[:2] == ["cells", "walk:origin=goal"]


def test_mazes_from_a_file_of_any_size(cell_run, tmp_path, capsys):
    file = tmp_path / "mazes.txt"
    file.write_text(f"{WALLS}\n{PERFECT}")
    assert run(["evaluate", cell_run, "--input", str(file), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["evaluations"][0]["mazes"] == 2


def test_mazes_that_cannot_be_used_are_named_and_left_out(cell_run, tmp_path, capsys):
    file = tmp_path / "mazes.txt"
    file.write_text("S.G\n...\n\nS#G\n.#.\n\nS.?\n...\n\nS.G\n...\n")
    assert run(["evaluate", cell_run, "--input", str(file)]) == 1
    captured = capsys.readouterr()
    assert re.findall(r"^clew: (maze \d, line \d)", captured.err, flags=re.MULTILINE) == [
        "maze 2, line 4",
        "maze 3, line 7",
    ]
    assert "without 2 mazes that cannot be used" in captured.out


def test_smaller_mazes_plain_and_embedded(text_run, capsys):
    assert run(["evaluate", text_run, "--mazes", "4", "--size", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mazes"] == "4 held-out dfs mazes of 3x3"
    assert run(["evaluate", text_run, "--mazes", "4", "--size", "2", "--embedded-in", "4", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["mazes"] == "4 held-out dfs mazes of 2x2 in the corner of 4x4 ones"
    assert out["leakage"] == ["none of the 4 mazes has a layout that was trained on."]
    command = ["evaluate", text_run, "--mazes", "4", "--size", "2", "--embedded-in", "4", "--embedding", "cut-off"]
    assert run([*command, "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["mazes"] == "4 held-out dfs mazes of 2x2 in the corner of 4x4 ones, cut off from the rest"
    assert "--embedded-in 4 --embedding cut-off" in out["provenance"]["command"]
    assert run(["evaluate", text_run, "--size", "2", "--embedding", "cut-off"]) == 1
    assert "--embedded-in" in capsys.readouterr().err


def test_a_run_is_scored_in_its_own_precision_or_in_float32(text_run, tmp_path, capsys):
    data = DataConfig(sizes=(4,))
    model = EncoderDecoderConfig(data.vocabulary, width=16, heads=2, encoder_depth=1, decoder_depth=1)
    half = make_run(tmp_path / "half", data, model, precision="fp16")

    def precisions(*options):
        assert run(["evaluate", half, "--mazes", "3", *options, "--json"]) == 0
        return [each["precision"] for each in json.loads(capsys.readouterr().out)["evaluations"]]

    assert precisions() == ["fp16"]
    assert precisions("--compare", text_run) == ["fp16", "fp32"]
    assert precisions("--precision", "fp32") == ["fp32"]
    assert run(["evaluate", half, "--mazes", "3", "--compare", text_run]) == 0
    rows = [line.split()[:3] for line in capsys.readouterr().out.splitlines()[2:4]]
    assert rows == [["half", "left-to-right", "fp16"], ["mlmu", "left-to-right", "fp32"]]
    export_weights(half, tmp_path / "weights")
    assert load(tmp_path / "weights").precision == "fp16"


def test_solving_with_a_model(cell_run, tmp_path, capsys):
    file = tmp_path / "mazes.txt"
    file.write_text(f"{PERFECT}\n{PERFECT}")
    code = run(["solve", str(file), "--solver", cell_run])
    out = capsys.readouterr().out
    assert out.count("+--+--+--+") == 4
    assert out.count("found in") == 2
    assert "valid" in out or "no path could be read" in out
    assert code == (1 if "not valid" in out or "no path could be read" in out else 0)
    run(["solve", str(file), "--solver", cell_run, "--decoder", "one-pass", "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert set(lines[0]) == {"path", "length", "valid", "shortest", "problem", "passes", "seconds", "steps"}
    assert lines[0]["steps"] is None


def test_the_order_and_the_probabilities_of_a_models_answer_are_shown(text_run, tmp_path, capsys):
    file = tmp_path / "maze.txt"
    file.write_text(write_maze("ascii", clew.generate("dfs", size=4)[0][0]))
    run(["solve", str(file), "--solver", text_run, "--trace", "--json"])
    [line] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(line["steps"]) == line["passes"]
    for number, step in enumerate(line["steps"]):
        assert (step["pass"], step["positions"], step["hidden"]) == (number + 1, [number], False)
        assert len(step["tokens"]) == len(step["cells"]) == 1
        assert 0 < step["probabilities"][0] <= 1
    run(["solve", str(file), "--solver", text_run, "--trace"])
    assert capsys.readouterr().out.count("pass ") == line["passes"]


def test_an_invalid_path_is_exit_1_and_its_problem_is_told_in_x_and_y(tmp_path, monkeypatch, capsys):
    """A model that always steps through the wall on the right of the start."""
    maze = "S#G\n...\n"
    (tmp_path / "mazes.txt").write_text(f"{maze}\n{maze}")

    def solve(self, task, decoder=None):
        path = [(0, 0), (1, 0), (1, 2)]
        return Solution(task, path, path_problem(task, path), False, bfs_path(task), (), 1, 0.5)

    monkeypatch.setattr("clew.trained.TrainedModel.solve", solve)
    command = ["solve", str(tmp_path / "mazes.txt"), "--solver", "cells-astar"]
    assert run([*command, "--json"]) == 1
    printed = capsys.readouterr()
    line = json.loads(printed.out.splitlines()[1])
    assert line["path"] == [[0, 0], [0, 1], [2, 1]]
    assert line["problem"] == "step 2 goes from [0, 1] to [2, 1], which is not a neighbour."
    assert printed.err == "clew: the model's path is not valid in 2 of 2 mazes.\n"
    assert run(command) == 1
    assert capsys.readouterr().out.count("not valid: step 2 goes from (1, 0) to (1, 2)") == 2


def expect(capsys, arguments, sentence, code=1):
    """The command ends with this one sentence on stderr."""
    assert run(arguments) == code
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1, error


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "holds no maze: it is empty"),
        (b"S#G\n.#.\n.#.\n", "line 1: no way leads from the start"),
        (b"x" * 10_000_000, "line 1 is longer than 8,000,000 bytes"),
        (b"\x80\x81\x82", "not text in UTF-8"),
        (b"<ADJLIST_START> foo (0,1) ;", "token 2 is 'foo'"),
        (b"<PATH_END> ; (0,0) [MASK]", "none of what Clew reads"),
        (
            b'{"width":3,"height":3,"start":[0,0],"goal":[2,0],"walls":[],"path":[[0,0],[2,0]]}',
            "line 1: the path in the file cannot be the true one, since step 1 goes from (0, 0) to (0, 2)",
        ),
    ],
)
def test_garbage_files(cell_run, tmp_path, capsys, content, sentence):
    file = tmp_path / "garbage"
    file.write_bytes(content)
    expect(capsys, ["evaluate", cell_run, "--input", str(file)], sentence)


def test_a_model_of_another_size_or_format(text_run, tmp_path, capsys):
    expect(capsys, ["evaluate", text_run, "--mazes", "3", "--size", "6"], "the model does not know the token (0,4)")


def test_wrong_calls(cell_run, next_token_run, tmp_path, capsys):
    expect(capsys, ["evaluate", "no-such-run"], "no-such-run does not exist; give the folder of a run")
    expect(capsys, ["evaluate", cell_run, "--input", "x", "--mazes", "3"], "--input already selects the mazes")
    expect(capsys, ["evaluate", cell_run, "--input", str(tmp_path / "none")], "No such file")
    expect(capsys, ["evaluate", cell_run, "--mazes", "0"], "0 mazes leave nothing to evaluate")
    expect(capsys, ["evaluate", cell_run, "--decoder", "magic"], "there is no decoder 'magic'")
    expect(capsys, ["evaluate", cell_run, "--device", "tpu"], "there is no device 'tpu'")
    expect(capsys, ["evaluate", cell_run, "--report", str(tmp_path / "no" / "r.html")], "does not exist; make it first")
    expect(
        capsys,
        ["evaluate", next_token_run, "--mazes", "3", "--decoder", "threshold"],
        "can only be decoded left-to-right",
    )
    expect(capsys, ["evaluate", cell_run, "--family", "moss", "--mazes", "3"], "no family of mazes named 'moss'")
    expect(capsys, ["evaluate", cell_run, "--mazes", "3", "--embedded-in", "4"], "give a larger size")
    expect(capsys, ["solve", "x", "--solver", "bfs", "--decoder", "threshold"], "bfs is exact; leave it out")
    expect(capsys, ["solve", "x", "--solver", "bfs", "--trace"], "use --solver astar")


def test_solving_garbage_with_a_model(cell_run, text_run, tmp_path, capsys):
    file = tmp_path / "mazes.txt"
    file.write_text("S#G\n.#.\n.#.\n")
    expect(capsys, ["solve", str(file), "--solver", cell_run], "line 1: no path leads from the start (0, 0)")
    file.write_text("\n\nS....\n....G\n.....\n")
    expect(capsys, ["solve", str(file), "--solver", text_run], "line 3: the model does not know the token")
    file.write_text("")
    expect(capsys, ["solve", str(file), "--solver", cell_run], "holds no maze")
