"""The public API: its doctests, how it is imported, and its errors."""

from __future__ import annotations

import doctest
import importlib
import inspect
import subprocess
import sys
import time
from pathlib import Path

import pytest

import clew
from clew.errors import UserError

MODULES = ["clew", "clew.api", "clew.registry", "clew.paper.named_configs", "clew.errors"]


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_run(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", clew.__all__)
def test_every_public_name_has_a_docstring(name: str) -> None:
    value = getattr(clew, name)
    assert inspect.getdoc(value)
    if inspect.isfunction(value):
        assert ">>>" in (inspect.getdoc(value) or "")
    assert name in dir(clew)


def test_import_is_quick_and_light() -> None:
    code = "import sys, clew; print(*sys.modules)"
    times = []
    for _ in range(3):  # the first may read from a cold disk
        start = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.3
    assert not {"torch", "numpy", "numba", "rich", "matplotlib"} & set(done.stdout.split())


def test_other_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="no attribute 'tarin'"):
        clew.tarin  # noqa: B018


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"stpes": 3}, "there is no setting 'stpes' in this config; did you mean steps?"),
        ({"optimizer.rl": 3}, "there is no setting 'optimizer.rl' in this config; did you mean optimizer.lr?"),
        ({"optimizer": 3}, "there is no setting 'optimizer' in this config; did you mean"),
        ({"batchsize": 3}, "did you mean batch_size?"),
        ({"lr": "fast"}, "lr of optimizer of the config cannot be 'fast'; it must be a number."),
        ({"steps": 3, "minutes": 1.0}, "give exactly one"),
        ({"size": 1}, "a maze of 1 row"),
    ],
)
def test_a_wrong_setting_is_one_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        clew.config("tiny", **changes)
    assert sentence in str(caught.value)


def test_settings_reach_the_config_and_the_vocabulary_follows_the_size() -> None:
    config = clew.config("tiny", minutes=2, seed=5, batch_size=7, size=12, **{"optimizer.weight_decay": 0.5})
    assert (config.budget.minutes, config.budget.steps) == (2, None)
    assert (config.seed, config.batch_size, config.data.sizes) == (5, 7, (12,))
    assert config.optimizer.weight_decay == 0.5
    assert config.model.vocabulary == 256  # type: ignore[attr-defined]
    assert clew.config("tiny") == clew.config("tiny", size=3)


def test_generate_takes_two_sides_and_refuses_none() -> None:
    task, path = clew.generate("astar", size=(4, 7), seed=1, split="test")[0]
    assert (task.maze.height, task.maze.width) == (4, 7)
    assert clew.solve(task).path == path
    with pytest.raises(UserError, match="0 mazes cannot be made"):
        clew.generate(n=0)
    more = clew.generate("dfs", size=5, n=4)
    assert clew.generate("dfs", size=5, n=2, first=2)[1] == more[3]


def test_solve_says_what_is_wrong() -> None:
    assert clew.solve("S..\n..G", method="bfs").num_shortest == 3
    assert clew.solve("S..\n..G", method="bfs").trace == []
    with pytest.raises(UserError, match="no way leads"):
        clew.solve("S#G\n.#.")
    with pytest.raises(UserError, match="there is no method 'dijkstra'"):
        clew.solve("S.G\n...", method="dijkstra")  # type: ignore[arg-type]


def test_an_exact_solution_draws_itself() -> None:
    assert clew.solve("S.G\n...")._repr_svg_().startswith("<svg")
