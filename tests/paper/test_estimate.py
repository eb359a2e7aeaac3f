"""Estimates of memory and hours, against what can be measured without a GPU and against the hours in the paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from clew.data.batch import CellBatch
from clew.data.config import DataConfig
from clew.files import read_json
from clew.models.build import build_model, count_parameters
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig, autocast
from clew.objectives.config import ObjectiveConfig
from clew.paper.estimate import (
    GPUS,
    NEEDS_FILE,
    SMALL_GPU,
    all_needs,
    estimate_memory,
    fit_micro_batch,
    micro_batch_for,
    plan,
    sample,
    step_seconds,
    total_steps,
    training_hours,
)
from clew.paper.named_configs import cells, config_named
from clew.paper.runner import Options, unique_runs
from clew.paper.studies import STUDIES
from clew.training.config import Budget, TrainConfig
from clew.training.train import LocalBatch

DATA = DataConfig(sizes=(4,))
CPU = torch.device("cpu")


@pytest.mark.parametrize(("name", "hours"), [("paper-dfs-5-next-8m", 13.7), ("paper-dfs-5-mlmu-8m", 17.7)])
def test_the_hours_that_the_paper_tells(name: str, hours: float) -> None:
    """8M parameters, 2,000 epochs of 100,000 mazes of 5x5, on 8 V100."""
    config = replace(config_named(name), budget=Budget(epochs=2000))
    assert training_hours(config, 8, GPUS["V100"]) == pytest.approx(hours, rel=0.25)


def test_larger_mazes_and_older_gpus_take_longer() -> None:
    small, large = config_named("paper-dfs-10-mlmu-8m"), config_named("paper-dfs-30-mlmu-8m")
    assert step_seconds(large, 8, GPUS["V100"]) > 2 * step_seconds(small, 8, GPUS["V100"])
    times = [step_seconds(large, 8, gpu) for gpu in GPUS.values()]
    assert times == sorted(times, reverse=True)
    assert step_seconds(large, 1, GPUS["V100"]) > 4 * step_seconds(large, 8, GPUS["V100"])


@pytest.mark.parametrize("processes", [1, 8])
def test_every_run_at_paper_scale_fits_a_gpu_of_32_gb(processes: int) -> None:
    runs = unique_runs([*STUDIES.values()], Options("paper", seeds=1)).values()
    assert len(runs) > 50
    for run in runs:
        micro_batch = micro_batch_for(run.config, processes)
        assert micro_batch is not None, run.labels
        assert estimate_memory(run.config, processes, micro_batch).total <= SMALL_GPU, run.labels


@pytest.mark.parametrize("family", ["dfs", "astar"])
def test_activations_of_a_cell_network_are_what_autograd_saves(family: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a maze with the most cells and loops; on a GPU the loops are those in plain torch."""
    monkeypatch.setattr("clew.models.cell_network.use_cpu_kernel", lambda x: False)
    config = cells(family, (6,), steps=10)
    part = sample(config)
    assert isinstance(part.batch, CellBatch)
    work_B = config.model.training_loops(part.batch)[1] * part.batch.valid_BT.sum(1)  # type: ignore[union-attr]
    row = int(work_B.argmax())
    measured = saved_bytes(build_model(config.model, 0), part, slice(row, row + 1), "fp32")
    memory = estimate_memory(replace(config, batch_size=1), 1, 1)
    assert measured <= memory.activations <= 1.6 * measured


def saved_bytes(network: nn.Module, part: LocalBatch, rows: slice, precision: Any) -> int:
    """Return the bytes that autograd keeps of a forward pass, without those of the weights."""
    saved: dict[int, int] = {parameter.untyped_storage().data_ptr(): 0 for parameter in network.parameters()}
    kept = []

    def save(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept.append(storage)  # so that no other storage gets its address
        saved.setdefault(storage.data_ptr(), storage.nbytes())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor), autocast(precision, CPU):
        network(part.batch.rows(rows), part.targets.order_BT[rows], part.targets.query_BT[rows])
    copies = 0 if precision == "fp32" else 2 * count_parameters(network)  # counted with the weights
    return sum(saved.values()) - copies


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("kind", ["decoder-only", "encoder-decoder"])
def test_activations_are_what_autograd_saves(kind: str, precision: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never estimated below what is saved in plain torch, as on a GPU, and not far above."""
    monkeypatch.setattr("clew.models.transformers.use_packed_attention", lambda *_: False)
    model: DecoderOnlyConfig | EncoderDecoderConfig
    if kind == "decoder-only":
        model, objective = DecoderOnlyConfig(DATA.vocabulary, 32, 2, depth=10), ObjectiveConfig("next-token")
    else:
        model, objective = EncoderDecoderConfig(DATA.vocabulary, 32, 2, encoder_depth=10, decoder_depth=10), None
    objective = objective or ObjectiveConfig("mlm-u")
    config = TrainConfig(DATA, model, Budget(steps=1), objective, batch_size=16, precision=precision)
    measured = saved_bytes(build_model(model, 0), sample(config), slice(0, 16), precision)
    assert measured <= estimate_memory(config, 1, 16).activations <= 1.4 * measured


def test_the_micro_batch_is_the_largest_that_fits() -> None:
    config = config_named("paper-dfs-30-next-8m")
    micro_batch = micro_batch_for(config, 1)
    assert micro_batch is not None
    assert 1 < micro_batch < config.batch_size

    def total(rows: int) -> float:
        return estimate_memory(config, 1, rows).total

    assert total(micro_batch) <= SMALL_GPU < total(2 * micro_batch)
    assert micro_batch_for(config, 1, memory=80e9) > micro_batch  # type: ignore[operator]
    assert micro_batch_for(config, 1, memory=1e9) is None
    assert micro_batch_for(config, 8) == 16
    assert fit_micro_batch(config, 1, SMALL_GPU).micro_batch == micro_batch
    assert fit_micro_batch(config, 8, SMALL_GPU) == config


def test_steps_of_all_kinds_of_budgets() -> None:
    config = config_named("paper-dfs-10-mlmu-8m")
    assert total_steps(config) == 3000 * 782
    assert total_steps(replace(config, budget=Budget(steps=7))) == 7
    assert total_steps(replace(config, budget=Budget(minutes=30))) is None
    assert training_hours(replace(config, budget=Budget(minutes=30)), 8, GPUS["A100"]) == 0.5


def test_a_plan_has_a_row_for_each_run() -> None:
    runs = [*unique_runs([STUDIES["accuracy-by-size"]], Options("paper")).values()]
    head, *rows = plan(runs, 8)
    assert [row[0] for row in rows[:2]] == ["next token, 5x5, seed 0", "MLM-U, 5x5, seed 0"]
    assert all(len(row) == len(head) for row in rows)
    first = dict(zip(head, rows[0], strict=True))
    assert (first["parameters"], first["steps"], first["mazes a pass"]) == ("7,947,648", "2,346,000", "16 of 16")


def test_the_list_is_what_the_studies_need() -> None:
    """`clew reproduce --list` reads a file, which this holds against the studies."""
    assert read_json(NEEDS_FILE) == all_needs(), "run: python -m clew.paper.estimate"
