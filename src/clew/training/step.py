"""One training step and the state it changes: the gradient is the same for one process and for many.

The loss of a step is

    sum over all predicted tokens of all processes (weight * cross-entropy)  /  sum of all those weights

Processes hide different numbers of tokens, so the weights are summed over the processes first, and each part divides by
the total. DDP and FSDP average gradients over processes, so the loss is multiplied by their number.

Shape suffixes: B mazes, T positions, Q queries, V vocabulary.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from clew import __version__
from clew.data.batch import Batch
from clew.data.loader import rank_rows
from clew.errors import UserError
from clew.models.build import build_model, count_parameters
from clew.models.config import Precision, autocast
from clew.objectives.builtin import AdaptiveRate, adaptive_of, build_objective
from clew.objectives.targets import Noise, Objective, Predict, Targets, cross_entropy_sum, row_losses
from clew.training.checkpoint import load_start, model_tensors, named_weights, read_checkpoint
from clew.training.config import TrainConfig
from clew.training.distributed import World, copy_named, full_tensor, gradient_sync, named_parameters, parallelize
from clew.training.optimizers import Ema, build_optimizer

FIRST_SCALE, GROW_AFTER = 2.0**16, 2000
# Gradients that overflow even when hardly scaled are wrong in themselves.
SMALLEST_SCALE = 2.0**-4


class GradScaler:
    """The factor on the loss that keeps small float16 gradients from underflowing; 1 in other precisions.

    Follows torch.amp.GradScaler: starts at 65,536, halves when a gradient overflows, doubles after 2,000 good steps.
    Not torch's own because the loop already has the norm of the whole gradient, over all processes and shards.
    """

    def __init__(self, precision: Precision) -> None:
        self.active = precision == "fp16"
        self.value = FIRST_SCALE if self.active else 1.0
        self.good_steps = 0

    @property
    def can_shrink(self) -> bool:
        """Whether an overflow may come from the scale, so that the step is skipped and the run continues."""
        return self.active and self.value > SMALLEST_SCALE

    def update(self, finite: bool) -> None:
        """Adjust the scale after a step whose gradients were finite or not."""
        if not self.active:
            return
        self.good_steps = self.good_steps + 1 if finite else 0
        if not finite:
            self.value /= 2
        elif self.good_steps == GROW_AFTER:
            self.value, self.good_steps = self.value * 2, 0

    def state(self) -> dict[str, float]:
        return {"value": self.value, "good_steps": self.good_steps}

    def load_state(self, state: dict[str, float]) -> None:
        self.value, self.good_steps = float(state["value"]), int(state["good_steps"])


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Flush denormals to zero in this thread and in those that it starts meanwhile, where the processor can.

    Gradients of long recurrences underflow, and denormal arithmetic makes a step of 30x30 mazes ten times slower.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class LocalBatch(NamedTuple):
    """One process's share of a step."""

    batch: Batch
    targets: Targets
    most_rows: int  # mazes of the process with the largest share


@dataclass(frozen=True)
class StepSums:
    """Sums over a step of all processes."""

    loss: float  # weighted
    weight: float
    count: float  # predicted tokens
    correct: float

    @property
    def mean_loss(self) -> float:
        return self.loss / self.weight if self.weight else self.loss


