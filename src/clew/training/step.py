"""One step's gradient, the same for one process and for many.

    part = draw_part(source_batch, objective, seed, step, rows, world)     # this process's rows and their question
    sums = accumulate_gradient(forward, part, ...)

The loss of a step is

    sum over all asked tokens of all processes (weight * cross-entropy)  /  sum of all those weights

Every process hides another number of tokens, so the sum of the weights is added up over the processes first, and each
part divides by the whole. DDP and FSDP average gradients over processes, so the loss is multiplied by their number.

Shape suffixes: B mazes, T positions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor, nn

from clew.data.batch import Batch
from clew.data.stream import rank_part
from clew.errors import UserError
from clew.objectives.loss import cross_entropy_sum, row_losses
from clew.objectives.noise import Noise
from clew.objectives.question import Objective, Predict, Question
from clew.objectives.rates import AdaptiveRate
from clew.training.distributed import World, gradients_shared
from clew.training.named_tensors import named_parameters, whole
from clew.training.precision import Precision, autocast


@dataclass(frozen=True)
class Part:
    """What one process computes of a step."""

    batch: Batch
    question: Question
    most_rows: int  # mazes of the process that has the most


@dataclass(frozen=True)
class StepSums:
    """What all processes together found in a step."""

    loss: float  # weighted sum
    weight: float
    count: float
    correct: float

    @property
    def mean_loss(self) -> float:
        return self.loss / self.weight if self.weight else 0.0 if self.loss == 0 else self.loss


def draw_part(
    batch: Batch, objective: Objective, seed: int, step: int, rows: int, world: World, model: Predict | None = None
) -> Part:
    """The question for this process's mazes; the same maze is asked the same however many processes there are.

    Without a model, masks that would follow its confidence are random.
    """
    if len(batch) == 0:
        raise UserError(
            f"step {step} has {rows} mazes for {world.size} processes; use a larger batch, or fewer processes."
        )
    row_B = torch.arange(rows)[rank_part(rows, world.rank, world.size)]
    batch_here = batch.to(world.device)
    noise = Noise.for_step(seed, step, row_B.to(world.device), rows)
    question = (
        objective.question(batch_here, noise) if model is None else objective.question_for(model, batch_here, noise)
    )
    return Part(batch_here, question, -(-rows // world.size))


def accumulate_gradient(
    forward: nn.Module,
    part: Part,
    world: World,
    *,
    micro_batch: int | None = None,
    precision: Precision,
    scale: float,
    adaptive: AdaptiveRate | None = None,
) -> StepSums:
    """Add the step's gradient, times `scale`, to the parameters' `.grad`, and tell `adaptive`.

    At most `micro_batch` mazes, all if None, go through one forward and backward pass.
    """
    weight = world.sum(part.question.weight_BT[part.question.ask_BT].double().sum())
    # A step that asks nothing has a zero gradient, not a division by zero.
    factor = scale * world.size / max(float(weight), 1e-30) if float(weight) else 0.0
    totals = torch.zeros(4, dtype=torch.float64, device=world.device)
    tally = None if adaptive is None else torch.zeros(2, adaptive.bins, dtype=torch.float64, device=world.device)
    pieces = micro_batches(part, micro_batch)
    for number, piece in enumerate(pieces):
        batch, question = piece.batch, piece.question
        with gradients_shared(forward, share=number == len(pieces) - 1):
            with autocast(precision, world.device):
                logits_QV = forward(batch, question.rank_BT, question.ask_BT)
            sums = cross_entropy_sum(logits_QV, question)
            torch.autograd.backward(sums.loss * factor)
        totals += sums.totals()
        if adaptive is not None and tally is not None:
            share_B = question.ask_BT.sum(1) / batch.response_BT.sum(1)
            tally += adaptive.tally(share_B, row_losses(sums, question))
    if adaptive is not None and tally is not None:
        adaptive.update(world.sum(tally))
    return StepSums(*world.sum(totals).tolist())


def micro_batches(part: Part, micro_batch: int | None) -> list[Part]:
    """The part in pieces of at most `micro_batch` mazes of similar length, as many on every process.

    FSDP gathers weights in every pass, so all processes must make as many passes; one that has a maze less than
    others may have nothing left for its last pass, and asks nothing in it.
    """
    if micro_batch is None or micro_batch >= part.most_rows:
        return [part]
    rows_B = part.batch.valid_BT.sum(1).argsort(stable=True)
    count = -(-part.most_rows // micro_batch)
    return [
        Part(part.batch.rows(rows), question_rows(part.question, rows), part.most_rows)
        if len(rows)
        else _without_questions(part)
        for rows in rows_B.tensor_split(count)
    ]


def _without_questions(part: Part) -> Part:
    first = slice(0, 1)
    question = question_rows(part.question, first)
    return Part(part.batch.rows(first), replace(question, ask_BT=torch.zeros_like(question.ask_BT)), part.most_rows)


def question_rows(question: Question, rows: slice | Tensor) -> Question:
    """The question for some of the mazes."""
    return Question(*(getattr(question, f.name)[rows] for f in fields(question)))


def gradient_norm(model: nn.Module) -> float:
    """The norm of the whole gradient, over all parameters and shards; every process must call this."""
    norm: Tensor = torch.nn.utils.get_total_norm([p.grad for _, p in named_parameters(model) if p.grad is not None])
    return float(whole(norm))


@torch.no_grad()
def scale_gradient(model: nn.Module, factor: float) -> None:
    """Multiply the whole gradient by a number."""
    if factor != 1.0:
        torch._foreach_mul_([p.grad for _, p in named_parameters(model) if p.grad is not None], factor)
