"""The benchmark measures what it says; its numbers depend on the machine and are not tested."""

import json
import re
import time
from pathlib import Path

import pytest
import safetensors.torch
import torch

from clew.benchmarks import cost, cost_memory, cost_page, cost_peak, cost_work
from clew.benchmarks.cost_work import TrainingStep
from clew.benchmarks.pages import NOTHING_YET
from clew.commands import bench
from clew.errors import UserError
from clew.files import write_json
from clew.models.build import build_model, sized_config, to_json
from clew.models.grid_pointer import GridPointerConfig
from clew.training import peak
from clew.training.checkpoint import model_tensors

BEGIN, END = "<!-- grid-cost: begin -->", "<!-- grid-cost: end -->"
TINY = GridPointerConfig(width=16, heads=2, loops_per_cell=0.1)


def write_weights(folder: Path, config, form: str = "grid") -> str:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(safetensors.torch.save(model_tensors(build_model(config, seed=0))))
    told = {"model": to_json(config), "form": form, "family": "dfs", "height": 4, "width": 4, "seed": 0}
    write_json(folder / "model.json", told)
    return str(folder)


@pytest.fixture
def weights(tmp_path):
    return write_weights(tmp_path / "tiny", TINY)


@pytest.fixture
def small(monkeypatch):
    """A benchmark of a moment; a batch of n cells takes n MB beyond 100."""
    monkeypatch.setattr(cost_work, "CELLS_A_BATCH", 50)
    monkeypatch.setattr(cost_peak, "SIDE", 4)
    monkeypatch.setattr(cost_peak, "WIDTHS", (16, 32))
    monkeypatch.setattr(peak, "SECONDS", 0.02)
    monkeypatch.setattr(
        cost_memory, "_in_fresh_process", lambda kind, weights, side, mazes, threads: 75 + side**2 * mazes
    )


def test_everything_is_measured(small, weights, capsys, tmp_path):
    before = torch.get_num_threads()
    bench.cost(weights, sizes="5,3,4", seconds=0.01, json=True, plot=tmp_path / "cost.png")
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert [(each["side"], each["cells"], each["loops"], each["mazes"]) for each in report["sizes"]] == [
        (3, 9, 3, 6),
        (4, 16, 4, 3),
        (5, 25, 5, 2),
    ]
    for each in report["sizes"]:
        assert 0 < each["pass_seconds"] < each["solving_seconds"]
        assert each["training_seconds"] > 0
        assert each["passes"] >= 1
        assert each["training_mb"] == each["solving_mb"] == pytest.approx(each["cells"] - 25 / each["mazes"])
    assert list(report["fits"]) == list(cost.QUANTITIES)
    for each in report["widths"]:
        assert each["share_of_peak"] == pytest.approx(each["gigaflops"] / each["peak_gigaflops"])
        assert list(each["shares"]) == ["matrix products", "passage kernels", "norms", "optimizer", "rest"]
        assert sum(each["shares"].values()) == pytest.approx(1, abs=0.1)
        assert min(list(each["shares"].values())[:4]) > 0
    assert report["provenance"]["command"].startswith("clew bench cost --weights ")
    assert report["provenance"]["command"].endswith(" --sizes 3,4,5 --seconds 0.01 --threads 1")
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")
    assert "measuring: 5x5, 2 mazes a batch" in printed.err
    assert torch.get_num_threads() == before


def test_the_tables_say_it_all(small, weights, capsys):
    bench.cost(weights, sizes="3,4", seconds=0.01)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(("| 3x3 | 3 |", "| 4x4 | 4 |")) for line in lines) == 2
    assert sum(line.startswith(("| 16 |", "| 32 |")) for line in lines) == 2
    tables = [line.count("|") for line in lines if line.startswith("|")]
    assert tables == [9] * 5 + [10] * 4  # every row has its cells


def test_a_step_is_that_of_training(weights):
    """The weights and their average change, and the operations are those of the whole batch."""
    step = TrainingStep(TINY, "dfs", side=4, mazes=3)
    other = TrainingStep(TINY, "dfs", side=4, mazes=6)
    assert len(step.part.batch) == 3
    assert 1.5 < other.flops / step.flops < 2.5
    before = {name: tensor.clone() for name, tensor in step.state.ema.state_tensors().items()}
    step.whole()
    step.whole()
    changed = [name for name, tensor in step.state.ema.state_tensors().items() if not torch.equal(tensor, before[name])]
    assert any("own_and_hear" in name for name in changed)


def test_one_pass_asks_for_everything_once(weights, monkeypatch):
    trained = cost_work.load_pointer(weights)
    tasks = cost_work.tasks_of(trained, 4, 3)
    asked = []
    answer = type(trained.model).answer
    monkeypatch.setattr(
        type(trained.model), "answer", lambda self, cells, ask: asked.append(ask.sum()) or answer(self, cells, ask)
    )
    cost_work.one_pass(trained, tasks)
    assert asked == [3 * (16 + 1)]
    cost_work.solve(trained, tasks)
    assert len(asked) > 1


