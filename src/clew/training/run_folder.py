"""The folder of a run, and the state of its training.

runs/x/config.json        fully resolved: all that is needed to run it again
       metrics.jsonl      a line for every few steps and for every evaluation
       checkpoints/STEP/  see clew.training.checkpoint

folder = RunFolder("runs/x")
with folder.locked():
    checkpoint = folder.begin(config, resume="auto")      # None: from the first step
    state = TrainingState(config, world)
    state.load(checkpoint)
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from clew import __version__
from clew.errors import UserError, report_error
from clew.files import atomic_write, open_own, write_json
from clew.models.build import build_model, count_parameters
from clew.objectives.config import adaptive_of, build_objective
from clew.training.callbacks import METRICS_FILE, check_metrics, metric_lines
from clew.training.checkpoint import (
    CONFIG_FILE,
    discard,
    load_config,
    load_start,
    model_tensors,
    named_weights,
    newest_sound_checkpoint,
    read_checkpoint,
    remove_leftovers,
    saved_checkpoints,
)
from clew.training.config import TrainConfig
from clew.training.distributed import World, copy_named, parallelize
from clew.training.optimizers import Ema, build_optimizer
from clew.training.step import GradScaler

if sys.platform != "win32":
    import fcntl

Resume = Literal["auto", "never"]

# Fields that a resumed run may change: the length of the run, the machine, and how often it reports.
FREE_FIELDS = (
    *("budget", "evaluate_every", "held_out", "log_every", "checkpoint_every", "keep_last"),
    *("micro_batch", "compile", "device", "parallel", "threads", "timeout_hours"),
)


class RunFolder:
    """See the module's docstring."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.metrics = self.path / METRICS_FILE

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training in this folder."""
        if self.path.exists() and not self.path.is_dir():
            raise UserError(f"{self.path} is a file; give the name of a folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        with open_own(self.path / ".lock") as lock:
            if sys.platform != "win32":
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    problem = f"another process is training in {self.path}; wait, or use another --out."
                    raise UserError(problem) from None
            yield

    def begin(self, config: TrainConfig, resume: Resume) -> Path | None:
        """Prepare the folder for a run; return the checkpoint to resume from, or None."""
        if (self.path / CONFIG_FILE).exists():
            if resume == "never":
                raise UserError(f"{self.path} already holds a run; use another --out, or --resume auto to resume it.")
            if found := different(load_config(self.path), config):
                raise UserError(
                    f"{self.path} holds a run with other settings ({found}); use another --out, or the same settings."
                )
        elif any(path.name != ".lock" for path in self.path.iterdir()):
            raise UserError(f"{self.path} holds other files; give --out a new or empty folder.")
        remove_leftovers(self.path)
        checkpoint = newest_sound_checkpoint(self.path)
        write_json(self.path / CONFIG_FILE, config.to_json(), checksum=True)
        step = int(checkpoint.name) if checkpoint else 0
        for path in saved_checkpoints(self.path):
            if int(path.name) > step:  # damaged: kept for inspection, but no longer a checkpoint
                os.replace(path, path.with_name(f"damaged-{path.name}-{secrets.token_hex(3)}"))
        self.cut_metrics(step)
        return checkpoint

    def cut_metrics(self, step: int) -> None:
        """Remove the lines after a step, which the resumed run writes again, and those that cannot be read."""
        lines = metric_lines(self.path)
        kept = [raw for raw, line in lines if line is not None and line["step"] <= step]
        damaged = sum(line is None and raw.endswith(b"\n") for raw, line in lines)  # a kill leaves one without an end
        if damaged:
            report_error(f"{self.metrics} has {damaged} damaged lines, which are left out.")
        else:
            check_metrics(self.path)
        if len(kept) < len(lines):
            with atomic_write(self.metrics, "wb") as file:
                file.writelines(kept)

    def prune(self, keep_last: int, best: int | None) -> None:
        """Remove all checkpoints but the newest few and the best."""
        for path in saved_checkpoints(self.path)[:-keep_last]:
            if int(path.name) != best:
                discard(path)


def different(old: TrainConfig, new: TrainConfig) -> str:
    """Return the first setting in which a resumed run may not differ, in words; empty if there is none."""
    before, after = old.to_json(), new.to_json()
    for name, value in before.items():
        if name in FREE_FIELDS or value == after[name]:
            continue
        if not isinstance(value, dict):
            return f"{name} {value} and not {after[name]}"
        inner = next(key for key in {**value, **after[name]} if value.get(key) != after[name].get(key))
        return f"{name}.{inner} {value.get(inner)} and not {after[name].get(inner)}"
    return ""


class TrainingState:
    """All that the next step depends on: the weights, the optimizer, and how far the run is.

    Batches and targets are pure functions of the step, so no random state and no position in the data is among it.
    """

    def __init__(self, config: TrainConfig, world: World, fresh: bool = True) -> None:
        """Build the state before the first step; `fresh` is False if a checkpoint is going to be loaded."""
        self._config, self._world = config, world
        self.objective = build_objective(config.objective)
        self.adaptive = adaptive_of(self.objective)
        self.model = build_model(config.model, config.seed).to(world.device)
        if fresh and config.start_from:  # a resumed run has its own weights, and the others may be gone
            load_start(self.model, config.start_from)
        self.parameters = count_parameters(self.model)
        if config.compile:
            # In place, so that the parameters keep their names; before DDP or FSDP, which wrap what is compiled.
            self.model.compile()
        self.forward = parallelize(self.model, config.parallel, world)
        self.optimizer = build_optimizer(self.model, config.optimizer)
        self.ema = None if config.ema is None else Ema(self.model, config.ema)
        self.scaler = GradScaler(config.precision)
        self.window = new_window()
        self.step = 0  # steps done
        self.seconds = 0.0  # the main process's clock after the last step, so that all processes agree
        self.mazes = 0  # seen so far
        self.best: dict[str, float] | None = None  # step and exact
        self.scores: dict[str, float] = {}  # of the last evaluation
        self.evaluated_step = -1

    def full_model(self) -> nn.Module:
        """Return the model or, if its weights are sharded, an unsharded copy that each process may use on its own."""
        if self._world.size == 1 or self._config.parallel == "ddp":
            return self.model
        copy = build_model(self._config.model, seed=0).to(self._world.device)
        copy_named(named_weights(copy), model_tensors(self.model), "the sharded model")
        return copy

    def named_tensors(self) -> dict[str, dict[str, Tensor]]:
        """Return the tensors of a checkpoint by file and name, sharded if the model is."""
        found = {"model": named_weights(self.model), "optimizer": self.optimizer.named_state()}
        return found if self.ema is None else found | {"ema": self.ema.named_state()}

    def to_json(self) -> dict[str, Any]:
        """Return the content of state.json."""
        plain = ("step", "seconds", "mazes", "best", "scores", "evaluated_step", "window")
        return {
            **{name: getattr(self, name) for name in plain},
            "loss_scale": self.scaler.state(),
            "adaptive": None if self.adaptive is None else self.adaptive.state(),
            "versions": {"clew": __version__, "torch": torch.__version__},
        }

    def load(self, checkpoint: Path) -> None:
        """Continue from a checkpoint, however many processes wrote it."""
        state, tensors = read_checkpoint(checkpoint)
        for name, own in self.named_tensors().items():
            if name not in tensors:
                raise UserError(f"{checkpoint / name}.safetensors is missing; take another checkpoint.")
            copy_named(own, tensors[name], checkpoint / f"{name}.safetensors")
        try:
            self.step, self.mazes = int(state["step"]), int(state["mazes"])
            self.seconds = float(state["seconds"])
            self.window = {name: float(state["window"][name]) for name in self.window}
            best = state["best"]
            self.best = best and {"step": int(best["step"]), "exact": float(best["exact"])}
            self.scores = {str(name): float(value) for name, value in state["scores"].items()}
            self.evaluated_step = int(state["evaluated_step"])
            self.scaler.load_state(state["loss_scale"])
            if self.adaptive is not None:
                self.adaptive.load_state(state["adaptive"] if "adaptive" in state else state["dwell"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
            raise UserError(f"{checkpoint} is not a state of this Clew ({error!r}); take another checkpoint.") from None


def new_window(begun: float = 0.0) -> dict[str, float]:
    """Return the sums over the steps since the last report; `begun` is the time of training when it was opened.

    They are part of a checkpoint, so that a resumed run reports the same.
    """
    return dict.fromkeys(("loss", "weight", "count", "correct", "mazes", "tokens", "flops", "skipped"), 0.0) | {
        "begun": begun
    }
