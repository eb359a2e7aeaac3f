"""Train a model: `train(config, out)`, the one entry to the training loop.

    run = train(config, "runs/x")                  # makes the dataset, evaluates on held-out mazes, resumes
    run.metrics[-1], run.end.reason
    run.model.solve(task)

The same call trains alone, as one of torchrun's processes and in a Slurm job. A run folder that holds this run already
is resumed from its last checkpoint.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from clew.data.loader import check_batch_memory, make_dataset
from clew.training.callbacks import Callback, LogOptions, RunEnd, build_loggers
from clew.training.checkpoint import find_checkpoint, load_config, read_state
from clew.training.config import TrainConfig
from clew.training.distributed import World, joined_world
from clew.training.held_out import held_out_evaluator
from clew.training.loop import Evaluate, Trainer
from clew.training.run_folder import Resume, RunFolder, RunState
from clew.training.step import flush_denormals


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
        return RunFolder(self.folder).read_metrics()

    @property
    def end(self) -> RunEnd:
        """How the training ended; of a run that another process trained, what its last checkpoint says."""
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
        callbacks: called on the main process; clew.training.progress has the terminal display.
        resume: "never" refuses a folder that holds a run.
        log: TensorBoard and Weights & Biases.
        world: the processes that train together; by default those that torchrun or Slurm started, or this one alone.
        evaluate: returns scores of a model, "exact" among them, the same on every process; by default those on the
            held-out mazes of the config.
    """
    loggers = build_loggers(log or LogOptions())
    with ExitStack() as stack:
        if world is None:
            world = stack.enter_context(joined_world(config.device, config.timeout_hours))
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        check_batch_memory(config.data, config.batch_size, world.size)
        if world.on_main(lambda: make_dataset(config.data)) and world.is_main:
            print(f"made the dataset {config.data.dataset_folder}", file=sys.stderr)
        evaluate = evaluate or held_out_evaluator(config, world)
        stack.enter_context(flush_denormals())
        folder = RunFolder(out)

        def begin() -> Path | None:
            stack.enter_context(folder.locked())
            return folder.begin(config, resume)

        checkpoint = world.on_main(begin)
        state = RunState(config, world, fresh=checkpoint is None)
        if checkpoint is not None:
            state.load(checkpoint)
        end = Trainer(config, folder, world, state, evaluate, [*callbacks, *loggers]).run()
    return Run(folder.path, end)
