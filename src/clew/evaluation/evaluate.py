"""What became of each maze, and of all of them together.

    outcome = outcome_of(task, path, predicted, ...)
    evaluation.outcomes, evaluation.decoder, evaluation.seconds

Everything that is told about an evaluation (clew.evaluation.scores) is counted from these.

Let a model solve tasks and compare its paths with the true ones.

    evaluation = evaluate_model(model, codec, tasks, decoder_named("left-to-right"), precision="fp16")
    scores_of(evaluation)      # clew.evaluation.scores

Shape suffixes: B, N mazes, R places of the response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from clew.data.batch import text_seeds
from clew.decoding.codec import Codec
from clew.decoding.decode import AnyDecoder, DecodedBatch, check_order, decode, device_of
from clew.decoding.state import Step
from clew.errors import UserError, machine_memory, out_of_memory
from clew.evaluation.failures import classify
from clew.mazes.checks import is_shortest, is_valid
from clew.mazes.maze import Path, Task, TaskBatch
from clew.models.config import Model, Precision, autocast


@dataclass(frozen=True)
class Token:
    """A predicted token: how sure the model was of it when it wrote it, and whether it is the true one."""

    confidence: float
    right: bool


@dataclass(frozen=True)
class Outcome:
    """One maze, its true path and the predicted one."""

    task: Task
    path: Path
    predicted: Path | None  # None if the response says no path
    problem: str | None  # why it says none
    tokens: int  # of the true response, its end included
    tokens_right: int  # of those, how many stand at the same place of the predicted response
    valid: bool
    shortest: bool
    failure: str | None  # a name of clew.evaluation.failures.FAILURES, None if the path is the true one
    passes: int
    said: tuple[Token, ...]  # the predicted tokens up to the end

    @property
    def exact(self) -> bool:
        return self.failure is None

    @property
    def length(self) -> int:
        """The number of cells of the true path."""
        return len(self.path)


@dataclass(frozen=True)
class Evaluation:
    """All outcomes of one model with one decoder."""

    name: str  # of the model
    decoder: str
    outcomes: tuple[Outcome, ...]
    seconds: float
    precision: str = "fp32"  # that the model computed in

    def __len__(self) -> int:
        return len(self.outcomes)


def outcome_of(
    task: Task,
    path: Path,
    predicted: Path | None,
    problem: str | None,
    said: Sequence[Token],
    tokens: int,
    passes: int,
) -> Outcome:
    """Check a prediction against its maze and the true path."""
    return Outcome(
        task,
        path,
        predicted,
        problem,
        tokens=tokens,
        tokens_right=sum(token.right for token in said),
        valid=bool(predicted) and is_valid(task, predicted or []),
        shortest=bool(predicted) and is_shortest(task, predicted or []),
        failure=classify(task, path, predicted),
        passes=passes,
        said=tuple(said),
    )


# More mazes at once are hardly faster.
MAX_MAZES = 512
# Bytes that decoding may take on a CPU, where larger batches gain least; on a GPU it is a share of what is free.
CPU_BUDGET, GPU_SHARE = 2 << 30, 0.5


def evaluate_model(
    model: Model,
    codec: Codec,
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
            for some, decoded in decode_tasks(model, codec, group, texts_N, decoder, batch_size):
                outcomes += outcomes_of(codec, some, decoded)
                seconds += decoded.seconds
                progress(len(outcomes))
    return Evaluation(name, decoder_name or type(decoder).__name__, tuple(outcomes), seconds, precision)


def decode_tasks(
    model: Model,
    codec: Codec,
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
    rows = mazes_at_once(model, codec, tasks) if batch_size is None else batch_size
    if batch_size is not None:
        _check_memory(model, codec, tasks, batch_size)
    first = 0
    while first < len(tasks):
        index_N = np.arange(first, min(first + rows, len(tasks)))
        some = tasks.select(index_N)
        decoded: DecodedBatch | None = None
        try:
            decoded = decode(model, codec.canvas(some, text_seed_N[index_N]), decoder, on_step)
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


def mazes_at_once(model: Model, codec: Codec, tasks: TaskBatch) -> int:
    """How many of the tasks are decoded at once: as many as the estimated memory allows."""
    needed = _bytes_a_maze(model, codec, tasks)
    if needed is None:
        return MAX_MAZES // 2
    device = device_of(model)
    budget = GPU_SHARE * _free_gpu_memory(device) if device.type == "cuda" else CPU_BUDGET
    return max(1, min(MAX_MAZES, int(budget / needed)))


def _free_gpu_memory(device: torch.device) -> int:
    """Bytes that are free, or that torch holds for later use."""
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + held


def _check_memory(model: Model, codec: Codec, tasks: TaskBatch, batch_size: int) -> None:
    """UserError if a batch cannot fit: a CPU has no error for that, the system ends the process."""
    needed, rows = _bytes_a_maze(model, codec, tasks), min(batch_size, len(tasks))
    device = device_of(model)
    total = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else machine_memory()
    if needed is not None and needed * rows > total:
        raise UserError(
            f"decoding {rows:,} mazes at once takes about {needed * rows / 1e9:,.0f} GB of memory, and there are "
            f"{total / 1e9:,.0f}; use a --batch-size of {max(1, total // (2 * needed)):,} or less, or leave it out."
        )


def _bytes_a_maze(model: Model, codec: Codec, tasks: TaskBatch) -> int | None:
    """Estimated bytes that decoding one of the tasks takes; None for a model that does not say."""
    estimate: Callable[[int], int] | None = getattr(getattr(model, "config", None), "decoding_bytes", None)
    return None if estimate is None else estimate(codec.length(tasks))


def outcomes_of(codec: Codec, tasks: TaskBatch, decoded: DecodedBatch) -> list[Outcome]:
    """What became of each maze of a decoded batch."""
    truth_BR, truth_length_B = codec.truth(tasks)
    room = min(decoded.token_BR.shape[1], truth_BR.shape[1])
    right_BR = torch.zeros_like(decoded.token_BR, dtype=torch.bool)
    right_BR[:, :room] = (decoded.token_BR[:, :room] == truth_BR[:, :room]) & (truth_BR[:, :room] >= 0)
    outcomes = []
    for i in range(len(tasks)):
        task, path = tasks[i]
        predicted, problem = predicted_path(codec, tasks, decoded, i)
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
    codec: Codec, tasks: TaskBatch, decoded: DecodedBatch, row: int
) -> tuple[Path, None] | tuple[None, str]:
    """Return the path of one response, or None and why it has none; of a response with a search trace, its plan."""
    try:
        return codec.read(decoded.response(row), tasks.height, tasks.width), None
    except UserError as error:
        return None, str(error)