def test_memory_is_what_a_fresh_process_needs_beyond_a_small_one(small, weights, monkeypatch):
    assert cost_memory.memory_mb("train", weights, 4, 1) == 3 * 16 - 25
    monkeypatch.setattr(cost_memory, "_in_fresh_process", lambda *args: 100)
    assert cost_memory.memory_mb("train", weights, 4, 1) == 0.1


def test_a_fresh_process_tells_its_memory(weights):
    assert 50 < cost_memory._in_fresh_process("train", weights, 4, 1, 1) < 3000


def test_the_fresh_process_does_what_it_says(weights, monkeypatch, capsys):
    done = []
    monkeypatch.setattr(cost_memory.TrainingStep, "whole", lambda self: done.append("trained"))
    monkeypatch.setattr(cost_memory, "solve", lambda trained, tasks: done.append(len(tasks)))
    monkeypatch.setattr(cost_memory, "own_peak_memory_mb", lambda: 123.0)
    cost_memory.do_and_tell("train", weights, 4, 2, 1)
    cost_memory.do_and_tell("solve", weights, 4, 2, 1)
    assert done == ["trained", 2]
    assert capsys.readouterr().out == "123.0\n" * 2


def test_the_exponent_is_found():
    found = cost.fit([25, 100, 400], [3e-4 * cells**1.7 for cells in (25, 100, 400)])
    assert found.exponent == pytest.approx(1.7)
    assert found.r_squared == pytest.approx(1)


def test_the_fastest_run_counts():
    now = [0.0]
    took = iter([5, 2, 3])
    assert cost.fastest(lambda: now.__setitem__(0, now[0] + next(took)), 0, lambda: now[0]) == 2
    assert [cost.clock_for(threads) for threads in (1, 2)] == [time.process_time, time.perf_counter]


def test_the_parts_of_a_step_are_told_apart():
    """Longer kernels show as kernels."""
    step = TrainingStep(TINY, "dfs", side=4, mazes=3)
    before = cost_peak.parts_of(step)
    from clew.models import passage_loops

    patch = pytest.MonkeyPatch()
    mix = passage_loops.over_rows
    patch.setattr(passage_loops, "over_rows", lambda *args: (time.sleep(0.01), mix(*args)))
    after = cost_peak.parts_of(step)
    patch.undo()
    assert after["passage kernels"] > max(before["passage kernels"], 0.5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sizes": "5"}, "the sizes '5' cannot be used"),
        ({"sizes": "5,x"}, "the sizes '5,x' cannot be used"),
        ({"sizes": "5,1000"}, "cannot be used"),
        ({"seconds": 0}, "give --seconds a number above 0"),
        ({"threads": 0}, "--threads 1 or more"),
        ({"plot": Path("cost.txt")}, "the plot cost.txt cannot be written"),
        ({"weights": "no-such-model"}, "no-such-model does not exist"),
    ],
)
def test_bad_options_get_one_sentence(options, words):
    with pytest.raises(UserError, match=re.escape(words)):
        bench.cost(**options)


def test_a_text_model_is_refused(tmp_path):
    config = sized_config("encoder-decoder", "tiny", vocabulary=128)
    name = write_weights(tmp_path / "text", config, form="edge-list")
    with pytest.raises(UserError, match="is no grid-pointer"):
        bench.cost(name)


def test_the_tables_are_put_into_the_page(small, weights, tmp_path, capsys):
    (tmp_path / "docs").mkdir()
    (tmp_path / "results").mkdir()
    page, results = tmp_path / "docs" / "grid-pointer.md", tmp_path / "results" / "grid-cost.json"
    page.write_text(f"above\n{BEGIN}\nold\n{END}\nbelow\n")
    assert cost_page.SECTION.write(tmp_path) == page
    assert page.read_text() == f"above\n{BEGIN}\n{NOTHING_YET}{END}\nbelow\n"
    bench.cost(weights, sizes="3,4", seconds=0.01, json=True)
    results.write_text(capsys.readouterr().out)
    (tmp_path / "docs" / "grid-cost.png").touch()
    cost_page.SECTION.write(tmp_path)
    cost_page.SECTION.write(tmp_path)  # again gives the same
    text = page.read_text()
    assert text.startswith(f"above\n{BEGIN}\n![Time and memory against size](grid-cost.png)\n\nAll a maze")
    assert text.endswith(f"(../results/grid-cost.json)\n{END}\nbelow\n")
    assert text.count("| 3x3 |") == 1
    page.write_text("no marks")
    with pytest.raises(UserError, match="must have the marks"):
        cost_page.SECTION.write(tmp_path)
