"""Named configs of path-star graphs: MLM-U, next token, and the controls between them.

    star_config("mlmu", 2, 5)                    # MLM-U on the paper's encoder-decoder, uniform rates
    star_config("next", 2, 5)                    # next token on a decoder-only model with as many layers
    star_config("next-on-mlmu", 2, 5)            # next token's objective on MLM-U's network
    star_config("next-reversed", 2, 5)           # next token, the path written from the goal to the start
    star_config_named("star-2x5-mlmu-sampler")   # MLM-U with the sampler that needs the fewest graphs

All share one recipe, so that two runs differ in nothing but what their names say.
"""

from __future__ import annotations

import re
from typing import Literal, cast

from clew.data.config import DataConfig
from clew.mazes.generators import StarShape
from clew.models.blocks import Initialization
from clew.models.build import ModelConfig
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.training.config import Budget, TrainConfig
from clew.training.optimizers import OptimizerConfig, OptimizerKind, ScheduleConfig

StarKind = Literal["mlmu", "mlmu-sampler", "next", "next-on-mlmu", "next-reversed"]

WIDTH, HEADS = 64, 4
# A batch half as large, or a higher rate of Muon, needs more graphs to leave the plateau at 1/d.
BATCH_SIZE, WARMUP_STEPS = 128, 50
# Half of the batch fully hidden.
SAMPLER = ObjectiveConfig("mlm-u", RateConfig(sampling="stratified", fully_hidden=0.5))
OBJECTIVES: dict[StarKind, ObjectiveConfig] = {
    "mlmu": ObjectiveConfig("mlm-u"),
    "mlmu-sampler": SAMPLER,
    "next": ObjectiveConfig("next-token"),
    "next-on-mlmu": ObjectiveConfig("prefix-next-token"),
    "next-reversed": ObjectiveConfig("next-token"),
}
# Steps by arms and length. MLM-U is at 98 % with the sampler above in some seeds; log entry 38 has all of them.
SHAPES: dict[tuple[int, int], int] = {(2, 4): 360, (2, 5): 800, (3, 4): 600, (5, 4): 600}


def star_depth(arms: int, length: int) -> int:
    """Return the number of layers: with more of them, long arms and many arms are learnt from fewer graphs."""
    return 4 if length <= 4 and arms <= 3 else 8


def star_model(
    kind: StarKind, vocabulary: int, depth: int, width: int = WIDTH, init: Initialization = "lookup"
) -> ModelConfig:
    """Return a decoder-only model for next token, else an encoder-decoder with three encoder layers to one decoder."""
    if kind in ("next", "next-reversed"):
        return DecoderOnlyConfig(vocabulary, width, HEADS, init=init, depth=depth)
    decoder = max(1, depth // 4)
    return EncoderDecoderConfig(
        vocabulary, width, HEADS, init=init, encoder_depth=depth - decoder, decoder_depth=decoder
    )


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
    """Return a run on fresh graphs, or on a fixed set of `graphs`; `objective` replaces that of the kind."""
    steps = steps or SHAPES.get((arms, length), 1000)
    form = "path-star-reversed" if kind == "next-reversed" else "path-star"
    source: Literal["dataset", "stream"] = "stream" if graphs is None else "dataset"
    data = DataConfig(source, StarShape(arms, length).family, (1,), labels, form, mazes=graphs)
    return TrainConfig(
        data=data,
        model=star_model(kind, data.vocabulary, depth or star_depth(arms, length), width, init),
        budget=Budget(steps=steps),
        objective=objective or OBJECTIVES[kind],
        optimizer=OptimizerConfig(optimizer, lr=3e-3, beta2=0.95, muon_lr=muon_lr or (0.004 if arms <= 3 else 0.007)),
        schedule=ScheduleConfig("constant-then-decay", warmup=min(0.5, WARMUP_STEPS / steps), decay=0.5),
        batch_size=BATCH_SIZE,
        evaluate_every=max(1, steps // 20),
        held_out=500,
        checkpoint_every=max(1, steps // 4),
        log_every=20,
    )


def star_config_named(name: str) -> TrainConfig | None:
    """Return the config of a name star-ARMSxLENGTH-KIND, such as star-3x4-next; None for another name."""
    match = re.fullmatch(r"star-(\d+)x(\d+)-([a-z-]+)", name)
    if match is None or match[3] not in OBJECTIVES:
        return None
    return star_config(cast(StarKind, match[3]), int(match[1]), int(match[2]))
