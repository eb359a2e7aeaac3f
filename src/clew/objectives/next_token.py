"""Objectives that reveal the response one token after another: each is predicted from all the earlier ones.

    NextToken()(batch, generator)    # left to right
    AnyOrder()(batch, generator)     # in a random order, drawn anew for each row

Shape suffixes: B mazes, T positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from clew.data.batch import Batch, CellBatch
from clew.mazes.maze import EAST, NORTH, SOUTH, WEST
from clew.objectives.targets import HIDE, ORDER, PADDING_ORDER, Noise, Objective, Targets, ranked, response_place


@dataclass(frozen=True)
class NextToken(Objective):
    """Every token of the response from the prompt and the tokens to its left.

        L = - sum_t log P(x_t | prompt, x_1 .. x_(t-1))        t over the n tokens of the response

    The k-th token of the response has rank k. Trace supervision is this objective on a format whose response is the
    search trace followed by the plan. Nothing is random.
    """

    sequential: ClassVar[bool] = True

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        if isinstance(batch, CellBatch):
            return next_cell(batch, noise)
        return ranked(batch, response_place(batch))


def next_cell(batch: CellBatch, noise: Noise) -> Targets:
    """Next token on labels of cells: a uniform prefix of the path is visible, and the neighbours of its end are asked.

    The candidates are the open neighbours of the prefix's last cell that are not in the prefix. A shortest path never
    touches itself, so exactly one of them is on the path.
    """
    step_BT, width = batch.step_BT, batch.cells_BHW.shape[2]
    length_B = step_BT.amax(1)
    prefix_B = 1 + (noise.uniform_B(HIDE) * (length_B - 1)).long().clamp(max=length_B - 2)
    visible_BT = (step_BT > 0) & (step_BT <= prefix_B[:, None])
    end_B1 = (step_BT == prefix_B[:, None]).int().argmax(1, keepdim=True)
    sides_B1 = batch.cells_BHW.flatten(1).long().gather(1, end_B1)
    query_BT = torch.zeros_like(visible_BT)
    for side, move in ((NORTH, -width), (SOUTH, width), (WEST, -1), (EAST, 1)):
        is_open_B1 = (sides_B1 & side) != 0
        query_BT.scatter_(1, torch.where(is_open_B1, end_B1 + move, end_B1), True)
    query_BT &= ~visible_BT
    order_BT = (~visible_BT).long().masked_fill(~batch.valid_BT, PADDING_ORDER)
    return Targets(order_BT, query_BT, batch.tokens_BT, query_BT.float())


@dataclass(frozen=True)
class AnyOrder(Objective):
    """Every token of the response from the prompt and the tokens before it in a random order.

        L = - sum_k log P(x_s(k) | prompt, x_s(1) .. x_s(k-1))        s a uniform permutation of 1 .. n, for each row

    The token x_s(k) has rank k. The model knows the position that it predicts, as a query has one.
    """

    sequential: ClassVar[bool] = True

    def targets(self, batch: Batch, noise: Noise) -> Targets:
        bits_BT = noise.bits_BT(ORDER, response_place(batch))
        # What is not response goes last, so that the response gets the ranks 1 .. n. Ties among 64 bits do not occur.
        bits_BT = bits_BT.masked_fill(~batch.response_BT, torch.iinfo(torch.int64).max)
        order_BT = (bits_BT.argsort(1).argsort(1) + 1) * batch.response_BT
        return ranked(batch, order_BT)
