"""Named configs: one for each run of the paper, and some that a laptop can do.

    config = preset("paper-dfs-10-mlmu-8m")
    for name, entry in PRESETS.items(): print(name, entry.summary)

`clew train --list` shows them, and `clew train NAME --out RUN` runs one. A name reads FAMILY-SIZE-OBJECTIVE-MODEL.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from clew.errors import UserError
from clew.experiments.cell_configs import CELL_CONFIGS
from clew.experiments.laptop import text_config
from clew.models.build import sized_config
from clew.models.config import EncoderDecoderConfig
from clew.objectives.config import ObjectiveConfig, ObjectiveName
from clew.training.config import Budget, DataConfig, TrainConfig
from clew.training.optimizers import OptimizerConfig
from clew.training.sources import PAPER_MAZES

PAPER_EPOCHS = 3000
STEPS_PER_EPOCH = 782  # 100,000 mazes in batches of 128
# The paper's, for the objectives that read from left to right; the others have none.
NEXT_TOKEN_DECAY = 1e-4


@dataclass(frozen=True)
class Preset:
    """A named config and what it is for."""

    summary: str
    make: Callable[[], TrainConfig]


def _paper(
    family: Literal["dfs", "walls"],
    size: int,
    objective: ObjectiveName,
    model_size: str,
    *,
    kind: str = "",
    epochs: int = PAPER_EPOCHS,
    weight_decay: float | None = None,
    lr: float = 1e-3,
    mazes: int = PAPER_MAZES,
    **model_changes: Any,
) -> TrainConfig:
    """A run with the paper's settings: see the table of facts in docs/training.md."""
    left_to_right = objective in ("next-token", "trace")
    kind = kind or ("decoder-only" if left_to_right else "encoder-decoder")
    text = "edge-list" if family == "dfs" else "wall-list-trace" if objective == "trace" else "wall-list"
    # Fewer mazes have a folder of their own: the first to be run would else make a dataset too small for the others.
    folder = "" if mazes == PAPER_MAZES else f"data/{family}-{size}-{mazes}"
    data = DataConfig("dataset", family, (size,), format=text, mazes=mazes, folder=folder)  # type: ignore[arg-type]
    if kind == "encoder-decoder" and left_to_right:
        model_changes["causal"] = True
    decay = NEXT_TOKEN_DECAY if left_to_right else 0.0
    return TrainConfig(
        data=data,
        model=sized_config(kind, model_size, data.vocabulary, **model_changes),
        budget=Budget(epochs=epochs),
        objective=ObjectiveConfig(objective),
        optimizer=OptimizerConfig("adamw", lr=lr, weight_decay=decay if weight_decay is None else weight_decay),
        precision="fp16",
        evaluate_every=50 * STEPS_PER_EPOCH,
        checkpoint_every=10 * STEPS_PER_EPOCH,
        log_every=100,
    )


def _paper_presets() -> dict[str, Preset]:
    found: dict[str, Preset] = {}
    words = {"mlmu": "MLM-U", "next": "next token"}
    objectives: dict[str, ObjectiveName] = {"mlmu": "mlm-u", "next": "next-token"}

    def add(name: str, summary: str, *args: Any, **kwargs: Any) -> None:
        found[name] = Preset(summary, partial(_paper, *args, **kwargs))

    for size in (5, 10, 15, 20, 30):
        for short, objective in objectives.items():
            summary = f"the paper's DFS {size}x{size}, {words[short]}, 8M"
            add(f"paper-dfs-{size}-{short}-8m", summary, "dfs", size, objective, "8m")
    for model_size in ("3m", "25m"):
        for short, objective in objectives.items():
            summary = f"the paper's scaling of the model, {words[short]}, {model_size.upper()}"
            add(f"paper-dfs-20-{short}-{model_size}", summary, "dfs", 20, objective, model_size)
    add(
        "paper-dfs-10-next-encdec-8m",
        "the paper's comparison of architectures: next token on the causal encoder-decoder",
        *("dfs", 10, "next-token", "8m"),
        kind="encoder-decoder",
    )
    add(
        "paper-dfs-30-mlmu-8m-rope16",
        "the paper's study of precision: RoPE in float16",
        *("dfs", 30, "mlm-u", "8m"),
        positions="rope-fp16",
    )
    for decay in ("1e-2", "1e-3", "1e-4", "1e-5"):
        add(
            f"paper-dfs-10-next-8m-decay-{decay}",
            f"the paper's study of weight decay, {decay}, 500 epochs",
            *("dfs", 10, "next-token", "8m"),
            weight_decay=float(decay),
            epochs=500,
        )
    # The paper says which rate it chose, not which it tried.
    for rate in ("1e-4", "3e-4", "1e-3", "3e-3"):
        add(
            f"paper-dfs-10-next-8m-rate-{rate}",
            f"the paper's study of learning rates, {rate}, 500 epochs",
            *("dfs", 10, "next-token", "8m"),
            lr=float(rate),
            epochs=500,
        )
    for size in (5, 10):
        for thousands in (25, 50, 75, 100):
            for short, objective in objectives.items():
                add(
                    f"paper-dfs-{size}-{short}-8m-{thousands}k",
                    f"the paper's study of data, {words[short]}, {thousands},000 mazes, 2,000 epochs",
                    *("dfs", size, objective, "8m"),
                    mazes=1000 * thousands,
                    epochs=2000,
                )
    for size in (5, 10, 15, 20, 25, 30):
        for bits in ("32", "16"):
            add(
                f"paper-dfs-{size}-mlmu-8m-overfit-rope{bits}",
                f"the paper's study of precision: 100 mazes learnt by heart, RoPE in float{bits}",
                *("dfs", size, "mlm-u", "8m"),
                mazes=100,
                positions=f"rope-fp{bits}",
            )
    for size in (10, 20, 30):
        summary = f"the paper's A* {size}x{size}, MLM-U, 8M"
        add(f"paper-astar-{size}-mlmu-8m", summary, "walls", size, "mlm-u", "8m")
    for reverse in ("", "-reverse"):
        summary = f"the paper's ordered masks{', the other way round' if reverse else ''}"
        add(f"paper-astar-10-ordered{reverse}-8m", summary, "walls", 10, f"ordered{reverse}", "8m")
    # The paper quotes Searchformer's numbers for these, of larger models.
    for size in (10, 20, 30):
        for short, objective, what in (("next", "next-token", "next token"), ("trace", "trace", "with A* traces")):
            summary = f"A* {size}x{size}, {what}, 25M: what the paper quotes from Searchformer, smaller"
            add(f"astar-{size}-{short}-25m", summary, "walls", size, objective, "25m")
    return found


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
    "tiny": Preset("3x3 mazes, a very small MLM-U model: to see in a minute that all works", _tiny),
    "laptop-dfs-4-mlmu": Preset(
        "4x4 mazes, MLM-U on a small encoder-decoder, half an hour on 2 cores", partial(_laptop, "mlm-u")
    ),
    "laptop-dfs-4-next": Preset(
        "the same mazes, minutes and parameters, next token on a small decoder", partial(_laptop, "next-token")
    ),
    **{name: Preset((make.__doc__ or "").rstrip("."), make) for name, make in CELL_CONFIGS.items()},
    **_paper_presets(),
}


def preset(name: str) -> TrainConfig:
    """The config of this name."""
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {near[0]}?" if near else "`clew train --list` shows all."
        raise UserError(f"there is no preset {name!r}; {hint}")
    return PRESETS[name].make()
