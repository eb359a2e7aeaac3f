"""Check each choice of the cell network's recipe at an equal number of steps.

    python benchmarks/cell_choices.py --family astar --steps 1000
    python benchmarks/cell_choices.py --family dfs --steps 700 --only as-shipped,sums-only

Every variant changes one thing of `cells-astar-10` or `cells-dfs-10`. The mazes it is scored on (test split, seed 5)
are used for choices only; the reported results of the shipped weights are on other ones (seed 2). Results are added
to results/cell-choices.json one by one, and a variant that is there already is not run again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from work import FAMILIES, command_line

from clew.decoding.decode import decoder_named
from clew.evaluation.evaluate import evaluate_tasks
from clew.files import read_json, write_json
from clew.mazes.generate import generate
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.paper.named_configs import cells_astar_10, cells_dfs_10
from clew.provenance import provenance
from clew.trained import load
from clew.training.config import Budget, TrainConfig
from clew.training.train import train

RESULT = Path(__file__).parents[1] / "results" / "cell-choices.json"
DEVELOPMENT_SEED = 5
SIZES = ((10, 500), (20, 100))
SHORT_RECIPES = {"dfs": cells_dfs_10, "astar": cells_astar_10}


def _model(**changes: Any) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, model=replace(config.model, **changes))  # type: ignore[type-var]


def _optimizer(**changes: Any) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, optimizer=replace(config.optimizer, **changes))


def _hidden(share: float) -> Callable[[TrainConfig], TrainConfig]:
    return lambda config: replace(config, objective=ObjectiveConfig("mlm-u", RateConfig(fully_hidden=share)))


VARIANTS: dict[str, Callable[[TrainConfig], TrainConfig]] = {
    "as shipped": lambda config: config,
    "sum units only": _model(max_units=0.0),
    "half max units": _model(max_units=0.5),
    "max units only": _model(max_units=1.0),
    "side biases start at zero": _model(side_bias=0.0),
    "no warm starts": _model(warm_start=0.0),
    "all warm starts": _model(warm_start=1.0),
    "loops at least the path's cells": _model(loops_per_step=1.0),
    "loops of the size only": _model(loops_per_step=0.0),
    "one step a loop": _model(steps=1),
    "offsets the other way": lambda config: _model(offsets=not config.model.offsets)(config),  # type: ignore[attr-defined]
    "uniform rates only": _hidden(0.0),
    "all fully hidden": _hidden(1.0),
    "Muon twice as fast": lambda config: _optimizer(muon_lr=2 * config.optimizer.muon_lr)(config),
    "Muon half as fast": lambda config: _optimizer(muon_lr=config.optimizer.muon_lr / 2)(config),
    "AdamW for all": _optimizer(kind="adamw"),
    "constant rate": lambda config: replace(config, schedule=replace(config.schedule, decay=0.0)),
    "weight decay 0.01": _optimizer(weight_decay=0.01),
    "no growing sizes": lambda config: replace(config, data=replace(config.data, mixture="mix")),
    "no clipping": lambda config: replace(config, clip=None),
    "no average of the weights": lambda config: replace(config, ema=None),
}


def run(family: str, name: str, steps: int, seed: int) -> dict[str, Any]:
    """Train and score one variant."""
    config = VARIANTS[name](SHORT_RECIPES[family]())
    row = {"family": family, "variant": name, "steps": steps, "seed": seed}
    return row | train_and_score(config, family, steps, seed, SIZES, DEVELOPMENT_SEED)


def train_and_score(
    config: TrainConfig, family: str, steps: int, seed: int, sizes: tuple[tuple[int, int], ...], evaluation_seed: int
) -> dict[str, float]:
    """Train with one thread; return the CPU seconds, and exact and shortest paths of each (size, mazes) in one pass."""
    data = replace(config.data, grow_steps=round(0.4 * steps), seed=seed)
    config = replace(config, data=data, budget=Budget(steps=steps), held_out=0, seed=seed, threads=1)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        train(config, Path(folder) / "run")
        found = {"cpu_seconds": round(time.process_time() - began, 1)}
        trained = load(Path(folder) / "run")
    for size, count in sizes:
        tasks = generate(family, size, size, seed=evaluation_seed, first=0, count=count, split="test")
        scores = evaluate_tasks(trained.model, trained.codec, tasks, decoder_named("one-pass"), 50).scores
        found[f"exact_{size}"], found[f"shortest_{size}"] = scores.exact.share, scores.shortest.share
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=("dfs", "astar"), required=True)
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="names of variants, separated by commas")
    options = parser.parse_args()
    torch.set_num_threads(1)
    wanted = options.only.split(",") if options.only else list(VARIANTS)
    for name in wanted:
        found = read_json(RESULT) if RESULT.exists() else {"rows": []}
        key = (options.family, name, options.steps, options.seed)
        if any((r["family"], r["variant"], r["steps"], r["seed"]) == key for r in found["rows"]):
            continue
        row = run(options.family, name, options.steps, options.seed)
        print(row, flush=True)
        found["rows"].append(row)
        write_json(RESULT, found | {"provenance": provenance(command_line(), [options.seed])})


def tables(report: dict[str, Any]) -> str:
    """One row for each variant, for docs/cells.md."""
    sizes = [size for size, _ in SIZES]
    lines = [
        f"| mazes | variant | steps | CPU seconds | {' | '.join(f'exact % at {size}x{size}' for size in sizes)} |",
        "|---" * (4 + len(sizes)) + "|",
    ]
    for row in report["rows"]:
        exact = " | ".join(f"{100 * row[f'exact_{size}']:.1f}" for size in sizes)
        name = f"{FAMILIES[row['family']]} | {row['variant']}"
        lines.append(f"| {name} | {row['steps']} | {row['cpu_seconds']:.0f} | {exact} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
