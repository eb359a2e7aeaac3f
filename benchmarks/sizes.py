"""Measure shipped cell networks by size and path length, on held-out mazes of seed 2.

    python benchmarks/sizes.py cells-dfs                # 5x5 to 30x30: results/cells-dfs.json, the card, docs/cells.md
    python benchmarks/sizes.py cells-dfs --larger       # 40x40, 60x60 and 100x100: results/cells-dfs-larger.json

One thread. Run it from the root of the repository.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
from pathlib import Path

import torch
from weights_card import main as write_pages

from clew.cli import run
from clew.files import write_json

# Size and number of mazes.
SIZES = ((5, 2000), (10, 2000), (15, 1000), (20, 500), (30, 300))
LARGER = ((40, 50), (60, 20), (100, 5))
SEED = 2


def evaluate(name: str, size: int, mazes: int, decoders: list[str]) -> str:
    """Return what `clew evaluate --json` prints."""
    words = ["evaluate", name, "--size", str(size), "--mazes", str(mazes), "--seed", str(SEED)]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = run([*words, "--decoder", *decoders, "--json"])
    if code:
        raise SystemExit(code)
    return out.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--larger", action="store_true")
    parser.add_argument("--smoke", action="store_true", help="two mazes of each size, printed and not written")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sizes = [(size, 2 if options.smoke else mazes) for size, mazes in (LARGER if options.larger else SIZES)]
    # Repair of mazes this large takes hours: it makes many passes of thousands of loops.
    decoders = ["one-pass"] if options.larger else ["one-pass", "walk-repair"]
    reports = []
    for size, mazes in sizes[:1] if options.smoke else sizes:
        reports.append(evaluate(options.name, size, mazes, decoders))
        for each in json.loads(reports[-1])["evaluations"]:
            print(
                size,
                each["decoder"],
                f"{100 * each['exact']['share']:.2f} %",
                f"{each['passes']:.2f} passes",
                flush=True,
            )
    if options.smoke:
        return
    if options.larger:
        found = {"measured": [json.loads(each) for each in reports]}
        write_json(Path("results") / f"{options.name}-larger.json", found)
        return
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{size}.json" for size, _ in sizes]
        for file, report in zip(files, reports, strict=True):
            file.write_text(report)
        write_pages(options.name, files)


if __name__ == "__main__":
    main()
