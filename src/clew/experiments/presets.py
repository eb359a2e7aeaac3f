"""Named configs: one for each run of the paper, and some that a laptop can do.

    config = preset("paper-dfs-10-mlmu-8m")
    for name, entry in PRESETS.items(): print(name, entry.summary)

`clew train --list` shows them, and `clew train NAME --out RUN` runs one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from clew.errors import UserError
from clew.models.config import EncoderDecoderConfig
from clew.training.config import Budget, DataConfig, TrainConfig
from clew.training.optimizers import OptimizerConfig


@dataclass(frozen=True)
class Preset:
    """A named config and what it is for."""

    summary: str
    make: Callable[[], TrainConfig]


def _tiny() -> TrainConfig:
    data = DataConfig(sizes=(3,))
    return TrainConfig(
        data=data,
        model=EncoderDecoderConfig(data.vocabulary, width=32, heads=4, encoder_depth=2, decoder_depth=2),
        budget=Budget(steps=200),
        optimizer=OptimizerConfig("muon"),
        batch_size=64,
        evaluate_every=100,
        held_out=200,
        checkpoint_every=100,
    )


PRESETS: dict[str, Preset] = {
    "tiny": Preset("3x3 mazes, a very small MLM-U model, half a minute: to see that all works", _tiny),
}


def preset(name: str) -> TrainConfig:
    """The config of this name."""
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {near[0]}?" if near else "`clew train --list` shows all."
        raise UserError(f"there is no preset {name!r}; {hint}")
    return PRESETS[name].make()
