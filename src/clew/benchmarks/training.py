"""How much faster the model is when it computes only what is asked for (`clew bench training`).

The paper's 8m encoder-decoder answers MLM-U targets about 10x10 DFS mazes, forward and backward, in two forms:

- naive: encoder, decoder and head at every position of the padded batch, with dense masks;
- fast: the encoder over visible tokens only, the decoder at asked positions only, mazes that show about as many
  tokens together.

Both see the same batches and targets, in turns (naive, fast, fast, naive, ...), in one process, so that a busy
moment of the machine falls on both. With one thread the time is that of the CPU, which does not run while other
programs do; with more it is that of the wall clock. The losses must agree.

Beside the times stands the share of the machine's peak, measured in the same run by multiplying large matrices. It
counts the operations that the targets need, whichever form computes them, so what the naive form does for nothing
does not count.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from clew.data.batch import Batch
from clew.data.loader import StreamConfig, StreamLoader
from clew.models.build import build_model, count_parameters, sized_config, training_flops
from clew.models.config import EncoderDecoderConfig
from clew.models.encoder_decoder import EncoderDecoder
from clew.objectives.config import ObjectiveConfig, build_objective
from clew.objectives.loss import cross_entropy_sum
from clew.objectives.targets import Targets
from clew.provenance import provenance
from clew.tokenization.format import format_named
from clew.training.peak import best_rate

SEED = 0
SIDE, FORMAT, MODEL_SIZE = 10, "edge-list", "8m"
# The fast form is to be this many times as fast, with losses that differ by no more than that.
TARGET, LOSS_TOLERANCE = 1.7, 1e-5


@dataclass(frozen=True)
class Form:
    """What one form of the model took."""

    seconds: list[float]  # forward and backward, for each batch
    median_seconds: float
    mazes_per_second: float
    gigaflops: float  # useful operations a second
    share_of_peak: float


@dataclass(frozen=True)
class Report:
    """All that one run measured."""

    provenance: dict[str, Any]
    parameters: int
    batch_size: int
    threads: int
    clock: str  # "cpu" or "wall"
    peak_gigaflops: float  # the best of float32 products, with as many threads
    naive: Form
    fast: Form
    ratio: float  # naive to fast: the median over the batches
    target: float
    losses_naive: list[float]
    losses_fast: list[float]
    largest_loss_difference: float
    loss_tolerance: float

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2)


def measure(batches: int, batch_size: int, threads: int, command: str, say: Callable[[str], None]) -> Report:
    """Run both forms over fresh batches."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return _measure(batches, batch_size, threads, command, say)
    finally:
        torch.set_num_threads(before)


def _measure(batches: int, batch_size: int, threads: int, command: str, say: Callable[[str], None]) -> Report:
    config = sized_config("encoder-decoder", MODEL_SIZE, format_named(FORMAT).vocabulary(SIDE, SIDE).size)
    assert isinstance(config, EncoderDecoderConfig)
    model = build_model(config, SEED)
    assert isinstance(model, EncoderDecoder)
    measured = draw_questions(batches, batch_size)
    for naive in (True, False):  # a first small batch each, not measured, sets up the libraries
        forward_backward(model, *draw_questions(1, 1)[0], naive, time.perf_counter)
    clock = time.process_time if threads == 1 else time.perf_counter
    peak = 0.0
    seconds: dict[bool, list[float]] = {True: [], False: []}
    losses: dict[bool, list[float]] = {True: [], False: []}
    for number, (batch, targets) in enumerate(measured):
        say(f"batch {number + 1} of {batches}")
        for naive in (True, False) if number % 2 == 0 else (False, True):
            took, loss = forward_backward(model, batch, targets, naive, clock)
            seconds[naive].append(took)
            losses[naive].append(loss)
        # Again and again, so that a busy moment of the machine does not make its peak low and our share of it high.
        peak = max(peak, best_rate(torch.device("cpu"), torch.float32))
    flops = statistics.fmean(training_flops(config, b, q.order_BT, q.query_BT) for b, q in measured)
    naive_form, fast_form = (_form(seconds[naive], batch_size, flops, peak) for naive in (True, False))
    return Report(
        provenance(command, [SEED]),
        count_parameters(model),
        batch_size,
        threads,
        "cpu" if threads == 1 else "wall",
        peak / 1e9,
        naive_form,
        fast_form,
        statistics.median(a / b for a, b in zip(seconds[True], seconds[False], strict=True)),
        TARGET,
        losses[True],
        losses[False],
        max(abs(a - b) for a, b in zip(losses[True], losses[False], strict=True)),
        LOSS_TOLERANCE,
    )


def draw_questions(count: int, batch_size: int) -> list[tuple[Batch, Targets]]:
    """Batches of fresh mazes, each with an MLM-U targets."""
    loader = StreamLoader(StreamConfig("dfs", SIDE, SIDE, SEED, batch_size), FORMAT)
    objective, generator = build_objective(ObjectiveConfig()), torch.Generator().manual_seed(SEED)
    batches = [loader.batch(step) for step in range(count)]
    return [(batch, objective(batch, generator)) for batch in batches]


def forward_backward(
    model: EncoderDecoder, batch: Batch, targets: Targets, naive: bool, clock: Callable[[], float]
) -> tuple[float, float]:
    """Seconds by the clock, and the loss per asked token."""
    model.naive = naive
    model.zero_grad(set_to_none=True)
    begin = clock()
    sums = cross_entropy_sum(model(batch, targets.order_BT, targets.query_BT), targets)
    loss = sums.loss / sums.weight
    torch.autograd.backward(loss)
    return clock() - begin, float(loss.detach())


def _form(seconds: list[float], batch_size: int, flops: float, peak: float) -> Form:
    median = statistics.median(seconds)
    return Form(seconds, median, batch_size / median, flops / median / 1e9, flops / median / peak)
