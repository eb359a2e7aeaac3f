"""Measure what ending the loops of a cell network early gains, on mazes of the training split.

    python benchmarks/early_stop.py                 # results/early-stop.json, and the table of docs/decoding.md
    python benchmarks/early_stop.py --smoke         # a few mazes, printed and not written

The defaults of the decoder options `loops`, `tolerance` and `every` were chosen on mazes of the training split with the
seeds 7 and 8. This script measures them on others of that split, beside a fixed number of loops. The decoders take
turns on groups of 25 mazes. One thread; time is that of the processor, so other work matters little.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import torch

from clew.decoding.decode import decode, parse_decoder
from clew.evaluation.scores import proportion
from clew.files import write_json
from clew.mazes.generate import generate
from clew.mazes.maze import TaskBatch
from clew.provenance import provenance
from clew.trained import TrainedModel, load

SEED, GROUP = 9, 25
ONE, FOUR, DEFAULT = "one-pass:loops=1,tolerance=0", "one-pass:loops=4,tolerance=0", "one-pass"
# Model, side, the shortest path, mazes, decoders. Four times the loops of a 30x30 DFS maze are 728.
SETS: tuple[tuple[str, int, int, int, tuple[str, ...]], ...] = (
    ("cells-astar", 10, 1, 1000, (ONE, FOUR, DEFAULT)),
    ("cells-astar", 20, 1, 500, (ONE, FOUR, DEFAULT)),
    ("cells-astar", 30, 1, 300, (ONE, FOUR, DEFAULT)),
    ("cells-astar", 30, 111, 100, (ONE, FOUR, DEFAULT)),
    ("cells-dfs", 10, 1, 500, (ONE, FOUR, DEFAULT)),
    ("cells-dfs", 20, 1, 300, (ONE, DEFAULT)),
    ("cells-dfs", 30, 1, 200, (ONE, DEFAULT)),
)
RESULT = Path(__file__).parents[1] / "results" / "early-stop.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="two mazes of the first set, printed and not written")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for name, side, min_path, mazes, decoders in SETS[:1] if options.smoke else SETS:
        model = load(name)
        tasks = generate(
            model.family,
            side,
            side,
            seed=SEED,
            first=0,
            count=2 if options.smoke else mazes,
            split="train",
            min_path=min_path,
        )
        rows = measure(model, tasks, decoders)
        found.append({"model": name, "side": side, "min_path": min_path, "mazes": len(tasks), "decoders": rows})
        print("\n".join(table_rows(found[-1])), flush=True)
        if not options.smoke:
            command = shlex.join(["python", "benchmarks/early_stop.py", *sys.argv[1:]])
            write_json(options.out, {"provenance": provenance(command, [SEED]), "split": "train", "measured": found})


def measure(model: TrainedModel, tasks: TaskBatch, decoders: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return shares of exact and of shortest paths and milliseconds a maze of each decoder."""
    exact, shortest, seconds = dict.fromkeys(decoders, 0), dict.fromkeys(decoders, 0), dict.fromkeys(decoders, 0.0)
    for decoder in decoders:  # compiles
        decode(model.model, model.codec.decoding_state(tasks[:1]), parse_decoder(decoder))
    for first in range(0, len(tasks), GROUP):
        group = tasks[first : first + GROUP]
        for decoder in decoders:
            began = time.process_time()
            decoded = decode(model.model, model.codec.decoding_state(group), parse_decoder(decoder))
            seconds[decoder] += time.process_time() - began
            for row, (task, path) in enumerate(group[i] for i in range(len(group))):
                walk = [divmod(cell, group.width) for cell in decoded.response(row)[:-1]]
                exact[decoder] += walk == path
                shortest[decoder] += walk[-1] == task.goal and len(walk) == len(path)
    count = len(tasks)
    return [
        {
            "decoder": decoder,
            "exact": dataclasses.asdict(proportion(exact[decoder], count)),
            "shortest": dataclasses.asdict(proportion(shortest[decoder], count)),
            "milliseconds": 1000 * seconds[decoder] / count,
        }
        for decoder in decoders
    ]


def table_rows(measured: dict[str, Any]) -> list[str]:
    """Return the rows of the table of docs/decoding.md."""
    side, path = measured["side"], f", paths of at least {measured['min_path']}" if measured["min_path"] > 1 else ""
    what = f"{measured['model']} {side}x{side}{path} ({measured['mazes']:,} mazes)"
    return [
        f"| {what} | `{row['decoder']}` | {100 * row['exact']['share']:.1f} | {100 * row['shortest']['share']:.1f} "
        f"| {row['milliseconds']:.1f} |"
        for row in measured["decoders"]
    ]


if __name__ == "__main__":
    main()
