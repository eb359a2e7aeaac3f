"""Odd inputs, read in this process: drawings, JSON, token lines, images, CSV, and the files of runs and weights.

    python benchmarks/fuzz.py --count 1 --first 4711 --seed 0      # one input again, with its traceback

Input i is a function of the seed and of i: a good input of some kind with bytes, lines or JSON values changed. It is
read by a fork of this process, in the way that a command reads it. An exception that the command line would print as a
traceback counts as one; no answer within `PATIENCE` seconds is a hang.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import resource
import shutil
import signal
import string
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from clew.errors import UserError, guarded

PATIENCE = 20.0
MEMORY = 8 * 2**30  # bytes of address space of the process that reads
ODD_VALUES = (
    *(None, True, -1, 0, 1, 2, 7, 255, 256, 10**9, 10**18, 10**400, -(2**63), 0.5, -0.0, 1e308, 1e999, float("nan")),
    *("", "x", "²", "\x1b[2J", "\ud800", "a" * 5000, "../../x", "/dev/null", "1e9", "null"),
    *([], [[]], [0], [None], [1, 2, 3], {}, {"a": 1}, {"kind": "cell-network"}),
)
ODD_BYTES = (b"\0", b"\xff", b"\xc3\x28", b"\x1b]0;x\x07", "²".encode(), b"\r", b"\t", b"\xef\xbb\xbf", b"9" * 5000)
DRAWINGS = ("ascii", "block", "box", "binary", "alphamaze")
# The share of all inputs that a kind has; those that build a model take longer.
SHARES = {
    "drawing": 20,
    "json": 15,
    "token lines": 20,
    "csv": 10,
    "image": 10,
    "config.json": 10,
    "metrics.jsonl": 6,
    "dataset.json": 4,
    "model.json": 3,
    "model.safetensors": 1,
    "state.json": 1,
}


@dataclass(frozen=True)
class Kind:
    """Good inputs, and what reads a changed one."""

    good: list[bytes]
    read: Callable[[bytes], object]


def kinds(folder: Path) -> dict[str, Kind]:
    """Return all kinds; files of a run and of weights are written below `folder`."""
    import clew
    from clew.commands import runs
    from clew.data.config import DatasetSettings
    from clew.data.dataset import open_dataset
    from clew.data.writer import write_dataset
    from clew.training import callbacks
    from clew.training.checkpoint import latest_checkpoint, load_model
    from clew.training.distributed import World
    from clew.training.train import Trainer

    small = {"model.width": 8, "model.encoder_depth": 1, "model.decoder_depth": 1, "checkpoint_every": 2}
    config = clew.config("tiny", steps=4, batch_size=4, held_out=2, **small)
    run, weights, data = folder / "run", folder / "weights", folder / "data"
    clew.train(config, run, quiet=True)
    from clew.trained import export_weights

    export_weights(run, weights)
    write_dataset(DatasetSettings("dfs", 4, 4, 0, {"train": 20, "test": 5}), data, workers=1)
    checkpoint = latest_checkpoint(run)
    assert checkpoint is not None
    state = Trainer(config, World(), fresh=True)
    bare = shutil.copytree(weights, folder / "bare")  # weights without checksums, as of version 0.1
    (bare / "model.json").write_bytes(_without_checksum((weights / "model.json").read_bytes()))
    solve = clew.generate("dfs", size=3, n=1)[0][0]

    def file(path: Path, read: Callable[[], object]) -> Kind:
        """Return the kind of a file of a run or of weights, with and without its checksum."""
        good = path.read_bytes()

        def replaced(content: bytes) -> None:
            path.write_bytes(content)
            try:
                read()
            finally:
                path.write_bytes(good)

        return Kind([good, _without_checksum(good)] if path.suffix == ".json" else [good], replaced)

    def read_state() -> None:
        load_model(run)
        state.load(checkpoint)

    def read_metrics() -> None:
        callbacks.read_metrics(run)
        with contextlib.redirect_stdout(io.StringIO()):
            runs.runs((run,))
            runs.runs((run,), json=True)
        for y in ("loss", "exact"):
            for x in ("steps", "mazes", "hours"):
                list(runs.curve(run, y, x))
        callbacks.cut_metrics(run, 3)

    def read_config() -> None:
        clew.config(str(run / "config.json"))
        with contextlib.redirect_stdout(io.StringIO()):
            runs.runs((run,))

    return maze_kinds() | {
        "config.json": file(run / "config.json", read_config),
        "metrics.jsonl": file(run / "metrics.jsonl", read_metrics),
        "dataset.json": file(data / "dataset.json", lambda: open_dataset(data)),
        "model.json": file(weights / "model.json", lambda: clew.load(weights).solve(solve)),
        "model.safetensors": file(bare / "model.safetensors", lambda: clew.load(bare)),
        "state.json": file(checkpoint / "state.json", read_state),
    }


def _without_checksum(content: bytes) -> bytes:
    return json.dumps({name: value for name, value in json.loads(content).items() if name != "sha256"}).encode()


def maze_kinds() -> dict[str, Kind]:
    """Return the kinds of mazes: what `clew solve FILE` reads."""
    from PIL import Image

    import clew
    from clew.mazes.solvers import astar, num_shortest
    from clew.tokenization.read import WRITTEN_KINDS, write_maze

    def read(content: bytes) -> None:
        for found in clew.read(content)[:3]:
            path = astar(found.task).path
            num_shortest(found.task)
            with contextlib.suppress(UserError):  # not every format can say every maze
                write_maze(WRITTEN_KINDS[len(content) % len(WRITTEN_KINDS)], found.task, path)

    sources = {"dfs": 5, "astar": 5, "percolation": 5, "path-star-2x4": (1, 7)}
    tasks = [clew.generate(family, size=size, seed=2, n=1)[0] for family, size in sources.items()]
    good: dict[str, list[bytes]] = {"drawing": [], "json": [], "token lines": [], "csv": []}
    for written in WRITTEN_KINDS:
        name = {"json": "json", "csv": "csv"}.get(written, "token lines")
        for task, path in tasks:
            with contextlib.suppress(UserError):
                text = write_maze(written, task, path)
                good["drawing" if written in DRAWINGS else name].append(text.encode())
    images = []
    for kind, scale in (("PNG", 1), ("PNG", 4), ("GIF", 3), ("BMP", 2), ("JPEG", 8)):
        grid = np.full((7, 7, 3), 255, dtype=np.uint8)
        grid[[0, -1]] = grid[:, [0, -1]] = grid[2, 1:4] = grid[4, 3:6] = 0
        grid[1, 1], grid[5, 5] = (0, 255, 0), (255, 0, 0)
        stream = io.BytesIO()
        Image.fromarray(grid.repeat(scale, 0).repeat(scale, 1)).save(stream, kind)
        images.append(stream.getvalue())
    return {
        "image": Kind(images, read),
        **{name: Kind(texts, read) for name, texts in good.items()},
    }


def changed(content: bytes, chance: random.Random) -> bytes:
    """Return the content with one to four changes of bytes, lines or JSON values."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        change = chance.choice((_change_bytes, _change_lines, _change_json, _change_json))
        content = change(content, chance)
    return content


