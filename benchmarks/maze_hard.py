"""Measure a cell network on long paths: held-out A* mazes of 30x30 whose shortest path has at least 111 cells.

    python benchmarks/maze_hard.py cells-astar --mazes 1000

This is the rule of the Maze-Hard benchmark, whose score is the share of valid and shortest paths. Its own mazes are
other ones; the figures of HRM (74.5 %) and TRM (85.3 %) are on that set.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

import torch

from clew.decoding.decode import parse_decoder
from clew.evaluation.evaluate import evaluate_tasks
from clew.files import write_json
from clew.mazes.generate import generate
from clew.provenance import provenance
from clew.trained import load

SIZE, MIN_PATH, SEED = 30, 111, 2
DECODERS = ("one-pass:loops=1,tolerance=0", "one-pass", "walk-repair")
RESULT = Path(__file__).parents[1] / "results" / "maze-hard.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--mazes", type=int, default=1000)
    parser.add_argument("--min-path", type=int, default=MIN_PATH)
    parser.add_argument("--decoder", nargs="+", default=DECODERS)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    trained = load(options.name)
    tasks = generate(
        "astar", SIZE, SIZE, seed=SEED, first=0, count=options.mazes, split="test", min_path=options.min_path
    )
    found = []
    for name in options.decoder:
        evaluation = evaluate_tasks(
            trained.model, trained.codec, tasks, parse_decoder(name), 20, name=trained.name, decoder_name=name
        )
        found.append(evaluation.to_json())
        print(name, f"valid and shortest {100 * found[-1]['shortest']['share']:.1f} %", flush=True)
    mazes = f"{options.mazes:,} held-out astar mazes of {SIZE}x{SIZE} with paths of at least {options.min_path} cells"
    command = shlex.join(["python", "benchmarks/maze_hard.py", *sys.argv[1:]])
    write_json(options.out, {"mazes": mazes, "provenance": provenance(command, [SEED]), "evaluations": found})


if __name__ == "__main__":
    main()
