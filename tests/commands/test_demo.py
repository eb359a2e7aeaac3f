"""The demo, small: models are trained and solve mazes, the table and the page report them, and it starts anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import clew
from clew.cli import run
from clew.commands import demo as module
from clew.commands.demo import CELLS, MLMU, NEXT, demo, learn, show_mazes, solve
from clew.errors import UserError
from clew.paper import named_configs
from clew.trained import load
from clew.training.callbacks import RunEnd, read_metrics
from clew.viz.drawing import GOAL, START, TRUE_PATH


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """Small batches and few mazes."""
    patch = pytest.MonkeyPatch()
    configs = {name: named_configs.config_named(name) for _, name, _ in (CELLS, MLMU, NEXT)}
    small = {name: replace(config, batch_size=2, held_out=12) for name, config in configs.items()}
    patch.setattr("clew.api.config_named", small.__getitem__)
    for name, value in {"FIRST_SIZE": 6, "FIRST_MAZES": 20, "MAZES": 12, "GRAPHS": 8}.items():
        patch.setattr(module, name, value)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny & trained"
    learn(folder.name, clew.config(CELLS[1], minutes=0.003), folder)
    return folder


@pytest.fixture(scope="module")
def ran(model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder of a demo, what it printed and its page."""
    folder = tmp_path_factory.mktemp("demo") / "new"
    patch = pytest.MonkeyPatch()
    printed: list[str] = []
    for name in ("print", "print_line"):
        patch.setattr(module, name, lambda *words, **options: printed.extend(map(str, words)), raising=False)
    patch.setattr(module, "SHIPPED", (str(model),))
    demo(out=folder, minutes=0.003, star_minutes=0.003, sizes=(3, 6))
    patch.undo()
    return folder, "\n".join(printed), (folder / "demo.html").read_text()


def test_it_trains_from_nothing(ran: tuple[Path, str, str]) -> None:
    trained = load(ran[0] / CELLS[2])
    assert (trained.family, trained.height, trained.parameters) == ("dfs", 10, 60_097)
    pair = [load(ran[0] / folder) for _, _, folder in (MLMU, NEXT)]
    assert {model.family for model in pair} == {"path-star-2x5"}
    assert len({type(model.model) for model in pair}) == 2


def test_the_table_has_counts_and_intervals(ran: tuple[Path, str, str]) -> None:
    numbers = r"\s+\S+\s+fp32\s+(\d+)\s+([\d.]+) % \(([\d.]+) to ([\d.]+)\)"
    rows = re.findall(rf"^(.+?): ((?:DFS|star) \d+x\d+){numbers}", ran[1], re.M)
    assert [(name.strip(), mazes, int(count)) for name, mazes, count, *_ in rows] == [
        ("just trained", "DFS 10x10", 12),
        ("MLM-U", "star 2x5", 8),
        ("next token", "star 2x5", 8),
        ("tiny & trained", "DFS 3x3", 200),
        ("tiny & trained", "DFS 6x6", 200),
    ]
    for *_, share, low, high in rows:
        assert float(low) <= float(share) <= float(high)


def test_the_page_is_complete_and_loads_nothing(ran: tuple[Path, str, str]) -> None:
    page = ran[2]
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in page
    assert re.search(r"Made by <code>clew.*</code>\. Seed 1\. \d+ cores of .*torch ", page)
    assert "tiny &amp; trained: DFS 6x6, one-pass" in page
    assert re.findall(r"all (\d+) mazes", page) == ["12", "8", "8", "200", "200"]
    charts, galleries = page.count('class="chart"'), page.count('class="gallery"')
    assert charts == 2
    assert galleries >= 5
    for name, colour in (("start", START), ("goal", GOAL), ("true path", TRUE_PATH)):
        assert f'style="background:{colour}"></span>{name}</li>' in page


def test_it_starts_anew(ran: tuple[Path, str, str]) -> None:
    (ran[0] / CELLS[2] / "old.txt").write_text("of an earlier demo")
    learn(CELLS[0], clew.config(CELLS[1], minutes=0.003), ran[0] / CELLS[2])
    assert not (ran[0] / CELLS[2] / "old.txt").exists()
    assert [line["kind"] for line in read_metrics(ran[0] / CELLS[2])].count("evaluation") == 1


def test_a_signal_ends_it(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended:
        end = RunEnd(1, 1.0, "signal", None, signal=15)

    monkeypatch.setattr("clew.training.train.train", lambda *args, **options: Ended)
    with pytest.raises(SystemExit, match="143"):
        run(["demo", "--out", str(tmp_path)])


def test_the_mazes_are_held_out_and_others_than_in_training(model: Path) -> None:
    trained = load(model)
    found = [solve(trained, 5, 8, seed) for seed in (trained.seed, 1)]
    one, other = ({each.task.maze.cells.tobytes() for each in evaluation.outcomes} for evaluation in found)
    assert not one & other


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minutes": 0}, "a number above 0"),
        ({"star_minutes": float("nan")}, "a number above 0"),
        ({"seed": -1}, "seed -1 is out of range"),
    ],
)
def test_bad_options_get_one_sentence(options: dict[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words):
        demo(**{"out": tmp_path, **options})  # type: ignore[arg-type]


def test_the_first_mazes_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show_mazes(seed=2)
    printed = capsys.readouterr().out
    assert "20 DFS mazes of 6x6 cells" in printed
    assert "100% of the mazes have one shortest path only" in printed  # a DFS maze has one path
    assert "+--+--+--+--+--+" in printed
