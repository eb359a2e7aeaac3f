"""Objectives by name, through JSON, and with the mistakes that a user can make."""

import json

import pytest

from clew.errors import UserError
from clew.files import to_plain
from clew.objectives.builtin import AdaptiveRate, adaptive_of, build_objective
from clew.objectives.config import OBJECTIVES, ObjectiveConfig, RateConfig


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_name_builds_and_goes_through_json(name):
    config = ObjectiveConfig(name)
    build_objective(config)
    assert ObjectiveConfig.from_json(json.loads(json.dumps(to_plain(config)))) == config


def test_settings_go_through_json():
    config = ObjectiveConfig("mlm-u", RateConfig("beta", "stratified", beta_a=2.5), "rate", True)
    assert ObjectiveConfig.from_json(json.loads(json.dumps(to_plain(config)))) == config
    assert ObjectiveConfig.from_json({"rates": {"shape": "cosine"}}).rates.shape == "cosine"


def test_only_trace_requires_a_format():
    required = {name: ObjectiveConfig(name).required_format for name in OBJECTIVES}
    assert required.pop("trace") == "wall-list-trace"
    assert set(required.values()) == {None}


def test_old_names_of_fields_are_translated():
    old = {"rates": {"shape": "dwell", "spread": "batch", "dwell_bins": 7, "dwell_floor": 0.3, "dwell_memory": 0.9}}
    rates = RateConfig("adaptive", "batch", adaptive_bins=7, adaptive_floor=0.3, adaptive_memory=0.9)
    assert ObjectiveConfig.from_json(old) == ObjectiveConfig(rates=rates)


def test_adaptive_of():
    config = ObjectiveConfig("ordered", RateConfig("adaptive", adaptive_bins=7))
    adaptive = adaptive_of(build_objective(config))
    assert isinstance(adaptive, AdaptiveRate)
    assert adaptive.bins == 7
    assert adaptive_of(build_objective(ObjectiveConfig())) is None
    assert adaptive_of(build_objective(ObjectiveConfig("next-token"))) is None


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"name": "bert"}, "needs the objective 'bert', which is not registered"),
        ({"weighting": "elbo"}, "cannot be 'elbo'"),
        ({"rates": {"shape": "normal"}}, "needs the mask-rate 'normal', which is not registered"),
        ({"rates": {"sampling": "even"}}, "cannot be 'even'"),
        ({"rates": {"fixed": 1.5}}, "fixed of the objective is 1.5"),
        ({"rates": {"fixed": float("nan")}}, "fixed of the objective is nan"),
        ({"rates": {"beta_a": 0.1}}, "beta_a"),
        ({"rates": {"adaptive_bins": 2.5}}, "whole number"),
        ({"rates": {"fixed": "high"}}, "'high'"),
        ({"rates": {"ratio": 1}}, "no field 'ratio'"),
        ({"rates": 3}, "must be an object"),
        ({"mask": 1}, "no field 'mask'"),
        ({"at_least_one": "yes"}, "true or false"),
        ({"name": "next-token", "rates": {"sampling": "batch"}}, "leave its rates out"),
        ({"name": "ordered", "at_least_one": True}, "neither weighting nor at_least_one nor confidence_share"),
        ({"name": "any-order", "weighting": "rate"}, "neither weighting nor at_least_one nor confidence_share"),
        ({"name": "fixed-rate", "rates": {"shape": "beta"}}, "use mlm-u"),
        ({"rates": {"fully_hidden": 1.5}}, "fully_hidden"),
        ({"confidence_share": -0.1}, "confidence_share"),
        ({"name": "ordered", "confidence_share": 0.5}, "leave them out"),
        ({"max_weight": 5}, "weighting 'rate'"),
        ({"weighting": "rate", "max_weight": 0.5}, "max_weight"),
        ({"name": "next-token", "rates": {"fully_hidden": 0.5}}, "leave its rates out"),
    ],
)
def test_mistakes_are_named(data, says):
    with pytest.raises(UserError, match=says):
        ObjectiveConfig.from_json(data)
