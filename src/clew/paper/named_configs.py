"""Named training configs, for `clew train NAME` and `clew.config(NAME)`, and the recipes of the small models.

    config = config_named("laptop-dfs-4-mlmu")        # one of CONFIGS, or a name that follows PATTERNS
    text_config("mlm-u", DataConfig(sizes=(4,)), Budget(minutes=3))        # the recipe of all laptop-scale studies
    star_config("next-on-mlmu", 2, 5)                 # path-star graphs: next token's objective on MLM-U's network
    cells("dfs", (5, 6, 7, 8), steps=700)             # the cell network on mazes of growing sizes

CONFIGS are functions; the first line of a docstring is what `clew train --list` shows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, cast

from clew.data.config import DataConfig
from clew.errors import UserError, did_you_mean
from clew.mazes.generators import StarShape
from clew.models.config import (
    CellNetworkConfig,
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    Initialization,
    ModelConfig,
    PositionChoice,
)
from clew.objectives.config import ObjectiveConfig, ObjectiveName, RateConfig
from clew.paper.configs import paper, published
from clew.training.config import LEFT_TO_RIGHT, Budget, OptimizerConfig, OptimizerKind, ScheduleConfig, TrainConfig

WIDTH, HEADS, DEPTH = 64, 4, 12
OPTIMIZER = OptimizerConfig("muon", lr=3e-3, beta2=0.95, muon_lr=0.007)
LAPTOP_MINUTES = 28  # of training alone; with the evaluations it is half an hour


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

    Both kinds have as many layers, so their parameters are equal to within 2 %. There are three encoder layers to one
    decoder layer, as the encoder does the planning (log, no. 13 and 15 to 17).
    """
    causal = objective in LEFT_TO_RIGHT
    if causal and not encoder_decoder:
        return DecoderOnlyConfig(vocabulary, width, HEADS, positions, init=init, depth=depth)
    decoder = max(1, depth // 4)
    model = EncoderDecoderConfig(vocabulary, width, HEADS, positions, init=init, causal=causal)
    return replace(model, encoder_depth=max(1, depth - decoder), decoder_depth=decoder)


def text_config(
    objective: ObjectiveName,
    data: DataConfig,
    budget: Budget,
    *,
    optimizer: OptimizerConfig = OPTIMIZER,
    **model: Any,
) -> TrainConfig:
    """Return a run of a small text model; `model` are keywords of text_model."""
    return TrainConfig(
        data=data,
        model=text_model(objective, data.vocabulary, **model),
        budget=budget,
        objective=ObjectiveConfig(objective),
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


StarKind = Literal["mlmu", "mlmu-sampler", "next", "next-on-mlmu", "next-reversed"]
HALF_HIDDEN = ObjectiveConfig("mlm-u", RateConfig(sampling="stratified", fully_hidden=0.5))
STAR_OBJECTIVES: dict[StarKind, ObjectiveConfig] = {
    "mlmu": ObjectiveConfig("mlm-u"),
    "mlmu-sampler": HALF_HIDDEN,
    "next": ObjectiveConfig("next-token"),
    "next-on-mlmu": ObjectiveConfig("prefix-next-token"),
    "next-reversed": ObjectiveConfig("next-token"),
}
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
    init: Initialization = "lookup",
    optimizer: OptimizerKind = "muon",
    muon_lr: float | None = None,
) -> TrainConfig:
    """Return a run on fresh path-star graphs, or on a fixed set of `graphs`; `objective` replaces that of the kind.

    All kinds share one recipe, so that two runs differ in nothing but what their names say.
    """
    steps = steps or STAR_STEPS.get((arms, length), 1000)
    form = "path-star-reversed" if kind == "next-reversed" else "path-star"
    source: Literal["dataset", "stream"] = "stream" if graphs is None else "dataset"
    data = DataConfig(source, StarShape(arms, length).family, (1,), labels, form, mazes=graphs)
    # With more layers, long arms and many arms are learnt from fewer graphs.
    depth = depth or (4 if length <= 4 and arms <= 3 else 8)
    return TrainConfig(
        data=data,
        model=text_model(STAR_OBJECTIVES[kind].name, data.vocabulary, depth=depth, init=init),
        budget=Budget(steps=steps),
        objective=objective or STAR_OBJECTIVES[kind],
        optimizer=OptimizerConfig(optimizer, lr=3e-3, beta2=0.95, muon_lr=muon_lr or (0.004 if arms <= 3 else 0.007)),
        schedule=ScheduleConfig("constant-then-decay", warmup=min(0.5, 50 / steps), decay=0.5),
        batch_size=128,  # half of it, or a higher rate of Muon, needs more graphs to leave the plateau at 1/d
        evaluate_every=max(1, steps // 20),
        held_out=500,
        checkpoint_every=max(1, steps // 4),
        log_every=20,
    )


CellFamily = Literal["dfs", "astar"]
SMALL_SIZES = (5, 6, 7, 8, 9, 10, 11, 12)
# Steps of a few larger mazes at a high rate make the model worse (experiments log, no. 41).
DFS_SIZES, ASTAR_SIZES = (*SMALL_SIZES, 14, 16), (5, *range(8, 31, 2))
# Muon at 0.02 is unstable through the many loops of DFS mazes.
CELL_MUON_LR = {"dfs": 0.01, "astar": 0.02}
# Nearly all mazes fully hidden: with half of them, DFS models are certain of wrong paths on large mazes (log, no. 46).
CELL_SAMPLER = RateConfig(fully_hidden=0.9)
# Reachable cells of a step, about; and their share of a maze.
CELLS_A_STEP, REACHABLE = 2400, {"dfs": 1.0, "astar": 0.45}


def cell_model(family: CellFamily) -> CellNetworkConfig:
    """Return the network of a family: A* mazes need offsets, DFS mazes loops that grow with the number of cells."""
    if family == "astar":
        return CellNetworkConfig(offsets=True, base_loops=4, loops_per_side=1.5)
    return CellNetworkConfig(offsets=False, base_loops=2, loops_per_side=0.0, loops_per_cell=0.2, loops_per_step=0.0)


def cells(family: CellFamily, sizes: tuple[int, ...], steps: int, **data: Any) -> TrainConfig:
    """The recipe: fresh mazes of growing sizes, most of them fully hidden, Muon and AdamW at falling rates."""
    data = {"mixture": "grow", "grow_steps": max(1, round(0.4 * steps)), **data}
    return TrainConfig(
        data=DataConfig(family=family, sizes=sizes, format="cell-labels", **data),
        model=cell_model(family),
        budget=Budget(steps=steps),
        objective=ObjectiveConfig("mlm-u", CELL_SAMPLER),
        optimizer=OptimizerConfig("muon", lr=3e-3, beta2=0.95, muon_lr=CELL_MUON_LR[family]),
        schedule=ScheduleConfig("constant-then-decay", warmup=0.01, decay=0.99, end=0.0, power=1.5),
        batch_size=max(2, round(CELLS_A_STEP / REACHABLE[family] / sizes[-1] ** 2)),
        ema=0.998,
        evaluate_every=500,
        held_out=40 * len(sizes),
        checkpoint_every=250,
    )


def cells_dfs() -> TrainConfig:
    """DFS mazes of 5x5 to 16x16: the shipped weights `cells-dfs`, an hour of one core."""
    return replace(cells("dfs", DFS_SIZES, steps=15_000, grow_steps=2400), ema=0.9995, evaluate_every=1000)


def cells_astar() -> TrainConfig:
    """A* mazes of 5x5 to 30x30, a quarter of them with long paths: the shipped weights, 1.5 hours of one core."""
    config = cells("astar", ASTAR_SIZES, steps=36_000, grow_steps=8000, long_share=0.25)
    # Many steps need a lower rate and a longer average than the short recipe.
    return replace(config, optimizer=replace(config.optimizer, muon_lr=0.012), ema=0.9995, evaluate_every=3000)


def cells_dfs_10() -> TrainConfig:
    """DFS mazes of up to 10x10, a few minutes of one core."""
    return cells("dfs", SMALL_SIZES[:6], steps=700)


def cells_astar_10() -> TrainConfig:
    """A* mazes of up to 12x12, a few minutes of one core."""
    return cells("astar", SMALL_SIZES, steps=1500)


def cells_next_dfs_10() -> TrainConfig:
    """Next token on the same network, mazes and recipe as cells-dfs-10."""
    return replace(cells_dfs_10(), objective=ObjectiveConfig("next-token"))


def cells_next_astar_10() -> TrainConfig:
    """Next token on the same network, mazes and recipe as cells-astar-10."""
    return replace(cells_astar_10(), objective=ObjectiveConfig("next-token"))


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
}

# Names that are parsed, with what they stand for.
PATTERNS = {
    "{paper,published}-{dfs,astar}-SIZE-{mlmu,next,trace,ordered,ordered-reverse}[-encdec]-{3m,8m,25m}": (
        "the paper's text or its published code, such as paper-dfs-10-mlmu-8m; docs/paper-and-code.md"
    ),
    "star-ARMSxLENGTH-{mlmu,mlmu-sampler,next,next-on-mlmu,next-reversed}": "path-star graphs, such as star-3x4-next",
}
_EXAMPLES = ["paper-dfs-10-mlmu-8m", "paper-dfs-10-next-8m", "paper-astar-10-mlmu-8m", "published-dfs-10-mlmu-8m"]
_EXAMPLES += ["star-2x5-mlmu", "star-2x5-next", "star-5x4-mlmu-sampler"]


def config_named(name: str) -> TrainConfig:
    """Return the config of a name in CONFIGS or of one that follows PATTERNS."""
    if name in CONFIGS:
        return CONFIGS[name]()
    star = re.fullmatch(r"star-(\d+)x(\d+)-([a-z-]+)", name)
    if star and star[3] in STAR_OBJECTIVES:
        return star_config(cast(StarKind, star[3]), int(star[1]), int(star[2]))
    objectives = "mlmu|next|trace|ordered|ordered-reverse"
    if run := re.fullmatch(rf"(paper|published)-(dfs|astar)-(\d+)-({objectives})(-encdec)?-(3m|8m|25m)", name):
        make: Any = paper if run[1] == "paper" else published
        objective = {"mlmu": "mlm-u", "next": "next-token"}.get(run[4], run[4])
        architecture = "encoder-decoder" if run[5] else None
        return cast(TrainConfig, make(run[2], int(run[3]), objective, run[6], architecture=architecture))
    hint = did_you_mean(name, [*CONFIGS, *_EXAMPLES], "`clew train --list` shows all.")
    raise UserError(f"there is no config {name!r}; {hint}")


def list_configs() -> dict[str, str]:
    """Return the names of training configs, each with one line about it, for `clew.config`.

    Example:
        >>> list_configs()["tiny"]
        '3x3 mazes, a very small MLM-U model: one minute, to check an installation'
    """
    return {name: (make.__doc__ or "").splitlines()[0].rstrip(".") for name, make in CONFIGS.items()}
