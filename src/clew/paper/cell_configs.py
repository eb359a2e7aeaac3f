"""Configs of the cell network: the shipped weights, a short run, and next token on the same network.

`clew train cells-dfs --out runs/cells-dfs` trains the shipped DFS model; `clew train --list` shows all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from clew.data.config import DataConfig
from clew.models.config import CellNetworkConfig
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.training.config import Budget, OptimizerConfig, ScheduleConfig, TrainConfig

CellFamily = Literal["dfs", "astar"]

SMALL_SIZES = (5, 6, 7, 8, 9, 10, 11, 12)
# Steps of a few larger mazes at a high rate make the model worse (experiments log, no. 41).
DFS_SIZES = (*SMALL_SIZES, 14, 16)
ASTAR_SIZES = (5, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
# Muon at 0.02 is unstable through the many loops of DFS mazes.
MUON_LR = {"dfs": 0.01, "astar": 0.02}
# Nearly all mazes fully hidden: with half of them, DFS models are certain of wrong paths on large mazes (log, no. 46).
SAMPLER = RateConfig(fully_hidden=0.9)
# Reachable cells of a step, about; and their share of a maze.
CELLS_A_STEP = 2400
REACHABLE = {"dfs": 1.0, "astar": 0.45}


def cell_model(family: CellFamily) -> CellNetworkConfig:
    """Return the network of a family: A* mazes need offsets, DFS mazes loops that grow with the number of cells."""
    if family == "dfs":
        return CellNetworkConfig(
            offsets=False, base_loops=2, loops_per_side=0.0, loops_per_cell=0.2, loops_per_step=0.0
        )
    return CellNetworkConfig(offsets=True, base_loops=4, loops_per_side=1.5)


def cells(family: CellFamily, sizes: tuple[int, ...], steps: int, *, long_share: float = 0.0) -> TrainConfig:
    """The recipe: fresh mazes of growing sizes, most of them fully hidden, Muon and AdamW at falling rates."""
    return TrainConfig(
        data=DataConfig(
            family=family,
            sizes=sizes,
            format="cell-labels",
            mixture="grow",
            grow_steps=max(1, round(0.4 * steps)),
            long_share=long_share,
        ),
        model=cell_model(family),
        budget=Budget(steps=steps),
        objective=ObjectiveConfig("mlm-u", SAMPLER),
        optimizer=OptimizerConfig("muon", lr=3e-3, beta2=0.95, muon_lr=MUON_LR[family]),
        schedule=ScheduleConfig("constant-then-decay", warmup=0.01, decay=0.99, end=0.0, power=1.5),
        batch_size=max(2, round(CELLS_A_STEP / REACHABLE[family] / sizes[-1] ** 2)),
        ema=0.998,
        evaluate_every=500,
        held_out=40 * len(sizes),
        checkpoint_every=250,
    )


def cells_dfs() -> TrainConfig:
    """DFS mazes of 5x5 to 16x16: the shipped weights `cells-dfs`, an hour of one core."""
    config = cells("dfs", DFS_SIZES, steps=15_000)
    return replace(config, data=replace(config.data, grow_steps=2400), ema=0.9995, evaluate_every=1000)


def cells_astar() -> TrainConfig:
    """A* mazes of 5x5 to 30x30, a quarter of them with long paths: the shipped weights, 1.5 hours of one core."""
    config = cells("astar", ASTAR_SIZES, steps=36_000, long_share=0.25)
    return replace(
        config,
        data=replace(config.data, grow_steps=8000),
        # Many steps need a lower rate and a longer average than the short recipe.
        optimizer=replace(config.optimizer, muon_lr=0.012),
        ema=0.9995,
        evaluate_every=3000,
    )


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
