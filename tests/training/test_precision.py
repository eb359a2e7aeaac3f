"""The loss scale follows torch's own rule; autocast touches what it should."""

from __future__ import annotations

import random

import torch

from clew.models.config import autocast
from clew.training.step import SMALLEST_SCALE, GradScaler


def test_the_scale_moves_as_torchs_does() -> None:
    ours, theirs = GradScaler("fp16"), torch.amp.GradScaler("cpu")
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight])
    chance = random.Random(0)
    for step in range(6000):
        finite = chance.random() > 0.01 if step < 500 else True
        weight.grad = torch.ones(1) if finite else torch.full((1,), torch.inf)
        theirs.scale(torch.ones(()))  # makes its state
        theirs.step(optimizer)
        theirs.update()
        ours.update(finite)
        assert ours.value == theirs.get_scale(), step
    assert ours.good_steps == theirs._growth_tracker.item()  # type: ignore[union-attr]


def test_the_others_have_no_scale() -> None:
    for precision in ("fp32", "bf16"):
        scale = GradScaler(precision)  # type: ignore[arg-type]
        scale.update(False)
        assert (scale.value, scale.can_shrink) == (1.0, False)


def test_a_scale_that_cannot_help_gives_up() -> None:
    scale = GradScaler("fp16")
    while scale.can_shrink:
        scale.update(False)
    assert scale.value == SMALLEST_SCALE
    again = GradScaler("fp16")
    again.load_state(scale.state())
    assert again.state() == scale.state()


def test_autocast() -> None:
    x = torch.ones(2, 2)
    cpu = torch.device("cpu")
    found = {}
    for precision in ("fp32", "bf16", "fp16"):
        with autocast(precision, cpu):  # type: ignore[arg-type]
            found[precision] = (x @ x).dtype
    assert found == {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
