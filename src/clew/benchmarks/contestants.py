"""What `clew bench time-to-accuracy` trains: four ways to learn DFS mazes of one size.

for contestant in contestants(sizes=(5, 10), minutes=10, paper_models=("8m",), held_out=300): ...
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from clew.experiments.grid_presets import DFS_SIZES, GridKind, single_size
from clew.experiments.presets import preset
from clew.models.build import sized_config
from clew.training.config import Budget, DataConfig, TrainConfig

# The kind of model, and the preset whose recipe is taken.
PAPER_METHODS = {
    "paper-mlmu": ("encoder-decoder", "paper-dfs-10-mlmu-8m"),
    "paper-next": ("decoder-only", "paper-dfs-10-next-8m"),
}
GROW_STEPS = 300
GRID_METHODS: tuple[GridKind, ...] = ("grid-pointer", "grid-next-token")


@dataclass(frozen=True)
class Contestant:
    """One training of a benchmark."""

    method: str  # paper-mlmu, paper-next, grid-pointer or grid-next-token; or the name of a recipe
    model_size: str | None  # of the paper's models
    size: int  # of the mazes
    config: TrainConfig

    @property
    def name(self) -> str:
        """Of its run folder. The budget shapes the schedule, so a run of other minutes is another run."""
        method = self.method.replace(" ", "-")
        parts = [f"{self.size}x{self.size}", method, self.model_size, f"{self.config.budget.minutes:g}min"]
        return "-".join(part for part in parts if part)


def contestants(
    sizes: Sequence[int], minutes: float, paper_models: Sequence[str], held_out: int, seed: int = 0
) -> list[Contestant]:
    """All trainings, in the order in which they are run."""
    found: list[Contestant] = []
    for size in sizes:
        for method in PAPER_METHODS:
            for model_size in paper_models:
                found.append(Contestant(method, model_size, size, paper_config(method, model_size, size, minutes)))
        for kind in GRID_METHODS:
            found.append(Contestant(kind, None, size, grid_config(kind, size, minutes)))
    return [replace(each, config=replace(each.config, held_out=held_out, seed=seed, log_every=10)) for each in found]


def grid_config(kind: GridKind, size: int, minutes: float) -> TrainConfig:
    """Our recipe for models on cells: sizes that grow up to the one that is scored."""
    config = single_size(kind, size, minutes)
    sizes = (*(smaller for smaller in DFS_SIZES if smaller < size), size)
    return replace(config, data=replace(config.data, sizes=sizes, mixture="grow", grow_steps=GROW_STEPS))


def paper_config(method: str, model_size: str, size: int, minutes: float) -> TrainConfig:
    """The paper's recipe on fresh mazes, in float32, since CPUs have no quick float16."""
    kind, recipe = PAPER_METHODS[method]
    data = DataConfig(sizes=(size,), format="edge-list")
    return replace(
        preset(recipe),
        data=data,
        model=sized_config(kind, model_size, data.vocabulary),
        budget=Budget(minutes=minutes),
        precision="fp32",
        micro_batch=16,  # 128 texts of 10x10 mazes at once take 24 GB
    )
