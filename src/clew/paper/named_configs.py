"""Named training configs, for `clew train NAME` and `clew.config(NAME)`.

    config = config_named("laptop-dfs-4-mlmu")        # one of CONFIGS
    config = config_named("paper-dfs-10-mlmu-8m")     # clew.paper.configs.paper_config_named
    config = config_named("star-3x5-next")            # clew.paper.star_configs.star_config_named
    list_configs()                                    # {name: summary} of CONFIGS

CONFIGS are functions; the first line of a docstring is what `clew train --list` shows.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable

from clew.data.config import DataConfig
from clew.errors import UserError
from clew.models.config import EncoderDecoderConfig
from clew.paper.cell_configs import (
    cells_astar,
    cells_astar_10,
    cells_dfs,
    cells_dfs_10,
    cells_next_astar_10,
    cells_next_dfs_10,
)
from clew.paper.configs import NAME_PATTERN, paper_config_named
from clew.paper.star_configs import star_config, star_config_named
from clew.paper.text_configs import text_config
from clew.training.config import Budget, TrainConfig
from clew.training.optimizers import OptimizerConfig

# Two minutes less than half an hour: the budget counts training alone, and evaluation takes time too.
LAPTOP_MINUTES = 28


def tiny() -> TrainConfig:
    """3x3 mazes, a very small MLM-U model: one minute, to check an installation."""
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


def laptop_dfs_4_mlmu() -> TrainConfig:
    """4x4 DFS mazes as text, MLM-U on a small encoder-decoder: half an hour of two cores."""
    return text_config("mlm-u", DataConfig(sizes=(4,)), Budget(minutes=LAPTOP_MINUTES))


def laptop_dfs_4_next() -> TrainConfig:
    """4x4 DFS mazes as text, next token on a decoder-only model with as many parameters as laptop-dfs-4-mlmu."""
    return text_config("next-token", DataConfig(sizes=(4,)), Budget(minutes=LAPTOP_MINUTES))


def star_2x5_mlmu() -> TrainConfig:
    """Path-star graphs of 2 arms of length 5, MLM-U with uniform rates."""
    return star_config("mlmu", 2, 5)


def star_2x5_next() -> TrainConfig:
    """Path-star graphs of 2 arms of length 5, next token on a decoder-only model."""
    return star_config("next", 2, 5)


def star_5x4_mlmu_sampler() -> TrainConfig:
    """Path-star graphs of 5 arms of length 4, MLM-U with the mask sampler that needs the fewest graphs."""
    return star_config("mlmu-sampler", 5, 4)


CONFIGS: dict[str, Callable[[], TrainConfig]] = {
    "tiny": tiny,
    "laptop-dfs-4-mlmu": laptop_dfs_4_mlmu,
    "laptop-dfs-4-next": laptop_dfs_4_next,
    "cells-dfs": cells_dfs,
    "cells-astar": cells_astar,
    "cells-dfs-10": cells_dfs_10,
    "cells-astar-10": cells_astar_10,
    "cells-next-dfs-10": cells_next_dfs_10,
    "cells-next-astar-10": cells_next_astar_10,
    "star-2x5-mlmu": star_2x5_mlmu,
    "star-2x5-next": star_2x5_next,
    "star-5x4-mlmu-sampler": star_5x4_mlmu_sampler,
}

# Names that are parsed, with what they stand for.
PATTERNS = {
    NAME_PATTERN: "the paper's text or its published code, such as paper-dfs-10-mlmu-8m; docs/paper-and-code.md",
    "star-ARMSxLENGTH-{mlmu,mlmu-sampler,next,next-on-mlmu,next-reversed}": "path-star graphs, such as star-3x4-next",
}
_EXAMPLES = (
    "paper-dfs-10-mlmu-8m",
    "paper-dfs-10-next-8m",
    "paper-astar-10-mlmu-8m",
    "published-dfs-10-mlmu-8m",
    "published-astar-10-mlmu-8m",
)


def config_named(name: str) -> TrainConfig:
    """Return the config of a name in CONFIGS or of one that follows PATTERNS."""
    if name in CONFIGS:
        return CONFIGS[name]()
    config = paper_config_named(name) or star_config_named(name)
    if config is None:
        near = difflib.get_close_matches(name, [*CONFIGS, *_EXAMPLES], n=1)
        hint = f"did you mean {near[0]}?" if near else "`clew train --list` shows all."
        raise UserError(f"there is no config {name!r}; {hint}")
    return config


def list_configs() -> dict[str, str]:
    """Return the names in CONFIGS, each with its summary."""
    return {name: (make.__doc__ or "").splitlines()[0].rstrip(".") for name, make in CONFIGS.items()}
