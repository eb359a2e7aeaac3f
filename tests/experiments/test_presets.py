"""Every preset can be built, and what it says can be run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from clew.errors import UserError
from clew.experiments.held_out import held_out_evaluator
from clew.experiments.presets import PRESETS, preset
from clew.experiments.shrink import shrunken
from clew.models.build import build_model, count_parameters
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from clew.training.config import TrainConfig
from clew.training.distributed import World
from clew.training.loop import train
from clew.training.schedules import lr_factor
from clew.training.sources import make_dataset

RUN: set[TrainConfig] = set()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One small dataset a family."""
    return {family: tmp_path_factory.mktemp("data") / family for family in ("dfs", "walls")}


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_builds_and_runs(name: str, tmp_path: Path, folders: dict[str, Path]) -> None:
    config = preset(name)
    assert TrainConfig.from_json(config.to_json()) == config
    assert lr_factor(config.schedule, 0.5) > 0
    with torch.device("meta"):  # shapes without memory
        count = count_parameters(build_model(config.model, config.seed))
    label = next((size for size in ("3m", "8m", "25m") if size in name.split("-")), None)
    if label is not None:
        assert abs(count / 1e6 - int(label[:-1])) < 0.6

    small = shrunken(config)
    if small.data.source == "dataset":
        small = dataclasses.replace(small, data=dataclasses.replace(small.data, folder=str(folders[small.data.family])))
    if small not in RUN:  # the paper's sizes are all alike once they are shrunken
        RUN.add(small)
        make_dataset(small.data)
        end = train(small, tmp_path, evaluate=held_out_evaluator(small, World()))
        assert end.step == 2
        assert 0 <= end.scores["exact"] <= 1


# What the paper says of its models: width, heads, layers (an encoder-decoder shares them out).
PAPER_MODELS = {"3m": (128, 4, 14), "8m": (128, 4, 40), "25m": (256, 4, 32)}
PAPER_SIZES = {"dfs": {5, 10, 15, 20, 30}, "walls": {10, 20, 30}}


def paper_presets() -> dict[str, TrainConfig]:
    return {name: entry.make() for name, entry in PRESETS.items() if name.startswith("paper-")}


def test_the_papers_settings() -> None:
    for name, config in paper_presets().items():
        optimizer, schedule, data = config.optimizer, config.schedule, config.data
        swept = name.partition("-rate-")[2]
        assert (optimizer.kind, optimizer.beta1, optimizer.beta2) == ("adamw", 0.9, 0.999)
        assert optimizer.lr == float(swept or 1e-3)
        assert (schedule.kind, schedule.warmup, schedule.start, schedule.end) == ("one-cycle", 0.05, 1 / 25, 1 / 625)
        assert (config.batch_size, config.clip, config.precision, config.ema) == (128, 1.0, "fp16", None)
        assert (data.source, config.held_out) == ("dataset", 2000)
        if "decay" not in name:
            assert optimizer.weight_decay == (1e-4 if config.objective.name == "next-token" else 0.0)


def test_the_papers_mazes_and_epochs() -> None:
    for name, config in paper_presets().items():
        data, last = config.data, name.split("-")[-1]
        assert data.format == {"dfs": "edge-list", "walls": "wall-list"}[data.family]
        studied = last[:-1].isdigit() and last.endswith("k")  # the study of how many mazes are needed
        mazes = 100 if "overfit" in name else 1000 * int(last[:-1]) if studied else 100_000
        assert data.mazes == mazes
        # Another number of mazes never takes the folder that the whole dataset would have.
        assert (data.folder == "") == (mazes == 100_000)
        assert config.budget.epochs == (500 if "decay" in name or "rate" in name else 2000 if studied else 3000)
        assert data.sizes[0] in PAPER_SIZES[data.family] | ({25} if "overfit" in name else set())


def test_the_papers_models() -> None:
    for name, config in paper_presets().items():
        model = config.model
        width, heads, depth = PAPER_MODELS[next(size for size in PAPER_MODELS if size in name.split("-"))]
        assert isinstance(model, EncoderDecoderConfig | DecoderOnlyConfig)
        assert (model.width, model.heads) == (width, heads)
        assert model.positions == ("rope-fp16" if name.endswith("rope16") else "rope-fp32")
        if isinstance(model, EncoderDecoderConfig):
            assert (model.encoder_depth, model.decoder_depth) == (depth // 2, depth // 2)
            assert model.causal == (config.objective.name == "next-token")
        else:
            assert (model.depth, config.objective.name) == (depth, "next-token")


def test_the_laptop_pair_differs_in_the_objective_and_its_model_alone() -> None:
    mlmu, other = preset("laptop-dfs-4-mlmu"), preset("laptop-dfs-4-next")
    assert dataclasses.replace(other, objective=mlmu.objective, model=mlmu.model) == mlmu
    assert mlmu.budget.minutes is not None
    assert mlmu.budget.minutes <= 30
    counts = [count_parameters(build_model(config.model, 0)) for config in (mlmu, other)]
    assert abs(counts[0] - counts[1]) < 0.02 * counts[0]


def test_an_unknown_preset_is_named() -> None:
    with pytest.raises(UserError, match="did you mean paper-dfs-10-mlmu-8m"):
        preset("paper-dfs-10-mlm-8m")
    with pytest.raises(UserError, match="--list"):
        preset("xyzzy")
