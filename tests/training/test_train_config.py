"""The config of a run: JSON and back, and a sentence for everything that cannot work."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from tiny_runs import encoder_decoder, next_token_config, tiny_config

from clew.data.config import DataConfig
from clew.errors import UserError
from clew.models.config import CellNetworkConfig, DecoderOnlyConfig, ModelConfig
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.training.config import Budget, OptimizerConfig, ScheduleConfig, TrainConfig

CONFIGS = [
    tiny_config(),
    next_token_config(ema=0.9, clip=None, threads=2, optimizer=OptimizerConfig("muon")),
    tiny_config(
        data=DataConfig("dataset", "astar", (4,), width=7, format="wall-list", folder="data/x", mazes=9),
        objective=ObjectiveConfig("mlm-u", RateConfig("beta", "stratified", beta_a=2.0), weighting="rate"),
        budget=Budget(epochs=2),
    ),
]


@pytest.mark.parametrize("config", CONFIGS)
def test_json_and_back(config: TrainConfig) -> None:
    assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def _changed(*path: str, value: Any) -> dict[str, Any]:
    plain = tiny_config().to_json()
    inner = plain
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return plain


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("colour",), 1, "no field 'colour'"),
        (("optimizer", "colour"), 1, "optimizer of the config has no field 'colour'"),
        (("objective", "rates", "colour"), 1, "no field 'colour'"),
        (("model", "colour"), 1, "no field 'colour'"),
        (("model", "kind"), "horse", "'horse'"),
        (("batch_size",), "8", "batch_size of the config cannot be '8'; it must be a whole number"),
        (("batch_size",), True, "cannot be True"),
        (("batch_size",), 0, "batch_size is 0"),
        (("clip",), "much", "a number or null"),
        (("data", "sizes"), 3, "must be a list"),
        (("data", "sizes"), [], "at least one"),
        (("data", "sizes"), [1], "1 row"),
        (("data", "sizes"), [5, 3], "rising"),
        (("data", "sizes"), [3, 4], "several sizes need"),
        (("data", "family"), "horse", "one of dfs, astar"),
        (("data", "format"), "wall-list", "dfs mazes have none"),
        (("data", "folder"), "x", "--data.source dataset"),
        (("data",), 7, "must be an object"),
        (("precision",), "fp8", "one of fp32"),
        (("seed",), -1, "seed"),
        (("ema",), 1, "ema is 1"),
        (("micro_batch",), 0, "micro_batch is 0"),
        (("parallel",), "fsdp", "parallel of the config cannot be 'fsdp'; it must be one of ddp"),
        (("budget",), {"steps": 1, "minutes": 1}, "exactly one"),
        (("budget",), {}, "exactly one"),
        (("objective", "name"), "first-half", "the objective 'first-half', which is not registered.*--plugin"),
        (("objective", "rates", "shape"), "always", "the mask-rate 'always', which is not registered.*--plugin"),
        (("budget",), {"steps": 0}, "above 0"),
        (("budget",), {"epochs": 1}, "has no epochs"),
        (("model", "vocabulary"), 5, "too small"),
    ],
)
def test_what_does_not_fit_is_named(path: tuple[str, ...], value: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        TrainConfig.from_json(_changed(*path, value=value))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_numbers_must_be_finite(value: float) -> None:
    with pytest.raises(UserError, match="a number above 0 of either steps"):
        Budget(minutes=value)
    for name in ("clip", "timeout_hours"):
        with pytest.raises(UserError, match=f"{name} is {value}; use a number from"):
            tiny_config(**{name: value})
    with pytest.raises(UserError, match=f"ema is {value}"):
        tiny_config(ema=value)
    with pytest.raises(UserError, match=f"lr is {value}"):
        OptimizerConfig(lr=value)
    with pytest.raises(UserError, match=f"power is {value}"):
        ScheduleConfig(power=value)
    with pytest.raises(UserError, match=f"clip.* {value}"):
        TrainConfig.from_json(_changed("clip", value=value))


def test_runs_of_earlier_versions_are_read() -> None:
    plain = tiny_config().to_json()
    plain["data"]["tail"] = 1
    plain["explosion"] = 1000.0
    assert TrainConfig.from_json(plain) == tiny_config()
    plain["data"]["tale"] = 1
    with pytest.raises(UserError, match="no field 'tale'"):
        TrainConfig.from_json(plain)


def test_a_missing_field_is_named_or_has_its_default() -> None:
    plain = tiny_config().to_json()
    del plain["clip"]
    assert TrainConfig.from_json(plain).clip == 1.0
    del plain["budget"]
    with pytest.raises(UserError, match="lacks the field 'budget'"):
        TrainConfig.from_json(plain)


@pytest.mark.parametrize(("accumulation", "micro_batch"), [(1, None), (2, 4), (3, 3)])
def test_a_config_of_version_0_1_is_read(accumulation: int, micro_batch: int | None) -> None:
    plain = tiny_config(batch_size=8).to_json()
    del plain["micro_batch"]
    plain["accumulation"] = accumulation
    assert TrainConfig.from_json(plain) == tiny_config(batch_size=8, micro_batch=micro_batch)


WALLS = DataConfig(family="astar", sizes=(10,), format="wall-list")
TRACE = DataConfig(family="astar", sizes=(10,), format="wall-list-trace")
CELLS = DataConfig(sizes=(3,), format="cell-labels")
CELL_NETWORK = CellNetworkConfig(width=16, hidden=16)
DECODER = DecoderOnlyConfig(128, 16, 2, depth=1)


@pytest.mark.parametrize(
    ("data", "model", "objective", "words"),
    [
        (DataConfig(sizes=(3,)), DECODER, "mlm-u", "from left to right"),
        (DataConfig(sizes=(3,)), DECODER, "any-order", "from left to right"),
        (DataConfig(sizes=(3,)), DECODER, "ordered", "from left to right"),
        (WALLS, DECODER, "trace", "needs the format wall-list-trace"),
        (TRACE, DECODER, "next-token", "use trace"),
        (CELLS, encoder_decoder(), "mlm-u", "reads a text format"),
        (DataConfig(sizes=(3,), format="grid"), CELL_NETWORK, "mlm-u", "reads the format cell-labels, not grid"),
        (CELLS, CELL_NETWORK, "any-order", "has no order of tokens for 'any-order'"),
        (DataConfig(sizes=(3,)), encoder_decoder(causal=True), "mlm-u", "turn causal off"),
        (DataConfig(sizes=(3,)), encoder_decoder(causal=True), "any-order", "turn causal off"),
    ],
)
def test_pairs_that_cannot_work_are_refused(data: DataConfig, model: ModelConfig, objective: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        tiny_config(data=data, model=model, objective=ObjectiveConfig(objective))


@pytest.mark.parametrize("objective", ["next-token", "ordered"])
def test_a_causal_encoder_takes_what_hides_a_suffix(objective: Any) -> None:
    tiny_config(model=encoder_decoder(causal=True), objective=ObjectiveConfig(objective))


def test_several_sizes_are_for_streams_of_cell_labels() -> None:
    data = DataConfig(sizes=(3, 4, 5), format="cell-labels", mixture="grow", grow_steps=10)
    assert data.shapes == ((3, 3), (4, 4), (5, 5))
    assert DataConfig(sizes=(3,), width=5).shapes == ((3, 5),)


def test_a_config_from_before_adaptive_rates_had_their_name_loads() -> None:
    value = tiny_config(objective=ObjectiveConfig(rates=RateConfig("adaptive", adaptive_bins=3))).to_json()
    old = {name.replace("adaptive", "dwell"): setting for name, setting in value["objective"]["rates"].items()}
    value["objective"]["rates"] = old | {"shape": "dwell"}
    assert TrainConfig.from_json(value).objective.rates == RateConfig("adaptive", adaptive_bins=3)


def test_the_labels_of_path_star_graphs_are_their_nodes_by_default() -> None:
    assert DataConfig(family="path-star-3x4", sizes=(1,), format="path-star").shapes == ((1, 10),)
    assert DataConfig(family="path-star-3x4", sizes=(1,), width=50, format="path-star").shapes == ((1, 50),)
    with pytest.raises(UserError, match="has labels, not 10 rows"):
        DataConfig(family="path-star-3x4", format="path-star")
    with pytest.raises(UserError, match="edge-list text is for mazes"):
        DataConfig(family="path-star-3x4", sizes=(1,))


def test_sharding_is_refused() -> None:
    with pytest.raises(UserError, match="parallel 'fsdp' is gone"):
        tiny_config(parallel="fsdp")
