"""Named training configs, for `clew train NAME` and `clew.config(NAME)`, and the recipes of small text models.

    config = config_named("laptop-dfs-4-mlmu")        # one of CONFIGS, or a name that follows PATTERNS
    text_config("mlm-u", DataConfig(sizes=(4,)), Budget(minutes=3))        # the recipe of all laptop-scale studies
    star_config("next-on-mlmu", 2, 5)                 # path-star graphs: next token's objective on MLM-U's network

CONFIGS are functions; the first line of a docstring is what `clew train --list` shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, cast

from clew.data.config import DataConfig
from clew.errors import UserError, did_you_mean
from clew.mazes.generators import StarShape
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig, Initialization, ModelConfig, PositionChoice
from clew.objectives.config import ObjectiveConfig, ObjectiveName, RateConfig
from clew.paper import cell_configs
from clew.paper.configs import NAME_PATTERN, paper_config_named
from clew.training.config import LEFT_TO_RIGHT, Budget, OptimizerConfig, OptimizerKind, ScheduleConfig, TrainConfig

WIDTH, HEADS, DEPTH = 64, 4, 12
OPTIMIZER = OptimizerConfig("muon", lr=3e-3, beta2=0.95, muon_lr=0.007)
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
    init: Initialization = "lookup",
) -> ModelConfig:
    """Return the paper's model for an objective, small; `encoder_decoder` gives next token the causal encoder-decoder.

    Both kinds have the same width and as many layers, so their parameters are equal to within 2 %. Lookup heads
    (clew.models.blocks) need fewer mazes than GPT-2's initialization. The encoder-decoder has three encoder layers to
    one decoder layer, where the paper's larger ones have as many of each: the encoder does the planning. Trials no. 13
    and 15 to 17 of docs/experiments-log.md.
    """
    if objective in LEFT_TO_RIGHT and not encoder_decoder:
        return DecoderOnlyConfig(vocabulary, width, HEADS, positions, init=init, depth=depth)
    decoder_depth = max(1, depth // 4)
    return EncoderDecoderConfig(
        vocabulary,
        width,
        HEADS,
        positions,
        init=init,
        encoder_depth=max(1, depth - decoder_depth),
        decoder_depth=decoder_depth,
        causal=objective in LEFT_TO_RIGHT,
    )


def text_config(
    objective: ObjectiveName,
    data: DataConfig,
    budget: Budget,
    *,
    rates: RateConfig = RateConfig(),  # noqa: B008
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


StarKind = Literal["mlmu", "mlmu-sampler", "next", "next-on-mlmu", "next-reversed"]

HALF_HIDDEN = ObjectiveConfig("mlm-u", RateConfig(sampling="stratified", fully_hidden=0.5))
STAR_OBJECTIVES: dict[StarKind, ObjectiveConfig] = {
    "mlmu": ObjectiveConfig("mlm-u"),
    "mlmu-sampler": HALF_HIDDEN,
    "next": ObjectiveConfig("next-token"),
    "next-on-mlmu": ObjectiveConfig("prefix-next-token"),
    "next-reversed": ObjectiveConfig("next-token"),
}
# A batch half as large, or a higher rate of Muon, needs more graphs to leave the plateau at 1/d.
STAR_BATCH, STAR_WARMUP_STEPS = 128, 50
# Steps by arms and length. MLM-U is at 98 % with the sampler above in some seeds; log entry 38 has all of them.
STAR_STEPS = {(2, 4): 360, (2, 5): 800, (3, 4): 600, (5, 4): 600}


def star_config(
    kind: StarKind,
    arms: int,
    length: int,
    *,
    labels: int | None = None,
    steps: int | None = None,
    graphs: int | None = None,
    objective: ObjectiveConfig | None = None,
    depth: int | None = None,
    width: int = WIDTH,
    init: Initialization = "lookup",
    optimizer: OptimizerKind = "muon",
    muon_lr: float | None = None,
) -> TrainConfig:
    """Return a run on fresh path-star graphs, or on a fixed set of `graphs`.

    All kinds share one recipe, so that two runs differ in nothing but what their names say. `objective` replaces that
    of the kind.
    """
    steps = steps or STAR_STEPS.get((arms, length), 1000)
    form = "path-star-reversed" if kind == "next-reversed" else "path-star"
    source: Literal["dataset", "stream"] = "stream" if graphs is None else "dataset"
    data = DataConfig(source, StarShape(arms, length).family, (1,), labels, form, mazes=graphs)
    # With more layers, long arms and many arms are learnt from fewer graphs.
    depth = depth or (4 if length <= 4 and arms <= 3 else 8)
    return TrainConfig(
        data=data,
        model=text_model(STAR_OBJECTIVES[kind].name, data.vocabulary, width=width, depth=depth, init=init),
        budget=Budget(steps=steps),
        objective=objective or STAR_OBJECTIVES[kind],
        optimizer=OptimizerConfig(optimizer, lr=3e-3, beta2=0.95, muon_lr=muon_lr or (0.004 if arms <= 3 else 0.007)),
        schedule=ScheduleConfig("constant-then-decay", warmup=min(0.5, STAR_WARMUP_STEPS / steps), decay=0.5),
        batch_size=STAR_BATCH,
        evaluate_every=max(1, steps // 20),
        held_out=500,
        checkpoint_every=max(1, steps // 4),
        log_every=20,
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
    star = re.fullmatch(r"star-(\d+)x(\d+)-([a-z-]+)", name)
    if star and star[3] in STAR_OBJECTIVES:
        return star_config(cast(StarKind, star[3]), int(star[1]), int(star[2]))
    if config := paper_config_named(name):
        return config
    hint = did_you_mean(name, [*CONFIGS, *_EXAMPLES], "`clew train --list` shows all.")
    raise UserError(f"there is no config {name!r}; {hint}")


def list_configs() -> dict[str, str]:
    """Return the names of training configs, each with one line about it, for `clew.config`.

    Example:
        >>> list_configs()["tiny"]
        '3x3 mazes, a very small MLM-U model: one minute, to check an installation'
    """
    return {name: (make.__doc__ or "").splitlines()[0].rstrip(".") for name, make in CONFIGS.items()}
