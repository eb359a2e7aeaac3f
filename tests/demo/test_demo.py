"""The demo, small: a model is trained and solves mazes, the table and the page tell of them, and it begins anew."""

from __future__ import annotations

import io
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from clew import demo as demo_module
from clew.cli import run as clew
from clew.commands.demo import demo
from clew.demo import (
    CELLS,
    STARS,
    Settings,
    Size,
    Stopped,
    coloured,
    first_mazes,
    forget,
    learn,
    load_models,
    one_shortest,
    run,
    solve,
    turns,
)
from clew.errors import UserError
from clew.evaluation.scores import Evaluation
from clew.mazes.generate import generate
from clew.mazes.maze import Maze, Task, TaskBatch
from clew.paper import named_configs
from clew.trained import TrainedModel, load
from clew.training.callbacks import RunEnd
from clew.training.train import Run
from clew.viz.drawing import GOAL, START, TRUE_PATH


@pytest.fixture(scope="module", autouse=True)
def quick() -> None:
    """Small batches and few held-out mazes."""
    patch = pytest.MonkeyPatch()
    configs = {name: named_configs.config_named(name) for _, name, _ in (CELLS, *STARS)}
    small = {name: replace(config, batch_size=2, held_out=12) for name, config in configs.items()}
    patch.setattr(demo_module, "config_named", small.__getitem__)
    yield
    patch.undo()


def console() -> Console:
    return Console(file=io.StringIO(), width=80, highlight=False)


def text(of: Console) -> str:
    assert isinstance(of.file, io.StringIO)
    return of.file.getvalue()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny & trained"
    learn((folder.name, CELLS[1], folder.name), 0.003, folder.parent, console())
    return folder


@pytest.fixture(scope="module")
def small(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, str, str]:
    settings = Settings(
        folder=tmp_path_factory.mktemp("demo") / "new",
        minutes=0.003,
        star_minutes=0.003,
        weights=(str(model),),
        first=Size(5, 5, 1),
        learnt=Size(5, 12, 12),
        stars=Size(0, 8, 8),
        growing=(Size(3, 6, 4), Size(6, 4, 4)),
    )
    out = console()
    run(settings, out, "clew demo <again>")
    return settings, text(out), (settings.folder / "demo.html").read_text()


def test_it_trains_from_nothing(small: tuple[Settings, str, str]) -> None:
    settings, told, _ = small
    assert f"{CELLS[2]} begins: 60,097 parameters" in told
    assert "held out:  exact" in told
    trained = load(settings.folder / CELLS[2])
    assert (trained.family, trained.height) == ("dfs", 10)


def test_the_table_tells_counts_and_intervals(small: tuple[Settings, str, str]) -> None:
    told = small[1]
    numbers = r"\s+(\d+) of (\d+)\s+([\d.]+)\s+([\d.]+) to ([\d.]+)"
    rows = re.findall(rf"^(.{{12,20}})((?:DFS|star) \d+x\d+){numbers}", told, re.M)
    names = [(name.strip(), mazes, int(count)) for name, mazes, _, count, *_ in rows]
    assert names == [
        ("just trained", "DFS 5x5", 12),
        ("MLM-U", "star 2x4", 8),
        ("next token", "star 2x4", 8),
        ("tiny & trained", "DFS 3x3", 6),
        ("tiny & trained", "DFS 6x6", 4),
    ]
    for *_, hits, count, share, low, high in rows:
        assert float(low) <= float(share) <= float(high)
        assert float(share) == pytest.approx(100 * int(hits) / int(count), abs=0.05)
    assert not re.search(r"^.*DFS \d+x\d+.*…", told, re.M)  # nothing is cut off on a narrow terminal


def test_the_page_is_whole_and_alone(small: tuple[Settings, str, str]) -> None:
    page = small[2]
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")  # nothing is loaded from anywhere
    assert "<codec" not in page
    assert "clew demo &lt;again&gt;" in page
    assert "tiny &amp; trained: DFS 6x6, one-pass" in page
    # Of each of five kinds up to four exact mazes, two with another shortest path and four missed, and two charts.
    counts = re.findall(r"(\d+) exact, (\d+) another shortest path, (\d+) missed", page)
    assert [sum(map(int, each)) for each in counts] == [12, 8, 8, 6, 4]
    shown = [[min(int(n), most) for n, most in zip(each, (4, 2, 4), strict=True)] for each in counts]
    assert page.count("<svg") == 2 + sum(map(sum, shown))
    assert page.count("<figcaption>missed: ") == sum(missed for *_, missed in shown)


def test_the_table_and_the_drawings_count_alike(small: tuple[Settings, str, str]) -> None:
    page = small[2]
    drawn = [int(exact) for exact in re.findall(r"(\d+) exact, \d+ another", page)]
    listed = [part.split("</details>")[0].count("<td>exact</td>") for part in page.split("mazes</summary>")[1:]]
    assert [int(hits) for hits in re.findall(r"<td>(\d+) of \d+</td>", page)] == drawn == listed


def test_the_page_says_where_it_comes_from_and_what_its_colours_mean(small: tuple[Settings, str, str]) -> None:
    page = small[2]
    assert re.search(r"Made by <code>clew demo &lt;again&gt;</code>\. Seed 1\. \d+ cores of .*torch ", page)
    for name, colour in (("start", START), ("goal", GOAL), ("true path", TRUE_PATH)):
        assert f'style="background:{colour}"></span>{name}</li>' in page


def test_the_pair_is_trained_on_the_same_graphs(small: tuple[Settings, str, str]) -> None:
    pair = [load(small[0].folder / folder) for _, _, folder in STARS]
    assert {model.family for model in pair} == {"path-star-2x4"}
    assert len({type(model.model) for model in pair}) == 2


