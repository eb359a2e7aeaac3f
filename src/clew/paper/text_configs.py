"""The training recipe of small text models: the configs `laptop-...` and all laptop-scale studies.

    text_config("mlm-u", DataConfig(sizes=(4,)), Budget(minutes=3))        # the paper's encoder-decoder, small
    text_config("next-token", DataConfig(sizes=(4,)), Budget(minutes=3))   # its decoder-only model, as large

Both kinds of model have the same width and as many layers, so their parameters are equal to within 2 %. They start
with lookup heads (clew.models.initialization), which need fewer mazes than GPT-2's initialization. The encoder-decoder
has three encoder layers to one decoder layer, where the paper's larger ones have as many of each: the encoder does the
planning. Trials no. 13 and 15 to 17 of docs/experiments-log.md.
"""

from __future__ import annotations

from typing import Any

from clew.data.config import DataConfig
from clew.models.build import ModelConfig
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from clew.models.positions import PositionChoice
from clew.objectives.config import ObjectiveConfig, ObjectiveName, RateConfig
from clew.training.config import LEFT_TO_RIGHT, Budget, TrainConfig
from clew.training.optimizers import OptimizerConfig
from clew.training.schedules import ScheduleConfig

WIDTH, HEADS, DEPTH = 64, 4, 12
OPTIMIZER = OptimizerConfig("muon", lr=3e-3, beta2=0.95, muon_lr=0.014)
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
    """Return the paper's model for an objective; `encoder_decoder` gives next token the causal encoder-decoder."""
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
    """Return a run with the recipe; `model` are keywords of text_model."""
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
