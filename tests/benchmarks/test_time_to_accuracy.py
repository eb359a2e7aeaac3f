"""The benchmark trains what it says, goes on where it stopped, and reads its runs rightly; how fast anything learns is
not tested."""

import dataclasses
import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from clew.benchmarks import exact_score, time_to_accuracy, time_to_accuracy_page
from clew.benchmarks.contestants import contestants
from clew.benchmarks.exact_score import exact_solved
from clew.benchmarks.time_to_accuracy import Curve, Interrupted, Point, check_machine, measure, minutes_to, run
from clew.cli import run as clew
from clew.decoding.decode import decode
from clew.decoding.left_to_right import LeftToRight
from clew.decoding.script import Script
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.models.build import build_model, count_parameters, kind_of
from clew.models.grid_next_token import GridNextTokenConfig
from clew.models.grid_pointer import GridPointerConfig
from clew.training.run_folder import METRICS_FILE


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of a moment, in place of the paper's and of the presets'."""
    originals = contestants

    def shrunk(*args, **kwargs):
        found = []
        for each in originals(*args, **kwargs):
            changes = {"width": 16, "heads": 2}
            changes |= {"hops": 1} if each.model_size is None else {}
            changes |= {"encoder_depth": 1, "decoder_depth": 1} if each.method == "paper-mlmu" else {}
            changes |= {"depth": 1} if each.method == "paper-next" else {}
            model = dataclasses.replace(each.config.model, **changes)
            found.append(dataclasses.replace(each, config=dataclasses.replace(each.config, model=model, batch_size=8)))
        return found

    monkeypatch.setattr(time_to_accuracy, "contestants", shrunk)
    monkeypatch.setattr(time_to_accuracy, "POINTS", 2)


def test_the_four_are_trained_and_told(small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work, picture = tmp_path / "work", tmp_path / "curves.png"
    options = ["--sizes", "2,3", "--minutes", "0.005", "--held-out", "4", "--work", str(work)]
    assert clew(["bench", "time-to-accuracy", *options, "--json", "--plot", str(picture)]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert [(c["size"], c["method"], c["model_size"]) for c in report["curves"]] == [
        (size, method, model)
        for size in (2, 3)
        for method, model in (
            ("paper-mlmu", "8m"),
            ("paper-next", "8m"),
            ("grid-pointer", None),
            ("grid-next-token", None),
        )
    ]
    for curve in report["curves"]:
        assert curve["minutes"] >= 0.005
        assert curve["points"][-1]["step"] == curve["steps"] > 0
        assert curve["gigaflops"] > 0
        assert list(curve["minutes_to"]) == ["50%", "90%", "99%"]
        assert curve["final"]["low"] <= curve["final"]["exact"] <= curve["final"]["high"]
    assert report["provenance"]["command"].startswith("clew bench time-to-accuracy --sizes 2,3 --minutes 0.005")
    assert picture.read_bytes().startswith(b"\x89PNG")

    # The same command again trains nothing, and tells the same.
    before = {file: file.read_bytes() for file in work.rglob(METRICS_FILE)}
    assert len(before) == 8
    assert clew(["bench", "time-to-accuracy", *options]) == 0
    assert {file: file.read_bytes() for file in work.rglob(METRICS_FILE)} == before
    told = capsys.readouterr().out.splitlines()
    assert len(told) == 8
    assert told[0].startswith("2x2 paper-mlmu (8m, ")


def test_a_signal_stops_the_benchmark_and_it_can_go_on(small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []
    original = time_to_accuracy.train

    def stopped(config, folder, **kwargs):
        trained.append(folder.name)
        end = original(config, folder, **kwargs)
        return dataclasses.replace(end, reason="signal", signal=signal.SIGTERM) if len(trained) == 2 else end

    monkeypatch.setattr(time_to_accuracy, "train", stopped)
    arguments = ([2], 0.001, ["tiny"], tmp_path, "command", lambda text: None)
    with pytest.raises(Interrupted) as stop:
        measure(*arguments, held_out=2)
    assert stop.value.signal == signal.SIGTERM
    assert [name.removesuffix("-0.001min") for name in trained] == ["2x2-paper-mlmu-tiny", "2x2-paper-next-tiny"]
    assert len(measure(*arguments, held_out=2).curves) == 4


def test_everyone_has_the_same_minutes_and_the_papers_have_the_papers_recipe() -> None:
    found = contestants((5, 10), minutes=7, paper_models=("8m", "tiny"), held_out=50)
    assert len(found) == 2 * (2 * 2 + 2)
    assert len({each.name for each in found}) == len(found)
    assert {each.config.budget.minutes for each in found} == {7}
    assert {each.config.held_out for each in found} == {50}
    by_name = {each.name: each.config for each in found}
    mlmu, following = by_name["10x10-paper-mlmu-8m-7min"], by_name["10x10-paper-next-8m-7min"]
    assert (kind_of(mlmu.model), mlmu.objective.name) == ("encoder-decoder", "mlm-u")
    assert (kind_of(following.model), following.objective.name) == ("decoder-only", "next-token")
    for config in (mlmu, following):
        assert round(count_parameters(build_model(config.model, 0)) / 1e6) == 8
        assert config.data.format == "edge-list"
        assert (config.optimizer.kind, config.optimizer.lr, config.batch_size, config.clip) == ("adamw", 1e-3, 128, 1)
        assert (config.schedule.kind, config.ema) == ("one-cycle", None)
    assert (mlmu.optimizer.weight_decay, following.optimizer.weight_decay) == (0, 1e-4)
    pointer, rival = by_name["10x10-grid-pointer-7min"], by_name["10x10-grid-next-token-7min"]
    assert (pointer.model, rival.model) == (GridPointerConfig(), GridNextTokenConfig())
    for field in ("optimizer", "schedule", "batch_size", "ema", "clip"):
        assert getattr(pointer, field) == getattr(rival, field), field


@pytest.mark.parametrize("kind", ["grid-pointer", "grid-next-token"])
def test_giving_up_at_the_first_mistake_changes_no_score(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = generate("dfs", 3, 3, seed=0, first=0, count=40, side="test")
    script = Script.of("grid", 3, 3)
    # A model that has learnt a little: some paths right and some wrong.
    config = next(c.config for c in contestants((3,), 1, (), 1) if c.method == kind)
    model = learnt(config, tasks)
    answers = [
        decode(model, script.canvas(tasks.select(np.array([i]))), LeftToRight()).response(0) for i in range(len(tasks))
    ]
    right = 0
    for i, answer in enumerate(answers):
        truth_BR, length_B = script.truth(tasks.select(np.array([i])))
        right += answer == truth_BR[0, : int(length_B[0])].tolist()
    assert 0 < right < len(tasks)
    monkeypatch.setattr(exact_score, "AT_ONCE", 16)
    assert exact_solved(model, script, tasks) == right


def learnt(config, tasks):
    """The model after some steps on half of the tasks."""
    from clew.data.batches import grid_batch
    from clew.objectives.config import ObjectiveConfig, build_objective

    model = build_model(dataclasses.replace(config.model, width=32, heads=2, hops=1), 0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    half = tasks.select(np.arange(0, len(tasks), 2))
    batch = grid_batch(half, np.arange(len(half)), tail=config.data.tail)
    objective = build_objective(ObjectiveConfig(config.objective.name))
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        question = objective(batch, generator)
        logits = model(batch, question.rank_BT, question.ask_BT)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, question.target_BT[question.ask_BT]).backward()
        optimizer.step()
    return model.eval()


def test_minutes_are_those_of_the_first_score_that_is_high_enough() -> None:
    points = [Point(1, 10, 0.2), Point(2, 20, 0.5), Point(3, 30, 0.4), Point(4, 40, 0.95)]
    assert [minutes_to(points, target) for target in (0.5, 0.9, 0.99)] == [2, 4, None]


def test_operations_are_added_up_line_by_line() -> None:
    lines = [{"elapsed": 2.0, "flops_per_second": 10.0}, {"elapsed": 3.0, "flops_per_second": 4.0}]
    assert time_to_accuracy.operations(lines) == 24


def test_another_machine_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    here = {"cpu": "one", "cores": 2, "date": "today", "commit": None}
    assert check_machine(file, here) == "today"
    assert check_machine(file, here | {"date": "tomorrow"}) == "today"
    with pytest.raises(UserError, match="begun on another machine"):
        check_machine(file, here | {"cores": 64})
    file.write_text("[]")
    with pytest.raises(UserError, match="does not say which machine"):
        check_machine(file, here)


def test_another_number_of_held_out_mazes_is_refused(small, tmp_path: Path) -> None:
    one, other = (time_to_accuracy.contestants((2,), 0.001, (), count)[0] for count in (2, 3))
    run(one, tmp_path / "run")
    with pytest.raises(UserError, match="scored on 2 mazes and not on 3"):
        run(other, tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--sizes", "5,ten"], "the sizes '5,ten' cannot be read"),
        (["--sizes", ""], "cannot be read"),
        (["--sizes", "1"], "cannot be read"),
        (["--size-of-paper-model", "9m"], "no paper model '9m'"),
        (["--minutes", "0"], "--minutes a number above 0"),
        (["--minutes", "nan"], "--minutes a number above 0"),
        (["--held-out", "0"], "--held-out 1 or more"),
        (["--plot", "curve.txt"], "curve.txt cannot be written"),
    ],
)
def test_bad_options_get_one_sentence(options, words, capsys: pytest.CaptureFixture[str]) -> None:
    assert clew(["bench", "time-to-accuracy", *options]) == 1
    assert words in capsys.readouterr().err


def test_the_label_and_the_table_name_what_ran() -> None:
    curve = Curve(
        "paper-next",
        "8m",
        10,
        7_947_648,
        60,
        7680,
        10.0,
        25.0,
        {"50%": 1.5, "90%": None},
        {"exact": 0.6, "low": 0.5, "high": 0.7},
        [],
    )
    assert time_to_accuracy.label(curve) == "the paper's next token on text, 7.9M"
    report = time_to_accuracy.Report({}, "", 10, 300, 2, [curve])
    assert time_to_accuracy.table(report) == (
        "10x10 paper-next (8m, 7,947,648 parameters): 50% after 1.5 min, 90% not reached; 60.0% (50.0% to 70.0%) after "
        "10.0 min, 60 steps and 7,680 mazes"
    )


def test_the_table_of_the_page() -> None:
    curve = Curve(
        "grid-pointer", None, 5, 1234, 10, 640, 2.0, 1.0, {"50%": 0.52, "99%": None},
        {"exact": 0.75, "low": 0.5, "high": 0.9}, [Point(2.0, 10, 0.75)],
    )  # fmt: skip
    report = {"minutes_each": 2.0, "threads": 1, "held_out": 8, "curves": [dataclasses.asdict(curve)]}
    head, _, names, _, row = time_to_accuracy_page.tables(report).splitlines()
    assert head.startswith("2 minutes of training each, 1 thread(s), exact paths of 8 held-out mazes")
    assert "| minutes to 50% | minutes to 99% |" in names
    assert row == "| 5x5 | grid-pointer | 1,234 | 0.5 | not reached | 75.0 (50.0 to 90.0) | 640 mazes |"
