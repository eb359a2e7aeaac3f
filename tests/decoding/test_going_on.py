"""A grid-pointer goes on with what its cells know, from pass to pass and for each maze by itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from clew.decoding.decode import decode
from clew.decoding.registry import DECODERS, decoder_named
from clew.decoding.script import Script
from clew.loading import load_trained
from clew.mazes.generate import generate
from clew.models.grid_pointer import GridPointer

TASKS = generate("dfs", 8, 8, seed=3, first=0, count=6, side="test")
SCRIPT = Script.of("grid", 8, 8)
FROM_THE_LEFT = ("left-to-right", "left-to-right-naive")


@pytest.fixture(scope="module")
def model() -> GridPointer:
    shipped = load_trained("grid-dfs").model
    assert isinstance(shipped, GridPointer)
    return shipped


@pytest.mark.parametrize("name", [name for name in DECODERS if name not in FROM_THE_LEFT])
def test_the_first_pass_is_fresh_and_the_others_go_on(
    name: str, model: GridPointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh: list[torch.Tensor] = []
    go_on = GridPointer.go_on
    monkeypatch.setattr(GridPointer, "go_on", lambda *given: (fresh.append(given[5]), go_on(*given))[1])
    decoded = decode(model, SCRIPT.canvas(TASKS), decoder_named(name))
    assert fresh[0].all()
    assert not any(each.any() for each in fresh[1:])
    assert len(fresh) == decoded.passes_B.max()
    fresh.clear()
    decode(model, SCRIPT.canvas(TASKS), decoder_named(name), fresh=True)
    assert not fresh


@pytest.mark.parametrize("name", FROM_THE_LEFT)
def test_from_left_to_right_it_thinks_afresh_each_time(
    name: str, model: GridPointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(GridPointer, "go_on")
    decode(model, SCRIPT.canvas(TASKS), decoder_named(name))


def test_a_maze_is_solved_as_if_it_were_alone(model: GridPointer) -> None:
    decoder = decoder_named("certainty", count=3)
    together = decode(model, SCRIPT.canvas(TASKS), decoder)
    for i in range(len(TASKS)):
        alone = decode(model, SCRIPT.canvas(TASKS.select(np.array([i]))), decoder)
        assert alone.response(0) == together.response(i)
        assert alone.passes_B[0] == together.passes_B[i]