def _change_bytes(content: bytes, chance: random.Random) -> bytes:
    at, end = sorted(chance.randrange(len(content) + 1) for _ in range(2))
    end = min(end, at + 8) if chance.random() < 0.8 else end
    new = chance.choice((b"", content[at:end] * 2, chance.choice(ODD_BYTES), chance.randbytes(3)))
    if chance.random() < 0.5:
        new = chance.choice(string.printable).encode()
    return content[:at] + new + content[end:]


def _change_lines(content: bytes, chance: random.Random) -> bytes:
    lines = content.split(b"\n")
    chance.shuffle(lines) if chance.random() < 0.3 else lines.insert(chance.randrange(len(lines)), chance.choice(lines))
    return b"\n".join(lines)


def _change_json(content: bytes, chance: random.Random) -> bytes:
    """Replace, remove or repeat a value of some line that is JSON; the content may be one value on many lines."""
    try:
        lines, at = [json.loads(content)], 0
    except (ValueError, RecursionError):
        parts = content.split(b"\n")
        at = chance.randrange(len(parts))
        try:
            lines = [*parts[:at], json.loads(parts[at]), *parts[at + 1 :]]
        except (ValueError, RecursionError):
            return _change_bytes(content, chance)
    text = json.dumps(_odd(lines[at], chance))
    if chance.random() < 0.05:
        text = "[" * 20_000 + text
    if chance.random() < 0.05:
        text = text.replace("{", '{"step": 1, "step": 2, ', 1)
    lines[at] = text.encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def _odd(value: Any, chance: random.Random) -> Any:
    if not value or not isinstance(value, dict | list) or chance.random() < 0.1:
        return chance.choice(ODD_VALUES)
    key = chance.choice([*value]) if isinstance(value, dict) else chance.randrange(len(value))
    new: Any = dict(value) if isinstance(value, dict) else list(value)
    if chance.random() < 0.1:
        del new[key]
    elif isinstance(new, list) and chance.random() < 0.1:
        new += [new[key]] * 300
    else:
        new[key] = _odd(new[key], chance)
    return new


