"""clew.load and TrainedModel: run folders, folders of weights and their names; solving and evaluating."""

import json
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import clew
from clew import registry
from clew.data.config import DataConfig
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.models.build import build_model, read_weights, write_weights
from clew.models.config import CellNetworkConfig, DecoderOnlyConfig
from clew.registry import shipped_models
from clew.tokenization.read import write_maze
from clew.trained import export_weights, load
from clew.training.checkpoint import begin_run, locked_run, write_checkpoint
from clew.training.config import Budget, TrainConfig

DRAWING = """\
+--+--+--+
|S       |
+--+--+  +
|G       |
+--+--+--+
"""
NO_WAY = "S#G\n.#.\n.#.\n"


def make_run(folder, config):
    with locked_run(folder):
        begin_run(folder, config, resume="never")
        model = build_model(config.model, seed=0)
        write_checkpoint(folder, 0, {"model": model.state_dict()}, {"step": 0, "best": None})
    return folder


@pytest.fixture(scope="module")
def cell_run(tmp_path_factory):
    data = DataConfig(sizes=(4,), format="cell-labels")
    config = TrainConfig(data=data, model=CellNetworkConfig(width=16, hidden=16), budget=Budget(steps=1))
    return make_run(tmp_path_factory.mktemp("runs") / "cells", config)


@pytest.fixture(scope="module")
def next_token_run(tmp_path_factory):
    data = DataConfig(sizes=(3,))
    from clew.objectives.config import ObjectiveConfig

    model = DecoderOnlyConfig(data.vocabulary, width=16, heads=2, depth=1)
    config = TrainConfig(data=data, model=model, budget=Budget(steps=1), objective=ObjectiveConfig(name="next-token"))
    return make_run(tmp_path_factory.mktemp("runs") / "next", config)


def test_importing_clew_is_quick():
    program = "import sys, clew; clew.load; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_a_solution_has_its_path_its_checks_and_its_steps(cell_run):
    model = clew.load(cell_run)
    solution = model.solve(DRAWING, decoder="walk:query=cell")
    assert solution.shortest_path[0] == (0, 0)
    assert len(solution.shortest_path) == 6
    assert solution.passes == len(solution.steps) > 0
    # Each step labels cells of the walk, in their order.
    assert [cell for step in solution.steps for cell in step.cells] == solution.path
    assert [divmod(position, 3) for step in solution.steps for position in step.positions] == solution.path
    assert {token for step in solution.steps for token in step.tokens} == {"on"}
    assert [step.number for step in solution.steps] == list(range(1, solution.passes + 1))
    for step in solution.steps:
        assert step.cell_probabilities.shape == (2, 3)
        assert [float(step.cell_probabilities[cell]) for cell in step.cells] == list(step.probabilities)
        assert ((step.cell_probabilities >= 0) & (step.cell_probabilities <= 1)).all()
    assert solution.is_valid == (solution.problem is None)
    assert solution.seconds > 0
    assert solution._repr_svg_().startswith("<svg")
    assert "<g data-step=" in solution._repr_html_()
    assert solution.verdict in str(solution)
    assert "cells: " in repr(model)


def test_many_tasks_of_several_sizes_in_their_order(cell_run):
    model = clew.load(cell_run)
    tasks = [
        generate("dfs", side, side, seed=0, first=i, count=1, split="test", workers=1)[0][0]
        for i, side in enumerate([4, 6, 4, 5, 6])
    ]
    solutions = model.solve_many(tasks, batch_size=1)
    assert [solution.task for solution in solutions] == tasks
    together = model.solve_many(tasks)
    assert [s.path for s in together] == [s.path for s in solutions]


def test_a_maze_without_a_path_does_not_stop_the_others(cell_run):
    model = clew.load(cell_run)
    first, unreachable, last = model.solve_many([DRAWING, NO_WAY, DRAWING])
    assert first.path == last.path == model.solve(DRAWING).path
    assert (unreachable.path, unreachable.shortest_path, unreachable.steps) == (None, None, ())
    assert not unreachable.is_valid
    assert not unreachable.is_shortest
    assert unreachable.problem.startswith("no path leads from the start (0, 0) to the goal (0, 2)")
    assert "not solved: no path leads" in str(unreachable)
    assert unreachable._repr_svg_().startswith("<svg")


