"""Train a model: `train(config, out)`, the one entry to training, its loop, and its evaluation on held-out mazes.

    run = train(config, "runs/x")                  # makes the dataset, evaluates on held-out mazes, resumes
    run.metrics[-1], run.end.reason, run.model.solve(task)

Batches and targets are pure functions of (config, step), and all else that the next step depends on is in the
checkpoint, so a run that is killed and resumed ends with the same weights, bit for bit (on the same machine, with as
many threads and processes, and a budget in steps or epochs).

The loss of a step is the sum of weight * cross-entropy over the predicted tokens of all processes, divided by the sum
of those weights. Processes hide different numbers of tokens, so the weights are summed first, each process divides by
the total, and the gradients are summed: they are the same for one process and for many.

Shape suffixes: B mazes, T positions, Q queries, V vocabulary, N held-out mazes, K bins of adaptive rates.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import clew
from clew.data import loader as data_loader
from clew.data.batch import Batch
from clew.data.config import CELL_LABELS
from clew.decoding.codec import Codec, Decoder
from clew.decoding.decode import decoder_named
from clew.errors import UserError, out_of_memory, printable, report_error
from clew.evaluation.evaluate import evaluate_tasks
from clew.mazes.maze import TaskBatch
from clew.models.build import build_model, check_memory, count_parameters, training_flops
from clew.models.config import autocast
from clew.objectives.builtin import adaptive_of, build_objective
from clew.objectives.targets import Noise, Objective, Predict, Targets, cross_entropy_sum, row_losses
from clew.training import checkpoint as run_folder
from clew.training.callbacks import Callback, EvaluationReport, MetricsFile, RunEnd, RunStart, StepReport, read_metrics
from clew.training.config import TrainConfig
from clew.training.distributed import World, joined_world
from clew.training.optimizers import Ema, Optimizer, beta1_at, lr_factor, trainable
from clew.training.signals import Stopped, StopRequest, check_stop, handle_stop_signals

Evaluate = Callable[[nn.Module], dict[str, float]]
now = time.perf_counter  # the clock of a run; a benchmark replaces it by the CPU time of the process
# The factor on the loss in float16, as in torch.amp.GradScaler; gradients that overflow with less than the smallest are
# wrong in themselves.
FIRST_SCALE, SMALLEST_SCALE, GROW_AFTER = 2.0**16, 2.0**-4, 2000


@dataclass(frozen=True)
class Run:
    """A run folder, as `train` leaves it."""

    folder: Path
    end: RunEnd

    @property
    def config(self) -> TrainConfig:
        """The settings of the run, as its config.json has them."""
        return run_folder.load_config(self.folder)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl: one for every few steps (kind "step") and for every evaluation."""
        return read_metrics(self.folder)

    @cached_property
    def model(self) -> Any:
        """The best weights, as `clew.load` returns them."""
        return clew.load(self.folder)


def train(
    config: TrainConfig,
    out: str | Path,
    *,
    callbacks: Sequence[Callback] = (),
    resume: run_folder.Resume = "auto",
    world: World | None = None,
    evaluate: Evaluate | None = None,
) -> Run:
    """Train in the folder `out`, or resume the run that it holds.

    Callbacks are called on the main process. By default `world` is the processes that torchrun or Slurm started, or
    this one alone, and `evaluate` scores a model on held-out mazes. It is called on every process, and the main one's
    scores count; "exact" decides which checkpoint is the best. One that takes long calls signals.check_stop.
    """
    if odd := [type(callback).__name__ for callback in callbacks if not isinstance(callback, Callback)]:
        raise UserError(f"{odd[0]} is no callback; derive it from clew.training.callbacks.Callback.")
    folder = Path(out)
    with ExitStack() as stack:
        if world is None:
            world = stack.enter_context(joined_world(config.device, config.timeout_hours))
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        check_memory(config.model)
        data_loader.check_batch_memory(config.data, config.batch_size, world.size)
        if world.on_main(lambda: data_loader.make_dataset(config.data)) and world.is_main:
            print(f"made the dataset {printable(str(config.data.dataset_folder))}", file=sys.stderr)
        evaluate = evaluate or held_out_evaluator(config, world)
        # Gradients of long recurrences underflow, and denormals make a step of 30x30 mazes ten times slower.
        torch.set_flush_denormal(True)  # also in threads that are started later
        stack.callback(torch.set_flush_denormal, False)

        def begin() -> Path | None:
            stack.enter_context(run_folder.locked_run(folder))
            return run_folder.begin_run(folder, config, resume)

        checkpoint = world.on_main(begin)
        trainer = Trainer(config, world, fresh=checkpoint is None)
        if checkpoint is not None:
            trainer.load(checkpoint)
        stack.enter_context(getattr(trainer.model, "threads", nullcontext)())
        return Run(folder, trainer.run(folder, evaluate, callbacks))


