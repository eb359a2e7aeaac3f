"""Speed of training the small text models with and without padding, on the same batches and weights.

    python benchmarks/text_training.py      # results/text-training-speed.json; two to four minutes of one core

Whole training steps of the laptop's recipe (clew.paper.study.laptop_text) on fresh DFS mazes, in two forms:

- padded: groups of mazes as tensors with padding, attention and RoPE in plain torch, as on a GPU;
- packed: tokens without padding, attention and RoPE in the kernel of clew.models.cpu_kernels.attention.

The forms take turns in one process with one thread, and the time is that of the CPU. After each step the packed form
gets the padded form's weights, so that both compute the same loss.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import tyro
from work import SEED, announce, command_line, save

from clew.data.config import DataConfig
from clew.data.loader import StreamLoader
from clew.errors import UserError, guarded
from clew.models import transformers
from clew.models.build import count_parameters
from clew.objectives.config import ObjectiveName
from clew.paper.study import laptop_text
from clew.provenance import provenance
from clew.training.distributed import World
from clew.training.train import LocalBatch, Trainer, local_batch

OBJECTIVES: tuple[ObjectiveName, ...] = ("next-token", "mlm-u")
FORMS = ("padded", "packed")
TARGET, LOSS_TOLERANCE = 1.25, 1e-6  # of the ratio, and of the relative difference of the losses


def main(
    sides: tuple[int, ...] = (4, 5), steps: int = 12, out: Path = Path("results/text-training-speed.json")
) -> None:
    """Measure both objectives, print a table and write the numbers.

    Args:
        sides: sides of the mazes.
        steps: measured steps of each form.
        out: the JSON file.
    """
    if steps < 1 or not sides:
        raise UserError("--steps must be 1 or more, and --sides at least one side.")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        measured = [measure(objective, side, steps) for side in sides for objective in OBJECTIVES]
    finally:
        torch.set_num_threads(before)
        torch.set_flush_denormal(False)
    save(out, {"provenance": provenance(command_line(), [SEED]), "target": TARGET, "measured": measured})
    print(table(measured), end="")


def measure(objective: ObjectiveName, side: int, steps: int) -> dict[str, Any]:
    """Run both forms over fresh batches, after one batch that is not measured."""
    config = laptop_text(objective, side)
    config = replace(config, data=DataConfig(sizes=(side,), format=config.data.format, seed=SEED))
    loader = StreamLoader(config.data, config.batch_size)
    states = {form: Trainer(config, World()) for form in FORMS}
    seconds: dict[str, list[float]] = {form: [] for form in FORMS}
    losses: dict[str, list[float]] = {form: [] for form in FORMS}
    tokens = 0
    for number in range(steps + 1):
        announce(f"{objective} {side}x{side}, step {number} of {steps}")
        objective_ = states["padded"].objective
        part = local_batch(loader.batch(number), objective_, SEED, number, config.batch_size, World())
        for form in FORMS if number % 2 else reversed(FORMS):
            took, loss = training_step(states[form], part, form)
            if number:
                seconds[form].append(took)
                losses[form].append(loss)
        tokens += int(part.batch.valid_BT.sum()) if number else 0
        states["packed"].model.load_state_dict(states["padded"].model.state_dict())
    pairs = list(zip(seconds["padded"], seconds["packed"], strict=True))
    return {
        "objective": objective,
        "side": side,
        "batch_size": config.batch_size,
        "parameters": count_parameters(states["padded"].model),
        "tokens_per_step": tokens / steps,
        **{f"{form}_seconds": seconds[form] for form in FORMS},
        **{f"{form}_median_seconds": statistics.median(seconds[form]) for form in FORMS},
        "ratio": statistics.median(padded / packed for padded, packed in pairs),
        **{f"losses_{form}": losses[form] for form in FORMS},
        "largest_loss_difference": max(abs(a / b - 1) for a, b in zip(*losses.values(), strict=True)),
        "loss_tolerance": LOSS_TOLERANCE,
    }


def training_step(state: Trainer, part: LocalBatch, form: str) -> tuple[float, float]:
    """Return the CPU seconds of a whole step, and its loss before the step."""
    begin = time.process_time()
    with attention_of(form):
        sums = state.compute_gradient(part)
    state.apply_gradient()
    return time.process_time() - begin, sums["loss"] / sums["weight"]


@contextmanager
def attention_of(form: str) -> Iterator[None]:
    """Make the text models use this form within."""
    usual = transformers.use_packed_attention
    if form == "padded":
        transformers.use_packed_attention = lambda *_: False
    try:
        yield
    finally:
        transformers.use_packed_attention = usual


def table(measured: list[dict[str, Any]]) -> str:
    """Return the rows of docs/training.md."""
    lines = [
        "| mazes | objective | padded, ms a step | packed, ms a step | times as fast |",
        "|---|---|---|---|---|",
    ]
    for each in measured:
        padded, packed = (1000 * each[f"{form}_median_seconds"] for form in FORMS)
        lines.append(
            f"| {each['side']}x{each['side']} | {each['objective']} | {padded:.0f} | {packed:.0f} | "
            f"{each['ratio']:.2f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(guarded(lambda: tyro.cli(main)))
