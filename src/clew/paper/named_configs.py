"""Named configs: those of the paper's runs (clew.paper.configs), and some that a laptop can do.

    config = preset("paper-dfs-10-mlmu-8m")
    for name, entry in PRESETS.items(): print(name, entry.summary)

`clew train --list` shows them, and `clew train NAME --out RUN` runs one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from clew.errors import UserError
from clew.models.build import kind_of
from clew.models.config import EncoderDecoderConfig
from clew.objectives.config import ObjectiveName
from clew.paper.cell_configs import CELL_CONFIGS
from clew.paper.configs import NAMES
from clew.paper.laptop import text_config
from clew.paper.star_configs import STAR_CONFIGS
from clew.training.config import Budget, DataConfig, TrainConfig
from clew.training.optimizers import OptimizerConfig


@dataclass(frozen=True)
class Preset:
    """A named config and what it is for."""

    make: Callable[[], TrainConfig]
    note: str = ""

    @property
    def summary(self) -> str:
        """The note, or the settings that tell the paper's runs apart."""
        return self.note or _settings(self.make())


def _settings(config: TrainConfig) -> str:
    data, optimizer = config.data, config.optimizer
    mazes = f"{'DFS' if data.family == 'dfs' else 'A*'} {data.sizes[0]}x{data.sizes[0]}, {data.mazes:,} mazes"
    training = f"batch {config.batch_size:,}, lr {optimizer.lr:g}, weight decay {optimizer.weight_decay:g}"
    positions = config.model.positions  # type: ignore[attr-defined]
    model = f"{config.objective.name} on a {kind_of(config.model)} ({positions})"
    return f"{mazes}, {config.budget.epochs:,} epochs, {model}, {training}"


def _tiny() -> TrainConfig:
    data = DataConfig(sizes=(3,))
    return TrainConfig(
        data=data,
        model=EncoderDecoderConfig(data.vocabulary, width=32, heads=4, encoder_depth=2, decoder_depth=2),
        budget=Budget(steps=400),
        optimizer=OptimizerConfig("muon"),
        batch_size=32,
        evaluate_every=200,
        held_out=200,
        checkpoint_every=200,
    )


def _laptop(objective: ObjectiveName) -> TrainConfig:
    # Two minutes less than half an hour: the budget counts training alone, and scoring takes time too.
    return text_config(objective, DataConfig(sizes=(4,)), Budget(minutes=28))


PRESETS: dict[str, Preset] = {
    "tiny": Preset(_tiny, "3x3 mazes, a very small MLM-U model: to see in a minute that all works"),
    "laptop-dfs-4-mlmu": Preset(
        partial(_laptop, "mlm-u"), "4x4 mazes, MLM-U on a small encoder-decoder, half an hour on 2 cores"
    ),
    "laptop-dfs-4-next": Preset(
        partial(_laptop, "next-token"), "the same mazes, minutes and parameters, next token on a small decoder"
    ),
    **{name: Preset(make, (make.__doc__ or "").rstrip(".")) for name, make in CELL_CONFIGS.items()},
    **{name: Preset(make, note) for name, (note, make) in STAR_CONFIGS.items()},
    **{name: Preset(make) for name, make in NAMES.items()},
}


def preset(name: str) -> TrainConfig:
    """The config of this name."""
    if name not in PRESETS:
        if name.startswith("published-"):
            raise UserError(
                f"the published code has no settings for {name!r}; `clew train --list` shows those that it has, and "
                "paper-... is the same run by the paper's text."
            )
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {near[0]}?" if near else "`clew train --list` shows all."
        raise UserError(f"there is no preset {name!r}; {hint}")
    return PRESETS[name].make()
