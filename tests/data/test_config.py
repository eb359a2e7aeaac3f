from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.data.config import DatasetSettings
from clew.data.loader import build_loader, held_out_draws, held_out_tasks
from clew.errors import UserError
from clew.files import read_json
from clew.training.config import TrainConfig

GOLDEN = Path(__file__).parents[1] / "golden"

GOOD: dict[str, Any] = {"family": "dfs", "height": 4, "width": 5, "seed": 1, "counts": {"train": 3, "test": 0}}


def test_format_and_open_share_follow_the_family() -> None:
    assert DatasetSettings(**GOOD).format == "edge-list"
    assert DatasetSettings(**GOOD | {"family": "astar"}).format == "wall-list"
    assert DatasetSettings(**GOOD).open_share is None
    assert DatasetSettings(**GOOD | {"family": "percolation"}).open_share == 0.6


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"family": "spiral"}, "no family .* 'spiral'; choose one of dfs"),
        ({"height": 1}, "1 row and 5 columns"),
        ({"width": 256}, "256 columns"),
        ({"seed": -1}, "seed -1 is out of range"),
        ({"seed": 2**63}, "out of range"),
        ({"counts": {"train": 0, "test": 5}}, "at least 1 maze"),
        ({"counts": {"train": 1, "test": -5}}, "at least 1 maze"),
        ({"format": "prose"}, "no text format 'prose'"),
        ({"format": "wall-list"}, "dfs mazes have none"),
        ({"open_share": 0.5}, "belongs to percolation"),
        ({"tasks_per_layout": "one"}, "tasks per layout belong to astar mazes"),
        ({"family": "astar", "tasks_per_layout": "some"}, "cannot be 'some'; use one of all, one"),
        ({"min_path": 21}, "path of at least 21 cells; use 1 to 20"),
        ({"min_path": 0}, "use 1 to 20"),
        ({"family": "percolation", "open_share": 0.0}, "open share 0.0 is out of range"),
        ({"family": "percolation", "open_share": float("nan")}, "open share nan is out of range"),
    ],
)
def test_impossible_settings_are_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        DatasetSettings(**GOOD | change)


def test_walls_keep_all_tasks_of_a_layout_unless_told_or_made_by_version_0_1() -> None:
    walls = DatasetSettings(**GOOD | {"family": "astar"})
    assert walls.tasks_per_layout == "all"
    older = {name: value for name, value in walls.to_json().items() if name != "tasks_per_layout"}
    older["family"] = "walls"  # the former name
    assert DatasetSettings.from_json(older, "here") == DatasetSettings(
        **GOOD | {"family": "astar", "tasks_per_layout": "one"}
    )
    older = {name: value for name, value in DatasetSettings(**GOOD).to_json().items() if name != "tasks_per_layout"}
    assert DatasetSettings.from_json(older, "here") == DatasetSettings(**GOOD)


WALLS = {"family": "astar", "tasks_per_layout": "one"}


@pytest.mark.parametrize(
    "change", [{}, {"family": "percolation", "open_share": 0.7}, {"format": "grid"}, {"min_path": 9}, WALLS]
)
def test_json_round_trip(change: dict[str, Any]) -> None:
    settings = DatasetSettings(**GOOD | change)
    assert DatasetSettings.from_json(json.loads(json.dumps(settings.to_json())), "here") == settings


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 99}, "here is of version 99 and this Clew reads version 1"),
        ({"seed": "0"}, "here cannot be used: seed of the dataset cannot be '0'"),
        ({"seed": True}, "seed of the dataset cannot be True"),
        ({"counts": {"train": 1.5, "test": 0}}, "counts of the dataset are not whole"),
        ({"format": "prose"}, "here cannot be used: there is no text format"),
    ],
)
def test_bad_json_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        DatasetSettings.from_json(DatasetSettings(**GOOD).to_json() | change, "here")


def test_differences_are_told() -> None:
    settings = DatasetSettings(**GOOD)
    assert settings.differences(settings) == ""
    other = DatasetSettings(**GOOD | {"seed": 2, "format": "grid"})
    assert settings.differences(other) == "seed 1 and not 2, format edge-list and not grid"


def test_settings_of_earlier_versions_have_no_shortest_path() -> None:
    settings = DatasetSettings(**GOOD)
    plain = settings.to_json()
    del plain["min_path"]
    assert DatasetSettings.from_json(plain, "here") == settings


@pytest.mark.parametrize("name", ["cells-astar", "paper-astar-10-mlmu-8m", "laptop-dfs-4-mlmu"])
def test_configs_of_version_0_1_still_load(name: str) -> None:
    old = read_json(GOLDEN / "configs-0.1.json")[name]
    config = TrainConfig.from_json(old)
    assert config.data.family == ("astar" if old["data"]["family"] == "walls" else old["data"]["family"])
    assert config.objective.rates.sampling == old["objective"]["rates"]["spread"]
    assert getattr(config.model, "init", None) == old["model"].get("start")
    assert TrainConfig.from_json(config.to_json()) == config


def test_loading_a_config_does_not_create_the_folder_that_it_names(tmp_path: Path) -> None:
    old = read_json(GOLDEN / "configs-0.1.json")["paper-astar-10-mlmu-8m"]
    old["data"]["folder"] = str(tmp_path / "strange" / "data")
    data = TrainConfig.from_json(old).data
    assert held_out_draws(data.family, data.dataset_folder) == 1
    for use in (lambda: held_out_tasks(data, 5), lambda: build_loader(data, 8, seed=0)):
        with pytest.raises(UserError, match="does not exist"):
            use()
    assert list(tmp_path.iterdir()) == []
