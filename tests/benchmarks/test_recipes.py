"""The recipes differ in what their names say and in nothing else; how well each learns is not tested."""

import dataclasses
import json
from pathlib import Path

import pytest

from clew.benchmarks import recipes
from clew.benchmarks.recipes import AS_IT_IS, CHANGES, SEED, recipe_names
from clew.cli import run as clew
from clew.models.build import build_model


@pytest.mark.parametrize(("kind", "count"), [("grid-pointer", len(CHANGES)), ("grid-next-token", len(CHANGES) - 2)])
def test_one_thing_is_changed_at_a_time(kind, count) -> None:
    found = recipes.recipes(kind, size=8, minutes=2, held_out=50, names=recipe_names(kind))
    base = found[0].config
    assert found[0].method == AS_IT_IS
    assert len({each.name for each in found}) == len(found) == count
    assert {each.config.to_json()["model"]["kind"] for each in found} == {kind}
    plain = [each.config.to_json() for each in found]
    for each, value in zip(found[1:], plain[1:], strict=True):
        changed = {field for field in value if value[field] != plain[0][field]}
        assert len(changed) == 1, (each.method, changed)
        assert not changed & {"budget", "held_out", "seed", "schedule"}
        build_model(each.config.model, 0)
    assert len({json.dumps(value, sort_keys=True) for value in plain}) == len(plain)
    # No reported number uses these mazes.
    assert {each.config.data.seed for each in found} == {SEED}
    assert base.data.sizes == (4, 5, 6, 8)


def test_the_same_reach_with_other_loops() -> None:
    """Loops of one hop are twice as many, and so on: news travels as far."""
    found = recipes.recipes("grid-pointer", 10, 1, 1, recipe_names("grid-pointer"))
    by_name = {each.method: each.config.model for each in found}
    reach = {
        name: model.hops * model.blocks * (model.loops(10, 10) - 2)
        for name, model in by_name.items()
        if "hop" in name or "blocks" in name or name == AS_IT_IS
    }
    assert len(reach) == 4
    assert set(reach.values()) == {40}


@pytest.mark.parametrize("model", ["grid-pointer", "grid-next-token"])
def test_some_recipes_are_trained_and_told(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = recipes.grid_config

    def small(*args):
        config = original(*args)
        return dataclasses.replace(config, model=dataclasses.replace(config.model, width=16, hops=1), batch_size=8)

    monkeypatch.setattr(recipes, "grid_config", small)
    names = "as it is, no average of the weights"
    options = ["--model", model, "--only", names, "--work", str(tmp_path)]
    options += ["--size", "3", "--minutes", "0.003", "--held-out", "4"]
    assert clew(["bench", "recipes", *options, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [curve["method"] for curve in report["curves"]] == ["as it is", "no average of the weights"]
    assert (report["minutes_each"], report["held_out"]) == (0.003, 4)
    assert report["provenance"]["seeds"] == [SEED]
    head, _, *rows = recipes.tables(report).splitlines()
    assert head.startswith("3x3 DFS mazes, 0.003 minutes of training each")
    assert any("| **as it is** | " in row for row in rows)
    assert clew(["bench", "recipes", *options]) == 0
    assert capsys.readouterr().out.splitlines() == rows


def test_the_best_recipe_comes_first() -> None:
    def curve(method: str, exact: float) -> dict:
        final = {"exact": exact, "low": exact - 0.1, "high": exact + 0.1}
        return {"method": method, "parameters": 1234, "final": final, "steps": 1000, "mazes": 8000}

    rows = recipes.table([curve("a", 0.2), curve(AS_IT_IS, 0.5)])[2:]
    assert rows == [
        "| **as it is** | 1,234 | 50.0 (40.0 to 60.0) | 1,000 | 8,000 |",
        "| a | 1,234 | 20.0 (10.0 to 30.0) | 1,000 | 8,000 |",
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--size", "1"], "mazes of 1x1 cannot be used"),
        (["--minutes", "0"], "--minutes a number above 0"),
        (["--held-out", "0"], "--held-out 1 or more"),
        (["--only", "magic"], "grid-pointer has no recipe 'magic'"),
        (
            ["--model", "grid-next-token", "--only", "a masking rate for each maze by itself"],
            "grid-next-token has no recipe 'a masking rate",
        ),
    ],
)
def test_bad_options_get_one_sentence(options, words, capsys: pytest.CaptureFixture[str]) -> None:
    assert clew(["bench", "recipes", *options]) == 1
    assert words in capsys.readouterr().err
