"""Speed of left-to-right decoding against its naive form, in one run with the same tokens.

    python benchmarks/decoding.py      # results/decoding-speed.json; about five minutes on two cores

The model is the paper's 8M encoder-decoder with fresh weights, on held-out 10x10 DFS mazes. Such a model never says
the end, so both forms are given the same wrapper around it, which says the end where the true path has it and nowhere
else: every answer is as long as a good model's would be.

Shape suffixes: B mazes, T positions, Q asked positions, V vocabulary.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from torch import Tensor, nn
from work import SEED, announce, command_line, save

from clew.data.batch import Batch
from clew.decoding.codec import Codec, DecodingState, Step
from clew.decoding.decode import decode
from clew.decoding.text_decoders import LeftToRight, fill_best
from clew.errors import UserError, guarded
from clew.mazes.generate import generate
from clew.models.build import build_model
from clew.models.config import Model, sized_config
from clew.provenance import provenance

TARGET = 4.0
SIDE, FORM, FAMILY = 10, "edge-list", "dfs"


def main(mazes: int = 32, size: str = "8m", out: Path = Path("results/decoding-speed.json")) -> None:
    """Decode the same mazes in both forms, print the ratio and write the numbers.

    Args:
        mazes: how many mazes are decoded at once.
        size: of the model: tiny, 3m, 8m or 25m.
        out: the JSON file.
    """
    if mazes < 1:
        raise UserError(f"{mazes} mazes leave nothing to measure; use 1 or more.")
    found = measure(mazes, size)
    save(out, found)
    print(
        f"{found['model']}, {mazes} mazes of {SIDE}x{SIDE}, {found['tokens']:,} tokens: fast "
        f"{found['fast_seconds']:.1f} s, naive {found['naive_seconds']:.1f} s: {found['ratio']:.1f} times as fast, by "
        f"CPU time {found['processor_ratio']:.1f} times (target {TARGET:g}), "
        + ("the same tokens." if found["same_tokens"] else "but NOT the same tokens: a bug.")
    )


class KnownLengths(nn.Module):
    """A model that says the end at the place where each maze's response has it, and never before."""

    def __init__(self, model: nn.Module, state: DecodingState, length_B: Tensor) -> None:
        super().__init__()
        self.model, self.end = model, state.end
        self.last_B = state.first_B + length_B - 1  # the position of the end

    @property
    def naive(self) -> bool:
        return bool(self.model.naive)

    @naive.setter
    def naive(self, value: bool) -> None:
        setattr(self.model, "naive", value)  # noqa: B010 (a plain flag, which Module's type does not know)

    def forward(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        logits_QV: Tensor = self.model(batch, order_BT, query_BT)
        row_Q, position_Q = query_BT.nonzero(as_tuple=True)
        is_last_Q = position_Q >= self.last_B[batch.index_B[row_Q]]
        logits_QV[:, self.end] = torch.where(is_last_Q, 1e4, -1e4)
        return logits_QV


@dataclass(frozen=True)
class LeftToRightNaive:
    """Left to right as in the published code: every pass computes every position of every maze."""

    def steps(self, model: Model, state: DecodingState, row_N: Tensor) -> Iterator[Step]:
        # Finished mazes continue in a copy without an end token, which keeps all mazes at the same position.
        endless = copy(state)
        endless.end = -1
        for name in ("token_BR", "probability_BR", "known_BR", "length_B"):
            setattr(endless, name, getattr(state, name).clone())
        for position in range(state.max_response_length):
            hidden_NR = state.hidden(row_N)
            if not bool(hidden_NR[:, position:].any()):
                return
            active_N = hidden_NR[:, position]
            want_NR = ~endless.known_BR[row_N] & (state.position_R == position)
            with _naive(model):
                logits_MV = endless.query(model, row_N, want_NR, whole=True)
            queried_N = want_NR.any(1)
            fill_best(endless, row_N[queried_N], torch.full_like(row_N[queried_N], position), logits_MV)
            if bool(active_N.any()):
                row_M = row_N[active_N]
                yield fill_best(state, row_M, torch.full_like(row_M, position), logits_MV[active_N[queried_N]])


@contextmanager
def _naive(model: Model) -> Iterator[None]:
    """Switch the model to its naive implementation, if it has one."""
    if not hasattr(model, "naive"):
        yield
        return
    before, model.naive = model.naive, True
    try:
        yield
    finally:
        model.naive = before


class Timed:
    """Steps of decoding, and what they took so far on the clock and of the processor."""

    def __init__(self, steps: Iterator[Step]) -> None:
        self.steps, self.seconds, self.processor_seconds = steps, 0.0, 0.0

    def next(self) -> Step | None:
        clock, processor = time.perf_counter(), time.process_time()
        step = next(self.steps, None)
        self.seconds += time.perf_counter() - clock
        self.processor_seconds += time.process_time() - processor
        return step


def _equal(one: Step, other: Step) -> bool:
    """Whether two steps fill the same places with the same tokens; both go through the mazes in order."""
    pairs = ((one.row_F, other.row_F), (one.position_F, other.position_F), (one.token_F, other.token_F))
    return all(torch.equal(a, b) for a, b in pairs)


def measure(mazes: int, size: str) -> dict[str, Any]:
    """Decode the same mazes in both forms."""
    tasks = generate(FAMILY, SIDE, SIDE, seed=SEED, first=0, count=mazes, split="test")
    codec = Codec.of(FORM, SIDE, SIDE)
    assert codec.vocabulary is not None
    states = [codec.decoding_state(tasks) for _ in range(2)]
    length_B = codec.truth(tasks)[1]
    bare = build_model(sized_config("encoder-decoder", size, vocabulary=codec.vocabulary.size), seed=SEED).eval()
    assert isinstance(states[0], DecodingState)
    assert isinstance(states[1], DecodingState)
    model = KnownLengths(bare, states[0], length_B).eval()

    # A short pass first, so that neither form pays for what is only done once.
    decode(model, codec.decoding_state(tasks.select(np.arange(1)), max_response_length=2), LeftToRight())
    announce(f"{mazes} mazes of {SIDE}x{SIDE}, {int(length_B.max())} tokens at most")
    # The forms take turns, a token each, so that other work on the machine slows down both alike.
    fast = Timed(LeftToRight().steps(model, states[0], torch.arange(mazes)))
    naive = Timed(LeftToRightNaive().steps(model, states[1], torch.arange(mazes)))
    same, tokens = True, 0
    with torch.no_grad():
        while (quick := fast.next()) is not None:
            slow = naive.next()
            same = same and slow is not None and _equal(quick, slow)
            tokens += len(quick.row_F)
        same = same and naive.next() is None and tokens == int(length_B.sum())
    return {
        "provenance": provenance(command_line(), [SEED]),
        "model": f"encoder-decoder {size}",
        "threads": torch.get_num_threads(),
        "mazes": mazes,
        "tokens": int(length_B.sum()),  # of all responses
        "longest": int(length_B.max()),
        "naive_seconds": naive.seconds,
        "fast_seconds": fast.seconds,
        "ratio": naive.seconds / fast.seconds,
        # CPU time, which other work on the machine changes little.
        "naive_processor_seconds": naive.processor_seconds,
        "fast_processor_seconds": fast.processor_seconds,
        "processor_ratio": naive.processor_seconds / fast.processor_seconds,
        "target": TARGET,
        "same_tokens": same,
    }


if __name__ == "__main__":
    sys.exit(guarded(lambda: tyro.cli(main)))
