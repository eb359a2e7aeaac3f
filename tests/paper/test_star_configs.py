"""Configs of path-star graphs by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from clew.paper.named_configs import STAR_OBJECTIVES, config_named, star_config
from clew.paper.study import parameters_of


@pytest.mark.parametrize("name", [f"star-{shape}-{kind}" for shape in ("2x4", "7x3") for kind in STAR_OBJECTIVES])
def test_a_config_is_what_its_name_says(name: str) -> None:
    _, shape, kind = name.split("-", 2)
    config = config_named(name)
    assert config.data.family == f"path-star-{shape}"
    assert config.data.format == ("path-star-reversed" if kind == "next-reversed" else "path-star")
    assert (
        config.objective.name
        == {
            "mlmu": "mlm-u",
            "mlmu-sampler": "mlm-u",
            "next": "next-token",
            "next-on-mlmu": "prefix-next-token",
            "next-reversed": "next-token",
        }[kind]
    )
    expected = DecoderOnlyConfig if kind in ("next", "next-reversed") else EncoderDecoderConfig
    assert isinstance(config.model, expected)


def test_the_paper_s_rates_are_the_default() -> None:
    assert config_named("star-2x4-mlmu").objective == type(config_named("star-2x4-mlmu").objective)()


@pytest.mark.parametrize("shape", [(2, 4), (5, 4), (2, 5)])
def test_both_objectives_have_as_many_parameters(shape: tuple[int, int]) -> None:
    mlmu, plain = (parameters_of(star_config(kind, *shape).model) for kind in ("mlmu", "next"))
    assert plain == pytest.approx(mlmu, rel=0.02)


def test_labels_and_fixed_sets() -> None:
    config = star_config("mlmu", 2, 4, labels=20, graphs=100)
    assert config.data.shapes == ((1, 20),)
    assert (config.data.source, config.data.mazes) == ("dataset", 100)


def test_the_named_sampler_hides_half_of_the_batch_wholly() -> None:
    uniform, sampler = (config_named(f"star-5x4-{kind}") for kind in ("mlmu", "mlmu-sampler"))
    assert sampler.objective.rates.fully_hidden == 0.5
    assert replace(sampler, objective=uniform.objective) == uniform
