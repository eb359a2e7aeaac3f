"""Speed of training when the model computes only what is asked for, against the naive form.

    python benchmarks/training.py      # results/training-speed.json; one to three minutes

The paper's 8m encoder-decoder answers MLM-U targets about 10x10 DFS mazes, forward and backward, in two forms:

- naive: encoder, decoder and head at every position of the padded batch, with dense masks;
- fast: the encoder over visible tokens only, the decoder at asked positions only, without padding, in groups of mazes
  that show about as many tokens.

Both see the same batches and targets, in turns (naive, fast, fast, naive, ...), in one process, so that a busy
moment of the machine falls on both. With one thread the time is that of the CPU, which does not run while other
programs do; with more it is that of the wall clock. The losses must agree.

Beside the times stands the share of the machine's peak, measured in the same run by multiplying large matrices. It
counts the operations that the targets need, whichever form computes them, so what the naive form does for nothing
does not count.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import tyro
from peak import best_rate
from work import SEED, announce, command_line, save

from clew.data.batch import Batch
from clew.data.config import DataConfig
from clew.data.loader import StreamLoader
from clew.errors import UserError, guarded
from clew.models.build import build_model, count_parameters, training_flops
from clew.models.config import EncoderDecoderConfig, sized_config
from clew.models.transformers import EncoderDecoder
from clew.objectives.builtin import build_objective
from clew.objectives.config import ObjectiveConfig
from clew.objectives.targets import Targets, cross_entropy_sum
from clew.provenance import provenance
from clew.tokenization.format import format_named

SIDE, FORMAT, MODEL_SIZE = 10, "edge-list", "8m"
# The fast form is to be this many times as fast, with losses that differ by no more than that.
TARGET, LOSS_TOLERANCE = 1.7, 1e-5


def main(
    batches: int = 5, batch_size: int = 24, threads: int = 1, out: Path = Path("results/training-speed.json")
) -> None:
    """Measure both forms, print a table and write the numbers.

    Args:
        batches: how many batches each form computes.
        batch_size: mazes a batch.
        threads: CPU threads, for the model and for the peak; more than one only on a machine that does nothing else.
        out: the JSON file.
    """
    if batches < 1 or batch_size < 1 or threads < 1:
        raise UserError("--batches, --batch-size and --threads must each be 1 or more.")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        report = measure(batches, batch_size, threads)
    finally:
        torch.set_num_threads(before)
    save(out, report)
    for name in ("naive", "fast"):
        form = report[name]
        print(
            f"{name}: {form['median_seconds']:.2f} s ({report['clock']} clock) a batch of {batch_size}, "
            f"{form['mazes_per_second']:.1f} mazes/s, {form['gigaflops']:.1f} GFLOP/s, "
            f"{form['share_of_peak']:.0%} of the peak"
        )
    print(f"peak: {report['peak_gigaflops']:.1f} GFLOP/s in float32, with {threads} thread(s)")
    print(f"the fast form is {report['ratio']:.2f} times as fast (target {TARGET:g})")
    print(f"the losses differ by {report['largest_loss_difference']:.1e} at most (target {LOSS_TOLERANCE:.0e})")


def measure(batches: int, batch_size: int, threads: int) -> dict[str, Any]:
    """Run both forms over fresh batches."""
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
        announce(f"batch {number + 1} of {batches}")
        for naive in (True, False) if number % 2 == 0 else (False, True):
            took, loss = forward_backward(model, batch, targets, naive, clock)
            seconds[naive].append(took)
            losses[naive].append(loss)
        # Again and again, so that a busy moment of the machine does not make its peak low and our share of it high.
        peak = max(peak, best_rate(torch.device("cpu"), torch.float32))
    flops = statistics.fmean(training_flops(config, b, q.order_BT, q.query_BT) for b, q in measured)
    return {
        "provenance": provenance(command_line(), [SEED]),
        "parameters": count_parameters(model),
        "batch_size": batch_size,
        "threads": threads,
        "clock": "cpu" if threads == 1 else "wall",
        "peak_gigaflops": peak / 1e9,
        "naive": _form(seconds[True], batch_size, flops, peak),
        "fast": _form(seconds[False], batch_size, flops, peak),
        "ratio": statistics.median(a / b for a, b in zip(seconds[True], seconds[False], strict=True)),
        "target": TARGET,
        "losses_naive": losses[True],
        "losses_fast": losses[False],
        "largest_loss_difference": max(abs(a - b) for a, b in zip(losses[True], losses[False], strict=True)),
        "loss_tolerance": LOSS_TOLERANCE,
    }


def draw_questions(count: int, batch_size: int) -> list[tuple[Batch, Targets]]:
    """Batches of fresh mazes, each with an MLM-U targets."""
    loader = StreamLoader(DataConfig(sizes=(SIDE,), format=FORMAT, seed=SEED), batch_size)
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


def _form(seconds: list[float], batch_size: int, flops: float, peak: float) -> dict[str, Any]:
    median = statistics.median(seconds)
    return {
        "seconds": seconds,  # forward and backward, for each batch
        "median_seconds": median,
        "mazes_per_second": batch_size / median,
        "gigaflops": flops / median / 1e9,  # of useful operations
        "share_of_peak": flops / median / peak,
    }


if __name__ == "__main__":
    sys.exit(guarded(lambda: tyro.cli(main)))
