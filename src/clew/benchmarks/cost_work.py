"""The pieces of work whose cost is measured: a training step, one pass, and solving with the default decoder.

work = TrainingStep(config, "dfs", side=10, mazes=32)
work.forward_backward(); work.optimize()         # together a step, as in clew.training.loop
one_pass(trained, tasks)
solve(trained, tasks)                            # all passes that the default decoder needs
"""

from __future__ import annotations

from dataclasses import replace

import torch

from clew.decoding.answers import Answers
from clew.decoding.decode import DecodedBatch, decode
from clew.decoding.registry import default_decoder, parse_decoder
from clew.errors import UserError
from clew.experiments.grid_presets import single_size
from clew.loading import Trained, load_trained
from clew.mazes.generate import generate
from clew.mazes.maze import TaskBatch
from clew.models.build import training_flops
from clew.models.grid_pointer import GridPointer, GridPointerConfig
from clew.training.distributed import World
from clew.training.run_state import RunState
from clew.training.sources import build_source
from clew.training.step import accumulate_gradient, draw_part, gradient_norm, scale_gradient
from clew.training.tiny_numbers import tiny_numbers_are_zero

SEED = 0
CELLS_A_BATCH = 3200  # the same work for each size, but for what grows with the size


def mazes_a_batch(side: int) -> int:
    """As many mazes as have about CELLS_A_BATCH cells."""
    return max(1, round(CELLS_A_BATCH / side**2))


def load_pointer(name: str) -> Trained:
    """A trained grid-pointer, by name or folder."""
    trained = load_trained(name)
    if not isinstance(trained.model, GridPointer):
        raise UserError(f"{name} is no grid-pointer, whose cost this is about; give --weights another model.")
    return trained


class TrainingStep:
    """The same batch and question again and again, with fresh weights to begin with."""

    def __init__(self, model: GridPointerConfig, family: str, side: int, mazes: int) -> None:
        recipe = single_size("grid-pointer", side)
        data = replace(recipe.data, family=family)
        self.config = replace(recipe, model=model, data=data, batch_size=mazes, device="cpu")
        self.state, self.world = RunState(self.config, World()), World()
        source = build_source(self.config)
        self.part = draw_part(source.batch(0), self.state.objective, SEED, 0, mazes, self.world)

    @property
    def flops(self) -> float:
        """What the question needs, forward and backward; see clew.models.build.training_flops."""
        question = self.part.question
        return training_flops(self.config.model, self.part.batch, question.rank_BT, question.ask_BT)

    def forward_backward(self) -> None:
        self.state.optimizer.zero_grad(set_to_none=True)
        with tiny_numbers_are_zero():  # as in training
            accumulate_gradient(self.state.forward, self.part, self.world, precision="fp32", scale=1.0)

    def optimize(self) -> None:
        """Clip, change the weights, and average them."""
        assert self.config.clip is not None
        assert self.state.ema is not None
        norm = gradient_norm(self.state.model)
        scale_gradient(self.state.model, min(1.0, self.config.clip / (norm + 1e-6)))
        self.state.optimizer.step()
        self.state.ema.update(self.state.model)

    def whole(self) -> None:
        self.forward_backward()
        self.optimize()


def tasks_of(trained: Trained, side: int, mazes: int) -> TaskBatch:
    """Held-out mazes of the model's family."""
    return generate(trained.family, side, side, seed=SEED, first=0, count=mazes, side="test")


@torch.no_grad()
def one_pass(trained: Trained, tasks: TaskBatch) -> None:
    """Ask for every place of every answer, once, with nothing known."""
    answers = Answers(trained.script.canvas(tasks))
    row_N = torch.arange(len(tasks))
    answers.ask(trained.model.eval(), row_N, answers.hidden(row_N))


def solve(trained: Trained, tasks: TaskBatch) -> DecodedBatch:
    """Decode to the end."""
    decoder = parse_decoder(default_decoder(trained.model, trained.script))
    return decode(trained.model, trained.script.canvas(tasks), decoder)
