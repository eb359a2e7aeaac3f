"""Objectives that reveal the response one token after another: each is predicted from all the earlier ones.

    NextToken()(batch, generator)    # left to right
    AnyOrder()(batch, generator)     # in a random order, drawn anew for each row

Shape suffixes: B mazes, T positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from clew.data.batch import Batch
from clew.objectives.noise import ORDER, Noise
from clew.objectives.question import Objective, Question, ranked, response_place


@dataclass(frozen=True)
class NextToken(Objective):
    """Every token of the response from the prompt and the tokens to its left.

        L = - sum_t log P(x_t | prompt, x_1 .. x_(t-1))        t over the n tokens of the response

    The k-th token of the response has rank k. Trace supervision is this objective on a format whose response is the
    search trace followed by the plan. Nothing is random.
    """

    sequential: ClassVar[bool] = True

    def question(self, batch: Batch, noise: Noise) -> Question:
        return ranked(batch, response_place(batch))


@dataclass(frozen=True)
class AnyOrder(Objective):
    """Every token of the response from the prompt and the tokens before it in a random order.

        L = - sum_k log P(x_s(k) | prompt, x_s(1) .. x_s(k-1))        s a uniform permutation of 1 .. n, for each row

    The token x_s(k) has rank k. The model knows the position that it predicts, as a query has one.
    """

    sequential: ClassVar[bool] = True

    def question(self, batch: Batch, noise: Noise) -> Question:
        bits_BT = noise.bits_BT(ORDER, response_place(batch))
        # What is not response goes last, so that the response gets the ranks 1 .. n. Ties among 64 bits do not occur.
        bits_BT = bits_BT.masked_fill(~batch.response_BT, torch.iinfo(torch.int64).max)
        rank_BT = (bits_BT.argsort(1).argsort(1) + 1) * batch.response_BT
        return ranked(batch, rank_BT)
