"""The training loop, for one process or many, on CPU or GPU.

    end = Trainer(config, folder, world, state, evaluate, callbacks).run()     # see clew.training.train

One step: the batch and its targets, which are pure functions of (config, step); the gradient, normalised over the
whole global batch (step.py); a look whether it is sound (stability.py); clipping; the optimizer; the average of the
weights. Evaluation, checkpoints and signals come between steps. All that the next step depends on is in the
checkpoint, so a run that is killed and resumed ends with the same weights, bit for bit (on the same machine, with as
many threads and processes, and a budget in steps or epochs).

`evaluate` scores a model on held-out mazes; its "exact" decides which checkpoint is the best. It is called on every
process with a whole model and must return the same numbers on each. One that takes long asks clew.training.signals
between its steps whether to stop; then it may return anything, since the run saves and stops, and the resumed run
evaluates again.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from clew.data.batch import Batch
from clew.data.loader import Prefetch, batches, build_loader
from clew.errors import UserError, out_of_memory
from clew.files import write_json
from clew.models.build import training_flops
from clew.training.callbacks import Callback, EvaluationReport, MetricsFile, RunEnd, RunStart, StepReport
from clew.training.checkpoint import STATE_FILE, checkpoint_name, latest_checkpoint, write_checkpoint
from clew.training.config import TrainConfig
from clew.training.distributed import World
from clew.training.progress import Clock, Window, budget_progress, total_steps
from clew.training.run_folder import RunFolder, RunState
from clew.training.schedules import beta1_at, lr_factor
from clew.training.signals import StopRequest, handle_stop_signals
from clew.training.step import (
    Part,
    accumulate_gradient,
    autocast,
    draw_part,
    gradient_norm,
    scale_gradient,
)

Evaluate = Callable[[nn.Module], dict[str, float]]


class Trainer:
    """What is done to the state of a run, step by step, and who hears of it."""

    def __init__(
        self,
        config: TrainConfig,
        folder: RunFolder,
        world: World,
        state: RunState,
        evaluate: Evaluate | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.config, self.folder, self.world, self.state, self.evaluate = config, folder, world, state, evaluate
        self.metrics = MetricsFile(folder.metrics)
        self.callbacks: list[Callback] = [self.metrics, *callbacks] if world.is_main else []
        self.loader = build_loader(config.data, config.batch_size, config.seed)
        self.total_steps = total_steps(config.budget, self.loader)
        self.clock = Clock(state.seconds)
        self.norm = 0.0  # of the last gradient
        self.stop = StopRequest()
        # The last checkpoint's step, and that of the evaluation it knows of.
        self.saved = (state.step, state.evaluated_step) if state.step else (-1, -1)

    # The run

    def run(self) -> RunEnd:
        """Steps until the budget is used or a signal comes."""
        state = self.state
        end = RunEnd(state.step, state.seconds, "failed", latest_checkpoint(self.folder.path))
        try:
            with handle_stop_signals() as self.stop:
                self._tell_start()
                signal = self._all_steps() or self._evaluate()
                self._save()
            reason: Literal["signal", "done"] = "signal" if signal else "done"
            end = RunEnd(state.step, state.seconds, reason, self._last_checkpoint(), signal, state.scores)
        finally:
            for callback in self.callbacks:
                callback.on_end(end)
        return end

    def _all_steps(self) -> int:
        """Steps to the end of the budget, or until any process gets a signal; that signal, or 0."""
        state = self.state
        ahead = batches(self.loader, state.step, self.world.rank, self.world.size)
        with Prefetch(ahead) as ready:
            self.clock.run()
            if state.step:
                self._evaluate_and_save()  # what a signal has kept the run from
            while self.progress[0] < 1:
                if signal := self._stop_signal():
                    break
                self._step(next(ready))
                self._after_step()
            else:
                signal = 0
            self.clock.pause()
        return signal

    def _stop_signal(self) -> int:
        """The signal that any process has got, or 0; all ask together, so that all stop after the same step."""
        return int(self.world.max(torch.tensor(self.stop.signal)))

    @property
    def progress(self) -> tuple[float, float]:
        state = self.state
        return budget_progress(self.config.budget, self.total_steps, state.step, state.seconds)

    def _step(self, batch: Batch) -> None:
        config, world, state = self.config, self.world, self.state
        rows = self.loader.batch_size(state.step)
        with autocast(config.precision, world.device):
            part = draw_part(batch, state.objective, config.seed, state.step, rows, world, state.forward)
        state.optimizer.scale_lr(lr_factor(config.schedule, *self.progress))
        state.optimizer.set_beta1(beta1_at(config.schedule, *self.progress))
        state.optimizer.zero_grad(set_to_none=True)
        try:
            sums = accumulate_gradient(
                state.forward,
                part,
                world,
                micro_batch=config.micro_batch,
                precision=config.precision,
                scale=state.scale.value,
                adaptive=state.adaptive,
            )
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            raise self._out_of_memory(part) from None
        norm = gradient_norm(state.model) / state.scale.value
        overflow = state.scale.can_shrink and math.isfinite(sums.mean_loss) and not math.isfinite(norm)
        if overflow:
            state.window.skipped += 1
        else:
            for name, value in (("loss", sums.mean_loss), ("norm of the gradient", norm)):
                if not math.isfinite(value):
                    raise self._stopped(f"the {name} is {value}", part)
            clip = 1.0 if config.clip is None else min(1.0, config.clip / (norm + 1e-6))
            scale_gradient(state.model, clip / state.scale.value)
            state.optimizer.step()
            if state.ema is not None:
                state.ema.update(state.model)
        state.scale.update(not overflow)
        self.norm = norm

        # The time too goes through a sum, so that all processes agree on when a budget in minutes is over.
        flops = training_flops(config.model, part.batch, part.targets.order_BT, part.targets.query_BT)
        own = [float(part.batch.valid_BT.sum()), flops, self.clock.seconds * world.is_main]
        tokens, all_flops, state.seconds = world.sum(torch.tensor(own, dtype=torch.float64)).tolist()
        state.window.add(sums, rows, tokens, all_flops)
        state.mazes += rows
        state.step += 1

    def _after_step(self) -> None:
        config, step = self.config, self.state.step
        if step % config.log_every == 0 or self.progress[0] >= 1:
            self._report()
        self._evaluate_and_save()

    def _evaluate_and_save(self) -> None:
        """What is due after this step, unless it is done already."""
        config, step = self.config, self.state.step
        if step % config.evaluate_every == 0:
            self._evaluate()
        if step % config.checkpoint_every == 0:
            self._save()

    def _out_of_memory(self, part: Part) -> UserError:
        rows = min(part.most_rows, self.config.micro_batch or part.most_rows)
        what = f"step {self.state.step} ran out of memory with {rows:,} mazes in one forward and backward pass"
        todo = f"--micro-batch {rows // 2}, which changes nothing but the memory" if rows > 1 else "smaller mazes"
        error = UserError(f"{what}; use {todo}, or a smaller model.")
        if not self.world.is_main:  # of whose errors nobody else tells
            print(f"clew: process {self.world.rank}: {error}", file=sys.stderr)
        return error

    def _stopped(self, problem: str, part: Part) -> UserError:
        state = self.state
        mazes = part.batch.index_B.tolist()
        named = f"{', '.join(map(str, mazes[:8]))}{', ...' if len(mazes) > 8 else ''}"
        last = self._last_checkpoint()
        seeds = f"seed {self.config.seed}, data seed {self.config.data.seed}"
        return UserError(
            f"{problem} at step {state.step} ({seeds}, mazes {named}), so the run stopped before it changed the "
            f"weights; the last good checkpoint is {last or 'none'}: go on from it with a lower --optimizer.lr in a "
            "new run, or look at these mazes."
        )

    # What others hear of it

    def _tell_start(self) -> None:
        state = self.state
        start = RunStart(
            self.config,
            self.folder.path,
            state.parameters,
            state.step,
            self.total_steps,
            state.seconds,
            self.world.device.type,
            self.world.size,
        )
        for callback in self.callbacks:
            callback.on_start(start)

    def _report(self) -> None:
        state = self.state
        window, seconds = state.window, max(state.seconds - state.window.begun, 1e-9)
        report = StepReport(
            step=state.step,
            progress=self.progress[0],
            loss=window.loss / (window.weight or 1.0),
            accuracy=window.correct / (window.count or 1.0),
            gradient_norm=self.norm,
            lr=state.optimizer.param_groups[0]["lr"],
            mazes=state.mazes,
            elapsed=state.seconds,
            mazes_per_second=window.mazes / seconds,
            tokens_per_second=window.tokens / seconds,
            flops_per_second=window.flops / seconds,
            skipped=window.skipped,
        )
        for callback in self.callbacks:
            callback.on_step(report)
        state.window = Window(begun=state.seconds)

    def _evaluate(self) -> int:
        """Score the model, unless that is done; the signal that came meanwhile, which makes the scores void, or 0."""
        state = self.state
        if self.evaluate is None or state.evaluated_step == state.step:
            return 0
        if signal := self._stop_signal():
            return signal
        self.clock.pause()
        timer = Clock()
        timer.run()
        averaged = nullcontext() if state.ema is None else state.ema.swapped(state.model)
        with averaged, torch.no_grad(), autocast(self.config.precision, self.world.device):
            model = state.whole_model().eval()
            scores = self.world.from_main(self.evaluate(model))
            model.train()
        if signal := self._stop_signal():  # the run that goes on evaluates again
            return signal
        exact = scores.get("exact", -math.inf)
        better = exact > (state.best["exact"] if state.best else -math.inf)
        if better:
            state.best = {"step": state.step, "exact": exact}
        state.scores, state.evaluated_step = scores, state.step
        report = EvaluationReport(state.step, state.seconds, scores, better, timer.seconds)
        for callback in self.callbacks:
            callback.on_evaluate(report)
        if better:
            self._save()
        self.clock.run()
        return 0

    # Checkpoints

    def _last_checkpoint(self) -> Path | None:
        return latest_checkpoint(self.folder.path)

    def _save(self) -> None:
        state = self.state
        if self.saved == (state.step, state.evaluated_step):
            return
        was_running = self.clock.running
        self.clock.pause()
        # The weights of this step may be saved already, without the evaluation that came after.
        only_scores = self.saved[0] == state.step
        tensors = {} if only_scores else state.tensors()  # gathering shards needs every process; writing needs one

        def write() -> None:
            self.metrics.sync()
            path = self.folder.checkpoints / checkpoint_name(state.step)
            if only_scores:
                write_json(path / STATE_FILE, state.to_json())
            else:
                write_checkpoint(self.folder.checkpoints, state.step, tensors, state.to_json())
            self.folder.prune(self.config.keep_last, int(state.best["step"]) if state.best else None)
            for callback in self.callbacks:
                callback.on_checkpoint(state.step, path)

        self.world.on_main(write)  # also keeps the others from running ahead
        self.saved = (state.step, state.evaluated_step)
        if was_running:
            self.clock.run()