def test_it_begins_anew(small: tuple[Settings, str, str]) -> None:
    folder = small[0].folder / CELLS[2]
    before = Run(folder).metrics
    forget(folder)
    assert not list(folder.glob("**/*.safetensors"))
    out = console()
    learn(CELLS, 0.003, folder.parent, out)
    assert "begins:" in text(out)
    kinds = [[line["kind"] for line in lines].count("evaluation") for lines in (before, Run(folder).metrics)]
    assert kinds == [1, 1]
    forget(folder)
    forget(folder)  # nothing is there, and nothing is wrong with that
    (folder / "letters.txt").write_text("mine")
    with pytest.raises(UserError, match="holds other files"):
        learn(CELLS, 0.003, folder.parent, console())


def test_a_signal_ends_it(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended:
        end = RunEnd(1, 1.0, "signal", None, signal=15)

    monkeypatch.setattr(demo_module, "train", lambda *args, **options: Ended)
    monkeypatch.setattr(demo_module, "first_mazes", lambda *args: None)
    with pytest.raises(Stopped) as stopped:
        run(Settings(tmp_path, weights=(str(model),)), console(), "")
    assert stopped.value.signal == 15
    assert clew(["demo", "--out", str(tmp_path), "--weights", "no-such-model"]) == 1
    with pytest.raises(SystemExit, match="143"):
        clew(["demo", "--out", str(tmp_path), "--weights", str(model)])


def test_time_that_is_left_over_is_shared(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    trained = load(model)
    untils = []
    for _, size, until in turns([trained, trained], [Size(5, 1, 1), Size(6, 1, 1)], seconds=40):
        untils.append(until)
        now[0] += 1 if size.side == 5 else 15
    assert untils == [110, 101 + 39 / 3, 116 + 24 / 2, 117 + 23]


def test_a_slow_machine_solves_fewer_mazes(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def slow(*args: object, **options: object) -> Evaluation:
        now[0] += 10
        return evaluate(*args, **options)

    evaluate = TrainedModel.evaluate
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(TrainedModel, "evaluate", slow)
    trained, size = load(model), Size(3, 6, 2)
    solved = [len(solve(trained, size, 1, console(), until).evaluation) for until in (0, now[0] + 40, 1e9)]
    assert solved == [2, 6, 6]
    now[0] = 0
    assert len(solve(trained, size, 1, console(), until=25).evaluation) == 4


def test_the_mazes_are_held_out_and_others_than_in_training(model: Path) -> None:
    trained = load(model)
    found = [solve(trained, Size(5, 8, 8), seed, console()).evaluation for seed in (trained.seed, Settings().seed)]
    one, other = ({each.task.maze.cells.tobytes() for each in evaluation.outcomes} for evaluation in found)
    assert not one & other
    assert found[0].scores.mazes == 8


def test_a_text_model_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = load(model)
    text_model = replace(trained, codec=replace(trained.codec, vocabulary=object()))
    monkeypatch.setattr(demo_module, "load", lambda name: text_model)
    with pytest.raises(UserError, match="reads text of one size"):
        load_models(["x"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minutes": 0}, "0 minutes of training cannot be used"),
        ({"minutes": float("nan")}, "nan minutes of training cannot be used"),
        ({"star_minutes": 61}, "61 minutes of training cannot be used; give --star-minutes"),
        ({"seconds": -1}, "-1 seconds cannot be used"),
        ({"seed": -1}, "the seed -1 cannot be used"),
        ({"out": Path(__file__)}, "is a file"),
        ({"weights": ("no-such-model",)}, "no-such-model does not exist"),
    ],
)
def test_bad_options_get_one_sentence(options: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words):
        demo(**{"out": tmp_path, **options})


def test_threads_are_left_as_they_were(small: tuple[Settings, str, str]) -> None:
    assert torch.get_num_threads() == 1


def test_the_first_mazes_are_reported_shown_and_drawn(tmp_path: Path) -> None:
    out = Console(file=io.StringIO(), width=100, highlight=False)
    first_mazes(Settings(tmp_path, first=Size(6, 20, 2)), out)
    told = text(out)
    assert "Generating 40 mazes of 6x6 cells" in told
    assert "DFS paths of " in told
    assert "100% of the mazes have one shortest path only" in told  # a DFS maze has one path
    assert "+--+--+--+--+--+" in told
    assert "##" in told
    assert told.count("S") >= 2
    picture = np.asarray(Image.open(tmp_path / "mazes.png").convert("RGB"))
    for colour in (START, GOAL, TRUE_PATH):
        found = (picture == [int(colour[i : i + 2], 16) for i in (1, 3, 5)]).all(axis=-1)
        middle = found.shape[0] // 2
        assert found[:middle].any()
        assert found[middle:].any()


def test_a_wrong_stored_path_would_be_noticed() -> None:
    batch = generate("dfs", 4, 4, seed=0, first=0, count=3, split="test")
    longer = np.where(np.arange(4) > 2, batch.offset_N1 + 1, batch.offset_N1)
    path = np.append(batch.path, batch.path[-1])
    with pytest.raises(AssertionError):
        one_shortest(TaskBatch(batch.cells_NHW, batch.start_N, batch.goal_N, path, longer))


def test_wall_cells_look_square_and_the_path_is_red() -> None:
    task = Task(Maze.from_walls(2, 3, [(1, 0)]), (0, 0), (1, 2))
    text = coloured(task, [(0, 0), (0, 1), (0, 2), (1, 2)])
    assert text.plain == "S > v \n##. G "
    assert {text.plain[span.start : span.end] for span in text.spans if span.style == "bold red"} == {">", "v"}
