"""All that the next step of a run depends on: made from a config, or taken from a checkpoint.

    state = RunState(config, world)
    state.load(checkpoint)                                                   # however many processes wrote it
    write_checkpoint(folder, state.step, state.tensors(), state.to_json())

Batches and questions are pure functions of the step, so there is no generator and no place in the data among it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clew import __version__
from clew.errors import UserError
from clew.models.build import build_model, count_parameters
from clew.objectives.config import adaptive_of, build_objective
from clew.training.checkpoint import load_model_tensors, load_start, model_tensors, read_state, read_tensors
from clew.training.config import TrainConfig
from clew.training.distributed import World, share_model
from clew.training.ema import Ema
from clew.training.optimizers import build_optimizer
from clew.training.precision import LossScale
from clew.training.progress import Window
from clew.training.stability import GradientWatch


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
        self.watch = GradientWatch(config.explosion, floor=config.clip or 1.0)
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
            "gradient_norms": self.watch.state(),
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
            self.watch.load_state(state["gradient_norms"])
            if self.adaptive is not None:
                self.adaptive.load_state(state["adaptive"] if "adaptive" in state else state["dwell"])
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{checkpoint} is not a state of this Clew ({error!r}); take another checkpoint.") from None
