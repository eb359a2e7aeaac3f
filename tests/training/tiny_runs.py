"""Very small runs for the tests of training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clew.data.config import DataConfig
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from clew.objectives.config import ObjectiveConfig
from clew.training.checkpoint import latest_checkpoint, read_tensors
from clew.training.config import Budget, TrainConfig

VOCABULARY = 128


def encoder_decoder(causal: bool = False) -> EncoderDecoderConfig:
    return EncoderDecoderConfig(VOCABULARY, 16, 2, encoder_depth=1, decoder_depth=1, causal=causal)


def tiny_config(**changes: Any) -> TrainConfig:
    """Six steps of eight 3x3 mazes, MLM-U; a checkpoint after the third and the last."""
    fields: dict[str, Any] = {
        "data": DataConfig(sizes=(3,)),
        "model": encoder_decoder(),
        "budget": Budget(steps=6),
        "batch_size": 8,
        "log_every": 2,
        "evaluate_every": 3,
        "checkpoint_every": 3,
        "held_out": 0,
    }
    return TrainConfig(**{**fields, **changes})


def next_token_config(**changes: Any) -> TrainConfig:
    model = DecoderOnlyConfig(VOCABULARY, 16, 2, depth=1)
    return tiny_config(**{"model": model, "objective": ObjectiveConfig("next-token"), **changes})


def last_tensors(run: Path) -> dict[str, Tensor]:
    """All that the last checkpoint of a run holds."""
    checkpoint = latest_checkpoint(run)
    assert checkpoint is not None
    return {
        f"{file.stem}:{name}": tensor
        for file in sorted(checkpoint.glob("*.safetensors"))
        for name, tensor in read_tensors(file).items()
    }


def metrics(run: Path, kind: str = "step") -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def losses(run: Path) -> list[float]:
    return [line["loss"] for line in metrics(run)]


def assert_same(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    """Equal bit for bit."""
    assert a.keys() == b.keys()
    different = [name for name in a if not torch.equal(a[name], b[name])]
    assert different == []


def mean_weight(model: nn.Module) -> dict[str, float]:
    """Stands for an evaluation: a number that changes with every step."""
    return {"exact": float(sum(p.double().sum() for p in model.parameters()))}
