"""Configs of the paper's runs: `paper` follows the paper's text, `published` the code that its authors published.

    paper("dfs", 10, "mlm-u")                   # 8M parameters, batch 128, 3,000 epochs, no weight decay
    published("dfs", 10, "mlm-u")               # batch 128, 1,000 epochs, weight decay 1e-4, beta1 cycled, 98,000 mazes
    paper("dfs", 10, "next-token", weight_decay=1e-2, epochs=500)
    paper_config_named("published-dfs-10-mlmu-8m")    # the same by name, as `clew train NAME` does

Text and code contradict each other: docs/paper-and-code.md. Where the text says nothing, `paper` does what the code
does, except that its decoder-only model has the blocks of the MLM-U encoder: the code's has 2,048 learned positions,
too few for the 30x30 mazes of the text.
"""

from __future__ import annotations

import re
from typing import Any, Literal, cast

from clew.data.config import PAPER_HELD_OUT, PAPER_MAZES, DataConfig
from clew.errors import UserError
from clew.models.config import PositionChoice, published_tokens, sized_config
from clew.objectives.config import ObjectiveConfig, ObjectiveName
from clew.tokenization.tokens import padded_size
from clew.training.config import LEFT_TO_RIGHT, Budget, OptimizerConfig, ScheduleConfig, TrainConfig

PaperFamily = Literal["dfs", "astar"]
ModelSize = Literal["3m", "8m", "25m"]
Architecture = Literal["encoder-decoder", "decoder-only"]

