"""Compare cells-dfs with the grid-pointer that it replaced: milliseconds a maze and accuracy, side by side.

    python benchmarks/grid_pointer.py                    # results/grid-pointer.json

The old code and weights are taken from the history of this repository. Both models solve the same held-out DFS mazes
with one thread, in turns, each with the decoder that its README reported. The median of the turns is reported.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro
from work import announce, command_line, save

from clew.errors import UserError, guarded
from clew.provenance import provenance

# The first decoder of each is not reported.
OLD_COMMIT, OLD_MODEL, OLD_DECODERS = "1083ef5", "grid-dfs", ("threshold", "repair")
MODEL, DECODERS = "cells-dfs", ("walk", "one-pass", "walk-repair")
ROOT = Path(__file__).parents[1]
SEED = 3


def main(
    sizes: tuple[int, ...] = (10, 20, 30),
    mazes: tuple[int, ...] = (200, 40, 8),
    turns: int = 3,
    out: Path = Path("results/grid-pointer.json"),
) -> None:
    """Measure `mazes` mazes of each size in `turns` turns."""
    if len(sizes) != len(mazes) or turns < 1:
        raise UserError("give as many --mazes as --sizes, and --turns 1 or more.")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", OLD_COMMIT], cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        for size, count in zip(sizes, mazes, strict=True):
            found += measure(Path(folder), size, count, turns)
    save(out, {"provenance": provenance(command_line(), [SEED]), "turns": turns, "measured": found})


def measure(old: Path, size: int, count: int, turns: int) -> list[dict[str, Any]]:
    """Return a row for each model and decoder."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for turn in range(turns):
        announce(f"{size}x{size}, turn {turn + 1}")
        for source, model, decoders in ((old, OLD_MODEL, OLD_DECODERS), (ROOT, MODEL, DECODERS)):
            for each in evaluate(source, model, decoders, size, count):
                rows.setdefault((model, each["decoder"]), []).append(each)
    return [
        {
            "size": size,
            "mazes": count,
            "model": model,
            "decoder": decoder,
            "milliseconds": 1000 * statistics.median(each["seconds_per_maze"] for each in found),
            "passes": found[0]["passes"],
            "exact": found[0]["exact"],
        }
        for (model, decoder), found in rows.items()
    ]


def evaluate(source: Path, model: str, decoders: Sequence[str], size: int, count: int) -> list[dict[str, Any]]:
    """Return the evaluations that `clew evaluate --json` prints with the code of a folder, in one thread.

    Another decoder runs first, because the first one compiles or loads the kernels.
    """
    words = ["evaluate", model, "--size", str(size), "--mazes", str(count), "--seed", str(SEED), "--json"]
    environment = os.environ | {"PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "clew", *words, "--decoder", *decoders]
    result = subprocess.run(command, cwd=source, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    found: list[dict[str, Any]] = json.loads(result.stdout)["evaluations"]
    return found[1:]


def tables(report: dict[str, Any]) -> str:
    """One row for each size, model and decoder, for docs/cells.md."""
    lines = [
        f"| mazes | model | decoder | ms a maze (median of {report['turns']}) | times as fast | passes | exact |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in report["measured"]:
        (old,) = (row for row in report["measured"] if row["size"] == each["size"] and row["model"] == OLD_MODEL)
        lines.append(
            f"| {each['mazes']} of {each['size']}x{each['size']} | `{each['model']}` | `{each['decoder']}` | "
            f"{each['milliseconds']:,.1f} | {old['milliseconds'] / each['milliseconds']:.1f} | {each['passes']:.1f} | "
            f"{each['exact']['hits']} of {each['exact']['count']} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(guarded(lambda: tyro.cli(main)))
