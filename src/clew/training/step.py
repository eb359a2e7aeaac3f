"""The state of a run, and its steps: the gradient is the same for one process and for many.

    state = TrainingState(config, World())
    sums = state.compute_gradient(local_batch(loader.batch(0), state.objective, config.seed, 0, rows, World()))
    norm = state.apply_gradient()

The loss of a step is

    sum over all predicted tokens of all processes (weight * cross-entropy)  /  sum of all those weights

Processes hide different numbers of tokens, so the weights are summed over the processes first, each part divides by the
total, and the gradients are summed.

Shape suffixes: B mazes, T positions, Q queries, V vocabulary, K bins of adaptive rates.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew import __version__
from clew.data.batch import Batch
from clew.data.loader import rank_rows
from clew.errors import UserError
from clew.models.build import build_model, count_parameters
from clew.models.config import autocast
from clew.objectives.builtin import adaptive_of, build_objective
from clew.objectives.targets import Noise, Objective, Predict, Targets, cross_entropy_sum, row_losses
from clew.training.checkpoint import copy_named, load_start, read_checkpoint
from clew.training.config import TrainConfig
from clew.training.distributed import World
from clew.training.optimizers import Ema, Optimizer, trainable

# Of the loss in float16, so that small gradients do not underflow; as in torch.amp.GradScaler.
FIRST_SCALE, GROW_AFTER = 2.0**16, 2000
# Gradients that overflow even when hardly scaled are wrong in themselves.
SMALLEST_SCALE = 2.0**-4


class LocalBatch(NamedTuple):
    """One process's share of a step."""

    batch: Batch
    targets: Targets


def local_batch(
    batch: Batch, objective: Objective, seed: int, step: int, rows: int, world: World, model: Predict | None = None
) -> LocalBatch:
    """Return this process's mazes, of `rows` in all, and their targets, which do not depend on the other processes.

    Without a model, masks that would follow its confidence are random.
    """
    batch = batch.to(world.device)
    row_B = torch.arange(rows)[rank_rows(rows, world.rank, world.size)].to(world.device)
    noise = Noise.for_step(seed, step, row_B, rows)
    targets = objective.targets(batch, noise) if model is None else objective.targets_for(model, batch, noise)
    return LocalBatch(batch, targets)


