"""Decode tasks with a model and compare its paths with the true ones.

    evaluation = evaluate_tasks(model, codec, tasks, decoder_named("left-to-right"), precision="fp16")
    evaluation.scores, evaluation.exact      # clew.evaluation.scores

This is the one function that decodes and scores: training, `clew evaluate`, the studies and `TrainedModel` call it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

import numpy as np
import numpy.typing as npt
import torch

from clew.data.batch import text_seeds
from clew.decoding.codec import Codec, Decoder, Step
from clew.decoding.decode import DecodedBatch, TaskStep, decode, device_of, split_steps
from clew.errors import UserError, out_of_memory
from clew.evaluation.scores import Evaluation, Outcome, Token
from clew.mazes.maze import TaskBatch
from clew.models.config import Model, Precision, autocast

MAX_BATCH = 512  # larger batches are hardly faster
# Bytes for decoding on a CPU; on a GPU it is a fraction of the free memory.
CPU_BUDGET, GPU_FRACTION = 2 << 30, 0.5


def evaluate_tasks(
    model: Model,
    codec: Codec,
    tasks: TaskBatch | Sequence[TaskBatch],
    decoder: Decoder,
    batch_size: int | None = None,
    *,
    precision: Precision = "fp32",
    name: str = "model",
    decoder_name: str = "",
    seed: int = 0,
    split: str = "test",
    number_N: npt.NDArray[np.int64] | None = None,
    record_steps: bool = False,
    on_step: Callable[[Step], None] = lambda step: None,
    progress: Callable[[int], None] = lambda mazes: None,
) -> Evaluation:
    """Decode all tasks, of one shape or a batch for each shape, and compare the paths with the tasks' own.

    At most `batch_size` mazes are decoded at once, no more than memory is estimated to hold, and half as many after
    each lack of memory. `seed`, `split` and `number_N`, the tasks' numbers in that split (by default 0, 1, ...), order
    the edges in their texts. `on_step` is called with every step of decoding and may raise an exception to stop;
    `progress` is called with the number of mazes done.
    """
    if batch_size is not None and batch_size < 1:
        raise UserError(f"a batch size of {batch_size} is impossible; use 1 or more.")
    outcomes: list[Outcome] = []
    seconds = 0.0
    for group in [tasks] if isinstance(tasks, TaskBatch) else tasks:
        texts_N = text_seeds(seed, split, np.arange(len(group)) if number_N is None else number_N)
        rows = fitting_batch_size(model, codec, group, batch_size)
        first = 0
        while first < len(group):
            index_N = np.arange(first, min(first + rows, len(group)))
            some, steps = group.select(index_N), list[Step]()

            def note(step: Step, steps: list[Step] = steps) -> None:
                on_step(step)
                if record_steps:
                    steps.append(step)

            try:
                with autocast(precision, device_of(model)):
                    decoded = decode(model, codec.decoding_state(some, texts_N[index_N]), decoder, note)
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                rows = len(index_N) // 2
                if not rows:
                    raise UserError(
                        "decoding a single maze ran out of memory; use smaller mazes or a smaller model."
                    ) from None
                continue
            outcomes += _outcomes(codec, some, decoded, split_steps(codec, some, steps))
            seconds += decoded.seconds
            first += len(index_N)
            progress(len(outcomes))
    return Evaluation(name, decoder_name or type(decoder).__name__, tuple(outcomes), seconds, precision)


def _outcomes(
    codec: Codec, tasks: TaskBatch, decoded: DecodedBatch, steps: Sequence[Sequence[TaskStep]]
) -> Iterator[Outcome]:
    """Yield the outcome of each maze of a decoded batch."""
    truth_BR, true_length_B = codec.truth(tasks)
    for i in range(len(tasks)):
        response, truth = decoded.response(i), truth_BR[i, : int(true_length_B[i])].tolist()
        predicted, problem = None, None
        try:
            predicted = codec.read(response, tasks.height, tasks.width)  # of a search trace, the plan
        except UserError as error:
            problem = str(error)
        right = [token == true for token, true in zip_longest(response, truth)][: len(response)]
        probabilities = decoded.probability_BR[i, : len(response)].tolist()
        tokens = [Token(*each) for each in zip(probabilities, right, strict=True)]
        task, path = tasks[i]
        passes, seconds = int(decoded.passes_B[i]), decoded.seconds / len(tasks)
        yield Outcome(task, path, predicted, problem, tokens, len(truth), passes, seconds, steps[i])


def fitting_batch_size(model: Model, codec: Codec, tasks: TaskBatch, most: int | None = None) -> int:
    """Return how many of the tasks are decoded at once: as many as the model's estimate of memory allows."""
    estimate: Callable[[int], int] | None = getattr(getattr(model, "config", None), "decoding_bytes", None)
    if estimate is None:
        return most or MAX_BATCH // 2
    device, budget = device_of(model), float(CPU_BUDGET)
    if device.type == "cuda":  # what is free, or reserved by torch and not used
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        budget = GPU_FRACTION * (torch.cuda.mem_get_info(device)[0] + held)
    return max(1, min(most or MAX_BATCH, int(budget / estimate(codec.max_length(tasks)))))
