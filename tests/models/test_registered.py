"""Objectives, mask rates and models from outside the package: trained, saved and loaded by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clew import registry
from clew.data.batch import Batch
from clew.data.config import DataConfig
from clew.errors import UserError
from clew.files import read_json
from clew.models.build import build_model
from clew.models.config import EncoderDecoderConfig, from_json, kind_of, to_json
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.objectives.targets import HIDE, Noise, Targets, make_targets, response_position
from clew.registry import register
from clew.trained import load
from clew.training.checkpoint import load_config
from clew.training.config import Budget, TrainConfig
from clew.training.train import train


class HideOne:
    """Hide one uniform token of each response."""

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        hidden_B = (noise.uniform_B(HIDE) * batch.response_BT.sum(1)).long() + 1
        return make_targets(batch, (response_position(batch) == hidden_B[:, None]).long())


class MostlyHidden:
    def quantile(self, p: Tensor) -> Tensor:
        return 0.9 + 0.1 * p


class BagOfTokens(nn.Module):
    """Predict every query from the mean embedding of the visible tokens."""

    @dataclass(frozen=True)
    class Config:
        vocabulary: int
        width: int = 8

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.head = nn.Linear(config.width, config.vocabulary)

    def forward(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        visible_BT1 = (order_BT == 0)[..., None]
        token_BT = batch.tokens_BT.masked_fill(order_BT < 0, 0)
        mean_BD = (self.embedding(token_BT) * visible_BT1).sum(1) / visible_BT1.sum(1).clamp(min=1)
        logits_QV: Tensor = self.head(mean_BD[query_BT.nonzero()[:, 0]])
        return logits_QV


@pytest.fixture(autouse=True)
def components(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_components", {kind: {} for kind in registry._components})
    register("objective", "hide-one")(HideOne)
    register("mask-rate", "mostly-hidden")(MostlyHidden)
    register("model", "bag-of-tokens")(BagOfTokens)


def config(**changes: Any) -> TrainConfig:
    data = DataConfig(sizes=(3,))
    model = EncoderDecoderConfig(data.vocabulary, 8, 2, encoder_depth=1, decoder_depth=1)
    plain = TrainConfig(data, model, Budget(steps=4), batch_size=8, held_out=4, log_every=2)
    return replace(plain, **changes)


def changes_of(kind: str) -> dict[str, Any]:
    if kind == "objective":
        return {"objective": ObjectiveConfig("hide-one")}
    if kind == "mask-rate":
        return {"objective": ObjectiveConfig(rates=RateConfig("mostly-hidden"))}
    return {"model": BagOfTokens.Config(DataConfig(sizes=(3,)).vocabulary)}


@pytest.mark.parametrize(
    ("kind", "name"), [("objective", "hide-one"), ("mask-rate", "mostly-hidden"), ("model", "bag-of-tokens")]
)
def test_a_registered_component_is_trained_saved_and_loaded(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = changes_of(kind)
    run = train(config(**changes), tmp_path / "run")
    assert run.end.reason == "done"
    assert name in str(read_json(tmp_path / "run" / "config.json"))

    assert load_config(tmp_path / "run") == config(**changes)
    model = load(tmp_path / "run")
    scores = model.evaluate(family="dfs", size=3, n=4)
    assert scores.scores.mazes == 4

    monkeypatch.setattr(registry, "_components", {kind: {} for kind in registry._components})
    with pytest.raises(UserError, match=f"needs the {kind} '{name}', which is not registered.*--plugin"):
        load_config(tmp_path / "run")


def test_the_objective_and_the_rates_are_used() -> None:
    from clew.data.loader import StreamLoader
    from clew.objectives.builtin import build_objective

    batch = StreamLoader(DataConfig(sizes=(3,)), 64).batch(0)
    one = build_objective(ObjectiveConfig("hide-one"))(batch, torch.Generator())
    assert one.query_BT.sum(1).tolist() == [1] * 64
    most = build_objective(ObjectiveConfig(rates=RateConfig("mostly-hidden")))(batch, torch.Generator())
    assert float(most.query_BT.sum() / batch.response_BT.sum()) > 0.85


def test_a_registered_model_goes_through_json() -> None:
    made = BagOfTokens.Config(7, width=3)
    assert kind_of(made) == "bag-of-tokens"
    assert to_json(made) == {"kind": "bag-of-tokens", "vocabulary": 7, "width": 3}
    assert from_json(to_json(made)) == made
    assert isinstance(build_model(made, seed=0), BagOfTokens)


def test_a_model_without_a_config_class_is_refused() -> None:
    register("model", "empty")(nn.Identity)
    with pytest.raises(UserError, match="no dataclass `Config`"):
        from_json({"kind": "empty"})