BATCH_SIZE, EPOCHS, LEARNING_RATE, NEXT_TOKEN_DECAY = 128, 3000, 1e-3, 1e-4
# The text does not say how often; the code evaluates every 20 to 100 epochs.
EVALUATION_EPOCHS = 50
PUBLISHED_POSITIONS = 2048
_SHARED: dict[str, Any] = {"precision": "fp16", "held_out": PAPER_HELD_OUT, "log_every": 100}
# Global batch with gradient accumulation, epochs, epochs between evaluations, weight decay.
_PUBLISHED: dict[tuple[PaperFamily, int, ObjectiveName, ModelSize], tuple[int, int, int, float]] = {
    ("dfs", 5, "mlm-u", "8m"): (128, 2000, 20, 1e-4),
    ("dfs", 10, "mlm-u", "8m"): (128, 1000, 25, 1e-4),
    ("dfs", 30, "mlm-u", "8m"): (256, 2000, 50, 1e-4),
    ("dfs", 10, "mlm-u", "3m"): (512, 500, 20, 1e-4),
    ("dfs", 20, "mlm-u", "3m"): (256, 2500, 100, 1e-4),
    ("dfs", 30, "mlm-u", "3m"): (512, 2000, 100, 1e-4),
    ("dfs", 30, "mlm-u", "25m"): (2048, 2000, 50, 1e-4),
    ("dfs", 5, "next-token", "8m"): (128, 2000, 20, 1e-4),
    ("dfs", 10, "next-token", "8m"): (128, 2000, 20, 1e-4),
    ("astar", 10, "mlm-u", "8m"): (512, 1000, 25, 0.0),
    ("astar", 20, "mlm-u", "8m"): (512, 2000, 50, 1e-4),
    ("astar", 30, "mlm-u", "8m"): (512, 2000, 50, 1e-4),
    ("astar", 10, "mlm-u", "3m"): (512, 500, 20, 1e-4),
    ("astar", 20, "mlm-u", "3m"): (256, 2500, 100, 1e-4),
    ("astar", 30, "mlm-u", "3m"): (512, 2000, 100, 1e-4),
    ("astar", 30, "mlm-u", "25m"): (1024, 3000, 100, 1e-4),
}


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
    if weight_decay is None:
        weight_decay = NEXT_TOKEN_DECAY if objective in LEFT_TO_RIGHT else 0.0
    architecture, fields = _network(objective, architecture)
    data = _data(family, size, objective, mazes)
    steps_per_epoch = -(-PAPER_MAZES // BATCH_SIZE)
    return TrainConfig(
        data=data,
        model=sized_config(architecture, model, data.vocabulary, positions=positions, **fields),
        budget=Budget(epochs=epochs),
        objective=ObjectiveConfig(objective),
        optimizer=OptimizerConfig("adamw", lr=lr, weight_decay=weight_decay),
        batch_size=BATCH_SIZE,
        # In steps, so that a run with fewer mazes is not evaluated more often.
        evaluate_every=EVALUATION_EPOCHS * steps_per_epoch,
        checkpoint_every=10 * steps_per_epoch,
        **_SHARED,
    )


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
    if (family, size, objective, model) not in _PUBLISHED:
        raise UserError(_unpublished(family, size, objective, model))
    batch_size, epochs, evaluation_epochs, weight_decay = _PUBLISHED[family, size, objective, model]
    # The code holds 2 % of its 100,000 DFS mazes out; the A* mazes come with a test set of their own.
    mazes = PAPER_MAZES - PAPER_HELD_OUT if family == "dfs" else PAPER_MAZES
    data = _data(family, size, objective, mazes)
    architecture, fields = _network(objective, architecture)
    if architecture == "decoder-only":
        # GPT-2 of the transformers library, with its initialisation; the code puts [BOS] before each sequence.
        fields = {"positions": "learned", "max_length": PUBLISHED_POSITIONS, "activation": "relu"}
        fields |= {"head_bias": False, "bos_id": data.bos_id}
    return TrainConfig(
        data=data,
        model=sized_config(architecture, model, padded_size(len(published_tokens(family, size, size))), **fields),
        budget=Budget(epochs=epochs),
        objective=ObjectiveConfig(objective),
        optimizer=OptimizerConfig("adamw", lr=LEARNING_RATE, weight_decay=weight_decay),
        schedule=ScheduleConfig("one-cycle", cycle_beta1=True),
        batch_size=batch_size,
        evaluate_every=evaluation_epochs * -(-mazes // batch_size),
        checkpoint_every=5000,
        keep_last=5,
        **_SHARED,
    )


def _network(objective: ObjectiveName, architecture: Architecture | None) -> tuple[Architecture, dict[str, Any]]:
    """Return the architecture of an objective unless one is given, and the fields that text and code share."""
    causal = objective in LEFT_TO_RIGHT
    if (architecture or ("decoder-only" if causal else "encoder-decoder")) == "decoder-only":
        return "decoder-only", {}
    return "encoder-decoder", {"init": "pytorch", "causal": causal, "attend_self": not causal}


def _data(family: PaperFamily, size: int, objective: ObjectiveName, mazes: int) -> DataConfig:
    form = "edge-list" if family == "dfs" else "wall-list-trace" if objective == "trace" else "wall-list"
    # Another number of mazes has a folder of its own: whichever run is first would else make a dataset of another size.
    folder = "" if mazes == PAPER_MAZES else f"data/{family}-{size}-{mazes}"
    return DataConfig("dataset", family, (size,), format=form, mazes=mazes, folder=folder)


def _unpublished(family: PaperFamily, size: int, objective: ObjectiveName, model: ModelSize) -> str:
    kind = "DFS" if family == "dfs" else "A*"
    run = f"{kind} {size}x{size} mazes with {objective} and {model.upper()} parameters"
    problem = f"the published code has no settings for {run}"
    if family == "dfs" and objective == "next-token" and 3 * (size * size - 1) > PUBLISHED_POSITIONS:
        problem += f", and its decoder-only model has {PUBLISHED_POSITIONS:,} positions, too few for such a maze"
    return f"{problem}; use the config of the paper's text, paper(...)."


# The words of a config's name.
_OBJECTIVES: dict[str, ObjectiveName] = {
    "mlmu": "mlm-u",
    "next": "next-token",
    "trace": "trace",
    "ordered": "ordered",
    "ordered-reverse": "ordered-reverse",
}
_NAME = re.compile(
    r"(?P<source>paper|published)-(?P<family>dfs|astar)-(?P<size>\d+)-"
    r"(?P<objective>mlmu|next|trace|ordered|ordered-reverse)(?P<encdec>-encdec)?-(?P<model>3m|8m|25m)"
)
NAME_PATTERN = "{paper,published}-{dfs,astar}-SIZE-{mlmu,next,trace,ordered,ordered-reverse}[-encdec]-{3m,8m,25m}"


def paper_config_named(name: str) -> TrainConfig | None:
    """Return the config of a name that follows NAME_PATTERN; None for another name, UserError if it is not published.

    `paper-dfs-10-next-encdec-8m` is paper("dfs", 10, "next-token", "8m", architecture="encoder-decoder").
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    make = paper if match["source"] == "paper" else published
    return make(
        cast(PaperFamily, match["family"]),
        int(match["size"]),
        _OBJECTIVES[match["objective"]],
        cast(ModelSize, match["model"]),
        architecture="encoder-decoder" if match["encdec"] else None,
    )
