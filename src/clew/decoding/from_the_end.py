"""Right to left, and from both ends: first the model says where the path ends, then that is held fast.

The first pass asks for every place and settles the end at the first place where it is the most likely token; where it
is so nowhere, at the place where it is likeliest. `RightToLeft` then goes from there to the left, one place a pass.
`BothEnds` fills in the leftmost and the rightmost hidden place in each pass, until they meet.

Shape suffixes: N unfinished mazes, R places of the response, F filled places.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from clew.decoding.answers import Answers, Step
from clew.decoding.parallel import first_end, survey
from clew.models.interface import Model


@dataclass(frozen=True)
class RightToLeft:
    """From the end to the start, one place a pass."""

    any_order = True

    def steps(self, model: Model, answers: Answers, row_N: Tensor) -> Iterator[Step]:
        yield from settle_end(model, answers, row_N)
        yield from _fill_sides(model, answers, row_N, left=False)


@dataclass(frozen=True)
class BothEnds:
    """From the start and from the end towards the middle, two places a pass."""

    any_order = True

    def steps(self, model: Model, answers: Answers, row_N: Tensor) -> Iterator[Step]:
        yield from settle_end(model, answers, row_N)
        yield from _fill_sides(model, answers, row_N, left=True)


def settle_end(model: Model, answers: Answers, row_N: Tensor) -> Iterator[Step]:
    """One pass that fills in the end of those mazes that have none yet."""
    end = answers.canvas.end
    known_end_B = (answers.known_BR & (answers.token_BR == end)).any(1)
    row_N = answers.unfinished(row_N[~known_end_B[row_N]])
    if not len(row_N):
        return
    seen = survey(model, answers, row_N)
    hidden_NR = answers.hidden(row_N)
    most_likely_N = first_end(hidden_NR & (seen.token_NR == end), answers.place_R)[:, 0]
    likeliest_N = seen.end_NR.masked_fill(~hidden_NR, -1).argmax(1)
    place_N = torch.where(most_likely_N < answers.canvas.room, most_likely_N, likeliest_N)
    confidence_N = seen.end_NR.gather(1, place_N[:, None])[:, 0]
    yield answers.fill(row_N, place_N, torch.full_like(place_N, end), confidence_N)


def _fill_sides(model: Model, answers: Answers, row_N: Tensor, left: bool) -> Iterator[Step]:
    """Fill in the rightmost hidden place in each pass, and with `left` the leftmost too."""
    end = answers.canvas.end
    while len(row_N := answers.unfinished(row_N)):
        hidden_NR = answers.hidden(row_N)
        want_NR = hidden_NR & (hidden_NR.flip(1).cumsum(1).flip(1) == 1)
        if left:
            want_NR = want_NR | (hidden_NR & (hidden_NR.cumsum(1) == 1))
        logits_FV = answers.ask(model, row_N, want_NR).float()
        logits_FV[:, end] = -torch.inf  # the end stands further right
        confidence_F, token_F = logits_FV.softmax(-1).max(-1)
        n, place_F = want_NR.nonzero(as_tuple=True)
        yield answers.fill(row_N[n], place_F, token_F, confidence_F)