def test_on_step_may_stop_a_solution(cell_run):
    def stop(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clew.load(cell_run).solve(DRAWING, on_step=stop)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_device_that_is_not_there_is_refused(cell_run):
    with pytest.raises(UserError, match="no GPU that torch can use; use the device cpu"):
        clew.load(cell_run, device="cuda")
    with pytest.raises(UserError, match="there is no device 'gpu'; use cpu or cuda"):
        clew.load(cell_run, device="gpu")


def test_evaluation_on_held_out_mazes_and_its_report(cell_run, tmp_path):
    model = clew.load(cell_run)
    evaluation = model.evaluate(n=5, size=3, decoder="one-pass")
    assert (len(evaluation), evaluation.name, evaluation.decoder) == (5, "cells", "one-pass")
    assert evaluation.exact == evaluation.scores.exact
    assert 0 <= evaluation.exact.low <= evaluation.exact.share <= evaluation.exact.high
    tasks = model.held_out(size=3, n=5)
    again = model.evaluate(tasks=tasks, decoder="one-pass")
    assert [o.predicted for o in again.outcomes] == [o.predicted for o in evaluation.outcomes]
    assert model.leakage(tasks).perhaps_trained == 0
    listed = model.evaluate(tasks=[*tasks, tasks[0][0][0], DRAWING], decoder="one-pass")
    assert [o.task.maze.cells.shape for o in listed.outcomes[-2:]] == [(3, 3), (2, 3)]
    assert len(listed) == 7
    with pytest.raises(UserError, match="no way leads from the start"):
        model.evaluate(tasks=[NO_WAY])
    evaluation.save_html(tmp_path / "report.html")
    assert "one-pass" in (tmp_path / "report.html").read_text()


def test_evaluation_takes_what_read_takes(cell_run, tmp_path):
    batch, model = clew.generate("dfs", size=4, n=3), clew.load(cell_run)
    texts = [write_maze("ascii", task, path) for task, path in (batch[i] for i in range(3))]
    file = tmp_path / "mazes.txt"
    file.write_text("\n\n".join(texts))
    grid = np.array([[2, 0, 1], [1, 0, 3]])
    cases = [(batch, 3), (str(file), 3), (file, 3), (texts[0], 1), (grid, 1), ([batch, grid, str(file)], 7)]
    for tasks, count in cases:
        assert len(model.evaluate(tasks=tasks)) == count
    wrong = (([], "no maze to evaluate on"), ([grid, "S#G\n.#."], "maze 2: no way leads"))
    for tasks, words in (*wrong, ("3 5 | 5 1 | 3 1", "not for path-star graphs")):
        with pytest.raises(UserError, match=words):
            model.evaluate(tasks=tasks)


def test_a_next_token_model_is_decoded_left_to_right_by_default(next_token_run):
    model = clew.load(next_token_run)
    task = generate("dfs", 3, 3, seed=0, first=0, count=1, split="test", workers=1)[0][0]
    assert model.solve(task).passes >= 1
    with pytest.raises(UserError, match="can only be decoded left-to-right"):
        model.solve(task, decoder="threshold")


def test_exported_weights_give_the_same_paths_as_their_run(cell_run, tmp_path, monkeypatch):
    export_weights(cell_run, tmp_path / "shipped" / "small", about="made by a test")
    monkeypatch.setattr(registry, "_SHIPPED", (tmp_path / "shipped",))
    assert list(shipped_models()) == ["small"]
    run, weights = load(cell_run), load("small")
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(tensor, weights.model.state_dict()[name])
    assert (weights.height, weights.width, weights.family, weights.codec) == (4, 4, "dfs", run.codec)
    assert clew.load("small").solve(DRAWING).path == clew.load(cell_run).solve(DRAWING).path
    with pytest.raises(UserError, match="is not empty"):
        export_weights(cell_run, tmp_path / "shipped" / "small")
    with pytest.raises(
        UserError, match=r"does not exist; give the folder of a run, or one of the shipped models \(small"
    ):
        clew.load("large")


def test_a_checkpoint_can_be_chosen_by_its_folder(cell_run, tmp_path):
    run = shutil.copytree(cell_run, tmp_path / "run")
    old, new = load(run), build_model(load(run).config, seed=1)
    write_checkpoint(run, 5, {"model": new.state_dict()}, {"step": 5, "best": None})
    for step, expected in ((0, old.model), (5, new)):
        chosen = clew.load(run / "checkpoints" / f"{step:08d}")
        assert chosen.name == f"run-{step}"
        assert torch.equal(chosen.model.sides.weight, expected.sides.weight)
    (run / "config.json").unlink()
    with pytest.raises(UserError, match="is not the folder of a run"):
        clew.load(run / "checkpoints" / "00000000")


def test_every_shipped_model_loads():
    for name in shipped_models():
        assert load(name).parameters > 0


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "it is empty"),
        (DRAWING + "\n" + DRAWING, "holds 2 mazes"),
        ("qwe rty", "none of what Clew reads"),
        ("." * 10_000_000, "longer than 8,000,000 bytes"),
        ("\ud800", "not text in UTF-8"),
    ],
)
def test_texts_that_cannot_be_solved(cell_run, given, problem):
    with pytest.raises(UserError, match=problem):
        clew.load(cell_run).solve(given)


