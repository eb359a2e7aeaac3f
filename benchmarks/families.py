"""Measure the shipped cell networks on families of mazes that they were not trained on, and with many more loops.

    python benchmarks/families.py            # results/cells-families.json; a few minutes of one core

Other families have loops in the maze or other dead ends than those of the training. A recurrent network can also leave
a correct answer when it runs on (a limit cycle), so the family of the training is measured with eight times the loops.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from work import announce, command_line, save

from clew.decoding.decode import parse_decoder
from clew.evaluation.evaluate import evaluate_tasks
from clew.mazes.generate import generate
from clew.provenance import provenance
from clew.trained import load

MODELS = {"cells-dfs": "dfs", "cells-astar": "astar"}  # with the family of the training
FAMILIES = ("dfs", "wilson", "kruskal", "percolation", "astar")
SIZES = ((10, 500), (20, 200))  # and the number of mazes
SEED = 2
SETTLED, MANY = "one-pass", "one-pass:loops=8,tolerance=0"
RESULT = Path(__file__).parents[1] / "results" / "cells-families.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for name, trained_on in MODELS.items():
        for family in FAMILIES:
            for size, mazes in SIZES:
                announce(f"{name} on {family} {size}x{size}")
                found.append(measure(name, family, size, mazes, SETTLED))
                if family == trained_on:
                    found.append(measure(name, family, size, mazes, MANY))
    save(options.out, {"provenance": provenance(command_line(), [SEED]), "measured": found})


def measure(name: str, family: str, size: int, mazes: int, decoder: str) -> dict[str, Any]:
    """Return the evaluation of a model on held-out mazes of a family."""
    trained = load(name)
    tasks = generate(family, size, size, seed=SEED, first=0, count=mazes, split="test")
    evaluation = evaluate_tasks(trained.model, trained.codec, tasks, parse_decoder(decoder), decoder_name=decoder)
    found = {name: evaluation.to_json()[name] for name in ("exact", "shortest", "decoder")}
    return {"model": name, "family": family, "size": size, "mazes": mazes} | found


def tables(report: dict[str, Any]) -> str:
    """Return a row for each model, family and size, for docs/cells.md."""
    lines = [
        "| weights | mazes | loops | exact % (95 %) | valid and shortest % (95 %) |",
        "|---|---|---|---|---|",
    ]
    for each in report["measured"]:
        shares = [
            f"{100 * each[name]['share']:.1f} ({100 * each[name]['low']:.1f} to {100 * each[name]['high']:.1f})"
            for name in ("exact", "shortest")
        ]
        loops = "until the labels settle" if each["decoder"] == SETTLED else "eight times the config's"
        mazes = f"{each['mazes']} of {each['size']}x{each['size']}, `{each['family']}`"
        lines.append(f"| `{each['model']}` | {mazes} | {loops} | {' | '.join(shares)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
