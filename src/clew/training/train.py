"""Train a model: `train(config, out)`, the one entry to training, its loop, and its evaluation on held-out mazes.

    run = train(config, "runs/x")                  # makes the dataset, evaluates on held-out mazes, resumes
    run.metrics[-1], run.end.reason, run.model.solve(task)

The same call trains alone, as one of torchrun's processes and in a Slurm job, on CPU or GPU. Batches and targets are
pure functions of (config, step), and all else that the next step depends on is in the checkpoint, so a run that is
killed and resumed ends with the same weights, bit for bit (on the same machine, with as many threads and processes, and
a budget in steps or epochs).
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from clew.data.batch import Batch
from clew.data.config import CELL_LABELS
from clew.data.loader import build_loader, check_batch_memory, held_out_tasks, make_dataset, prefetched, rank_rows
from clew.decoding.codec import Codec
from clew.decoding.decode import Decoder, decoder_named
from clew.errors import UserError, out_of_memory, printable, report_error
from clew.evaluation.evaluate import evaluate_tasks
from clew.mazes.maze import TaskBatch
from clew.models.build import check_memory, training_flops
from clew.models.config import autocast
from clew.training import callbacks as reports
from clew.training import checkpoint as run_folder
from clew.training.callbacks import Callback, RunEnd
from clew.training.config import TrainConfig
from clew.training.distributed import World, joined_world
from clew.training.optimizers import beta1_at, lr_factor
from clew.training.signals import Stopped, StopRequest, check_stop, handle_stop_signals
from clew.training.step import SMALLEST_SCALE, LocalBatch, TrainingState, local_batch

Evaluate = Callable[[nn.Module], dict[str, float]]
now = time.perf_counter  # the clock of a run; a benchmark replaces it by the CPU time of the process


@dataclass(frozen=True)
class Run:
    """A run folder, as `train` leaves it."""

    folder: Path
    end: RunEnd

    @property
    def config(self) -> TrainConfig:
        return run_folder.load_config(self.folder)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl: one for every few steps (kind "step") and for every evaluation."""
        return reports.read_metrics(self.folder)

    @cached_property
    def model(self) -> Any:
        """The best weights, as `clew.load` returns them."""
        import clew

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

    Args:
        callbacks: called on the main process; ProgressDisplay shows the run on a terminal.
        resume: "never" refuses a folder that holds a run.
        world: the processes that train together; by default those that torchrun or Slurm started, or this one alone.
        evaluate: returns scores of a model, by default those on the config's held-out mazes. "exact" decides which
            checkpoint is the best. Called on every process; the main process's scores count. One that takes long calls
            clew.training.signals.check_stop between its steps.
    """
    if odd := [type(callback).__name__ for callback in callbacks if not isinstance(callback, Callback)]:
        raise UserError(f"{odd[0]} is no callback; derive it from clew.training.callbacks.Callback.")
    with ExitStack() as stack:
        if world is None:
            world = stack.enter_context(joined_world(config.device, config.timeout_hours))
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        check_memory(config.model)
        check_batch_memory(config.data, config.batch_size, world.size)
        if world.on_main(lambda: make_dataset(config.data)) and world.is_main:
            print(f"made the dataset {printable(str(config.data.dataset_folder))}", file=sys.stderr)
        evaluate = evaluate or held_out_evaluator(config, world)
        # Gradients of long recurrences underflow, and denormals make a step of 30x30 mazes ten times slower. The
        # setting also holds in threads that are started later.
        torch.set_flush_denormal(True)
        stack.callback(torch.set_flush_denormal, False)

        def begin() -> Path | None:
            stack.enter_context(run_folder.locked_run(folder))
            return run_folder.begin_run(folder, config, resume)

        folder = Path(out)
        checkpoint = world.on_main(begin)
        state = TrainingState(config, world, fresh=checkpoint is None)
        if checkpoint is not None:
            state.load(checkpoint)
        stack.enter_context(getattr(state.model, "threads", nullcontext)())
        return Run(folder, Trainer(folder, state, evaluate, callbacks).run())


class Trainer:
    """Runs the steps, evaluations and checkpoints of a TrainingState, and reports them to callbacks."""

    def __init__(
        self, folder: Path, state: TrainingState, evaluate: Evaluate | None, callbacks: Sequence[Callback]
    ) -> None:
        self.folder, self.state, self.evaluate = folder, state, evaluate
        self.config, self.world = config, world = state.config, state.world
        self.metrics = reports.MetricsFile(folder)
        self.callbacks: list[Callback] = [self.metrics, *callbacks] if world.is_main else []
        self.loader = build_loader(config.data, config.batch_size, config.seed)
        self.total_steps = config.budget.steps
        if config.budget.epochs is not None:
            self.total_steps = config.budget.epochs * (self.loader.steps_per_epoch or 0)
        self.stop = StopRequest()
        # The last checkpoint's step, and that of its last evaluation.
        self.saved = (state.step, state.evaluated_step) if state.step else (-1, -1)

    def notify(self, method: str, *report: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, method)(*report)

    def stop_signal(self) -> int:
        """Return the signal that any process has received, or 0; collective, so that all stop after the same step."""
        return int(self.world.max(torch.tensor(self.stop.signal)))

    @property
    def progress(self) -> tuple[float, float]:
        """The share of the budget that is used, and the share that one step uses (0 with a budget in minutes)."""
        if self.total_steps is not None:
            return self.state.step / self.total_steps, 1 / self.total_steps
        assert self.config.budget.minutes is not None
        return self.state.seconds / (60 * self.config.budget.minutes), 0.0

    def run(self) -> RunEnd:
        """Train until the budget is used or a signal comes."""
        state, world = self.state, self.world
        counts = (state.parameters, state.step, self.total_steps)
        end = RunEnd(state.step, state.seconds, "failed", run_folder.latest_checkpoint(self.folder))
        try:
            with (
                handle_stop_signals() as self.stop,
                closing(prefetched(self.loader, state.step, world.rank, world.size)) as batches,
            ):
                self.notify(
                    "on_start", reports.RunStart(self.config, self.folder, *counts, world.device.type, world.size)
                )
                signal = self.run_steps(batches)
                self.save()
            last = run_folder.latest_checkpoint(self.folder)
            end = RunEnd(state.step, state.seconds, "signal" if signal else "done", last, signal, state.scores)
        finally:
            self.notify("on_end", end)
        return end

    def run_steps(self, batches: Iterator[Batch]) -> int:
        """Run the steps up to the end of the budget, or to a signal, which is returned; else 0."""
        state, config = self.state, self.config
        while True:
            ended = self.progress[0] >= 1
            if state.step and (ended or state.step % config.evaluate_every == 0):
                self.run_evaluation()
            if state.step and (ended or state.step % config.checkpoint_every == 0):
                self.save()
            if ended and (self.evaluate is None or state.evaluated_step == state.step):
                return 0
            if signal := self.stop_signal():
                return signal
            self.run_step(batches)
            if state.step % config.log_every == 0 or self.progress[0] >= 1:
                self.report()

    def run_step(self, batches: Iterator[Batch]) -> None:
        config, world, state = self.config, self.world, self.state
        began, rows = now(), self.loader.batch_size(state.step)
        batch = next(batches)
        with autocast(config.precision, world.device):
            local = local_batch(batch, state.objective, config.seed, state.step, rows, world, state.model)
        state.optimizer.set_rates(lr_factor(config.schedule, *self.progress), beta1_at(config.schedule, *self.progress))
        try:
            sums = state.compute_gradient(local)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            raise self.out_of_memory(len(batch)) from None
        loss = sums["loss"] / (sums["weight"] or 1.0)
        if not math.isfinite(loss):
            raise self.not_finite(f"the loss is {loss}", local)
        norm = state.apply_gradient()
        skipped = not math.isfinite(norm)
        if skipped and (config.precision != "fp16" or state.scale < SMALLEST_SCALE):
            raise self.not_finite(f"the norm of the gradient is {norm}", local)

        flops = training_flops(config.model, local.batch, local.targets.order_BT, local.targets.query_BT)
        # The main process's time, so that all processes agree on when a budget in minutes is used.
        seconds = (now() - began) * world.is_main
        own = torch.tensor([float(local.batch.valid_BT.sum()), flops, seconds], dtype=torch.float64)
        tokens, flops, seconds = world.sum(own).tolist()
        for name, value in (sums | {"mazes": rows, "tokens": tokens, "flops": flops, "skipped": skipped}).items():
            state.window[name] += value
        state.window["norm"] = norm
        state.seconds += seconds
        state.mazes += rows
        state.step += 1

    def out_of_memory(self, mazes: int) -> UserError:
        mazes = min(mazes, self.config.micro_batch or mazes)
        advice = f"--micro-batch {mazes // 2}, which changes nothing but the memory" if mazes > 1 else "smaller mazes"
        error = UserError(
            f"step {self.state.step} ran out of memory with {mazes:,} mazes in one forward and backward pass; use "
            f"{advice}, or a smaller model."
        )
        if not self.world.is_main:  # only the main process's errors are printed
            report_error(f"process {self.world.rank}: {error}")
        return error

    def not_finite(self, problem: str, local: LocalBatch) -> UserError:
        mazes = ", ".join(map(str, local.batch.index_B[:8].tolist()))
        return UserError(
            f"{problem} at step {self.state.step} (seed {self.config.seed}, data seed {self.config.data.seed}, first "
            f"mazes {mazes}), so the run stopped before it changed the weights; the last good checkpoint is "
            f"{run_folder.latest_checkpoint(self.folder) or 'none'}: train from it with a lower --optimizer.lr in a "
            "new run, or look at these mazes."
        )

    def report(self) -> None:
        state, window = self.state, self.state.window
        took = max(state.seconds - window["begun"], 1e-9)
        loss, accuracy = window["loss"] / (window["weight"] or 1.0), window["correct"] / (window["count"] or 1.0)
        last, seen = (window["norm"], state.optimizer.lr), (state.mazes, state.seconds)
        speeds = (window["mazes"] / took, window["tokens"] / took, window["flops"] / took)
        self.notify(
            "on_step",
            reports.StepReport(
                state.step, self.progress[0], loss, accuracy, *last, *seen, *speeds, int(window["skipped"])
            ),
        )
        window.clear()
        window["begun"] = state.seconds

    def run_evaluation(self) -> None:
        """Evaluate the model, unless that is done or a signal has come; save it if it is the best so far."""
        state = self.state
        if self.evaluate is None or state.evaluated_step == state.step or self.stop_signal():
            return
        began = now()
        averaged = nullcontext() if state.ema is None else state.ema.swapped()
        with averaged, torch.no_grad(), autocast(self.config.precision, self.world.device):
            scores = self.world.from_main(self.evaluate(state.model.eval()))
        state.model.train()
        if self.stop_signal():  # the scores may be incomplete; the resumed run evaluates again
            return
        exact = scores.get("exact", -math.inf)
        # Of equal scores the later one counts: its weights have seen more mazes at a lower rate.
        better = exact >= state.best["exact"] if state.best else exact > -math.inf
        if better:
            state.best = {"step": state.step, "exact": exact}
        state.scores, state.evaluated_step = scores, state.step
        seconds = now() - began
        self.notify("on_evaluate", reports.EvaluationReport(state.step, state.seconds, scores, better, seconds))
        if better:
            self.save()

    def save(self) -> None:
        """Write a checkpoint, unless that is done, and remove old ones."""
        state = self.state

        def write() -> None:
            if self.saved != (state.step, state.evaluated_step):
                described = {**state.to_json(), "metrics": self.metrics.checksum()}
                path = run_folder.write_checkpoint(self.folder, state.step, state.named_tensors(), described)
                self.notify("on_checkpoint", state.step, path)
            run_folder.prune(self.folder, self.config.keep_last, int(state.best["step"]) if state.best else None)

        self.world.on_main(write)  # also keeps the others from running ahead
        self.saved = (state.step, state.evaluated_step)


def held_out_evaluator(config: TrainConfig, world: World) -> Evaluate | None:
    """Return a function that scores a model on the config's held-out mazes; None if it holds out none."""
    if config.held_out == 0:
        return None
    return evaluator_on(held_out_tasks(config.data, config.held_out), "test", config, world)


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
                codec, index_N = Codec.of(form, tasks.height, tasks.width), np.arange(len(tasks))
                index_N = index_N[rank_rows(len(tasks), world.rank, world.size)]
                texts: dict[str, Any] = {"seed": config.data.seed, "split": split, "number_N": index_N}
                own, stop = tasks.select(index_N), lambda step: check_stop()
                for outcome in evaluate_tasks(model, codec, own, decoder, on_step=stop, **texts).outcomes:
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
