"""Estimates of what a training needs: memory of a GPU, and hours. Arithmetic; nothing is measured on a GPU.

    fit_micro_batch(config, processes=8, memory=32e9)       # the config with the largest micro-batch that fits
    plan(runs, processes=8)                                 # a row of words for each training: `--dry-run`
    python -m clew.paper.estimate                           # write needs.json, which `--list` reads without torch

The terms are in docs/reproduce.md#on-gpus. For each parameter are counted the weight, its gradient, the gradient's copy
that is summed over the GPUs and AdamW's two moments, in float32, and the weight in 16 bits under autocast. Evaluation
is not counted: it decodes as many mazes at once as half of the free memory allows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from clew.data.config import PAPER_MAZES, DataConfig
from clew.data.loader import StreamLoader
from clew.files import atomic_write
from clew.models.build import training_flops
from clew.models.config import CellNetworkConfig, DecoderOnlyConfig
from clew.objectives.builtin import build_objective
from clew.objectives.config import ObjectiveConfig
from clew.paper.study import SCALES, RunSpec, Scale, Study, parameters_of
from clew.training.config import TrainConfig
from clew.training.distributed import World
from clew.training.train import LocalBatch, local_batch

GB, SAMPLE = 1e9, 256  # SAMPLE: mazes whose lengths and operations are counted


Gpu = tuple[float, float, float]  # dense operations a second in 16 and in 32 bits, bytes a second

# The SXM forms in NVIDIA's data sheets.
GPUS: dict[str, Gpu] = {
    "V100": (125e12, 15.7e12, 0.9e12),
    "A100": (312e12, 19.5e12, 1.555e12),
    "H100": (989e12, 67e12, 3.35e12),
}
# Fitted to the two runs whose time the paper gives (13.7 and 17.7 hours on 8 V100, both 5x5 mazes and 40 blocks).
BLOCK_SECONDS = 0.82e-3
# An activation is written, read, read again in the backward pass, and its gradient written and read.
ACTIVATION_PASSES = 5
SHARE_OF_PEAK = 0.25  # an assumption
SMALL_GPU = 32 * GB  # the paper's V100
ALLOCATOR, CONTEXT = 1.1, 1.0 * GB  # fragmentation; CUDA and NCCL
# Bytes that a message step of a cell network keeps for each cell and hidden unit.
CELL_BYTES = 40
NEEDS_FILE = Path(__file__).with_name("needs.json")
# Operations a second of one core of a shared server, with the small models of the studies.
CORE_SPEED = {"smoke": 2e9, "laptop": 5.3e10}
PAPER_GPUS = 8  # V100


class Memory(NamedTuple):
    """Bytes of one GPU."""

    weights: float  # with gradients and their copies
    optimizer: float
    activations: float  # of a micro-batch, with the tokens of the batch

    @property
    def total(self) -> float:
        return ALLOCATOR * sum(self) + CONTEXT


def estimate_memory(config: TrainConfig, processes: int, micro_batch: int) -> Memory:
    """Return what training takes with so many GPUs and so many mazes in a forward and backward pass."""
    model: Any = config.model
    half, batch = 4 if config.precision == "fp32" else 2, sample(config).batch
    tokens, queries = int(batch.valid_BT.sum(1).max()), int(batch.response_BT.sum(1).max())
    if isinstance(model, CellNetworkConfig):
        loops = int(model.training_loops(batch)[1].max())  # type: ignore[arg-type]  # a batch of cells
        a_maze: float = CELL_BYTES * model.hidden * model.steps * loops * tokens
    else:
        encoder, decoder = _depths(model)
        a_maze = (encoder + 1) * _block_bytes(model.width, half) * tokens
        # A block of the decoder computes keys and values for every visible token, the rest for the queries.
        a_maze += decoder * model.width * ((4 if half == 2 else 3) * half * tokens + (8 + 12 * half) * queries)
        a_maze += (half + 8) * model.vocabulary * queries  # logits, their softmax and its gradient
    parameters, rows = parameters_of(model), math.ceil(config.batch_size / processes)
    return Memory((12 + half % 4) * parameters, 8 * parameters, a_maze * micro_batch + 24 * tokens * rows)


def _depths(model: Any) -> tuple[int, int]:
    """Return the blocks of a text model: self-attention, and attention to an encoder."""
    return (model.depth, 0) if isinstance(model, DecoderOnlyConfig) else (model.encoder_depth, model.decoder_depth)


def _block_bytes(width: int, half: int) -> int:
    """Return what the backward pass of a block of self-attention needs for each token."""
    # In float32: the inputs of both norms. In the precision of the products: the outputs of both norms, queries, keys
    # and values, queries and keys after their rotation, the attention's result, and twice four widths in the
    # feed-forward part.
    return (2 * 4 + 16 * half) * width


def micro_batch_for(config: TrainConfig, processes: int, memory: float = SMALL_GPU) -> int | None:
    """Return the most mazes, a power of two or all, that fit one pass of a GPU; None if not even one does."""
    rows = math.ceil(config.batch_size / processes)
    candidates = [rows, *(1 << k for k in range(rows.bit_length() - 1, -1, -1))]
    return next((n for n in candidates if estimate_memory(config, processes, n).total <= memory), None)


def fit_micro_batch(config: TrainConfig, processes: int, memory: float) -> TrainConfig:
    """Return the config with a micro-batch that fits into this memory of a GPU, unless it has one already."""
    micro_batch = config.micro_batch or micro_batch_for(config, processes, memory) or 1
    return config if micro_batch * processes >= config.batch_size else replace(config, micro_batch=micro_batch)


def total_steps(config: TrainConfig) -> int | None:
    """Return the steps of a run; None if its budget is in minutes."""
    if config.budget.epochs is not None:
        return config.budget.epochs * math.ceil((config.data.mazes or PAPER_MAZES) / config.batch_size)
    return config.budget.steps


def training_hours(config: TrainConfig, processes: int, gpu: Gpu) -> float:
    """Return the hours of a whole run with so many GPUs."""
    steps = total_steps(config)
    return (config.budget.minutes or 0) / 60 if steps is None else steps * step_seconds(config, processes, gpu) / 3600


def step_seconds(config: TrainConfig, processes: int, gpu: Gpu) -> float:
    """Return the time of one step with so many GPUs."""
    model: Any = config.model
    half_flops, single_flops, bandwidth = gpu
    mazes, half = config.batch_size / processes, config.precision != "fp32"
    seconds = mazes * flops_per_maze(config) / (SHARE_OF_PEAK * (half_flops if half else single_flops))
    if not isinstance(model, CellNetworkConfig):
        passes, (encoder, decoder) = math.ceil(mazes / (micro_batch_for(config, processes) or 1)), _depths(model)
        moved = ACTIVATION_PASSES * encoder * _block_bytes(model.width, 2 if half else 4) * mean_length(config) * mazes
        seconds += passes * (encoder + decoder) * BLOCK_SECONDS + moved / bandwidth
    return seconds


def mean_length(config: TrainConfig) -> float:
    """Return the mean number of tokens of a sequence."""
    return float(sample(config).batch.valid_BT.sum(1).float().mean())


def flops_per_maze(config: TrainConfig) -> float:
    """Return the operations of a training step for one maze, on average over a sample."""
    part = sample(config)
    return training_flops(config.model, part.batch, part.targets.order_BT, part.targets.query_BT) / SAMPLE


def sample(config: TrainConfig) -> LocalBatch:
    """Return a batch of the largest mazes of a run, with its targets."""
    data = replace(config.data, source="stream", folder="", mazes=None, seed=0, long_share=0.0)
    return _sample(replace(data, sizes=data.sizes[-1:]), config.objective)


@cache
def _sample(data: DataConfig, objective: ObjectiveConfig) -> LocalBatch:
    return local_batch(StreamLoader(data, SAMPLE).batch(0), build_objective(objective), 0, 0, SAMPLE, World())


def needs(name: str, studies: Sequence[Study], scale: Scale) -> dict[str, Any]:
    """Return a row of needs.json: what studies need with their default seeds; a training that some share counts once.

    The parameters are those of the smallest and the largest model, the hours of one core or, at paper scale, 8 V100.
    """
    from clew.paper.runner import Options, unique_runs

    configs = [run.config for run in unique_runs(studies, Options(scale)).values()]
    counts, hours = [parameters_of(config.model) for config in configs] or [0], 0.0
    for config in configs:
        if scale == "paper":
            hours += training_hours(config, PAPER_GPUS, GPUS["V100"])
        elif (steps := total_steps(config)) is not None:
            hours += steps * config.batch_size * flops_per_maze(config) / CORE_SPEED[scale] / 3600
        else:  # minutes on two cores are twice as many of one
            hours += (config.threads or 1) * (config.budget.minutes or 0) / 60
    row = {"study": name, "scale": scale, "runs": len(configs), "parameters": [min(counts), max(counts)]}
    return row | {"hours": float(f"{hours:.3g}")}


def all_needs() -> list[dict[str, Any]]:
    """Return what each study and all of them need at each scale."""
    from clew.paper.studies import STUDIES

    named = {name: [study] for name, study in STUDIES.items()} | {"all": [*STUDIES.values()]}
    return [needs(name, studies, scale) for name, studies in named.items() for scale in SCALES]


def plan(runs: Sequence[RunSpec], processes: int) -> list[list[str]]:
    """Return a head, and a row of words for each training on so many GPUs."""
    head = ["run", "parameters", "steps", "tokens", "mazes a pass", "weights, GB", "optimizer, GB", "activations, GB"]
    rows = [[*head, "in all, GB", *(f"hours, {processes} {gpu}" for gpu in GPUS)]]
    for run in runs:
        config, steps = run.config, total_steps(run.config)
        micro_batch = micro_batch_for(config, processes) or 1
        memory = estimate_memory(config, processes, micro_batch)
        tokens = (steps or 0) * config.batch_size * mean_length(config)
        length = [f"{steps:,}", f"{tokens:.1e}"] if steps else [f"{config.budget.minutes} minutes", ""]
        passes = f"{micro_batch} of {math.ceil(config.batch_size / processes)}"
        sizes = [f"{part / GB:.2f}" for part in (*memory, memory.total)]
        hours = [f"{training_hours(config, processes, gpu):,.1f}" for gpu in GPUS.values()]
        rows.append([run.name, f"{parameters_of(config.model):,}", *length, passes, *sizes, *hours])
    return rows


if __name__ == "__main__":
    with atomic_write(NEEDS_FILE) as file:
        file.write("[\n" + ",\n".join(map(json.dumps, all_needs())) + "\n]\n")