def kind_of(seed: int, i: int) -> tuple[str, random.Random]:
    """Return the kind of input i, and the generator that makes it."""
    chance = random.Random(f"{seed} {i}")
    return chance.choices([*SHARES], [*SHARES.values()])[0], chance


def try_one(kind: Kind, content: bytes) -> tuple[str, str]:
    """Read one input; return its outcome and, if that is bad, why."""
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told), contextlib.redirect_stdout(io.StringIO()):
            code = guarded(lambda: kind.read(content))
    except BaseException:
        return "traceback", traceback.format_exc(limit=-3)
    lines = told.getvalue().splitlines()
    if (code and not lines) or not all(line.startswith("clew: ") and line.isprintable() for line in lines):
        return "traceback", f"not a printable sentence: {told.getvalue()!r}"
    return ("refused" if code else "read"), ""


def run(count: int, seed: int, first: int = 0, show: int = 10) -> dict[str, Counter[str]]:
    """Try the inputs `first` to `first + count` and return the outcomes of each kind."""
    found = {name: Counter(read=0, refused=0, traceback=0, hang=0) for name in SHARES}
    i, last = first, first + count
    while i < last:
        pid, connection = _worker(seed, i, last)
        patience = 10 * PATIENCE  # it first makes a run, weights and a dataset
        while i < last:
            kind = kind_of(seed, i)[0]
            try:
                outcome, why = connection.recv() if connection.poll(patience) else ("hang", "no answer")
            except EOFError:
                outcome, why = "traceback", "the process has crashed"
            found[kind][outcome] += 1
            if why and sum(each["traceback"] + each["hang"] for each in found.values()) <= show:
                print(f"fuzz {i}, {kind}: {why}", file=sys.stderr)
            i += 1
            patience = PATIENCE
            if outcome == "hang" or "crashed" in why:
                break
        connection.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return found


def _worker(seed: int, first: int, last: int) -> tuple[int, Connection]:
    """Start a process that tries the inputs and sends their outcomes."""
    receiver, sender = Pipe(duplex=False)
    if pid := os.fork():
        sender.close()
        return pid, receiver
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        with tempfile.TemporaryDirectory() as name:
            table = kinds(Path(name))
            for i in range(first, last):
                kind, chance = kind_of(seed, i)
                sender.send(try_one(table[kind], changed(chance.choice(table[kind].good), chance)))
            signal.pause()  # what was sent is read before this process is killed
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for kind, outcomes in run(options.count, options.seed, options.first, show=100).items():
        print(f"{kind}: {dict(outcomes)}")


if __name__ == "__main__":
    main()
