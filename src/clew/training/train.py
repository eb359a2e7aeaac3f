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
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from clew.data.batch import Batch
from clew.data.config import CELL_LABELS
from clew.data.loader import build_loader, check_batch_memory, held_out_tasks, make_dataset, prefetched, rank_rows
from clew.decoding.codec import Codec, Decoder
from clew.decoding.decode import decoder_named
from clew.errors import UserError, out_of_memory, printable, report_error
from clew.evaluation.evaluate import evaluate_tasks
from clew.mazes.maze import TaskBatch
from clew.models.build import check_memory, training_flops
from clew.models.config import autocast
from clew.training.callbacks import (
    Callback,
    EvaluationReport,
    LogOptions,
    MetricsFile,
    RunEnd,
    RunStart,
    StepReport,
    build_loggers,
    read_metrics,
)
from clew.training.checkpoint import (
    Resume,
    RunFolder,
    find_checkpoint,
    latest_checkpoint,
    load_config,
    read_state,
    write_checkpoint,
)
from clew.training.config import TrainConfig
from clew.training.distributed import World, gather, joined_world
from clew.training.optimizers import beta1_at, lr_factor
from clew.training.signals import Stopped, StopRequest, check_stop, handle_stop_signals
from clew.training.step import (
    LocalBatch,
    TrainingState,
    accumulate_gradient,
    flush_denormals,
    gradient_norm,
    local_batch,
    scale_gradient,
)

Evaluate = Callable[[nn.Module], dict[str, float]]
now = time.perf_counter  # the clock of a run; a benchmark replaces it by the CPU time of the process


