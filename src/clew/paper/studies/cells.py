"""Trainings of our own questions on the cell network: the objectives on one network, and decoders.

All objectives train the same network from the same weights on the same mazes for the same steps; only the labels that
are hidden and predicted differ.
"""

from __future__ import annotations

from dataclasses import replace

from clew.decoding.decode import DECODERS
from clew.objectives.config import ObjectiveConfig
from clew.paper.named_configs import CELL_SAMPLER, SMALL_SIZES, CellFamily, cells, laptop_dfs_4_mlmu
from clew.paper.results import HELD_OUT, MLMU, NEXT
from clew.paper.studies.text import dfs_run
from clew.paper.study import EvaluationSpec, RunScale, RunSpec, square
from clew.training.config import TrainConfig

# One cell a pass, from the start: what left to right is on text. The loops are those of training: labels of next token
# do not settle, because all but the neighbours of the last cell are arbitrary.
LEFT_TO_RIGHT = "walk:query=cell,loops=1,tolerance=0"
STEPS = {"laptop": {"dfs": 2000, "astar": 1500}, "paper": {"dfs": 20_000, "astar": 20_000}}
EVALUATIONS, HELD_OUT_A_SIZE = 24, 50  # of a run
MAZES = {"laptop": 500, "paper": 2000}  # of an evaluation
FAMILIES: dict[str, CellFamily] = {"DFS": "dfs", "A*": "astar"}
SAMPLED = "MLM-U, 0.9 fully hidden"
ON_CELLS = {NEXT: ObjectiveConfig("next-token"), MLMU: ObjectiveConfig(), SAMPLED: ObjectiveConfig(rates=CELL_SAMPLER)}


def cell_run(scale: RunScale, family: CellFamily, objective: str, size: int, steps: int) -> TrainConfig:
    """Return an objective on the cell network, on mazes of growing sizes up to this one."""
    config = cells(family, (*(smaller for smaller in SMALL_SIZES if smaller < size), size), steps=steps)
    return replace(
        config,
        objective=ON_CELLS[objective],
        evaluate_every=max(1, steps // EVALUATIONS),
        held_out=HELD_OUT_A_SIZE * len(config.data.sizes),
        keep_last=1,
        threads=1 if scale == "laptop" else None,
    )


def objective_runs(scale: RunScale) -> list[RunSpec]:
    size, found = 20 if scale == "paper" else 10, []
    decoders = {HELD_OUT: LEFT_TO_RIGHT, "one pass": "one-pass"}
    evaluations = tuple(EvaluationSpec(word, MAZES[scale], size, decoder=name) for word, name in decoders.items())
    for word, family in FAMILIES.items():
        for name in ON_CELLS:
            labels = {"family": word, "objective": name, "size": square(size)}
            config = cell_run(scale, family, name, size, STEPS[scale][family])
            found.append(RunSpec(labels, config, evaluations, seeds=1 if name == SAMPLED else None))
    return found


def decoder_runs(scale: RunScale) -> list[RunSpec]:
    on_text, on_cells = (
        tuple(EvaluationSpec(name, mazes=MAZES[scale], decoder=name) for name in names)
        for names in (DECODERS, (LEFT_TO_RIGHT, "one-pass", "walk", "walk:origin=goal", "walk-repair"))
    )
    if scale == "laptop":
        # Half an hour of two cores: the decoders of a model that has learnt little hardly differ.
        found = [RunSpec({"model": "text, 4x4"}, replace(laptop_dfs_4_mlmu(), threads=2), on_text)]
    else:
        found = [replace(dfs_run(scale, MLMU, 10, evaluations=on_text), labels={"model": "text, 10x10"})]
    for size, steps in ((5, 700), (10, 1500)) if scale == "laptop" else ((10, 20_000), (20, 20_000)):
        config = cell_run(scale, "dfs", SAMPLED, size, steps)
        found.append(RunSpec({"model": f"cell network, {square(size)}"}, config, on_cells))
    return found