def local_batch(
    batch: Batch, objective: Objective, seed: int, step: int, rows: int, world: World, model: Predict | None = None
) -> LocalBatch:
    """Return this process's mazes and their targets, which do not depend on the number of processes.

    Without a model, masks that would follow its confidence are random.
    """
    if len(batch) == 0:
        raise UserError(
            f"step {step} has {rows} mazes for {world.size} processes; use a larger batch, or fewer processes."
        )
    row_B = torch.arange(rows)[rank_rows(rows, world.rank, world.size)]
    batch_here = batch.to(world.device)
    noise = Noise.for_step(seed, step, row_B.to(world.device), rows)
    targets = objective.targets(batch_here, noise) if model is None else objective.targets_for(model, batch_here, noise)
    return LocalBatch(batch_here, targets, -(-rows // world.size))


def accumulate_gradient(
    forward: nn.Module,
    local: LocalBatch,
    world: World,
    *,
    micro_batch: int | None = None,
    precision: Precision,
    scale: float,
    adaptive: AdaptiveRate | None = None,
) -> StepSums:
    """Add the step's gradient, times `scale`, to the parameters' `.grad`; update the adaptive masking rates.

    At most `micro_batch` mazes, all if None, go through one forward and backward pass.
    """
    weight = float(world.sum(local.targets.weight_BT[local.targets.query_BT].double().sum()))
    # A step without targets has a zero gradient, not a division by zero.
    factor = scale * world.size / max(weight, 1e-30) if weight else 0.0
    totals = torch.zeros(4, dtype=torch.float64, device=world.device)
    rate_sums = None if adaptive is None else torch.zeros(2, adaptive.bins, dtype=torch.float64, device=world.device)
    passes = micro_batches(local, micro_batch)
    for number, each in enumerate(passes):
        batch, targets = each.batch, each.targets
        with gradient_sync(forward, sync=number == len(passes) - 1):
            with autocast(precision, world.device):
                logits_QV = forward(batch, targets.order_BT, targets.query_BT)
            sums = cross_entropy_sum(logits_QV, targets)
            torch.autograd.backward(sums.loss * factor)
        totals += sums.totals()
        if adaptive is not None and rate_sums is not None:
            share_B = targets.query_BT.sum(1) / batch.response_BT.sum(1)
            rate_sums += adaptive.tally(share_B, row_losses(sums, targets))
    if adaptive is not None and rate_sums is not None:
        adaptive.update(world.sum(rate_sums))
    return StepSums(*world.sum(totals).tolist())


def micro_batches(local: LocalBatch, micro_batch: int | None) -> list[LocalBatch]:
    """Split it into micro-batches of at most `micro_batch` mazes of similar length, as many on every process.

    FSDP gathers weights in every pass, so all processes must make as many passes; a process with a maze less than
    others may have none left for its last pass, which then has no targets.
    """
    if micro_batch is None or micro_batch >= local.most_rows:
        return [local]
    rows_B = local.batch.valid_BT.sum(1).argsort(stable=True)
    found = []
    for rows in rows_B.tensor_split(-(-local.most_rows // micro_batch)):
        used = rows if len(rows) else rows_B[:1]
        targets = Targets(*(getattr(local.targets, field.name)[used] for field in fields(Targets)))
        if not len(rows):
            targets = replace(targets, query_BT=torch.zeros_like(targets.query_BT))
        found.append(LocalBatch(local.batch.rows(used), targets, local.most_rows))
    return found


def gradient_norm(model: nn.Module) -> float:
    """Return the norm of the whole gradient, over all parameters and shards; every process must call this."""
    norm: Tensor = torch.nn.utils.get_total_norm([p.grad for _, p in named_parameters(model) if p.grad is not None])
    return float(full_tensor(norm))


@torch.no_grad()
def scale_gradient(model: nn.Module, factor: float) -> None:
    if factor != 1.0:
        torch._foreach_mul_([p.grad for _, p in named_parameters(model) if p.grad is not None], factor)


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
        # Sums over the steps since the last report, and the time of training when that was made ("begun"). In a
        # checkpoint, so that a resumed run reports the same.
        self.window: dict[str, float] = defaultdict(float)
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
            self.window.update({name: float(value) for name, value in state["window"].items()})
            best = state["best"]
            self.best = best and {"step": int(best["step"]), "exact": float(best["exact"])}
            self.scores = {str(name): float(value) for name, value in state["scores"].items()}
            self.evaluated_step = int(state["evaluated_step"])
            self.scaler.load_state(state["loss_scale"])
            if self.adaptive is not None:
                self.adaptive.load_state(state["adaptive"] if "adaptive" in state else state["dwell"])
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
            raise UserError(f"{checkpoint} is not a state of this Clew ({error!r}); take another checkpoint.") from None
