"""Let a model solve tasks and compare its paths with the true ones.

    evaluation = evaluate_model(model, script, tasks, decoder_named("left-to-right"), precision="fp16")
    scores_of(evaluation)      # clew.evaluation.scores

Shape suffixes: B, N mazes, R places of the response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from clew.data.batches import text_seeds
from clew.decoding.answers import Step
from clew.decoding.decode import AnyDecoder, DecodedBatch, check_order, decode, device_of
from clew.decoding.script import Script
from clew.errors import UserError
from clew.evaluation.outcome import Evaluation, Outcome, Token, outcome_of
from clew.mazes.maze import Path, TaskBatch
from clew.memory import machine_memory, out_of_memory
from clew.models.interface import Model, Precision, autocast

# More mazes at once are hardly faster.
MOST_MAZES = 512
# Bytes that decoding may take on a CPU, where larger batches gain least; on a GPU it is a share of what is free.
CPU_BUDGET, GPU_SHARE = 2 << 30, 0.5


def evaluate_model(
    model: Model,
    script: Script,
    tasks: TaskBatch | Sequence[TaskBatch],
    decoder: AnyDecoder,
    batch_size: int | None = None,
    *,
    precision: Precision = "fp32",
    name: str = "model",
    decoder_name: str = "",
    seed: int = 0,
    split: str = "test",
    progress: Callable[[int], None] = lambda mazes: None,
) -> Evaluation:
    """Solve all tasks, of one shape or of several; `progress` is told how many are done.

    `batch_size` mazes are decoded at once, or as many as fit into memory. `seed` and `split` order the texts: the
    first mazes of a dataset's split are put in the words of that dataset.
    """
    check_order(model, decoder)
    outcomes: list[Outcome] = []
    seconds = 0.0
    with autocast(precision, device_of(model)):
        for group in [tasks] if isinstance(tasks, TaskBatch) else tasks:
            texts_N = text_seeds(seed, split, np.arange(len(group)))
            for some, decoded in decode_tasks(model, script, group, texts_N, decoder, batch_size):
                outcomes += outcomes_of(script, some, decoded)
                seconds += decoded.seconds
                progress(len(outcomes))
    return Evaluation(name, decoder_name or type(decoder).__name__, tuple(outcomes), seconds, precision)


def decode_tasks(
    model: Model,
    script: Script,
    tasks: TaskBatch,
    text_seed_N: npt.NDArray[np.uint64],
    decoder: AnyDecoder,
    batch_size: int | None = None,
    on_step: Callable[[Step], None] = lambda step: None,
) -> Iterator[tuple[TaskBatch, DecodedBatch]]:
    """Decode the tasks batch by batch, in their order; `on_step` is called with every step of decoding.

    Without a `batch_size`, batches have as many mazes as the memory is estimated to hold, and half as many whenever
    that was too many.
    """
    if batch_size is not None and batch_size < 1:
        raise UserError(f"a batch size of {batch_size} is impossible; use 1 or more.")
    rows = mazes_at_once(model, script, tasks) if batch_size is None else batch_size
    if batch_size is not None:
        _check_memory(model, script, tasks, batch_size)
    first = 0
    while first < len(tasks):
        index_N = np.arange(first, min(first + rows, len(tasks)))
        some = tasks.select(index_N)
        decoded: DecodedBatch | None = None
        try:
            decoded = decode(model, script.canvas(some, text_seed_N[index_N]), decoder, on_step)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
        # Not in the `except`: there the error still holds what was computed.
        if decoded is None:
            if batch_size is not None or len(index_N) == 1:
                if len(index_N) == 1:
                    raise UserError("decoding a single maze ran out of memory; use smaller mazes or a smaller model.")
                raise UserError(
                    f"decoding {len(index_N):,} mazes at once ran out of memory; use a smaller --batch-size, or leave "
                    "it out."
                )
            rows = len(index_N) // 2
            continue
        yield some, decoded
        first += len(index_N)


def mazes_at_once(model: Model, script: Script, tasks: TaskBatch) -> int:
    """How many of the tasks are decoded at once: as many as the estimated memory allows."""
    needed = _bytes_a_maze(model, script, tasks)
    if needed is None:
        return MOST_MAZES // 2
    device = device_of(model)
    budget = GPU_SHARE * _free_gpu_memory(device) if device.type == "cuda" else CPU_BUDGET
    return max(1, min(MOST_MAZES, int(budget / needed)))


def _free_gpu_memory(device: torch.device) -> int:
    """Bytes that are free, or that torch holds for later use."""
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + held


def _check_memory(model: Model, script: Script, tasks: TaskBatch, batch_size: int) -> None:
    """UserError if a batch cannot fit: a CPU has no error for that, the system ends the process."""
    needed, rows = _bytes_a_maze(model, script, tasks), min(batch_size, len(tasks))
    device = device_of(model)
    total = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else machine_memory()
    if needed is not None and needed * rows > total:
        raise UserError(
            f"decoding {rows:,} mazes at once takes about {needed * rows / 1e9:,.0f} GB of memory, and there are "
            f"{total / 1e9:,.0f}; use a --batch-size of {max(1, total // (2 * needed)):,} or less, or leave it out."
        )


def _bytes_a_maze(model: Model, script: Script, tasks: TaskBatch) -> int | None:
    """Estimated bytes that decoding one of the tasks takes; None for a model that does not say."""
    estimate: Callable[[int], int] | None = getattr(getattr(model, "config", None), "decoding_bytes", None)
    return None if estimate is None else estimate(script.length(tasks))


def outcomes_of(script: Script, tasks: TaskBatch, decoded: DecodedBatch) -> list[Outcome]:
    """What became of each maze of a decoded batch."""
    truth_BR, truth_length_B = script.truth(tasks)
    room = min(decoded.token_BR.shape[1], truth_BR.shape[1])
    right_BR = torch.zeros_like(decoded.token_BR, dtype=torch.bool)
    right_BR[:, :room] = (decoded.token_BR[:, :room] == truth_BR[:, :room]) & (truth_BR[:, :room] >= 0)
    outcomes = []
    for i in range(len(tasks)):
        task, path = tasks[i]
        predicted, problem = predicted_path(script, tasks, decoded, i)
        length = int(decoded.length_B[i])
        said = [
            Token(confidence, right)
            for confidence, right in zip(
                decoded.confidence_BR[i, :length].tolist(), right_BR[i, :length].tolist(), strict=True
            )
        ]
        tokens, passes = int(truth_length_B[i]), int(decoded.passes_B[i])
        outcomes.append(outcome_of(task, path, predicted, problem, said, tokens, passes))
    return outcomes


def predicted_path(
    script: Script, tasks: TaskBatch, decoded: DecodedBatch, row: int
) -> tuple[Path, None] | tuple[None, str]:
    """Return the path of one response, or None and why it has none; of a response with a search trace, its plan."""
    try:
        return script.read(decoded.response(row), tasks.height, tasks.width), None
    except UserError as error:
        return None, str(error)
