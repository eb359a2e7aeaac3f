"""Animate how a shipped cell network plans: its prediction after each loop, then the decoded path.

python benchmarks/plan_gif.py      # docs/plan.gif
"""

from __future__ import annotations

import sys
from pathlib import Path

import tyro

from clew.errors import guarded
from clew.mazes.generate import generate
from clew.trained import load


def main(
    model: str = "cells-dfs", size: int = 15, seed: int = 3, maze: int = 1, out: Path = Path("docs/plan.gif")
) -> None:
    """Solve one held-out maze of the model's family.

    Args:
        model: name or folder of a cell network.
        size: rows and columns.
        seed: of the held-out mazes.
        maze: number of the maze.
        out: the GIF file.
    """
    trained = load(model)
    task, _ = generate(trained.family, size, size, seed=seed, first=maze, count=1, split="test")[0]
    solution = trained.solve(task)
    solution.animate(out)
    print(f"{out}: {solution.verdict}")


if __name__ == "__main__":
    sys.exit(guarded(lambda: tyro.cli(main)))
