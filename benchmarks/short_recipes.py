"""Train the short recipes cells-dfs-10 and cells-astar-10 with three seeds, and evaluate them on held-out mazes.

    python benchmarks/short_recipes.py                   # about 15 minutes of one core; results/short-recipes.json

One thread; the minutes are CPU time, which other programs hardly change. The mazes are those of the shipped weights'
tables: test split, seed 2. Runs that the result file has already are not run again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import tyro
from cell_choices import SHORT_RECIPES, train_and_score
from work import FAMILIES, announce, command_line, save

from clew.errors import guarded
from clew.files import read_json
from clew.provenance import provenance

EVALUATION_SEED = 2


def main(
    seeds: tuple[int, ...] = (0, 1, 2),
    sizes: tuple[int, ...] = (10, 15, 20),
    mazes: tuple[int, ...] = (2000, 500, 200),
    steps: int | None = None,
    out: Path = Path("results/short-recipes.json"),
) -> None:
    """Train and evaluate what is missing; `steps` replaces those of the recipes."""
    torch.set_num_threads(1)
    report: dict[str, Any] = read_json(out) if out.exists() else {"runs": []}
    for family, recipe in SHORT_RECIPES.items():
        config = recipe()
        for seed in seeds:
            run_steps = steps or config.budget.steps
            key = {"family": family, "seed": seed, "steps": run_steps}
            if any(key.items() <= run.items() for run in report["runs"]):
                continue
            announce(f"{FAMILIES[family]}, seed {seed}")
            counts = tuple(zip(sizes, mazes, strict=True))
            run = train_and_score(config, family, run_steps, seed, counts, EVALUATION_SEED)
            report["runs"].append(key | run)
            save(out, report | {"provenance": provenance(command_line(), list(seeds))})


def tables(report: dict[str, Any]) -> str:
    """One row for each family and size: the mean and every seed, for docs/cells.md and the cards."""
    lines = [
        "| recipe | steps | CPU minutes | mazes | exact %, mean | exact %, each seed |",
        "|---|---|---|---|---|---|",
    ]
    for family in FAMILIES:
        runs = [run for run in report["runs"] if run["family"] == family]
        for size in sorted({int(name.removeprefix("exact_")) for run in runs for name in run if "exact_" in name}):
            exact = [100 * run[f"exact_{size}"] for run in runs]
            minutes = mean(run["cpu_seconds"] for run in runs) / 60
            lines.append(
                f"| `cells-{family}-10` | {runs[0]['steps']:,} | {minutes:.1f} | {size}x{size} | {mean(exact):.1f} | "
                f"{', '.join(f'{each:.1f}' for each in exact)} |"
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(guarded(lambda: tyro.cli(main)))