def test_a_maze_larger_than_a_text_model(next_token_run):
    task = generate("dfs", 5, 5, seed=0, first=0, count=1, split="test", workers=1)[0][0]
    with pytest.raises(UserError, match=r"does not know the token .* 5 rows and 5 columns"):
        clew.load(next_token_run).solve(task)


def damage(folder, change):
    """Change a model.json that has no checksums, as older versions wrote it."""
    value = json.loads((folder / "model.json").read_text())
    del value["sha256"]
    change(value)
    (folder / "model.json").write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda value: value.update(height="four"),
            "cannot be 'four'; it must be a whole number",
        ),
        (lambda value: value.pop("form"), "lacks the field 'form'"),
        (lambda value: value.pop("model"), "lacks the field 'model'"),
        (lambda value: value["model"].update(width=32), r"but the model needs \["),
        (lambda value: value["model"].update(width=8), r"but the model needs \["),
        (lambda value: value.update(form="poem"), "no text format 'poem'"),
        (lambda value: value.update(form="edge-list"), "need 128 ids, but a model of None"),
        (lambda value: value.update(height=10**18), "at most 255 of each"),
        (lambda value: value["model"].update(steps=10**18), "steps is 10+; use a number from 1 to 1000"),
        (lambda value: value["model"].update(width=10**9), "width is 10+; use a number from 1 to 65536"),
        (lambda value: value["model"].update(hidden=10**30), "hidden is 10+; use a number from 1 to 65536"),
        (lambda value: value["model"].update(steps=1), "has, beyond the model's, 'message_steps.1"),
        (lambda value: value["model"].update(base_loops=10**18), "base_loops is 10+; use a number from 1 to 10000"),
    ],
)
def test_damaged_weights_are_refused(cell_run, tmp_path, change, problem):
    export_weights(cell_run, tmp_path / "w")
    damage(tmp_path / "w", change)
    with pytest.raises(UserError, match=problem):
        clew.load(tmp_path / "w")


def test_a_text_model_with_a_huge_depth_is_refused_at_once(next_token_run, tmp_path):
    export_weights(next_token_run, tmp_path / "w")
    damage(tmp_path / "w", lambda value: value["model"].update(depth=10**18))
    began = time.perf_counter()
    with pytest.raises(UserError, match=r"depth is 10+; use a number from 1 to 1000"):
        clew.load(tmp_path / "w")
    assert time.perf_counter() - began < 10


def test_weights_without_checksums_load(cell_run, tmp_path):
    export_weights(cell_run, tmp_path / "w")
    damage(tmp_path / "w", lambda value: None)
    assert clew.load(tmp_path / "w").solve(DRAWING).path == clew.load(cell_run).solve(DRAWING).path


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
def test_a_changed_byte_in_weights_is_found(cell_run, tmp_path, name):
    export_weights(cell_run, tmp_path / "w", about="some words")
    file = tmp_path / "w" / name
    # A value that stays valid: the last byte of the last tensor, or a letter of the description.
    data = file.read_bytes()
    changed = data[:-1] + bytes([data[-1] ^ 1]) if name == "model.safetensors" else data.replace(b"words", b"wordz")
    assert changed != data
    file.write_bytes(changed)
    with pytest.raises(UserError, match=f"{name} is damaged: its SHA-256"):
        clew.load(tmp_path / "w")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda t: t.update({"head.bias": torch.full_like(t["head.bias"], float("nan"))}), "'head.bias' that are not"),
        (lambda t: t.update({"heads.bias": t.pop("head.bias")}), "lacks 'head.bias': it belongs to another model"),
        (lambda t: t.update({"head.bias": t["head.bias"].long()}), r"int64\), but the model needs"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(cell_run, tmp_path, change, problem):
    export_weights(cell_run, tmp_path / "w")
    description, tensors = read_weights(tmp_path / "w")
    change(tensors)
    write_weights(tmp_path / "w", description, tensors)
    with pytest.raises(UserError, match=problem):
        clew.load(tmp_path / "w")


def test_shipped_weights_have_checksums():
    for folder in shipped_models().values():
        assert set(json.loads((folder / "model.json").read_text())["sha256"]) == {"model.json", "model.safetensors"}


def test_a_truncated_weights_file_is_refused(cell_run, tmp_path):
    export_weights(cell_run, tmp_path / "w")
    file = tmp_path / "w" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(UserError, match="damaged"):
        clew.load(tmp_path / "w")
    with pytest.raises(UserError, match="is no run and no weights"):
        clew.load(tmp_path)


def test_a_maze_that_cannot_be_read_is_named_by_its_number() -> None:
    with pytest.raises(UserError, match=r"maze 2: line 1, column 2: '\?'"):
        load("cells-dfs").solve_many(["S.G\n...", "S?G\n...", "S#G\n..."])
