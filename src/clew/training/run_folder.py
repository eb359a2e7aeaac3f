"""The folder of a run: what is begun, resumed or refused.

runs/x/config.json        fully resolved, all there is to know to run it again
       metrics.jsonl      a line for every few steps and for every evaluation
       checkpoints/STEP/  see clew.training.checkpoint

folder = RunFolder("runs/x")
with folder.locked():
    checkpoint = folder.begin(config, resume="auto")      # None: from the first step
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from clew.errors import UserError
from clew.files import atomic_write, write_json
from clew.training.checkpoint import (
    CHECKPOINTS,
    CONFIG_FILE,
    checkpoint_name,
    discard,
    latest_checkpoint,
    load_config,
    remove_leftovers,
    steps_saved,
)
from clew.training.config import TrainConfig

if sys.platform != "win32":
    import fcntl

METRICS_FILE = "metrics.jsonl"
Resume = Literal["auto", "never"]

# What may differ between a run and its continuation: it changes how long or where the run goes, or what is told of it.
FREE_FIELDS = {
    "budget",
    "micro_batch",
    "compile",
    "evaluate_every",
    "held_out",
    "log_every",
    "checkpoint_every",
    "keep_last",
    "explosion",
    "device",
    "parallel",
    "threads",
    "timeout_hours",
}


class RunFolder:
    """See the module's docstring."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.metrics = self.path / METRICS_FILE
        self.checkpoints = self.path / CHECKPOINTS

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Within, no other process trains in this folder."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file; give the name of a folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / ".lock", "w") as lock:
            if sys.platform != "win32":
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise UserError(
                        f"another process is training in {self.path}; wait, or use another --out."
                    ) from None
            yield

    def begin(self, config: TrainConfig, resume: Resume) -> Path | None:
        """Make the folder ready for a run; the checkpoint to go on from, or None."""
        if (self.path / CONFIG_FILE).exists():
            if resume == "never":
                raise UserError(f"{self.path} already holds a run; use another --out, or --resume auto to go on.")
            if found := different(load_config(self.path), config):
                raise UserError(
                    f"{self.path} holds a run with other settings ({found}); use another --out, or the same settings."
                )
        elif any(path.name != ".lock" for path in self.path.iterdir()):
            raise UserError(f"{self.path} holds other files; give --out a new or empty folder.")
        remove_leftovers(self.checkpoints)
        write_json(self.path / CONFIG_FILE, config.to_json())
        checkpoint = latest_checkpoint(self.path)
        self.cut_metrics(int(checkpoint.name) if checkpoint else 0)
        return checkpoint

    def cut_metrics(self, step: int) -> None:
        """Remove the lines after a step, and one that a kill cut short: the resumed run writes them again."""
        if not self.metrics.exists():
            return
        lines = self.metrics.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [line for line in lines if 0 <= _step_of(line) <= step]
        if len(kept) < len(lines):
            with atomic_write(self.metrics) as file:
                file.writelines(kept)

    def prune(self, keep_last: int, best: int | None) -> None:
        """Remove all checkpoints but the newest few and the best."""
        for step in steps_saved(self.checkpoints)[:-keep_last]:
            if step != best:
                discard(self.checkpoints / checkpoint_name(step))


def _step_of(line: str) -> int:
    """The step of a line of metrics.jsonl; -1 if it is not whole."""
    try:
        value = json.loads(line)
    except ValueError:
        return -1
    return int(value["step"]) if line.endswith("\n") and isinstance(value, dict) and "step" in value else -1


def different(old: TrainConfig, new: TrainConfig) -> str:
    """The first setting that two runs of one folder may not differ in, in words; empty if there is none."""
    before, after = old.to_json(), new.to_json()
    for name, value in before.items():
        if name not in FREE_FIELDS and value != after[name]:
            if isinstance(value, dict):
                inner = next(key for key in {**value, **after[name]} if value.get(key) != after[name].get(key))
                return f"{name}.{inner} {value.get(inner)} and not {after[name].get(inner)}"
            return f"{name} {value} and not {after[name]}"
    return ""
