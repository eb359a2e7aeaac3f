"""The loss scale follows torch's own rule; autocast touches what it should."""

from __future__ import annotations

import random

import torch

from clew.models.config import autocast
from clew.training.train import FIRST_SCALE, next_scale


def test_the_scale_moves_as_torchs_does() -> None:
    scale, good_steps, theirs = FIRST_SCALE, 0, torch.amp.GradScaler("cpu")
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight])
    chance = random.Random(0)
    for step in range(6000):
        finite = chance.random() > 0.01 if step < 500 else True
        weight.grad = torch.ones(1) if finite else torch.full((1,), torch.inf)
        theirs.scale(torch.ones(()))  # makes its state
        theirs.step(optimizer)
        theirs.update()
        scale, good_steps = next_scale(scale, good_steps, finite)
        assert scale == theirs.get_scale(), step
    assert good_steps == theirs._growth_tracker.item()  # type: ignore[union-attr]


def test_autocast() -> None:
    x = torch.ones(2, 2)
    cpu = torch.device("cpu")
    found = {}
    for precision in ("fp32", "bf16", "fp16"):
        with autocast(precision, cpu):  # type: ignore[arg-type]
            found[precision] = (x @ x).dtype
    assert found == {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
