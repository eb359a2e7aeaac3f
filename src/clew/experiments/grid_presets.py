"""Named configs of the models that read a maze as cells: the grid-pointer, and next token on the same input.

    GRID_PRESETS["grid-dfs"]                  # (summary, what makes the config), as in clew.experiments.presets
    single_size("grid-next-token", 10)        # one size, as `clew bench time-to-accuracy` trains it

All share one recipe, so that two runs differ in nothing but what their names say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal

from clew.models.grid_next_token import GridNextTokenConfig
from clew.models.grid_pointer import GridPointerConfig
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.training.config import Budget, DataConfig, TrainConfig
from clew.training.optimizers import OptimizerConfig
from clew.training.schedules import ScheduleConfig

GridKind = Literal["grid-pointer", "grid-next-token"]

DFS_SIZES, LARGER_DFS_SIZES = (4, 5, 6, 8, 10, 12), (5, 6, 8, 10, 12, 15, 18)
LARGEST_DFS_SIZES = (5, 8, 10, 12, 15, 18, 20, 24)
# A task of the walls family has a path of at least as many cells as its longer side, which 4x4 mazes rarely offer.
WALLS_SIZES, LARGER_WALLS_SIZES = (5, 6, 8, 10, 12), (6, 8, 10, 12, 15, 20)
LARGEST_WALLS_SIZES = (8, 10, 15, 20, 25, 30)
# Paths of the walls family are half (10x10) to a quarter (30x30) as long, so that news has less far to go.
LOOPS_PER_CELL = {"dfs": 0.2, "walls": 0.1}
# Cells a step, with one size: 128 mazes of 5x5, 32 of 10x10.
CELLS_A_STEP = 3200


def _recipe(data: DataConfig, kind: GridKind, batch_size: int, minutes: float, **changes: int) -> TrainConfig:
    """The one recipe; `changes` are fields of the run, such as how often it is evaluated."""
    masked = kind == "grid-pointer"
    objective = ObjectiveConfig("mlm-u", RateConfig(spread="stratified")) if masked else ObjectiveConfig("next-token")
    return TrainConfig(
        data=data,
        model=GridPointerConfig() if masked else GridNextTokenConfig(),
        budget=Budget(minutes=minutes),
        objective=objective,
        optimizer=OptimizerConfig("muon", lr=3e-3, beta2=0.95, muon_lr=0.02),
        schedule=ScheduleConfig("constant-then-decay", warmup=0.01, decay=0.4),
        batch_size=batch_size,
        ema=0.998,
        # Through dozens of steps with shared weights a gradient is now and then a thousand times as large as usual.
        # Clipping bounds what it does, so it is no reason to stop.
        explosion=1e9,
        **changes,  # type: ignore[arg-type]
    )


def _model(kind: GridKind, loops_per_cell: float) -> GridPointerConfig:
    config = GridPointerConfig if kind == "grid-pointer" else GridNextTokenConfig
    return config(loops_per_cell=loops_per_cell)


def _tail(kind: GridKind) -> int:
    # Decoders that fill in any place also ask for what comes after the end; one that goes from left to right stops.
    return 2 if kind == "grid-pointer" else 1


def growing(kind: GridKind, family: Literal["dfs", "walls"]) -> TrainConfig:
    """Sizes that grow from the smallest to 12x12: what the shipped weights began with."""
    sizes = DFS_SIZES if family == "dfs" else WALLS_SIZES
    data = DataConfig(family=family, sizes=sizes, format="grid", tail=_tail(kind), mixture="grow", grow_steps=600)
    config = _recipe(data, kind, 22, 1, evaluate_every=500, held_out=32 * len(sizes), checkpoint_every=100)
    return replace(
        config,
        model=_model(kind, LOOPS_PER_CELL[family]),
        budget=Budget(steps=1900),
        # Nearly constant: the average of the weights does for the scores what a falling rate would, and the rate is
        # still high when the larger mazes come.
        schedule=ScheduleConfig("constant-then-decay", warmup=0.01, decay=0.02),
    )


def larger(kind: GridKind, family: Literal["dfs", "walls"]) -> TrainConfig:
    """Larger mazes and a falling rate, to carry on from a run of `growing` with `--start-from RUN`."""
    config = growing(kind, family)
    sizes = LARGER_DFS_SIZES if family == "dfs" else LARGER_WALLS_SIZES
    return replace(
        config,
        data=replace(config.data, sizes=sizes, mixture="mix"),
        batch_size=round(CELLS_A_STEP / sizes[-1] ** 2),
        budget=Budget(minutes=42 if family == "dfs" else 25),
        optimizer=replace(config.optimizer, lr=2e-3, muon_lr=0.015),
        schedule=ScheduleConfig("constant-then-decay", warmup=0.005, decay=0.6),
        evaluate_every=2000,
        held_out=10 * len(sizes),
        seed=1,
    )


def largest(kind: GridKind, family: Literal["dfs", "walls"]) -> TrainConfig:
    """Still larger mazes and a lower rate, to carry on from a run of `larger` with `--start-from RUN`."""
    config = larger(kind, family)
    sizes = LARGEST_DFS_SIZES if family == "dfs" else LARGEST_WALLS_SIZES
    return replace(
        config,
        data=replace(config.data, sizes=sizes, seed=11),
        batch_size=round(CELLS_A_STEP / sizes[-1] ** 2),
        budget=Budget(minutes=60 if family == "dfs" else 45),
        optimizer=replace(config.optimizer, lr=1e-3, muon_lr=0.008),
        schedule=ScheduleConfig("constant-then-decay", warmup=0.01, decay=0.8),
        seed=2,
    )


def single_size(kind: GridKind, size: int, minutes: float = 10) -> TrainConfig:
    """DFS mazes of one size."""
    data = DataConfig(sizes=(size,), format="grid", tail=_tail(kind))
    batch_size = max(8, CELLS_A_STEP // size**2)
    return _recipe(data, kind, batch_size, minutes, evaluate_every=200, held_out=500, checkpoint_every=200)


def demo_5x5() -> TrainConfig:
    """What `make demo` trains: 5x5 alone, scored often enough to watch it learn."""
    return replace(single_size("grid-pointer", 5, minutes=2), evaluate_every=100, checkpoint_every=100)


GRID_PRESETS: dict[str, tuple[str, Callable[[], TrainConfig]]] = {
    "demo-5x5": ("5x5 mazes, a small grid-pointer, 2 minutes on 2 cores", demo_5x5),
    "grid-dfs": ("DFS mazes growing from 4x4 to 12x12, grid-pointer", partial(growing, "grid-pointer", "dfs")),
    "grid-dfs-large": ("carries on from grid-dfs, up to 18x18", partial(larger, "grid-pointer", "dfs")),
    "grid-dfs-largest": ("carries on from grid-dfs-large, up to 24x24", partial(largest, "grid-pointer", "dfs")),
    "grid-walls": ("A* mazes growing from 5x5 to 12x12, grid-pointer", partial(growing, "grid-pointer", "walls")),
    "grid-walls-large": ("carries on from grid-walls, up to 20x20", partial(larger, "grid-pointer", "walls")),
    "grid-walls-largest": (
        "carries on from grid-walls-large, up to 30x30",
        partial(largest, "grid-pointer", "walls"),
    ),
    "grid-next-dfs": ("the same as grid-dfs, next token on the grid", partial(growing, "grid-next-token", "dfs")),
    "grid-next-dfs-large": ("carries on from grid-next-dfs", partial(larger, "grid-next-token", "dfs")),
    "grid-next-dfs-largest": ("carries on from grid-next-dfs-large", partial(largest, "grid-next-token", "dfs")),
    **{
        f"grid-{size}": (f"{size}x{size} DFS mazes, grid-pointer", partial(single_size, "grid-pointer", size))
        for size in (5, 10)
    },
    **{
        f"grid-next-{size}": (
            f"{size}x{size} DFS mazes, next token on the grid",
            partial(single_size, "grid-next-token", size),
        )
        for size in (5, 10)
    },
}
