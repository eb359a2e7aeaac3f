"""The folder of a run: what is begun, resumed or refused.

runs/x/config.json        fully resolved, all there is to know to run it again
       metrics.jsonl      a line for every few steps and for every evaluation
       checkpoints/STEP/  see clew.training.checkpoint

folder = RunFolder("runs/x")
with folder.locked():
    checkpoint = folder.begin(config, resume="auto")      # None: from the first step

All that the next step of a run depends on: made from a config, or taken from a checkpoint.

    state = RunState(config, world)
    state.load(checkpoint)                                                   # however many processes wrote it
    write_checkpoint(folder, state.step, state.tensors(), state.to_json())

Batches and targets are pure functions of the step, so there is no generator and no place in the data among it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from clew import __version__
from clew.errors import UserError
from clew.files import atomic_write, write_json
from clew.models.build import build_model, count_parameters
from clew.objectives.config import adaptive_of, build_objective
from clew.training.checkpoint import (
    CHECKPOINTS,
    CONFIG_FILE,
    checkpoint_name,
    discard,
    latest_checkpoint,
    load_config,
    load_model_tensors,
    load_start,
    model_tensors,
    read_state,
    read_tensors,
    remove_leftovers,
    steps_saved,
)
from clew.training.config import TrainConfig
from clew.training.distributed import World, share_model
from clew.training.optimizers import Ema, build_optimizer
from clew.training.progress import Window
from clew.training.step import LossScale

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

    def read_metrics(self) -> list[dict[str, Any]]:
        """Return the lines of metrics.jsonl, without one that a kill cut short."""
        if not self.metrics.exists():
            return []
        lines = self.metrics.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if _step_of(line) >= 0]

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


class RunState:
    """The weights, what changes them, and how far the run is."""

    def __init__(self, config: TrainConfig, world: World, fresh: bool = True) -> None:
        """`fresh` is False if a checkpoint is going to be loaded."""
        self._config, self._world = config, world
        self.objective = build_objective(config.objective)
        self.adaptive = adaptive_of(self.objective)
        self.model = build_model(config.model, config.seed).to(world.device)
        if fresh and config.start_from:  # a resumed run has its own weights, and the others may be gone
            load_start(self.model, config.start_from)
        self.parameters = count_parameters(self.model)
        if config.compile:
            # In place, so that the parameters keep their names; before sharing, which wraps what is compiled.
            self.model.compile()
        self.forward = share_model(self.model, config.parallel, world)
        self.optimizer = build_optimizer(self.model, config.optimizer)
        self.ema = None if config.ema is None else Ema(self.model, config.ema)
        self.scale = LossScale(config.precision)
        self.window = Window()
        self.step = 0  # steps done
        self.seconds = 0.0  # the main process's clock after the last step, so that all processes agree
        self.mazes = 0  # seen so far
        self.best: dict[str, float] | None = None  # step and exact
        self.scores: dict[str, float] = {}  # of the last evaluation
        self.evaluated_step = -1

    def whole_model(self) -> nn.Module:
        """The model, or, if its weights are sharded, an unsharded copy, so that processes may use it on their own."""
        if self._world.size == 1 or self._config.parallel == "ddp":
            return self.model
        copy = build_model(self._config.model, seed=0).to(self._world.device)
        load_model_tensors(copy, model_tensors(self.model), "the sharded model")
        return copy

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """What a checkpoint holds in safetensors; shards are gathered, so every process must call this."""
        tensors = {"model": model_tensors(self.model), "optimizer": self.optimizer.state_tensors()}
        if self.ema is not None:
            tensors["ema"] = self.ema.state_tensors()
        return tensors

    def to_json(self) -> dict[str, Any]:
        """What a checkpoint holds in state.json."""
        return {
            "step": self.step,
            "seconds": self.seconds,
            "mazes": self.mazes,
            "best": self.best,
            "scores": self.scores,
            "evaluated_step": self.evaluated_step,
            "loss_scale": self.scale.state(),
            "window": self.window.state(),
            "adaptive": None if self.adaptive is None else self.adaptive.state(),
            "versions": {"clew": __version__, "torch": torch.__version__},
        }

    def load(self, checkpoint: Path) -> None:
        """Go on from a checkpoint."""
        state = read_state(checkpoint)
        path = checkpoint / "model.safetensors"
        load_model_tensors(self.model, read_tensors(path), path)
        self.optimizer.load_state_tensors(read_tensors(checkpoint / "optimizer.safetensors"))
        if self.ema is not None:
            self.ema.load_state_tensors(read_tensors(checkpoint / "ema.safetensors"))
        try:
            self.step, self.mazes = int(state["step"]), int(state["mazes"])
            self.seconds, self.window = float(state["seconds"]), Window(**state["window"])
            self.best, self.scores = state["best"], state["scores"]
            self.evaluated_step = int(state["evaluated_step"])
            self.scale.load_state(state["loss_scale"])
            if self.adaptive is not None:
                self.adaptive.load_state(state["adaptive"] if "adaptive" in state else state["dwell"])
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{checkpoint} is not a state of this Clew ({error!r}); take another checkpoint.") from None
