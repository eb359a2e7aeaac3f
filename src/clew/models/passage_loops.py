"""Steps along passages, loop after loop, on a CPU: a few mazes at a time, with a backward pass written by hand.

    x_BND = walk(x_BND, cells_BHW, weights)                                               # each step once
    x_BND = walk(x_BND, cells_BHW, weights, loops_B=[22, 22, 20], embedded_BND=embedded)  # loop after loop

A loop begins with x = norm(x) + embedded, and `plain_passage_step` in passages.py says what a step computes.

Mazes hear nothing of each other, so a few of them go through all of their loops before the next ones begin: what a step
leaves behind is then still in the cache when the next one reads it. Products are written the faster one of two ways,
and into memory that is there already (docs/experiments-log.md, no. 29).

Shape suffixes: B mazes, N cells, M cells of some mazes, D width, F hidden width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clew.models.kernels import mix, mix_back, norm_rows, norm_rows_back, over_rows

# Cells of the mazes that go together, for each thread. More of them leave the cache; fewer spend more of the time on
# calls, and on weights, which each product reads anew (docs/experiments-log.md, no. 29).
TOGETHER = 800

StepWeights = tuple[Tensor, Tensor]  # own_and_hear [2F, D], think [D, F]


def walk(
    x_BND: Tensor,
    cells_BHW: Tensor,
    weights: Sequence[StepWeights],
    loops_B: Sequence[int] | None = None,
    embedded_BND: Tensor | None = None,
) -> Tensor:
    """All steps once, or, with an embedding, in loops: so many for each maze, the first one the most."""
    loops = [1] * len(x_BND) if loops_B is None else list(loops_B)
    assert loops == sorted(loops, reverse=True)
    flat = [tensor for step in weights for tensor in step]
    inputs = [tensor for tensor in (x_BND, embedded_BND, *flat) if tensor is not None]
    keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
    out_BND: Tensor = PassageLoops.apply(  # type: ignore[no-untyped-call]
        x_BND, embedded_BND, cells_BHW, loops, keep, *flat
    )
    return out_BND


class Norm(NamedTuple):
    """What a norm leaves behind for the way back: its result, and the scale of each row."""

    normed_MD: Tensor
    scale_M: Tensor


class Walked(NamedTuple):
    """What some mazes leave behind."""

    begins: list[Norm]  # of each loop
    steps: list[Norm]  # of each step of each loop
    both: list[Tensor]  # own and hear of each step, [M, 2F]


class PassageLoops(torch.autograd.Function):
    """See the module's docstring."""

    @staticmethod
    def forward(
        ctx: Any,
        x_BND: Tensor,
        embedded_BND: Tensor | None,
        cells_BHW: Tensor,
        loops_B: list[int],
        keep: bool,
        *flat: Tensor,
    ) -> Tensor:
        x_BND, cells_BHW = x_BND.clone(memory_format=torch.contiguous_format), cells_BHW.contiguous()
        embedded_BND = None if embedded_BND is None else embedded_BND.contiguous()
        walked = [
            forth(x_BND[some], _some(embedded_BND, some), cells_BHW[some], loops_B[some], _pairs(flat), keep)
            for some in groups(x_BND)
        ]
        if keep:
            # What is no input and no output may be kept as it is; autograd watches over the weights.
            ctx.save_for_backward(*flat)
            ctx.walked, ctx.cells_BHW, ctx.loops_B, ctx.looping = walked, cells_BHW, loops_B, embedded_BND is not None
        return x_BND

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        flat = ctx.saved_tensors
        grad_BND = grads[0].clone(memory_format=torch.contiguous_format)
        grad_embedded_BND = torch.zeros_like(grad_BND) if ctx.looping else None
        # The gradient of own_and_hear lies turned, which makes its product a fifth faster.
        grad_flat = [w.new_zeros(w.shape[::-1]).T if i % 2 == 0 else torch.zeros_like(w) for i, w in enumerate(flat)]
        for some, walked in zip(groups(grad_BND), ctx.walked, strict=True):
            back(
                grad_BND[some],
                _some(grad_embedded_BND, some),
                ctx.cells_BHW[some],
                ctx.loops_B[some],
                _pairs(flat),
                _pairs(grad_flat),
                walked,
            )
        return grad_BND, grad_embedded_BND, None, None, None, *grad_flat


def _some(x_BND: Tensor | None, some: slice) -> Tensor | None:
    return None if x_BND is None else x_BND[some]


