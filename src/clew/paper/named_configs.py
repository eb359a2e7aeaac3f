"""Named training configs, for `clew train NAME` and `clew.config(NAME)`, and the recipe of small text models.

    config = config_named("laptop-dfs-4-mlmu")        # one of CONFIGS
    config = config_named("paper-dfs-10-mlmu-8m")     # clew.paper.configs.paper_config_named
    config = config_named("star-3x5-next")            # clew.paper.star_configs.star_config_named
    list_configs()                                    # {name: summary} of CONFIGS
    text_config("mlm-u", DataConfig(sizes=(4,)), Budget(minutes=3))        # the recipe of all laptop-scale studies

CONFIGS are functions; the first line of a docstring is what `clew train --list` shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clew.data.config import DataConfig
from clew.errors import UserError, did_you_mean
from clew.models.blocks import PositionChoice
from clew.models.build import ModelConfig
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from clew.objectives.config import ObjectiveConfig, ObjectiveName, RateConfig
from clew.paper import cell_configs
from clew.paper.configs import NAME_PATTERN, paper_config_named
from clew.paper.star_configs import star_config, star_config_named
from clew.training.config import LEFT_TO_RIGHT, Budget, TrainConfig
from clew.training.optimizers import OptimizerConfig, ScheduleConfig

WIDTH, HEADS, DEPTH = 64, 4, 12
OPTIMIZER = OptimizerConfig("muon", lr=3e-3, beta2=0.95, muon_lr=0.014)
# Of the masked objectives; spread evenly over the batch, as in all of our own runs.
RATES = RateConfig(sampling="stratified")
# Two minutes less than half an hour: the budget counts training alone, and evaluation takes time too.
LAPTOP_MINUTES = 28


def text_model(
    objective: ObjectiveName,
    vocabulary: int,
    *,
    width: int = WIDTH,
    depth: int = DEPTH,
    positions: PositionChoice = "rope-fp32",
    encoder_decoder: bool = False,
) -> ModelConfig:
    """Return the paper's model for an objective, small; `encoder_decoder` gives next token the causal encoder-decoder.

    Both kinds have the same width and as many layers, so their parameters are equal to within 2 %. They start with
    lookup heads (clew.models.blocks), which need fewer mazes than GPT-2's initialization. The encoder-decoder
    has three encoder layers to one decoder layer, where the paper's larger ones have as many of each: the encoder does
    the planning. Trials no. 13 and 15 to 17 of docs/experiments-log.md.
    """
    if objective in LEFT_TO_RIGHT and not encoder_decoder:
        return DecoderOnlyConfig(vocabulary, width, HEADS, positions, init="lookup", depth=depth)
    decoder_depth = max(1, depth // 4)
    return EncoderDecoderConfig(
        vocabulary,
        width,
        HEADS,
        positions,
        init="lookup",
        encoder_depth=max(1, depth - decoder_depth),
        decoder_depth=decoder_depth,
        causal=objective in LEFT_TO_RIGHT,
    )


def text_config(
    objective: ObjectiveName,
    data: DataConfig,
    budget: Budget,
    *,
    rates: RateConfig = RATES,
    optimizer: OptimizerConfig = OPTIMIZER,
    **model: Any,
) -> TrainConfig:
    """Return a run of a small text model; `model` are keywords of text_model."""
    masked = objective in ("mlm-u", "fixed-rate", "ordered", "ordered-reverse")
    return TrainConfig(
        data=data,
        model=text_model(objective, data.vocabulary, **model),
        budget=budget,
        objective=ObjectiveConfig(objective, rates if masked else RateConfig()),
        optimizer=optimizer,
        schedule=ScheduleConfig("constant-then-decay", warmup=0.02, decay=0.8),
        batch_size=64,
        ema=0.998,
        evaluate_every=500,
        held_out=400,
        checkpoint_every=1000,
        log_every=50,
    )


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
    "cells-dfs": cell_configs.cells_dfs,
    "cells-astar": cell_configs.cells_astar,
    "cells-dfs-10": cell_configs.cells_dfs_10,
    "cells-astar-10": cell_configs.cells_astar_10,
    "cells-next-dfs-10": cell_configs.cells_next_dfs_10,
    "cells-next-astar-10": cell_configs.cells_next_astar_10,
    "star-2x5-mlmu": star_2x5_mlmu,
    "star-2x5-next": star_2x5_next,
    "star-5x4-mlmu-sampler": star_5x4_mlmu_sampler,
}

# Names that are parsed, with what they stand for.
PATTERNS = {
    NAME_PATTERN: "the paper's text or its published code, such as paper-dfs-10-mlmu-8m; docs/paper-and-code.md",
    "star-ARMSxLENGTH-{mlmu,mlmu-sampler,next,next-on-mlmu,next-reversed}": "path-star graphs, such as star-3x4-next",
}
_EXAMPLES = ("paper-dfs-10-mlmu-8m", "paper-dfs-10-next-8m", "paper-astar-10-mlmu-8m", "published-dfs-10-mlmu-8m")


def config_named(name: str) -> TrainConfig:
    """Return the config of a name in CONFIGS or of one that follows PATTERNS."""
    if name in CONFIGS:
        return CONFIGS[name]()
    config = paper_config_named(name) or star_config_named(name)
    if config is None:
        hint = did_you_mean(name, [*CONFIGS, *_EXAMPLES], "`clew train --list` shows all.")
        raise UserError(f"there is no config {name!r}; {hint}")
    return config


def list_configs() -> dict[str, str]:
    """Return the names in CONFIGS, each with its summary."""
    return {name: (make.__doc__ or "").splitlines()[0].rstrip(".") for name, make in CONFIGS.items()}
