"""The same run, but so small that it takes a moment: for tests, and for `clew reproduce --scale smoke`.

    shrunken(config)                     # the same kind of model, thin and flat, two steps, mazes of at most 5x5

Objective, optimizer, schedule, precision, format and kind of model stay, so that what can fail in the run can fail
here too.
"""

from __future__ import annotations

from dataclasses import replace

from clew.models.cell_network import CellNetworkConfig
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from clew.training.config import Budget, TrainConfig, with_vocabulary

LARGEST_SIDE, STEPS, MAZES, BATCH_SIZE, HELD_OUT = 5, 2, 12, 4, 3


def shrunken(config: TrainConfig) -> TrainConfig:
    """Two steps on a handful of mazes; a dataset keeps its folder, which must be the small run's own."""
    data = config.data
    largest = min(data.sizes[-1], LARGEST_SIDE)
    data = replace(data, sizes=(largest - 1, largest) if len(data.sizes) > 1 else (largest,))
    if data.source == "dataset":
        data = replace(data, mazes=min(MAZES, data.mazes or MAZES))
    model = with_vocabulary(config.model, data)
    if isinstance(model, EncoderDecoderConfig):
        model = replace(model, width=16, encoder_depth=1, decoder_depth=1)
    elif isinstance(model, DecoderOnlyConfig):
        model = replace(model, width=16, depth=1)
    elif isinstance(model, CellNetworkConfig):
        model = replace(model, width=16, hidden=16)
    return replace(
        config,
        data=data,
        model=model,
        budget=Budget(steps=STEPS),
        batch_size=BATCH_SIZE,
        held_out=HELD_OUT,
        evaluate_every=1,
        log_every=1,
    )
