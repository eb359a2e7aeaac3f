"""Passage mixing: one step of talk between a cell and its open neighbours.

    step = PassageStep(width=64, expansion=2)
    x_BND = step(x_BND, cells_BHW)                # cells_BHW holds the open sides, as in clew.mazes.maze

For a cell i with normed vector n_i, and N(i) the neighbours that it is open to:

    x_i + think( sum over j in N(i) of relu(own n_i + hear n_j)^2 )

Every side has the same ears, so what is learnt of a passage to the north is known of one to the east, and the step is
the same for a maze that is turned or mirrored. The two maps `own` and `hear` are one product over the cells; what is
left is a sum over passages, which numba does in one walk over memory (passage_loops.py). In plain torch
(`plain_mixing`, for GPUs, autocast and the tests) that sum takes a dozen walks, and most of a step's time.

Shape suffixes: B mazes, N cells, D width, F hidden width.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.mazes.maze import EAST, NORTH, SOUTH, WEST
from clew.models.grid_layers import plain_norm
from clew.models.passage_loops import StepWeights, walk

SIDES = (NORTH, SOUTH, WEST, EAST)


class PassageStep(nn.Module):
    """See the module's docstring. Begins as the identity."""

    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        self.own_and_hear = nn.Linear(width, 2 * expansion * width, bias=False)
        self.think = nn.Linear(expansion * width, width, bias=False)
        nn.init.zeros_(self.think.weight)

    def weights(self) -> StepWeights:
        return self.own_and_hear.weight, self.think.weight

    def forward(self, x_BND: Tensor, cells_BHW: Tensor) -> Tensor:
        if by_hand(x_BND):
            return walk(x_BND, cells_BHW, [self.weights()])
        return plain_passage_step(x_BND, cells_BHW, *self.weights())


def by_hand(x: Tensor) -> bool:
    """Whether the steps written by hand can take this: they are for CPUs, and for no numbers of half the length."""
    whole = x.dtype in (torch.float32, torch.float64)
    return x.device.type == "cpu" and whole and not torch.is_autocast_enabled("cpu")


def plain_passage_step(x_BND: Tensor, cells_BHW: Tensor, own_and_hear: Tensor, think_DF: Tensor) -> Tensor:
    """What `walk` computes, as a reader would write it."""
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