def micro_batches(local: LocalBatch, most: int | None) -> list[LocalBatch]:
    """Split it into micro-batches of at most `most` mazes of similar length."""
    count = len(local.batch)
    if most is None or most >= count:
        return [local]
    found = []
    for rows in local.batch.valid_BT.sum(1).argsort(stable=True).tensor_split(-(-count // most)):
        targets = Targets(*(getattr(local.targets, field.name)[rows] for field in fields(Targets)))
        found.append(LocalBatch(local.batch.rows(rows), targets))
    return found


def next_scale(scale: float, good_steps: int, finite: bool) -> tuple[float, int]:
    """Return the loss scale and the good steps since it changed, after a step with or without a finite gradient."""
    if not finite:
        return scale / 2, 0
    return (scale * 2, 0) if good_steps + 1 == GROW_AFTER else (scale, good_steps + 1)


class TrainingState:
    """All that the next step depends on: the weights, the optimizer, and how far the run is.

    Batches and targets are pure functions of the step, so no random state and no position in the data is among it.
    """

    def __init__(self, config: TrainConfig, world: World, fresh: bool = True) -> None:
        """Build the state before the first step; `fresh` is False if a checkpoint is going to be loaded."""
        self.config, self.world = config, world
        self.objective = build_objective(config.objective)
        self.adaptive = adaptive_of(self.objective)
        self.model = build_model(config.model, config.seed).to(world.device)
        if fresh and config.start_from:  # a resumed run has its own weights, and the others may be gone
            load_start(self.model, config.start_from)
        self.parameters = count_parameters(self.model)
        if config.compile:
            self.model.compile()  # in place, so that the parameters keep their names
        self.optimizer = Optimizer(self.model, config.optimizer)
        self.ema = None if config.ema is None else Ema(self.model, config.ema)
        self.scale, self.good_steps = FIRST_SCALE if config.precision == "fp16" else 1.0, 0
        # Sums over the steps since the last report, and the time of training when that was made ("begun"). In a
        # checkpoint, so that a resumed run reports the same.
        self.window: dict[str, float] = defaultdict(float)
        self.step = 0  # steps done
        self.seconds = 0.0  # the main process's clock after the last step, so that all processes agree
        self.mazes = 0  # seen so far
        self.best: dict[str, float] | None = None  # step and exact
        self.scores: dict[str, float] = {}  # of the last evaluation
        self.evaluated_step = -1

    def compute_gradient(self, local: LocalBatch) -> dict[str, float]:
        """Compute the gradient of a step, times the loss scale; update the adaptive masking rates.

        Returns sums over all processes: the weighted loss, its weight, the predicted tokens, and the correct ones.
        """
        model, world, adaptive = self.model, self.world, self.adaptive
        model.zero_grad()
        weight = float(world.sum(local.targets.weight_BT[local.targets.query_BT].double().sum()))
        # A step without targets has a zero gradient, not a division by zero.
        factor = self.scale / max(weight, 1e-30) if weight else 0.0
        totals = torch.zeros(4, dtype=torch.float64, device=world.device)
        tally_2K = torch.zeros(2, adaptive.bins if adaptive else 0, dtype=torch.float64, device=world.device)
        for batch, targets in micro_batches(local, self.config.micro_batch):
            with autocast(self.config.precision, world.device):
                logits_QV = model(batch, targets.order_BT, targets.query_BT)
            sums = cross_entropy_sum(logits_QV, targets)
            torch.autograd.backward(sums.loss * factor)
            totals += sums.totals()
            if adaptive is not None:
                share_B = targets.query_BT.sum(1) / batch.response_BT.sum(1)
                tally_2K += adaptive.tally(share_B, row_losses(sums, targets))
        world.sum_gradients(model)
        if adaptive is not None:
            adaptive.update(world.sum(tally_2K))
        return dict(zip(("loss", "weight", "count", "correct"), world.sum(totals).tolist(), strict=True))

    @torch.no_grad()
    def apply_gradient(self) -> float:
        """Clip the gradient, update the weights and the loss scale; return the gradient's norm before clipping.

        If it is not finite, the weights stay as they are.
        """
        gradients = [p.grad for p in trainable(self.model).values() if p.grad is not None]
        norm = float(torch.nn.utils.get_total_norm(gradients)) / self.scale
        finite = math.isfinite(norm)
        if finite:
            clip = 1.0 if self.config.clip is None else min(1.0, self.config.clip / (norm + 1e-6))
            if clip != self.scale:
                torch._foreach_mul_(gradients, clip / self.scale)
            self.optimizer.step()
            if self.ema is not None:
                self.ema.update()
        if self.config.precision == "fp16":
            self.scale, self.good_steps = next_scale(self.scale, self.good_steps, finite)
        return norm

    def named_tensors(self) -> dict[str, dict[str, Tensor]]:
        """Return the tensors of a checkpoint by file and name; not copies."""
        found = {"model": self.model.state_dict(), "optimizer": self.optimizer.named_state()}
        return found if self.ema is None else found | {"ema": self.ema.named_state()}

    def to_json(self) -> dict[str, Any]:
        """Return the content of state.json."""
        plain = ("step", "seconds", "mazes", "best", "scores", "evaluated_step", "window")
        return {
            **{name: getattr(self, name) for name in plain},
            "loss_scale": {"value": self.scale, "good_steps": self.good_steps},
            "adaptive": None if self.adaptive is None else self.adaptive.state(),
            "versions": {"clew": __version__, "torch": torch.__version__},
        }

    def load(self, checkpoint: Path) -> None:
        """Continue from a checkpoint, however many processes wrote it."""
        state, tensors = read_checkpoint(checkpoint)
        for name, own in self.named_tensors().items():
            copy_named(own, tensors.get(name, {}), checkpoint / f"{name}.safetensors")
        try:
            self.step, self.seconds, self.mazes = int(state["step"]), float(state["seconds"]), int(state["mazes"])
            self.window.update({name: float(value) for name, value in state["window"].items()})
            best, scale = state["best"], state["loss_scale"]
            self.best = best and {"step": int(best["step"]), "exact": float(best["exact"])}
            self.scores = {str(name): float(value) for name, value in state["scores"].items()}
            self.evaluated_step = int(state["evaluated_step"])
            self.scale, self.good_steps = float(scale["value"]), int(scale["good_steps"])
            if self.adaptive is not None:
                self.adaptive.load_state(state["adaptive"] if "adaptive" in state else state["dwell"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
            raise UserError(f"{checkpoint} is not a state of this Clew ({error!r}); take another checkpoint.") from None
