"""The training loop, for one process or many, on CPU or GPU.

    end = train(config, "runs/x", evaluate=evaluate, observers=[LinePrinter()])

One step: the batch and its question, which are pure functions of (config, step); the gradient, normalised over the
whole global batch (step.py); a look whether it is sound (stability.py); clipping; the optimizer; the average of the
weights. Evaluation, checkpoints and signals come between steps. All that the next step depends on is in the
checkpoint, so a run that is killed and resumed ends with the same weights, bit for bit (on the same machine, with as
many threads and processes, and a budget in steps or epochs).

`evaluate` scores a model on held-out mazes; its "exact" decides which checkpoint is the best. It is called on every
process with a whole model and must return the same numbers on each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from clew import __version__
from clew.data.batch import Batch
from clew.data.loaders import batches
from clew.data.prefetch import prefetch
from clew.errors import UserError
from clew.models.build import build_model, count_parameters, training_flops
from clew.objectives.config import build_objective, dwell_of
from clew.training.checkpoint import (
    latest_checkpoint,
    load_model_tensors,
    model_tensors,
    read_state,
    read_tensors,
    write_checkpoint,
)
from clew.training.config import TrainConfig
from clew.training.distributed import World, share_model
from clew.training.ema import Ema
from clew.training.observer import (
    EvaluationReport,
    MetricsFile,
    Observer,
    RunEnd,
    RunStart,
    StepReport,
)
from clew.training.optimizers import build_optimizer
from clew.training.precision import LossScale, autocast
from clew.training.progress import Clock, Window, budget_progress, total_steps
from clew.training.run_folder import Resume, RunFolder
from clew.training.schedules import lr_factor
from clew.training.signals import Leave, asked_to_leave
from clew.training.sources import Source, build_source
from clew.training.stability import GradientWatch
from clew.training.step import Part, accumulate_gradient, draw_part, gradient_norm, scale_gradient

Evaluate = Callable[[nn.Module], dict[str, float]]


def train(
    config: TrainConfig,
    run: str | Path,
    *,
    evaluate: Evaluate | None = None,
    observers: Sequence[Observer] = (),
    world: World | None = None,
    resume: Resume = "auto",
) -> RunEnd:
    """Train, or go on with, the run in folder `run`."""
    world = world or World()
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    folder = RunFolder(run)
    with ExitStack() as stack:
        begun: Path | UserError | None = None
        if world.is_main:
            try:
                stack.enter_context(folder.locked())
                begun = folder.begin(config, resume)
            except UserError as error:  # the others wait for an answer, so it is sent before it is raised
                begun = error
        begun = world.from_main(begun)
        if isinstance(begun, UserError):
            raise begun
        trainer = Trainer(config, folder, world, evaluate, observers)
        if begun is not None:
            trainer.load(begun)
        return trainer.run()


class Trainer:
    """The state of a run, and what a step does to it."""

    def __init__(
        self,
        config: TrainConfig,
        folder: RunFolder,
        world: World,
        evaluate: Evaluate | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        self.config, self.folder, self.world, self.evaluate = config, folder, world, evaluate
        self.metrics = MetricsFile(folder.metrics)
        self.observers: list[Observer] = [self.metrics, *observers] if world.is_main else []
        self.source: Source = build_source(config)
        self.total_steps = total_steps(config.budget, self.source)
        self.objective = build_objective(config.objective)
        self.dwell = dwell_of(self.objective)
        # In place, so that the parameters keep their names; before sharing, which wraps what is compiled.
        self.model = build_model(config.model, config.seed).to(world.device)
        self.parameters = count_parameters(self.model)
        if config.compile:
            self.model.compile()
        self.forward = share_model(self.model, config.parallel, world)
        self.optimizer = build_optimizer(self.model, config.optimizer)
        self.ema = None if config.ema is None else Ema(self.model, config.ema)
        self.scale = LossScale(config.precision)
        self.watch = GradientWatch(config.explosion)
        self.clock, self.window = Clock(), Window()
        self.step = 0  # steps done
        self.seconds = 0.0  # the main process's clock after the last step, so that all processes agree
        self.mazes = 0
        self.best: dict[str, float] | None = None
        self.scores: dict[str, float] = {}
        self.evaluated_step = -1
        self.saved_step = -1

    # The run

    def run(self) -> RunEnd:
        """Steps until the budget is used or a signal comes."""
        end = RunEnd(self.step, self.seconds, "failed", latest_checkpoint(self.folder.path))
        try:
            with asked_to_leave() as leave:
                self._tell_start()
                signal = self._all_steps(leave)
                if not signal:
                    self._evaluate()
                self._save()
            reason: Literal["signal", "done"] = "signal" if signal else "done"
            end = RunEnd(self.step, self.seconds, reason, self._last_checkpoint(), signal, self.scores)
        finally:
            for observer in self.observers:
                observer.on_end(end)
        return end

    def _all_steps(self, leave: Leave) -> int:
        """Steps to the end of the budget, or until any process gets a signal; that signal, or 0."""
        ahead = batches(self.source, self.step, self.world.rank, self.world.size)
        with prefetch(ahead) as ready:
            self.clock.run()
            while self.progress[0] < 1:
                # All processes ask here, so that all leave after the same step.
                if signal := int(self.world.max(torch.tensor(leave.signal))):
                    break
                self._step(next(ready))
                self._after_step()
            else:
                signal = 0
            self.clock.pause()
        return signal

    @property
    def progress(self) -> tuple[float, float]:
        return budget_progress(self.config.budget, self.total_steps, self.step, self.seconds)

    def _step(self, batch: Batch) -> None:
        config, world = self.config, self.world
        rows = self.source.rows(self.step)
        part = draw_part(batch, self.objective, config.seed, self.step, rows, world)
        self.optimizer.scale_lr(lr_factor(config.schedule, *self.progress))
        self.optimizer.zero_grad(set_to_none=True)
        sums = accumulate_gradient(
            self.forward,
            part,
            world,
            parts=config.accumulation,
            precision=config.precision,
            scale=self.scale.value,
            dwell=self.dwell,
        )
        norm = gradient_norm(self.model) / self.scale.value
        overflow = self.scale.can_shrink and math.isfinite(sums.mean_loss) and not math.isfinite(norm)
        if overflow:
            self.window.skipped += 1
        else:
            if problem := self.watch.problem(sums.mean_loss, norm):
                raise self._stopped(problem, part)
            clip = 1.0 if config.clip is None else min(1.0, config.clip / (norm + 1e-6))
            scale_gradient(self.model, clip / self.scale.value)
            self.optimizer.step()
            self.watch.remember(norm)
            if self.ema is not None:
                self.ema.update(self.model)
        self.scale.update(not overflow)
        self.norm = norm

        # The time too goes through a sum, so that all processes agree on when a budget in minutes is over.
        flops = training_flops(config.model, part.batch, part.question.rank_BT, part.question.ask_BT)
        own = [float(part.batch.valid_BT.sum()), flops, self.clock.seconds * world.is_main]
        tokens, all_flops, self.seconds = world.sum(torch.tensor(own, dtype=torch.float64)).tolist()
        self.window.add(sums, rows, tokens, all_flops)
        self.mazes += rows
        self.step += 1

    def _after_step(self) -> None:
        config, step = self.config, self.step
        if step % config.log_every == 0 or self.progress[0] >= 1:
            self._report()
        if step % config.evaluate_every == 0:
            self._evaluate()
        if step % config.checkpoint_every == 0:
            self._save()

    def _stopped(self, problem: str, part: Part) -> UserError:
        mazes = part.batch.index_B.tolist()
        named = f"{', '.join(map(str, mazes[:8]))}{', ...' if len(mazes) > 8 else ''}"
        last = self._last_checkpoint()
        seeds = f"seed {self.config.seed}, data seed {self.config.data.seed}"
        return UserError(
            f"{problem} at step {self.step} ({seeds}, mazes {named}), so the run stopped before it changed the "
            f"weights; the last good checkpoint is {last or 'none'}: go on from it with a lower --optimizer.lr in a "
            "new run, or look at these mazes."
        )

    # What others hear of it

    def _tell_start(self) -> None:
        start = RunStart(
            self.config,
            self.folder.path,
            self.parameters,
            self.step,
            self.total_steps,
            self.seconds,
            self.world.device.type,
            self.world.size,
        )
        for observer in self.observers:
            observer.on_start(start)

    def _report(self) -> None:
        window, seconds = self.window, max(self.seconds - self.window.begun, 1e-9)
        report = StepReport(
            step=self.step,
            progress=self.progress[0],
            loss=window.loss / (window.weight or 1.0),
            accuracy=window.correct / (window.count or 1.0),
            gradient_norm=self.norm,
            lr=self.optimizer.param_groups[0]["lr"],
            mazes=self.mazes,
            elapsed=self.seconds,
            mazes_per_second=window.mazes / seconds,
            tokens_per_second=window.tokens / seconds,
            flops_per_second=window.flops / seconds,
            skipped=window.skipped,
        )
        for observer in self.observers:
            observer.on_step(report)
        self.window = Window(begun=self.seconds)

    def _evaluate(self) -> None:
        if self.evaluate is None or self.evaluated_step == self.step:
            return
        self.clock.pause()
        timer = Clock()
        timer.run()
        averaged = nullcontext() if self.ema is None else self.ema.swapped(self.model)
        with averaged, torch.no_grad(), autocast(self.config.precision, self.world.device):
            model = self._whole_model().eval()
            scores = self.world.from_main(self.evaluate(model))
            model.train()
        exact = scores.get("exact", -math.inf)
        better = self.best is None or exact > self.best["exact"]
        if better:
            self.best = {"step": self.step, "exact": exact}
        self.scores, self.evaluated_step = scores, self.step
        report = EvaluationReport(self.step, self.seconds, scores, better, timer.seconds)
        for observer in self.observers:
            observer.on_evaluate(report)
        if better:
            self._save()
        self.clock.run()

    def _whole_model(self) -> nn.Module:
        """The model, or, if its weights are sharded, an unsharded copy, so that processes may use it on their own."""
        if self.world.size == 1 or self.config.parallel == "ddp":
            return self.model
        copy = build_model(self.config.model, seed=0).to(self.world.device)
        load_model_tensors(copy, model_tensors(self.model), self.folder.path)
        return copy

    # Checkpoints

    def _last_checkpoint(self) -> Path | None:
        return latest_checkpoint(self.folder.path)

    def _save(self) -> None:
        if self.saved_step == self.step:
            return
        was_running = self.clock.running
        self.clock.pause()
        # Gathering shards needs every process; writing needs one.
        tensors = {"model": model_tensors(self.model), "optimizer": self.optimizer.state_tensors()}
        if self.ema is not None:
            tensors["ema"] = self.ema.state_tensors()
        problem: Exception | None = None
        if self.world.is_main:
            try:
                self.metrics.sync()
                path = write_checkpoint(self.folder.checkpoints, self.step, tensors, self._state())
                self.folder.prune(self.config.keep_last, int(self.best["step"]) if self.best else None)
                for observer in self.observers:
                    observer.on_checkpoint(self.step, path)
            except (UserError, OSError) as error:
                problem = error
        problem = self.world.from_main(problem)  # also keeps the others from running ahead
        if problem is not None:
            raise problem
        self.saved_step = self.step
        if was_running:
            self.clock.run()

    def _state(self) -> dict[str, Any]:
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
            "dwell": None if self.dwell is None else self.dwell.state(),
            "versions": {"clew": __version__, "torch": torch.__version__},
        }

    def load(self, checkpoint: Path) -> None:
        """Go on from a checkpoint, however many processes wrote it."""
        state = read_state(checkpoint)
        path = checkpoint / "model.safetensors"
        load_model_tensors(self.model, read_tensors(path), path)
        self.optimizer.load_state_tensors(read_tensors(checkpoint / "optimizer.safetensors"))
        if self.ema is not None:
            self.ema.load_state_tensors(read_tensors(checkpoint / "ema.safetensors"))
        try:
            self.step = self.saved_step = int(state["step"])
            self.seconds, self.mazes = float(state["seconds"]), int(state["mazes"])
            self.best, self.scores = state["best"], state["scores"]
            self.evaluated_step = int(state["evaluated_step"])
            self.clock, self.window = Clock(self.seconds), Window(**state["window"])
            self.scale.load_state(state["loss_scale"])
            self.watch.load_state(state["gradient_norms"])
            if self.dwell is not None:
                self.dwell.load_state(state["dwell"])
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{checkpoint} is not a state of this Clew ({error!r}); take another checkpoint.") from None
