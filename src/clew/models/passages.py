"""Passage mixing: one step of talk between a cell and its open neighbours, with a backward pass written by hand.

    step = PassageStep(width=64, expansion=2)
    x_BND = step(x_BND, cells_BHW)                # cells_BHW holds the open sides, as in clew.mazes.maze

For a cell i with normed vector n_i, and N(i) the neighbours that it is open to:

    x_i + think( sum over j in N(i) of relu(own n_i + hear n_j)^2 )

Every side has the same ears, so what is learnt of a passage to the north is known of one to the east, and the step is
the same for a maze that is turned or mirrored. The two maps `own` and `hear` are one product over the cells; what is
left is a sum over passages, which numba does in one walk over memory (kernels.py). In plain torch (`plain_mixing`,
for GPUs, autocast and the tests) that sum takes a dozen walks, and most of a step's time.

Shape suffixes: B mazes, N cells, M cells of all mazes, D width, F hidden width.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.mazes.maze import EAST, NORTH, SOUTH, WEST
from clew.models.grid_layers import plain_norm
from clew.models.kernels import mix, mix_back, norm_rows, norm_rows_back, over_rows

SIDES = (NORTH, SOUTH, WEST, EAST)


class PassageStep(nn.Module):
    """See the module's docstring. Begins as the identity."""

    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        self.own_and_hear = nn.Linear(width, 2 * expansion * width, bias=False)
        self.think = nn.Linear(expansion * width, width, bias=False)
        nn.init.zeros_(self.think.weight)

    def forward(self, x_BND: Tensor, cells_BHW: Tensor) -> Tensor:
        if torch.is_autocast_enabled(x_BND.device.type) or x_BND.device.type != "cpu":
            return plain_passage_step(x_BND, cells_BHW, self.own_and_hear.weight, self.think.weight)
        out_BND: Tensor = PassageStepFunction.apply(  # type: ignore[no-untyped-call]
            x_BND, cells_BHW, self.own_and_hear.weight, self.think.weight
        )
        return out_BND


def plain_passage_step(x_BND: Tensor, cells_BHW: Tensor, own_and_hear: Tensor, think_DF: Tensor) -> Tensor:
    """What PassageStepFunction computes, as a reader would write it."""
    own_BNF, hear_BNF = F.linear(plain_norm(x_BND), own_and_hear).chunk(2, dim=-1)
    return x_BND + F.linear(plain_mixing(own_BNF, hear_BNF, cells_BHW), think_DF)


def plain_mixing(own_BNF: Tensor, hear_BNF: Tensor, cells_BHW: Tensor) -> Tensor:
    """The sum over open neighbours, in plain torch.

    Cells lie row after row, so the neighbour to a side is the same array moved by a cell or a row; what wraps around
    an edge is masked, since no border cell is open to the outside.
    """
    width = cells_BHW.shape[2]
    cells_BN1 = cells_BHW.flatten(1)[..., None]
    mixed_BNF = torch.zeros_like(own_BNF)
    for side, move in zip(SIDES, (-width, width, -1, 1), strict=True):
        open_BN1 = (cells_BN1 & side) != 0
        mixed_BNF = mixed_BNF + F.relu(own_BNF + hear_BNF.roll(-move, 1)).square() * open_BN1
    return mixed_BNF


class PassageStepFunction(torch.autograd.Function):
    """One passage step on a CPU; keeps the normed input and one product, and makes the rest again on the way back.

    Of the two ways to write each product, it is written the one that takes a tenth less.
    """

    @staticmethod
    def forward(ctx: Any, x_BND: Tensor, cells_BHW: Tensor, own_and_hear: Tensor, think_DF: Tensor) -> Tensor:
        x_MD = x_BND.reshape(-1, x_BND.shape[-1])
        normed_MD, scale_M = x_MD.new_empty(x_MD.shape), x_MD.new_empty(len(x_MD))
        over_rows(norm_rows, x_MD, normed_MD, scale_M)
        both_BN2F = (normed_MD @ own_and_hear.T).view(*x_BND.shape[:2], -1)
        mixed_BNF = both_BN2F.new_empty(*both_BN2F.shape[:2], both_BN2F.shape[2] // 2)
        over_rows(mix, cells_BHW, both_BN2F, mixed_BNF)
        ctx.save_for_backward(normed_MD, scale_M, cells_BHW, own_and_hear, think_DF, both_BN2F)
        return torch.addmm(x_MD, mixed_BNF.flatten(0, 1), think_DF.T.contiguous()).view(x_BND.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        normed_MD, scale_M, cells_BHW, own_and_hear, think_DF, both_BN2F = ctx.saved_tensors
        grad_MD = grads[0].reshape(normed_MD.shape)
        grad_mixed = (grad_MD @ think_DF).view(*both_BN2F.shape[:2], -1)
        mixed, grad_both = torch.empty_like(grad_mixed), torch.empty_like(both_BN2F)
        over_rows(mix_back, cells_BHW, both_BN2F, grad_mixed, mixed, grad_both)
        grad_think = grad_MD.T @ mixed.flatten(0, 1)
        grad_maps = (normed_MD.T @ grad_both.flatten(0, 1)).T
        grad_x_MD = grad_MD.clone(memory_format=torch.contiguous_format)
        over_rows(norm_rows_back, normed_MD, scale_M, grad_both.flatten(0, 1) @ own_and_hear, grad_x_MD)
        return grad_x_MD.view_as(grads[0]), None, grad_maps, grad_think
