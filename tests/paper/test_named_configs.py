"""Every named config can be built and run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from clew.data.loader import make_dataset
from clew.errors import UserError
from clew.models.build import build_model, count_parameters
from clew.paper.named_configs import CONFIGS, config_named, list_configs
from clew.paper.study import smoke_config
from clew.training.config import TrainConfig
from clew.training.distributed import World
from clew.training.optimizers import lr_factor
from clew.training.train import held_out_evaluator, train

RUN: set[TrainConfig] = set()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One small dataset a family."""
    return {family: tmp_path_factory.mktemp("data") / family for family in ("dfs", "astar")}


PAPER_NAMES = [
    "paper-dfs-10-mlmu-8m",
    "paper-dfs-20-next-3m",
    "paper-dfs-10-next-encdec-8m",
    "paper-astar-10-mlmu-25m",
    "paper-astar-10-next-25m",
    "paper-astar-10-trace-25m",
    "paper-astar-10-ordered-8m",
    "paper-astar-10-ordered-reverse-8m",
    "published-dfs-10-mlmu-8m",
    "published-dfs-10-next-8m",
    "published-dfs-10-next-encdec-8m",
    "published-astar-30-mlmu-25m",
]
STAR_NAMES = [f"star-2x4-{kind}" for kind in ("mlmu", "mlmu-sampler", "next", "next-on-mlmu", "next-reversed")]


@pytest.mark.parametrize("name", [*CONFIGS, *PAPER_NAMES, *STAR_NAMES])
def test_every_config_builds_and_runs(name: str, tmp_path: Path, folders: dict[str, Path]) -> None:
    config = config_named(name)
    assert TrainConfig.from_json(config.to_json()) == config
    assert lr_factor(config.schedule, 0.5) > 0
    with torch.device("meta"):  # shapes without memory
        count = count_parameters(build_model(config.model, config.seed))
    label = next((size for size in ("3m", "8m", "25m") if size in name.split("-")), None)
    if label is not None:
        assert abs(count / 1e6 - int(label[:-1])) < 0.6

    small = smoke_config(config)
    if small.data.source == "dataset":
        small = dataclasses.replace(small, data=dataclasses.replace(small.data, folder=str(folders[small.data.family])))
    if small not in RUN:  # the paper's sizes are all alike once they are shrunken
        RUN.add(small)
        make_dataset(small.data)
        end = train(small, tmp_path, evaluate=held_out_evaluator(small, World())).end
        assert end.step == 2
        assert 0 <= end.scores["exact"] <= 1


def test_the_laptop_pair_differs_in_the_objective_and_its_model_alone() -> None:
    mlmu, other = config_named("laptop-dfs-4-mlmu"), config_named("laptop-dfs-4-next")
    assert dataclasses.replace(other, objective=mlmu.objective, model=mlmu.model) == mlmu
    assert mlmu.budget.minutes is not None
    assert mlmu.budget.minutes <= 30
    counts = [count_parameters(build_model(config.model, 0)) for config in (mlmu, other)]
    assert abs(counts[0] - counts[1]) < 0.02 * counts[0]


def test_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(UserError, match="did you mean paper-dfs-10-mlmu-8m"):
        config_named("paper-dfs-10-mlm-8m")
    with pytest.raises(UserError, match="--list"):
        config_named("xyzzy")


def test_names_are_listed_with_summaries() -> None:
    listed = list_configs()
    assert list(listed) == list(CONFIGS)
    assert all(summary and "\n" not in summary for summary in listed.values())


def test_a_name_is_that_of_its_function() -> None:
    for name, make in CONFIGS.items():
        assert make.__name__ == name.replace("-", "_")
