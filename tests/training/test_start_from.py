"""A run may begin with the weights of another one."""

import shutil
from pathlib import Path

import pytest
import torch
from tiny_runs import last_tensors, tiny_config

from clew.errors import UserError
from clew.training.checkpoint import load_model, load_start
from clew.training.config import Budget
from clew.training.distributed import World
from clew.training.train import Trainer, train


def test_the_first_weights_are_those_of_the_other_run(tmp_path: Path) -> None:
    train(tiny_config(), tmp_path / "first")
    config = tiny_config(start_from=str(tmp_path / "first"), seed=5)
    trained, _ = load_model(tmp_path / "first")
    begun = Trainer(config, World()).model
    for name, weight in trained.state_dict().items():
        assert torch.equal(begun.state_dict()[name], weight)
    assert not torch.equal(
        next(iter(Trainer(tiny_config(seed=5), World()).model.parameters())), next(iter(begun.parameters()))
    )


def test_a_folder_of_weights_will_do(tmp_path: Path) -> None:
    train(tiny_config(), tmp_path / "first")
    weights = tmp_path / "weights"
    weights.mkdir()
    (source,) = (tmp_path / "first" / "checkpoints").glob("*6/model.safetensors")
    shutil.copy(source, weights)
    model = Trainer(tiny_config(seed=5), World()).model
    load_start(model, weights)
    trained, _ = load_model(tmp_path / "first")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), trained.parameters(), strict=True))


def test_a_resumed_run_does_not_need_them_any_more(tmp_path: Path) -> None:
    train(tiny_config(), tmp_path / "first")
    config = tiny_config(start_from=str(tmp_path / "first"))
    train(config, tmp_path / "whole")
    train(tiny_config(start_from=str(tmp_path / "first"), budget=Budget(steps=3)), tmp_path / "parts")
    shutil.rmtree(tmp_path / "first")
    train(config, tmp_path / "parts")
    whole, parts = last_tensors(tmp_path / "whole"), last_tensors(tmp_path / "parts")
    # One-cycle depends on the budget, so the weights differ; that both came to an end is what counts here.
    assert whole.keys() == parts.keys()


def test_nothing_to_start_from_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model\.safetensors is missing"):
        train(tiny_config(start_from=str(tmp_path / "nowhere")), tmp_path / "run")
