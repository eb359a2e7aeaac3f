"""Work on a cell network that the benchmarks time: a training step and solving, with batches of about as many cells.

step = TrainingStep("dfs", side=10)
step.whole()                                       # forward, backward, clipping, optimizer, average of the weights
tasks = held_out_tasks("dfs", side=10)
solve(model, tasks)                                # one pass and a walk
fastest(step.whole, seconds=4, clock=time.process_time)
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from clew.data.batch import cell_batch
from clew.decoding.codec import Codec
from clew.decoding.decode import decode
from clew.decoding.registry import decoder_named
from clew.files import write_json
from clew.mazes.generate import generate
from clew.mazes.maze import TaskBatch
from clew.models.build import build_model, training_flops
from clew.paper.cell_configs import CELLS_A_STEP, REACHABLE, CellFamily, cell_model, cells
from clew.training.distributed import World
from clew.training.run_folder import RunState
from clew.training.sources import build_source
from clew.training.step import accumulate_gradient, draw_part, flush_denormals, gradient_norm, scale_gradient

SEED = 0
FEWEST_RUNS = 2
FAMILIES: dict[CellFamily, str] = {"dfs": "DFS", "astar": "A*"}


def mazes_a_batch(family: CellFamily, side: int) -> int:
    """As many mazes as a training step of the recipe has."""
    return max(1, round(CELLS_A_STEP / REACHABLE[family] / side**2))


class TrainingStep:
    """One batch with its question, again and again; the weights start at random and change."""

    def __init__(self, family: CellFamily, side: int, mazes: int | None = None) -> None:
        self.config = cells(family, (side,), steps=1000)
        self.state, self.world = RunState(self.config, World()), World()
        self.mazes = mazes or mazes_a_batch(family, side)
        tasks = build_source(self.config).batch(0).rows(slice(0, self.mazes))
        self.mazes = len(tasks)
        self.part = draw_part(tasks, self.state.objective, SEED, 0, self.mazes, self.world)

    @property
    def flops(self) -> float:
        """Floating-point operations of the matrix products, forward and backward."""
        question = self.part.question
        return training_flops(self.config.model, self.part.batch, question.order_BT, question.query_BT)

    def forward_backward(self) -> None:
        self.state.optimizer.zero_grad(set_to_none=True)
        self.state.model.train()
        with flush_denormals():
            accumulate_gradient(self.state.forward, self.part, self.world, parts=1, precision="fp32", scale=1.0)

    def optimize(self) -> None:
        """Clip, step, average the weights."""
        assert self.config.clip is not None
        assert self.state.ema is not None
        norm = gradient_norm(self.state.model)
        scale_gradient(self.state.model, min(1.0, self.config.clip / (norm + 1e-6)))
        self.state.optimizer.step()
        self.state.ema.update(self.state.model)

    def whole(self) -> None:
        self.forward_backward()
        self.optimize()


def fresh_model(family: CellFamily) -> nn.Module:
    """A network with random weights; one pass costs the same with any."""
    return build_model(cell_model(family), SEED).eval()


def held_out_tasks(family: CellFamily, side: int, mazes: int | None = None) -> TaskBatch:
    count = mazes or mazes_a_batch(family, side)
    return generate(family, side, side, seed=SEED, first=0, count=count, split="test")


def solve(model: nn.Module, tasks: TaskBatch) -> None:
    """Predict all labels in one pass and walk over them."""
    decode(model, Codec.of("cell-labels", tasks.height, tasks.width).canvas(tasks), decoder_named("one-pass"))


def solving_flops(family: CellFamily, tasks: TaskBatch) -> float:
    """Floating-point operations of the matrix products of one pass."""
    config = cell_model(family)
    reachable = int(cell_batch(tasks, np.arange(len(tasks))).valid_BT.sum())
    loops = config.loops(tasks.height, tasks.width)
    return float(loops * reachable * config.steps * 2 * 3 * config.hidden * config.width)


def fastest(work: Callable[[], object], seconds: float, clock: Callable[[], float]) -> float:
    """The time of the fastest of several runs that together take about `seconds`; slower ones were interrupted."""
    took: list[float] = []
    begin = time.perf_counter()
    while len(took) < FEWEST_RUNS or time.perf_counter() - begin < seconds:
        began = clock()
        work()
        took.append(clock() - began)
    return min(took)


def set_threads(threads: int) -> None:
    torch.set_num_threads(threads)


def command_line() -> str:
    """The command that started this process."""
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def save(out: Path, report: dict[str, Any]) -> None:
    """Write a report; its folder is made if it is missing."""
    out.parent.mkdir(parents=True, exist_ok=True)
    write_json(out, report)
    print(out)
