"""Training and evaluation of every model on another device than the CPU, which finds tensors left behind, and in
bfloat16."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_device import FAKE, FakeTensor, fake_device
from tiny_runs import encoder_decoder, last_tensors, next_token_config, tiny_config

from clew.data.config import DataConfig
from clew.data.loader import held_out_tasks
from clew.decoding.codec import Codec
from clew.decoding.decode import DECODERS, parse_decoder
from clew.evaluation.evaluate import evaluate_tasks
from clew.models.build import build_model
from clew.models.config import CellNetworkConfig, DecoderOnlyConfig
from clew.objectives.config import ObjectiveConfig
from clew.training.config import Budget, OptimizerConfig, TrainConfig
from clew.training.distributed import World
from clew.training.train import held_out_evaluator, train

WALLS = DataConfig(family="astar", sizes=(4,), format="wall-list")
TRACE = replace(WALLS, format="wall-list-trace")
CELLS = DataConfig(sizes=(3,), format="cell-labels")
CELL_NETWORK = CellNetworkConfig(width=8, hidden=16)
CASES = {
    "mlm-u": tiny_config(ema=0.9),
    "mlm-u, walls, learned positions": tiny_config(data=WALLS, model=replace(encoder_decoder(), positions="learned")),
    "mlm-u, RoPE in float16": tiny_config(model=replace(encoder_decoder(), positions="rope-fp16")),
    "mlm-u, muon": tiny_config(optimizer=OptimizerConfig("muon")),
    "ordered": tiny_config(objective=ObjectiveConfig("ordered")),
    "next token": next_token_config(),
    "next token, encoder-decoder": tiny_config(
        objective=ObjectiveConfig("next-token"), model=encoder_decoder(causal=True)
    ),
    "cells": tiny_config(data=CELLS, model=CELL_NETWORK, ema=0.9),
    "cells, next token": tiny_config(data=CELLS, model=CELL_NETWORK, objective=ObjectiveConfig("next-token")),
    "traces": tiny_config(
        data=TRACE,
        objective=ObjectiveConfig("trace"),
        model=DecoderOnlyConfig(TRACE.vocabulary, 16, 2, depth=1, positions="none"),
    ),
}


def trained(config: TrainConfig, run: Path, device: torch.device) -> dict[str, torch.Tensor]:
    world = World(device=device)
    end = train(config, run, evaluate=held_out_evaluator(config, world), world=world).end
    assert (end.reason, end.step) == ("done", 2)
    assert 0 <= end.scores["token"] <= 1
    return last_tensors(run)


def small(case: str, **changes: Any) -> TrainConfig:
    fields: dict[str, Any] = {"budget": Budget(steps=2), "evaluate_every": 2, "held_out": 2, "batch_size": 4}
    return replace(CASES[case], **fields, **changes)


@pytest.mark.parametrize("case", CASES)
def test_a_step_and_an_evaluation_leave_nothing_on_the_cpu(case: str, tmp_path: Path) -> None:
    config = small(case)
    with fake_device():
        elsewhere = trained(config, tmp_path / "elsewhere", FAKE)
    here = trained(config, tmp_path / "here", torch.device("cpu"))
    tolerance = 1e-2 if config.optimizer.kind == "muon" else 1e-5  # on a GPU Muon multiplies in bfloat16
    for name, tensor in here.items():
        assert torch.allclose(tensor, elsewhere[name], atol=tolerance), name


@pytest.mark.parametrize("case", CASES)
def test_bfloat16_trains_and_evaluates(case: str, tmp_path: Path) -> None:
    tensors = trained(small(case, precision="bf16"), tmp_path, torch.device("cpu"))
    assert all(tensor.dtype == torch.float32 for name, tensor in tensors.items() if name.startswith("model:"))


@pytest.mark.parametrize("name", [name for name in DECODERS if name != "left-to-right"])
def test_a_decoder_leaves_nothing_on_the_cpu(name: str) -> None:
    config = small("mlm-u")
    (tasks,) = held_out_tasks(config.data, 2)
    with fake_device():
        model = build_model(config.model, 0).to(FAKE)
        evaluation = evaluate_tasks(model, Codec.of("edge-list", 3, 3), tasks, parse_decoder(name), batch_size=2)
    assert len(evaluation.outcomes) == 2


def test_a_tensor_left_behind_is_found() -> None:
    with fake_device():
        there, here = torch.ones(3, device=FAKE), torch.ones(3)
        assert isinstance(there, FakeTensor)
        assert (there + 1).device == FAKE
        assert isinstance((there + here.to(FAKE)).cpu(), torch.Tensor)
        with pytest.raises(RuntimeError, match="same device"):
            there + here
        with pytest.raises(RuntimeError, match="same device"):
            here[there.long()]