class Run:
    """A run folder, as `train` leaves it or as it was found."""

    def __init__(self, folder: str | Path, end: RunEnd | None = None) -> None:
        self.folder, self._end = Path(folder), end

    @cached_property
    def config(self) -> TrainConfig:
        return load_config(self.folder)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl: one for every few steps (kind "step") and for every evaluation."""
        return read_metrics(self.folder)

    @property
    def end(self) -> RunEnd:
        """The end of the training; of a run that another process trained, from its last checkpoint."""
        if self._end is not None:
            return self._end
        checkpoint = find_checkpoint(self.folder, "last")
        state = read_state(checkpoint)
        finished = any(line["kind"] == "step" and line["progress"] >= 1 for line in self.metrics)
        reason: Literal["done", "unfinished"] = "done" if finished else "unfinished"
        return RunEnd(state["step"], state["seconds"], reason, checkpoint, scores=state["scores"])

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
    resume: Resume = "auto",
    log: LogOptions | None = None,
    world: World | None = None,
    evaluate: Evaluate | None = None,
) -> Run:
    """Train in the folder `out`, or resume the run that it holds.

    Args:
        callbacks: called on the main process; ProgressDisplay shows the run on a terminal.
        resume: "never" refuses a folder that holds a run.
        log: TensorBoard and Weights & Biases.
        world: the processes that train together; by default those that torchrun or Slurm started, or this one alone.
        evaluate: returns scores of a model, by default those on the config's held-out mazes. "exact" decides which
            checkpoint is the best. Called on every process with the full model; the main process's scores count. One
            that takes long calls clew.training.signals.check_stop between its steps.
    """
    for callback in callbacks:
        if not isinstance(callback, Callback):
            kind = type(callback).__name__
            raise UserError(f"{kind} is no callback; derive it from clew.training.callbacks.Callback.")
    loggers = build_loggers(log or LogOptions())
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
        stack.enter_context(flush_denormals())
        folder = RunFolder(out)

        def begin() -> Path | None:
            stack.enter_context(folder.locked())
            return folder.begin(config, resume)

        checkpoint = world.on_main(begin)
        state = TrainingState(config, world, fresh=checkpoint is None)
        if checkpoint is not None:
            state.load(checkpoint)
        stack.enter_context(getattr(state.model, "threads", nullcontext)())
        end = Trainer(config, folder, world, state, evaluate, [*callbacks, *loggers]).run()
    return Run(folder.path, end)


class Trainer:
    """Runs the steps, evaluations and checkpoints of a TrainingState, and reports them to callbacks."""

    def __init__(
        self,
        config: TrainConfig,
        folder: RunFolder,
        world: World,
        state: TrainingState,
        evaluate: Evaluate | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.config, self.folder, self.world, self.state, self.evaluate = config, folder, world, state, evaluate
        self.metrics = MetricsFile(folder.metrics)
        self.callbacks: list[Callback] = [self.metrics, *callbacks] if world.is_main else []
        self.loader = build_loader(config.data, config.batch_size, config.seed)
        self.total_steps = config.budget.steps
        if config.budget.epochs is not None:
            self.total_steps = config.budget.epochs * (self.loader.steps_per_epoch or 0)
        self.mark = 0.0  # the time up to which training is counted; evaluation and saving are not
        self.norm = 0.0  # of the last gradient
        self.stop = StopRequest()
        # The last checkpoint's step, and that of its last evaluation.
        self.saved = (state.step, state.evaluated_step) if state.step else (-1, -1)

    def run(self) -> RunEnd:
        """Train until the budget is used or a signal comes."""
        state, world, run = self.state, self.world, self.folder.path
        done = (state.step, self.total_steps, state.seconds)
        end = RunEnd(state.step, state.seconds, "failed", latest_checkpoint(run))
        try:
            with handle_stop_signals() as self.stop:
                start = RunStart(self.config, run, state.parameters, *done, world.device.type, world.size)
                self._notify("on_start", start)
                signal = self._run_steps() or self._evaluate()
                self._save()
            reason: Literal["signal", "done"] = "signal" if signal else "done"
            end = RunEnd(state.step, state.seconds, reason, latest_checkpoint(run), signal, state.scores)
        finally:
            self._notify("on_end", end)
        return end

    def _notify(self, method: str, *report: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, method)(*report)

    def _run_steps(self) -> int:
        """Run the steps up to the end of the budget, or to a signal, which is returned; else 0."""
        state = self.state
        with closing(prefetched(self.loader, state.step, self.world.rank, self.world.size)) as ready:
            self.mark = now()
            if state.step:
                self.world.on_main(self._prune)  # what a kill or a signal may have prevented
                self._evaluate_and_save()
            while self.progress[0] < 1:
                if signal := self._stop_signal():
                    return signal
                self._step(next(ready))
                if state.step % self.config.log_every == 0 or self.progress[0] >= 1:
                    self._report()
                self._evaluate_and_save()
        return 0

    def _stop_signal(self) -> int:
        """Return the signal that any process has received, or 0; collective, so that all stop after the same step."""
        return int(self.world.max(torch.tensor(self.stop.signal)))

    @property
    def progress(self) -> tuple[float, float]:
        """The share of the budget that is used, and the share that one step uses (0 with a budget in minutes)."""
        if self.total_steps is not None:
            return self.state.step / self.total_steps, 1 / self.total_steps
        assert self.config.budget.minutes is not None
        return self.state.seconds / (60 * self.config.budget.minutes), 0.0

    def _step(self, batch: Batch) -> None:
        config, world, state = self.config, self.world, self.state
        rows = self.loader.batch_size(state.step)
        with autocast(config.precision, world.device):
            local = local_batch(batch, state.objective, config.seed, state.step, rows, world, state.forward)
        state.optimizer.set_rates(lr_factor(config.schedule, *self.progress), beta1_at(config.schedule, *self.progress))
        state.optimizer.zero_grad(set_to_none=True)
        try:
            sums = accumulate_gradient(
                state.forward,
                local,
                world,
                micro_batch=config.micro_batch,
                precision=config.precision,
                scale=state.scaler.value,
                adaptive=state.adaptive,
            )
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            raise self._out_of_memory(local) from None
        norm = self.norm = gradient_norm(state.model) / state.scaler.value
        overflow = state.scaler.can_shrink and math.isfinite(sums.mean_loss) and not math.isfinite(norm)
        if not overflow:
            for name, value in (("loss", sums.mean_loss), ("norm of the gradient", norm)):
                if not math.isfinite(value):
                    raise self._not_finite(f"the {name} is {value}", local)
            clip = 1.0 if config.clip is None else min(1.0, config.clip / (norm + 1e-6))
            scale_gradient(state.model, clip / state.scaler.value)
            state.optimizer.step()
            if state.ema is not None:
                state.ema.update(state.model)
        state.scaler.update(not overflow)

        flops = training_flops(config.model, local.batch, local.targets.order_BT, local.targets.query_BT)
        took = now() - self.mark
        self.mark += took
        # The main process's time, so that all processes agree on when a budget in minutes is used.
        own = torch.tensor([float(local.batch.valid_BT.sum()), flops, took * world.is_main], dtype=torch.float64)
        tokens, flops, seconds = world.sum(own).tolist()
        state.seconds += seconds
        added = {"mazes": rows, "tokens": tokens, "flops": flops, "skipped": overflow, **vars(sums)}
        for name, value in added.items():
            state.window[name] += value
        state.mazes += rows
        state.step += 1

    def _out_of_memory(self, local: LocalBatch) -> UserError:
        rows = min(local.most_rows, self.config.micro_batch or local.most_rows)
        problem = f"step {self.state.step} ran out of memory with {rows:,} mazes in one forward and backward pass"
        advice = f"--micro-batch {rows // 2}, which changes nothing but the memory" if rows > 1 else "smaller mazes"
        error = UserError(f"{problem}; use {advice}, or a smaller model.")
        if not self.world.is_main:  # only the main process's errors are printed
            report_error(f"process {self.world.rank}: {error}")
        return error

    def _not_finite(self, problem: str, local: LocalBatch) -> UserError:
        mazes = local.batch.index_B.tolist()
        named = f"{', '.join(map(str, mazes[:8]))}{', ...' if len(mazes) > 8 else ''}"
        seeds = f"seed {self.config.seed}, data seed {self.config.data.seed}"
        return UserError(
            f"{problem} at step {self.state.step} ({seeds}, mazes {named}), so the run stopped before it changed the "
            f"weights; the last good checkpoint is {latest_checkpoint(self.folder.path) or 'none'}: train from it with "
            "a lower --optimizer.lr in a new run, or look at these mazes."
        )

    def _report(self) -> None:
        state, window = self.state, self.state.window
        took = max(state.seconds - window["begun"], 1e-9)
        report = StepReport(
            step=state.step,
            progress=self.progress[0],
            loss=window["loss"] / (window["weight"] or 1.0),
            accuracy=window["correct"] / (window["count"] or 1.0),
            gradient_norm=self.norm,
            lr=state.optimizer.param_groups[0]["lr"],
            mazes=state.mazes,
            elapsed=state.seconds,
            mazes_per_second=window["mazes"] / took,
            tokens_per_second=window["tokens"] / took,
            flops_per_second=window["flops"] / took,
            skipped=int(window["skipped"]),
        )
        self._notify("on_step", report)
        window.clear()
        window["begun"] = state.seconds

    def _evaluate_and_save(self) -> None:
        """Evaluate and save if that is due after this step and not done yet."""
        if self.state.step % self.config.evaluate_every == 0:
            self._evaluate()
        if self.state.step % self.config.checkpoint_every == 0:
            self._save()

    def _evaluate(self) -> int:
        """Evaluate the model, unless that is done; return the signal that interrupted it, or 0."""
        state = self.state
        if self.evaluate is None or state.evaluated_step == state.step:
            return 0
        if signal := self._stop_signal():
            return signal
        began = now()
        averaged = nullcontext() if state.ema is None else state.ema.swapped(state.model)
        with averaged, torch.no_grad(), autocast(self.config.precision, self.world.device):
            model = state.full_model().eval()
            scores = self.world.from_main(self.evaluate(model))
            model.train()
        if signal := self._stop_signal():  # the scores may be incomplete; the resumed run evaluates again
            return signal
        exact = scores.get("exact", -math.inf)
        # Of equal scores the later one counts: its weights have seen more mazes at a lower rate.
        better = exact >= state.best["exact"] if state.best else exact > -math.inf
        if better:
            state.best = {"step": state.step, "exact": exact}
        state.scores, state.evaluated_step = scores, state.step
        self._notify("on_evaluate", EvaluationReport(state.step, state.seconds, scores, better, now() - began))
        if better:
            self._save()
        self.mark = now()
        return 0

    def _save(self) -> None:
        """Write a checkpoint, unless that is done."""
        state = self.state
        if self.saved == (state.step, state.evaluated_step):
            return
        # The weights of this step may be saved already, without the evaluation that came after.
        only_scores = self.saved[0] == state.step
        # Gathering shards needs every process; writing needs one.
        tensors = {} if only_scores else {name: gather(named) for name, named in state.named_tensors().items()}

        def write() -> None:
            described = {**state.to_json(), "metrics": self.metrics.checksum()}
            path = write_checkpoint(self.folder.path, state.step, tensors, described)
            self._prune()
            self._notify("on_checkpoint", state.step, path)

        self.world.on_main(write)  # also keeps the others from running ahead
        self.saved = (state.step, state.evaluated_step)
        self.mark = now()

    def _prune(self) -> None:
        best = self.state.best
        self.folder.prune(self.config.keep_last, int(best["step"]) if best else None)


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
    decoder = training_decoder(config)
    codecs = [Codec.of(config.data.format, tasks.height, tasks.width) for tasks in sets]

    def evaluate(model: nn.Module) -> dict[str, float]:
        sums = torch.zeros(len(sets), 4, dtype=torch.float64)  # exact paths, mazes, right tokens, tokens
        try:
            for number, (tasks, codec) in enumerate(zip(sets, codecs, strict=True)):
                index_N = np.arange(len(tasks))[rank_rows(len(tasks), world.rank, world.size)]
                outcomes = evaluate_tasks(
                    model,
                    codec,
                    tasks.select(index_N),
                    decoder,
                    seed=config.data.seed,
                    split=split,
                    number_N=index_N,
                    on_step=lambda step: check_stop(),
                ).outcomes
                counts = [(o.exact, 1, o.tokens_right, o.true_tokens) for o in outcomes]
                sums[number] = torch.tensor(counts, dtype=torch.float64).reshape(-1, 4).sum(0)
        except Stopped:
            pass  # the other processes wait for the sum
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