def _pairs(flat: Sequence[Tensor]) -> list[StepWeights]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def groups(x_BND: Tensor) -> list[slice]:
    """The mazes that go through their loops together."""
    size = max(1, TOGETHER * torch.get_num_threads() // x_BND.shape[1])
    return [slice(begin, begin + size) for begin in range(0, len(x_BND), size)]


def still_looping(loops_B: Sequence[int]) -> list[int]:
    """How many of the mazes go through each loop."""
    return [sum(loops > loop for loops in loops_B) for loop in range(loops_B[0])]


def forth(
    x_BND: Tensor,
    embedded_BND: Tensor | None,
    cells_BHW: Tensor,
    loops_B: Sequence[int],
    weights: Sequence[StepWeights],
    keep: bool,
) -> Walked:
    """Change the state in place; mazes that have stopped are left as they are."""
    (mazes, cells, width), hidden = x_BND.shape, weights[0][1].shape[1]
    mixed_MF = x_BND.new_empty(mazes * cells, hidden)
    turned = [(maps.T, think.T.contiguous()) for maps, think in weights]
    walked = Walked([], [], [])
    # Where nothing is kept, all steps write to the same memory, which then stays in the cache.
    norm_M, both_M2F = _room(x_BND.view(-1, width)), x_BND.new_empty(mazes * cells, 2 * hidden)
    for count in still_looping(loops_B):
        now = count * cells
        norm_now, both_now = Norm(*(tensor[:now] for tensor in norm_M)), both_M2F[:now]
        x, cells_now, mixed = x_BND[:count].view(now, width), cells_BHW[:count], mixed_MF[:now]
        if embedded_BND is not None:
            begin = _norm(x, _room(x) if keep else norm_now)
            torch.add(begin.normed_MD, embedded_BND[:count].view(now, width), out=x)
            if keep:
                walked.begins.append(begin)
        for maps, think in turned:
            step = _norm(x, _room(x) if keep else norm_now)
            both = torch.mm(step.normed_MD, maps, out=None if keep else both_now)
            over_rows(mix, cells_now, both, mixed)
            torch.addmm(x, mixed, think, out=x)
            if keep:
                walked.steps.append(step)
                walked.both.append(both)
    return walked


def back(
    grad_BND: Tensor,
    grad_embedded_BND: Tensor | None,
    cells_BHW: Tensor,
    loops_B: Sequence[int],
    weights: Sequence[StepWeights],
    grad_weights: Sequence[StepWeights],
    walked: Walked,
) -> None:
    """Change the gradient of the end into that of the beginning, and add to the others."""
    (mazes, cells, width), hidden = grad_BND.shape, weights[0][1].shape[1]
    most = mazes * cells
    grad_both_M2F, grad_normed_MD = grad_BND.new_empty(most, 2 * hidden), grad_BND.new_empty(most, width)
    mixed_MF, grad_mixed_MF = grad_BND.new_empty(most, hidden), grad_BND.new_empty(most, hidden)
    begins, steps = reversed(walked.begins), zip(reversed(walked.steps), reversed(walked.both), strict=True)
    for count in reversed(still_looping(loops_B)):
        now = count * cells
        grad, cells_now, mixed = grad_BND[:count].view(now, width), cells_BHW[:count], mixed_MF[:now]
        grad_both, grad_normed, grad_mixed = grad_both_M2F[:now], grad_normed_MD[:now], grad_mixed_MF[:now]
        for (maps, think), (grad_maps, grad_think) in zip(reversed(weights), reversed(grad_weights), strict=True):
            step, both = next(steps)
            torch.mm(grad, think, out=grad_mixed)
            over_rows(mix_back, cells_now, both, grad_mixed, mixed, grad_both)
            grad_think.addmm_(grad.T, mixed)
            grad_maps.T.addmm_(step.normed_MD.T, grad_both)
            torch.mm(grad_both, maps, out=grad_normed)
            over_rows(norm_rows_back, *step, grad_normed, grad)
        if grad_embedded_BND is not None:
            grad_embedded_BND[:count].view(now, width).add_(grad)
            grad_normed.copy_(grad)
            grad.zero_()
            over_rows(norm_rows_back, *next(begins), grad_normed, grad)


def _room(x_MD: Tensor) -> Norm:
    return Norm(torch.empty_like(x_MD), x_MD.new_empty(len(x_MD)))


def _norm(x_MD: Tensor, room: Norm) -> Norm:
    over_rows(norm_rows, x_MD, *room)
    return room
