"""The recipe of the models on cells with one thing changed at a time, for the same minutes (`clew bench recipes`).

    names = recipe_names("grid-next-token")          # all that make sense for it
    chosen = recipes("grid-next-token", size=8, minutes=2, held_out=500, names=names)

The rival gets the same tries as the grid-pointer, so that neither wins by having been tuned longer. Each is a training
like those of `clew bench time-to-accuracy`, in a folder of its own, scored by the exact path from left to right. The
mazes are of a seed that no reported number uses, so that the recipe can be chosen by them.

Some things are not here. Turned and mirrored mazes: a stream of fresh mazes has them all already. Several masks a
maze: what is visible stands in the encoder's input, so a second mask costs as much as a second maze. Attention to near
cells only: a step along passages is that, and knows of walls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from clew.benchmarks.contestants import Contestant, grid_config
from clew.benchmarks.pages import Section
from clew.errors import UserError
from clew.experiments.grid_presets import GridKind
from clew.models.grid_pointer import GridPointerConfig
from clew.objectives.config import RateConfig
from clew.training.config import TrainConfig

SEED = 77
AS_IT_IS = "as it is"
POINTS = 3  # evaluations in a run, about


def _data(**changes: Any) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, data=replace(config.data, **changes))


def _rates(**changes: Any) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, objective=replace(config.objective, rates=RateConfig(**changes)))


def _optimizer(**changes: Any) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, optimizer=replace(config.optimizer, **changes))


def _model(loops: float = 1.0, **changes: Any) -> Callable[[TrainConfig], TrainConfig]:
    def change(config: TrainConfig) -> TrainConfig:
        assert isinstance(config.model, GridPointerConfig)
        loops_per_cell = config.model.loops_per_cell * loops
        return replace(config, model=replace(config.model, loops_per_cell=loops_per_cell, **changes))

    return change


def _one_size(config: TrainConfig) -> TrainConfig:
    return replace(config, data=replace(config.data, sizes=config.data.sizes[-1:], mixture="mix"))


def _mazes_a_step(times: float) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, batch_size=max(1, round(config.batch_size * times)))


CHANGES: dict[str, Callable[[TrainConfig], TrainConfig]] = {
    AS_IT_IS: lambda config: config,
    "one size only": _one_size,
    "all sizes from the beginning": _data(mixture="mix"),
    "no average of the weights": lambda config: replace(config, ema=None),
    "a masking rate for each maze by itself": _rates(spread="sequence"),
    "masking rates that dwell where the loss is high": _rates(shape="adaptive", spread="stratified"),
    "AdamW at 3e-3 instead of Muon": _optimizer(kind="adamw", lr=3e-3),
    "AdamW at 1e-3 instead of Muon": _optimizer(kind="adamw", lr=1e-3),
    "half of Muon's rate": _optimizer(muon_lr=0.01),
    "twice Muon's rate": _optimizer(muon_lr=0.04),
    "half as many mazes a step": _mazes_a_step(0.5),
    "twice as many mazes a step": _mazes_a_step(2),
    "half the width": _model(width=32),
    "twice the width": _model(width=128),
    "half as many loops": _model(loops=0.5),
    "twice as many loops of one hop": _model(loops=2, hops=1),
    "half as many loops of four hops": _model(loops=0.5, hops=4),
    "half as many loops of two blocks": _model(loops=0.5, blocks=2),
    "attention in each loop": _model(attention=True),
}


MASKING = ("a masking rate for each maze by itself", "masking rates that dwell where the loss is high")


def recipe_names(kind: GridKind) -> list[str]:
    """All recipes that this model can have: next token has no masking rates."""
    return [name for name in CHANGES if kind == "grid-pointer" or name not in MASKING]


def recipes(kind: GridKind, size: int, minutes: float, held_out: int, names: Sequence[str]) -> list[Contestant]:
    """The trainings of these names, in their order; UserError if there is no such recipe."""
    found = []
    for name in names:
        if name not in recipe_names(kind):
            raise UserError(f"{kind} has no recipe {name!r}; choose from: {', '.join(recipe_names(kind))}.")
        config = grid_config(kind, size, minutes)
        config = replace(config, data=replace(config.data, seed=SEED), seed=SEED, held_out=held_out, log_every=10)
        found.append(Contestant(name, None, size, CHANGES[name](config)))
    return found


def table(curves: Sequence[dict[str, Any]]) -> list[str]:
    """Rows of a Markdown table, the best first."""
    lines = ["| recipe | parameters | exact % (95 %) | steps | mazes |", "|---|---|---|---|---|"]
    for curve in sorted(curves, key=lambda curve: -curve["final"]["exact"]):
        final = {name: f"{100 * value:.1f}" for name, value in curve["final"].items()}
        name = f"**{curve['method']}**" if curve["method"] == AS_IT_IS else curve["method"]
        lines.append(
            f"| {name} | {curve['parameters']:,} | {final['exact']} ({final['low']} to {final['high']}) | "
            f"{curve['steps']:,} | {curve['mazes']:,} |"
        )
    return lines


def tables(report: dict[str, Any]) -> str:
    """What was trained, and a row for each recipe."""
    size = report["curves"][0]["size"]
    head = (
        f"{size}x{size} DFS mazes, {report['minutes_each']:g} minutes of training each, {report['threads']} thread(s), "
        f"exact paths of {report['held_out']} held-out mazes, left to right:"
    )
    return "\n".join([head, "", *table(report["curves"])]) + "\n"


SECTION = Section("recipes", "grid-recipes.json", "experiments-log.md", tables)
RIVAL_SECTION = Section("rival-recipes", "grid-next-recipes.json", "experiments-log.md", tables)
