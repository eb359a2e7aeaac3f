"""Configs of the paper's runs: `paper` follows the paper's text, `published` the code that its authors published.

    paper("dfs", 10, "mlm-u")                   # 8M parameters, batch 128, 3,000 epochs, no weight decay
    published("dfs", 10, "mlm-u")               # batch 128, 1,000 epochs, weight decay 1e-4, beta1 cycled, 98,000 mazes
    paper("dfs", 10, "next-token", weight_decay=1e-2, epochs=500)
    NAMES["published-dfs-10-mlmu-8m"]()         # the same by name, as `clew train NAME` does

Text and code contradict each other; docs/paper-and-code.md lists every point. Where the text says nothing, `paper` does
what the code does, with one exception. The code's decoder-only model has 2,048 learned positions, and the text reports
30x30 DFS mazes, whose prompts alone are longer; the text also says that all models have an identical setup. So
`paper` gives it the blocks of the MLM-U encoder: RoPE, GELU and a head with bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from clew.errors import UserError
from clew.models.build import sized_config
from clew.models.positions import PositionChoice
from clew.models.published import published_tokens
from clew.objectives.config import ObjectiveConfig, ObjectiveName
from clew.tokenization.vocabulary import padded_size
from clew.training.config import LEFT_TO_RIGHT, Budget, DataConfig, FormatName, TrainConfig
from clew.training.optimizers import OptimizerConfig
from clew.training.schedules import ScheduleConfig
from clew.training.sources import PAPER_HELD_OUT, PAPER_MAZES

PaperFamily = Literal["dfs", "astar"]
ModelSize = Literal["3m", "8m", "25m"]
Architecture = Literal["encoder-decoder", "decoder-only"]

BATCH_SIZE, EPOCHS, LEARNING_RATE, NEXT_TOKEN_DECAY = 128, 3000, 1e-3, 1e-4
# The text does not say how often; the code evaluates every 20 to 100 epochs.
EVALUATION_EPOCHS = 50
PUBLISHED_POSITIONS = 2048


def paper(
    family: PaperFamily,
    size: int,
    objective: ObjectiveName,
    model: ModelSize = "8m",
    *,
    architecture: Architecture | None = None,
    epochs: int = EPOCHS,
    lr: float = LEARNING_RATE,
    weight_decay: float | None = None,
    mazes: int = PAPER_MAZES,
    positions: PositionChoice = "rope-fp32",
) -> TrainConfig:
    """Return the config of a run as the paper's text describes it; the keywords are what its studies vary."""
    left_to_right = objective in LEFT_TO_RIGHT
    if weight_decay is None:
        weight_decay = NEXT_TOKEN_DECAY if left_to_right else 0.0
    architecture = architecture or ("decoder-only" if left_to_right else "encoder-decoder")
    data = _data(family, size, objective, mazes)
    fields: dict[str, Any] = {"positions": positions}
    if architecture == "encoder-decoder":
        fields |= _encoder_decoder_fields(left_to_right)
    steps_per_epoch = -(-PAPER_MAZES // BATCH_SIZE)
    return TrainConfig(
        data=data,
        model=sized_config(architecture, model, data.vocabulary, **fields),
        budget=Budget(epochs=epochs),
        objective=ObjectiveConfig(objective),
        optimizer=OptimizerConfig("adamw", lr=lr, weight_decay=weight_decay),
        schedule=ScheduleConfig("one-cycle"),
        batch_size=BATCH_SIZE,
        precision="fp16",
        held_out=PAPER_HELD_OUT,
        # In steps, so that a run with fewer mazes is not evaluated more often.
        evaluate_every=EVALUATION_EPOCHS * steps_per_epoch,
        checkpoint_every=10 * steps_per_epoch,
        log_every=100,
    )


@dataclass(frozen=True)
class _Settings:
    """What differs between the published runs; a batch is that of all GPUs together, with gradient accumulation."""

    batch_size: int
    epochs: int
    evaluation_epochs: int
    weight_decay: float = 1e-4


_PUBLISHED: dict[tuple[PaperFamily, int, ObjectiveName, ModelSize], _Settings] = {
    ("dfs", 5, "mlm-u", "8m"): _Settings(128, 2000, 20),
    ("dfs", 10, "mlm-u", "8m"): _Settings(128, 1000, 25),
    ("dfs", 30, "mlm-u", "8m"): _Settings(256, 2000, 50),
    ("dfs", 10, "mlm-u", "3m"): _Settings(512, 500, 20),
    ("dfs", 20, "mlm-u", "3m"): _Settings(256, 2500, 100),
    ("dfs", 30, "mlm-u", "3m"): _Settings(512, 2000, 100),
    ("dfs", 30, "mlm-u", "25m"): _Settings(2048, 2000, 50),
    ("dfs", 5, "next-token", "8m"): _Settings(128, 2000, 20),
    ("dfs", 10, "next-token", "8m"): _Settings(128, 2000, 20),
    ("astar", 10, "mlm-u", "8m"): _Settings(512, 1000, 25, weight_decay=0.0),
    ("astar", 20, "mlm-u", "8m"): _Settings(512, 2000, 50),
    ("astar", 30, "mlm-u", "8m"): _Settings(512, 2000, 50),
    ("astar", 10, "mlm-u", "3m"): _Settings(512, 500, 20),
    ("astar", 20, "mlm-u", "3m"): _Settings(256, 2500, 100),
    ("astar", 30, "mlm-u", "3m"): _Settings(512, 2000, 100),
    ("astar", 30, "mlm-u", "25m"): _Settings(1024, 3000, 100),
}


def published(
    family: PaperFamily,
    size: int,
    objective: ObjectiveName,
    model: ModelSize = "8m",
    *,
    architecture: Architecture | None = None,
) -> TrainConfig:
    """Return the config of a run as the published code and its settings files describe it.

    UserError for a run that they do not have. `architecture="encoder-decoder"` gives next token the code's causal
    encoder-decoder; it has no settings file, so the settings are those of the decoder-only model.
    """
    settings = _PUBLISHED.get((family, size, objective, model))
    if settings is None:
        raise UserError(_unpublished(family, size, objective, model))
    left_to_right = objective in LEFT_TO_RIGHT
    architecture = architecture or ("decoder-only" if left_to_right else "encoder-decoder")
    # The code holds 2 % of its 100,000 DFS mazes out; the A* mazes come with a test set of their own.
    mazes = PAPER_MAZES - PAPER_HELD_OUT if family == "dfs" else PAPER_MAZES
    data = _data(family, size, objective, mazes)
    fields: dict[str, Any]
    if architecture == "encoder-decoder":
        fields = _encoder_decoder_fields(left_to_right)
    else:
        # GPT-2 of the transformers library, with its initialisation; the code puts [BOS] before each sequence.
        fields = {
            "positions": "learned",
            "max_length": PUBLISHED_POSITIONS,
            "activation": "relu",
            "head_bias": False,
            "bos_id": data.bos_id,
        }
    steps_per_epoch = -(-mazes // settings.batch_size)
    return TrainConfig(
        data=data,
        model=sized_config(architecture, model, padded_size(len(published_tokens(family, size, size))), **fields),
        budget=Budget(epochs=settings.epochs),
        objective=ObjectiveConfig(objective),
        optimizer=OptimizerConfig("adamw", lr=LEARNING_RATE, weight_decay=settings.weight_decay),
        schedule=ScheduleConfig("one-cycle", cycle_beta1=True),
        batch_size=settings.batch_size,
        precision="fp16",
        held_out=PAPER_HELD_OUT,
        evaluate_every=settings.evaluation_epochs * steps_per_epoch,
        checkpoint_every=5000,
        keep_last=5,
        log_every=100,
    )


def _data(family: PaperFamily, size: int, objective: ObjectiveName, mazes: int) -> DataConfig:
    form: FormatName = "edge-list" if family == "dfs" else "wall-list-trace" if objective == "trace" else "wall-list"
    # Another number of mazes has a folder of its own: whichever run is first would else make a dataset of another size.
    folder = "" if mazes == PAPER_MAZES else f"data/{family}-{size}-{mazes}"
    return DataConfig("dataset", family, (size,), format=form, mazes=mazes, folder=folder)


def _encoder_decoder_fields(causal: bool) -> dict[str, Any]:
    return {"start": "pytorch", "causal": causal, "attend_self": not causal}


def _unpublished(family: PaperFamily, size: int, objective: ObjectiveName, model: ModelSize) -> str:
    kind = "DFS" if family == "dfs" else "A*"
    run = f"{kind} {size}x{size} mazes with {objective} and {model.upper()} parameters"
    problem = f"the published code has no settings for {run}"
    if family == "dfs" and objective == "next-token" and 3 * (size * size - 1) > PUBLISHED_POSITIONS:
        problem += f", and its decoder-only model has {PUBLISHED_POSITIONS:,} positions, too few for such a maze"
    return f"{problem}; use the config of the paper's text, paper(...)."


NAMES: dict[str, Callable[[], TrainConfig]] = {
    # DFS mazes by size: table 1.
    "paper-dfs-5-mlmu-8m": partial(paper, "dfs", 5, "mlm-u"),
    "paper-dfs-5-next-8m": partial(paper, "dfs", 5, "next-token"),
    "paper-dfs-10-mlmu-8m": partial(paper, "dfs", 10, "mlm-u"),
    "paper-dfs-10-next-8m": partial(paper, "dfs", 10, "next-token"),
    "paper-dfs-15-mlmu-8m": partial(paper, "dfs", 15, "mlm-u"),
    "paper-dfs-15-next-8m": partial(paper, "dfs", 15, "next-token"),
    "paper-dfs-20-mlmu-8m": partial(paper, "dfs", 20, "mlm-u"),
    "paper-dfs-20-next-8m": partial(paper, "dfs", 20, "next-token"),
    "paper-dfs-30-mlmu-8m": partial(paper, "dfs", 30, "mlm-u"),
    "paper-dfs-30-next-8m": partial(paper, "dfs", 30, "next-token"),
    # Model sizes.
    "paper-dfs-20-mlmu-3m": partial(paper, "dfs", 20, "mlm-u", "3m"),
    "paper-dfs-20-next-3m": partial(paper, "dfs", 20, "next-token", "3m"),
    "paper-dfs-20-mlmu-25m": partial(paper, "dfs", 20, "mlm-u", "25m"),
    "paper-dfs-20-next-25m": partial(paper, "dfs", 20, "next-token", "25m"),
    # Architectures for next token.
    "paper-dfs-10-next-encdec-8m": partial(paper, "dfs", 10, "next-token", architecture="encoder-decoder"),
    # RoPE in float16.
    "paper-dfs-30-mlmu-8m-rope16": partial(paper, "dfs", 30, "mlm-u", positions="rope-fp16"),
    # Weight decays and learning rates. The text says which rate was chosen, not which ones were tried.
    "paper-dfs-10-next-8m-decay-1e-2": partial(paper, "dfs", 10, "next-token", weight_decay=1e-2, epochs=500),
    "paper-dfs-10-next-8m-decay-1e-3": partial(paper, "dfs", 10, "next-token", weight_decay=1e-3, epochs=500),
    "paper-dfs-10-next-8m-decay-1e-4": partial(paper, "dfs", 10, "next-token", weight_decay=1e-4, epochs=500),
    "paper-dfs-10-next-8m-decay-1e-5": partial(paper, "dfs", 10, "next-token", weight_decay=1e-5, epochs=500),
    "paper-dfs-10-next-8m-rate-1e-4": partial(paper, "dfs", 10, "next-token", lr=1e-4, epochs=500),
    "paper-dfs-10-next-8m-rate-3e-4": partial(paper, "dfs", 10, "next-token", lr=3e-4, epochs=500),
    "paper-dfs-10-next-8m-rate-1e-3": partial(paper, "dfs", 10, "next-token", lr=1e-3, epochs=500),
    "paper-dfs-10-next-8m-rate-3e-3": partial(paper, "dfs", 10, "next-token", lr=3e-3, epochs=500),
    # Numbers of training mazes.
    "paper-dfs-5-mlmu-8m-25k": partial(paper, "dfs", 5, "mlm-u", mazes=25_000, epochs=2000),
    "paper-dfs-5-next-8m-25k": partial(paper, "dfs", 5, "next-token", mazes=25_000, epochs=2000),
    "paper-dfs-5-mlmu-8m-50k": partial(paper, "dfs", 5, "mlm-u", mazes=50_000, epochs=2000),
    "paper-dfs-5-next-8m-50k": partial(paper, "dfs", 5, "next-token", mazes=50_000, epochs=2000),
    "paper-dfs-5-mlmu-8m-75k": partial(paper, "dfs", 5, "mlm-u", mazes=75_000, epochs=2000),
    "paper-dfs-5-next-8m-75k": partial(paper, "dfs", 5, "next-token", mazes=75_000, epochs=2000),
    "paper-dfs-5-mlmu-8m-100k": partial(paper, "dfs", 5, "mlm-u", epochs=2000),
    "paper-dfs-5-next-8m-100k": partial(paper, "dfs", 5, "next-token", epochs=2000),
    "paper-dfs-10-mlmu-8m-25k": partial(paper, "dfs", 10, "mlm-u", mazes=25_000, epochs=2000),
    "paper-dfs-10-next-8m-25k": partial(paper, "dfs", 10, "next-token", mazes=25_000, epochs=2000),
    "paper-dfs-10-mlmu-8m-50k": partial(paper, "dfs", 10, "mlm-u", mazes=50_000, epochs=2000),
    "paper-dfs-10-next-8m-50k": partial(paper, "dfs", 10, "next-token", mazes=50_000, epochs=2000),
    "paper-dfs-10-mlmu-8m-75k": partial(paper, "dfs", 10, "mlm-u", mazes=75_000, epochs=2000),
    "paper-dfs-10-next-8m-75k": partial(paper, "dfs", 10, "next-token", mazes=75_000, epochs=2000),
    "paper-dfs-10-mlmu-8m-100k": partial(paper, "dfs", 10, "mlm-u", epochs=2000),
    "paper-dfs-10-next-8m-100k": partial(paper, "dfs", 10, "next-token", epochs=2000),
    # 100 mazes, with RoPE in float32 and float16.
    "paper-dfs-5-mlmu-8m-overfit-rope32": partial(paper, "dfs", 5, "mlm-u", mazes=100),
    "paper-dfs-5-mlmu-8m-overfit-rope16": partial(paper, "dfs", 5, "mlm-u", mazes=100, positions="rope-fp16"),
    "paper-dfs-10-mlmu-8m-overfit-rope32": partial(paper, "dfs", 10, "mlm-u", mazes=100),
    "paper-dfs-10-mlmu-8m-overfit-rope16": partial(paper, "dfs", 10, "mlm-u", mazes=100, positions="rope-fp16"),
    "paper-dfs-15-mlmu-8m-overfit-rope32": partial(paper, "dfs", 15, "mlm-u", mazes=100),
    "paper-dfs-15-mlmu-8m-overfit-rope16": partial(paper, "dfs", 15, "mlm-u", mazes=100, positions="rope-fp16"),
    "paper-dfs-20-mlmu-8m-overfit-rope32": partial(paper, "dfs", 20, "mlm-u", mazes=100),
    "paper-dfs-20-mlmu-8m-overfit-rope16": partial(paper, "dfs", 20, "mlm-u", mazes=100, positions="rope-fp16"),
    "paper-dfs-25-mlmu-8m-overfit-rope32": partial(paper, "dfs", 25, "mlm-u", mazes=100),
    "paper-dfs-25-mlmu-8m-overfit-rope16": partial(paper, "dfs", 25, "mlm-u", mazes=100, positions="rope-fp16"),
    "paper-dfs-30-mlmu-8m-overfit-rope32": partial(paper, "dfs", 30, "mlm-u", mazes=100),
    "paper-dfs-30-mlmu-8m-overfit-rope16": partial(paper, "dfs", 30, "mlm-u", mazes=100, positions="rope-fp16"),
    # A* mazes: table 2, and ordered masks.
    "paper-astar-10-mlmu-8m": partial(paper, "astar", 10, "mlm-u"),
    "paper-astar-20-mlmu-8m": partial(paper, "astar", 20, "mlm-u"),
    "paper-astar-30-mlmu-8m": partial(paper, "astar", 30, "mlm-u"),
    "paper-astar-10-ordered-8m": partial(paper, "astar", 10, "ordered"),
    "paper-astar-10-ordered-reverse-8m": partial(paper, "astar", 10, "ordered-reverse"),
    # Not the paper's runs: for these it quotes Searchformer's numbers, of 15M and 175M parameters.
    "astar-10-next-25m": partial(paper, "astar", 10, "next-token", "25m"),
    "astar-10-trace-25m": partial(paper, "astar", 10, "trace", "25m"),
    "astar-20-next-25m": partial(paper, "astar", 20, "next-token", "25m"),
    "astar-20-trace-25m": partial(paper, "astar", 20, "trace", "25m"),
    "astar-30-next-25m": partial(paper, "astar", 30, "next-token", "25m"),
    "astar-30-trace-25m": partial(paper, "astar", 30, "trace", "25m"),
    # What the authors published.
    "published-dfs-5-mlmu-8m": partial(published, "dfs", 5, "mlm-u"),
    "published-dfs-5-next-8m": partial(published, "dfs", 5, "next-token"),
    "published-dfs-10-mlmu-8m": partial(published, "dfs", 10, "mlm-u"),
    "published-dfs-10-next-8m": partial(published, "dfs", 10, "next-token"),
    "published-dfs-10-next-encdec-8m": partial(published, "dfs", 10, "next-token", architecture="encoder-decoder"),
    "published-dfs-30-mlmu-8m": partial(published, "dfs", 30, "mlm-u"),
    "published-dfs-10-mlmu-3m": partial(published, "dfs", 10, "mlm-u", "3m"),
    "published-dfs-20-mlmu-3m": partial(published, "dfs", 20, "mlm-u", "3m"),
    "published-dfs-30-mlmu-3m": partial(published, "dfs", 30, "mlm-u", "3m"),
    "published-dfs-30-mlmu-25m": partial(published, "dfs", 30, "mlm-u", "25m"),
    "published-astar-10-mlmu-8m": partial(published, "astar", 10, "mlm-u"),
    "published-astar-20-mlmu-8m": partial(published, "astar", 20, "mlm-u"),
    "published-astar-30-mlmu-8m": partial(published, "astar", 30, "mlm-u"),
    "published-astar-10-mlmu-3m": partial(published, "astar", 10, "mlm-u", "3m"),
    "published-astar-20-mlmu-3m": partial(published, "astar", 20, "mlm-u", "3m"),
    "published-astar-30-mlmu-3m": partial(published, "astar", 30, "mlm-u", "3m"),
    "published-astar-30-mlmu-25m": partial(published, "astar", 30, "mlm-u", "25m"),
}