class LocalBatch(NamedTuple):
    """One process's share of a step."""

    batch: Batch
    targets: Targets


def local_batch(
    batch: Batch, objective: Objective, seed: int, step: int, rows: int, world: World, model: Predict | None = None
) -> LocalBatch:
    """Return this process's mazes, of `rows` in all, and their targets; without a model, all masks are random."""
    batch = batch.to(world.device)
    row_B = torch.arange(rows)[data_loader.rank_rows(rows, world.rank, world.size)].to(world.device)
    noise = Noise.for_step(seed, step, row_B, rows)
    targets = objective.targets(batch, noise) if model is None else objective.targets_for(model, batch, noise)
    return LocalBatch(batch, targets)


def micro_batches(local: LocalBatch, most: int | None) -> Iterator[LocalBatch]:
    """Split it into micro-batches of at most `most` mazes of similar length."""
    count = len(local.batch)
    if most is None or most >= count:
        yield local
        return
    for rows in local.batch.valid_BT.sum(1).argsort(stable=True).tensor_split(-(-count // most)):
        targets = Targets(*(getattr(local.targets, field.name)[rows] for field in dataclasses.fields(Targets)))
        yield LocalBatch(local.batch.rows(rows), targets)


def next_scale(scale: float, good_steps: int, finite: bool) -> tuple[float, int]:
    """Return the loss scale and the good steps since it changed, after a step with or without a finite gradient."""
    if not finite:
        return scale / 2, 0
    return (scale * 2, 0) if good_steps + 1 == GROW_AFTER else (scale, good_steps + 1)


class Trainer:
    """The loop, and all that its next step depends on: the weights, the optimizer, and how far the run is."""

    def __init__(self, config: TrainConfig, world: World, fresh: bool = True) -> None:
        """Make the state before the first step; `fresh` is False if a checkpoint is going to be loaded."""
        self.config, self.world = config, world
        self.objective = build_objective(config.objective)
        self.adaptive = adaptive_of(self.objective)
        self.model = build_model(config.model, config.seed).to(world.device)
        if fresh and config.start_from:  # a resumed run has its own weights, and the others may be gone
            run_folder.load_start(self.model, config.start_from)
        if config.compile:
            self.model.compile()  # in place, so that the parameters keep their names
        self.optimizer = Optimizer(self.model, config.optimizer)
        self.ema = None if config.ema is None else Ema(self.model, config.ema)
        self.scale, self.good_steps = FIRST_SCALE if config.precision == "fp16" else 1.0, 0
        # Sums over the steps since the last report, at the time "begun"; saved, so that a resumed run reports the same.
        self.window: dict[str, float] = defaultdict(float)
        self.step = 0  # steps done
        self.seconds = 0.0  # the main process's clock after the last step, so that all processes agree
        self.mazes = 0  # seen so far
        self.best: dict[str, float] | None = None  # step and exact
        self.scores: dict[str, float] = {}  # of the last evaluation
        self.evaluated_step = -1
        self.saved = (-1, -1)  # the last checkpoint's step, and that of its last evaluation
        self.stop = StopRequest()

    def compute_gradient(self, local: LocalBatch) -> dict[str, float]:
        """Compute the gradient, times the loss scale; update the adaptive masking rates; return sums over tokens."""
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
        """Clip the gradient and update the weights, unless its norm is not finite; return the norm before clipping."""
        gradients = [p.grad for p in trainable(self.model).values() if p.grad is not None]
        norm = float(torch.nn.utils.get_total_norm(gradients)) / self.scale
        if math.isfinite(norm):
            clip = 1.0 if self.config.clip is None else min(1.0, self.config.clip / (norm + 1e-6))
            if clip != self.scale:
                torch._foreach_mul_(gradients, clip / self.scale)
            self.optimizer.step()
            if self.ema is not None:
                self.ema.update()
        if self.config.precision == "fp16":
            self.scale, self.good_steps = next_scale(self.scale, self.good_steps, math.isfinite(norm))
        return norm

    def run(self, folder: Path, evaluate: Evaluate | None = None, callbacks: Sequence[Callback] = ()) -> RunEnd:
        """Train until the budget is used or a signal comes."""
        config, world = self.config, self.world
        self.folder, self.evaluate, self.metrics = folder, evaluate, MetricsFile(folder)
        self.callbacks: list[Callback] = [self.metrics, *callbacks] if world.is_main else []
        self.loader = data_loader.build_loader(config.data, config.batch_size, config.seed)
        self.total_steps = config.budget.steps
        if config.budget.epochs is not None:
            self.total_steps = config.budget.epochs * (self.loader.steps_per_epoch or 0)
        counts = (count_parameters(self.model), self.step, self.total_steps)
        end = RunEnd(self.step, self.seconds, "failed", run_folder.latest_checkpoint(folder))
        batches = data_loader.prefetched(self.loader, self.step, world.rank, world.size)
        try:
            with handle_stop_signals() as self.stop, closing(batches):
                self.notify("on_start", RunStart(config, folder, *counts, world.device.type, world.size))
                signal = self.run_steps(batches)
                self.save()
            last = run_folder.latest_checkpoint(folder)
            end = RunEnd(self.step, self.seconds, "signal" if signal else "done", last, signal, self.scores)
        finally:
            self.notify("on_end", end)
        return end

    def notify(self, method: str, *report: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, method)(*report)

    def stop_signal(self) -> int:
        """Return the signal that any process has received, or 0, so that all stop after the same step."""
        return self.world.max(self.stop.signal)

    @property
    def progress(self) -> tuple[float, float]:
        """The share of the budget that is used, and the share that one step uses (0 with a budget in minutes)."""
        if self.total_steps is not None:
            return self.step / self.total_steps, 1 / self.total_steps
        return self.seconds / (60 * (self.config.budget.minutes or 1)), 0.0

    def run_steps(self, batches: Iterator[Batch]) -> int:
        """Run the steps up to the end of the budget, or to a signal, which is returned; else 0."""
        while True:
            ended = self.progress[0] >= 1
            if self.step and (ended or self.step % self.config.evaluate_every == 0):
                self.run_evaluation()
            if self.step and (ended or self.step % self.config.checkpoint_every == 0):
                self.save()
            if ended and (self.evaluate is None or self.evaluated_step == self.step):
                return 0
            if signal := self.stop_signal():
                return signal
            self.run_step(batches)
            if self.step % self.config.log_every == 0 or self.progress[0] >= 1:
                self.report()

    def run_step(self, batches: Iterator[Batch]) -> None:
        config, world, window, progress = self.config, self.world, self.window, self.progress
        began, rows = now(), self.loader.batch_size(self.step)
        batch = next(batches)
        with autocast(config.precision, world.device):
            local = local_batch(batch, self.objective, config.seed, self.step, rows, world, self.model)
        self.optimizer.set_rates(lr_factor(config.schedule, *progress), beta1_at(config.schedule, *progress))
        try:
            sums = self.compute_gradient(local)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            raise self.out_of_memory(len(batch)) from None
        loss = sums["loss"] / (sums["weight"] or 1.0)
        if not math.isfinite(loss):
            raise self.not_finite(f"the loss is {loss}", batch)
        norm = self.apply_gradient()
        skipped = not math.isfinite(norm)
        if skipped and (config.precision != "fp16" or self.scale < SMALLEST_SCALE):
            raise self.not_finite(f"the norm of the gradient is {norm}", batch)

        flops = training_flops(config.model, local.batch, local.targets.order_BT, local.targets.query_BT)
        # The main process's time, so that all processes agree on when a budget in minutes is used.
        own = torch.tensor([float(batch.valid_BT.sum()), flops, (now() - began) * world.is_main], dtype=torch.float64)
        tokens, flops, seconds = world.sum(own).tolist()
        for name, value in (sums | {"mazes": rows, "tokens": tokens, "flops": flops, "skipped": skipped}).items():
            window[name] += value
        window["norm"] = norm
        self.seconds, self.mazes, self.step = self.seconds + seconds, self.mazes + rows, self.step + 1

    def out_of_memory(self, mazes: int) -> UserError:
        mazes = min(mazes, self.config.micro_batch or mazes)
        advice = f"--micro-batch {mazes // 2}, which changes nothing but the memory" if mazes > 1 else "smaller mazes"
        problem = f"step {self.step} ran out of memory with {mazes:,} mazes in one forward and backward pass"
        error = UserError(f"{problem}; use {advice}, or a smaller model.")
        if not self.world.is_main:  # only the main process's errors are printed
            report_error(f"process {self.world.rank}: {error}")
        return error

    def not_finite(self, problem: str, batch: Batch) -> UserError:
        mazes = ", ".join(map(str, batch.index_B[:8].tolist()))
        where = f"seed {self.config.seed}, data seed {self.config.data.seed}, first mazes {mazes}"
        return UserError(
            f"{problem} at step {self.step} ({where}), so the run stopped before it changed the weights; the last good "
            f"checkpoint is {run_folder.latest_checkpoint(self.folder) or 'none'}: train from it with a lower "
            "--optimizer.lr in a new run, or look at these mazes."
        )

    def report(self) -> None:
        window = self.window
        took = max(self.seconds - window["begun"], 1e-9)
        loss, accuracy = window["loss"] / (window["weight"] or 1.0), window["correct"] / (window["count"] or 1.0)
        last, seen = (window["norm"], self.optimizer.lr), (self.mazes, self.seconds)
        speeds = (window["mazes"] / took, window["tokens"] / took, window["flops"] / took)
        values = (self.step, self.progress[0], loss, accuracy, *last, *seen, *speeds, int(window["skipped"]))
        self.notify("on_step", StepReport(*values))
        window.clear()
        window["begun"] = self.seconds

    def run_evaluation(self) -> None:
        """Evaluate the model, unless that is done or a signal has come; save it if it is the best so far."""
        if self.evaluate is None or self.evaluated_step == self.step or self.stop_signal():
            return
        began = now()
        averaged = nullcontext() if self.ema is None else self.ema.swapped()
        with averaged, torch.no_grad(), autocast(self.config.precision, self.world.device):
            scores = self.world.from_main(self.evaluate(self.model.eval()))
        self.model.train()
        if self.stop_signal():  # the scores may be incomplete; the resumed run evaluates again
            return
        exact = scores.get("exact", -math.inf)
        # Of equal scores the later one counts: its weights have seen more mazes at a lower rate.
        better = exact >= self.best["exact"] if self.best else exact > -math.inf
        if better:
            self.best = {"step": self.step, "exact": exact}
        self.scores, self.evaluated_step = scores, self.step
        self.notify("on_evaluate", EvaluationReport(self.step, self.seconds, scores, better, now() - began))
        if better:
            self.save()

    def save(self) -> None:
        """Write a checkpoint, unless that is done, and remove old ones."""

        def write() -> None:
            if self.saved != (self.step, self.evaluated_step):
                state = self.state() | {"metrics": self.metrics.checksum()}
                path = run_folder.write_checkpoint(self.folder, self.step, self.named_tensors(), state)
                self.notify("on_checkpoint", self.step, path)
            run_folder.prune(self.folder, self.config.keep_last, int(self.best["step"]) if self.best else None)

        self.world.on_main(write)  # also keeps the others from running ahead
        self.saved = (self.step, self.evaluated_step)

    def named_tensors(self) -> dict[str, dict[str, Tensor]]:
        """Return the tensors of a checkpoint by file and name; not copies."""
        found = {"model": self.model.state_dict(), "optimizer": self.optimizer.named_state()}
        return found if self.ema is None else found | {"ema": self.ema.named_state()}

    def state(self) -> dict[str, Any]:
        """Return the content of state.json."""
        plain = ("step", "seconds", "mazes", "best", "scores", "evaluated_step", "window")
        return {
            **{name: getattr(self, name) for name in plain},
            "loss_scale": {"value": self.scale, "good_steps": self.good_steps},
            "adaptive": None if self.adaptive is None else self.adaptive.state(),
            "versions": {"clew": clew.__version__, "torch": torch.__version__},
        }

    def load(self, checkpoint: Path) -> None:
        """Continue from a checkpoint, however many processes wrote it."""
        state, tensors = run_folder.read_checkpoint(checkpoint)
        for name, own in self.named_tensors().items():
            run_folder.copy_named(own, tensors.get(name, {}), checkpoint / f"{name}.safetensors")
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
        self.saved = (self.step, self.evaluated_step)


def held_out_evaluator(config: TrainConfig, world: World) -> Evaluate | None:
    """Return a function that scores a model on the config's held-out mazes; None if it holds out none."""
    if config.held_out == 0:
        return None
    return evaluator_on(data_loader.held_out_tasks(config.data, config.held_out), "test", config, world)


def evaluator_on(sets: Sequence[TaskBatch], split: str, config: TrainConfig, world: World) -> Evaluate:
    """Return a function that scores a model on these mazes, a batch for each shape, in the texts of this split.

    "exact" and "token" are as in clew.evaluation.scores, over all mazes; "exact-5", ... are those of several sizes.
    Every process decodes a part of the mazes. A stop signal ends the decoding; there are no scores then.
    """
    decoder, form = training_decoder(config), config.data.format

    def evaluate(model: nn.Module) -> dict[str, float]:
        sums = torch.zeros(len(sets), 4, dtype=torch.float64)  # exact paths, mazes, right tokens, tokens
        with suppress(Stopped):  # the other processes wait for the sum
            for tasks, sum_4 in zip(sets, sums, strict=True):
                number_N = np.arange(len(tasks))[data_loader.rank_rows(len(tasks), world.rank, world.size)]
                texts: dict[str, Any] = {"seed": config.data.seed, "split": split, "number_N": number_N}
                own, codec = tasks.select(number_N), Codec.of(form, tasks.height, tasks.width)
                found = evaluate_tasks(model, codec, own, decoder, on_step=lambda step: check_stop(), **texts)
                for outcome in found.outcomes:
                    sum_4 += torch.tensor([outcome.exact, 1, outcome.tokens_right, outcome.true_tokens])
        sums = world.sum(sums).cpu()
        exact, mazes, token, tokens = sums.sum(0).tolist()
        if mazes < sum(map(len, sets)):
            return {}
        scores = {"exact": exact / mazes, "token": token / tokens}
        if len(sets) > 1:
            scores |= {f"exact-{t.height}": float(row[0] / row[1]) for t, row in zip(sets, sums, strict=True)}
        return scores

    return evaluate


def training_decoder(config: TrainConfig) -> Decoder:
    """Return the decoder that scores a run: left to right, or one pass for masked objectives on cells."""
    if config.data.format != CELL_LABELS:
        return decoder_named("left-to-right")
    # At most the config's loops: labels do not settle early in training, and more loops would only take time.
    next_token = config.objective.name == "next-token"
    return decoder_named("walk", loops=1, query="cell") if next_token else decoder_named("one-pass", loops=1)
