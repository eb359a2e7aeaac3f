"""The one recipe of text models that a laptop trains: width, depth, optimizer, batch and rate, in this file alone.

    text_config("mlm-u", DataConfig(sizes=(4,)), Budget(minutes=3))        # the paper's encoder-decoder, small
    text_config("next-token", DataConfig(sizes=(4,)), Budget(minutes=3))   # its decoder-only model, as large

The configs `laptop-...` and every laptop-scale study of clew.paper use it, so two runs differ in what
they are asked to differ in and in nothing else. Both kinds of model have the same width and as many layers, and so as
many parameters to within 2 %.

Both begin with heads that look things up (clew.models.initialization), which need fewer mazes than GPT-2's start does.
The encoder-decoder has three layers of encoder to one of decoder, where the paper's larger ones have as many of each:
the encoder does the planning, and a thin model can afford the depth that this takes. The trials are no. 13 and 15 to
17 of docs/experiments-log.md.
"""

from __future__ import annotations

from clew.data.config import DataConfig
from clew.models.build import ModelConfig
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from clew.models.initialization import Initialization
from clew.models.positions import PositionChoice
from clew.objectives.config import ObjectiveConfig, ObjectiveName, RateConfig
from clew.training.config import LEFT_TO_RIGHT, Budget, TrainConfig
from clew.training.optimizers import OptimizerConfig
from clew.training.schedules import ScheduleConfig

WIDTH, HEADS, DEPTH = 64, 4, 12
INIT: Initialization = "lookup"
BATCH_SIZE = 64
EMA = 0.998
OPTIMIZER = OptimizerConfig("muon", lr=3e-3, beta2=0.95, muon_lr=0.014)
SCHEDULE = ScheduleConfig("constant-then-decay", warmup=0.02, decay=0.8)
# Of the masked objectives; spread evenly over the batch, as in all of our own runs.
RATES = RateConfig(sampling="stratified")


def text_model(
    objective: ObjectiveName,
    vocabulary: int,
    *,
    width: int = WIDTH,
    depth: int = DEPTH,
    positions: PositionChoice = "rope-fp32",
    encoder_decoder: bool = False,
) -> ModelConfig:
    """The paper's model for an objective; `encoder_decoder` gives next token the other one, made causal."""
    if objective in LEFT_TO_RIGHT and not encoder_decoder:
        return DecoderOnlyConfig(vocabulary, width, HEADS, positions, init=INIT, depth=depth)
    decoder_depth = max(1, depth // 4)
    return EncoderDecoderConfig(
        vocabulary,
        width,
        HEADS,
        positions,
        init=INIT,
        encoder_depth=max(1, depth - decoder_depth),
        decoder_depth=decoder_depth,
        causal=objective in LEFT_TO_RIGHT,
    )


def text_config(
    objective: ObjectiveName,
    data: DataConfig,
    budget: Budget,
    *,
    rates: RateConfig | None = None,
    model: ModelConfig | None = None,
    optimizer: OptimizerConfig = OPTIMIZER,
) -> TrainConfig:
    """A run with the recipe."""
    masked = objective in ("mlm-u", "fixed-rate", "ordered", "ordered-reverse")
    return TrainConfig(
        data=data,
        model=model or text_model(objective, data.vocabulary),
        budget=budget,
        objective=ObjectiveConfig(objective, (rates or RATES) if masked else RateConfig()),
        optimizer=optimizer,
        schedule=SCHEDULE,
        batch_size=BATCH_SIZE,
        ema=EMA,
        evaluate_every=500,
        held_out=400,
        checkpoint_every=1000,
        log_every=50,
    )
