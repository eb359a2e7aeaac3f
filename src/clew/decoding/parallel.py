"""Many places a pass, the ones the model is surest of first.

Each pass asks for every hidden place and then fills in some of them:

- `Certainty`: the `count` surest, by probability, by margin (the best token's probability less the second's) or by
  entropy;
- `EntropyBound`: in order of entropy, as long as the entropies of those before add up to no more than `bound`;
- `Threshold`: all whose probability is at least `probability`, and the surest one in any case.

How far to look: nobody knows how long the path is, and beyond its end a model may answer anything, since training
rarely goes there. So only the places up to the horizon can be filled, which is the first place where the end is the
most likely token. The horizon is found anew in every pass and settled once the end is filled in; and where something
known stands further right, the end cannot be, so there it is not considered.

Shape suffixes: N unfinished mazes, R places of the response, Q asked places of all mazes, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor

from clew.decoding.state import Answers, Step
from clew.errors import UserError
from clew.models.config import Model

Measure = Literal["probability", "margin", "entropy"]


@dataclass(frozen=True)
class Survey:
    """What the model says at the hidden places; read at `candidate_NR` only."""

    candidate_NR: Tensor  # bool; hidden, and not beyond the horizon
    token_NR: Tensor  # the most likely token
    probability_NR: Tensor  # its probability
    margin_NR: Tensor  # its probability less that of the second
    entropy_NR: Tensor  # of the whole distribution, in nats
    end_NR: Tensor  # the probability of the end token


def survey(model: Model, answers: Answers, row_N: Tensor) -> Survey:
    """Ask for every hidden place of these mazes."""
    want_NR = answers.hidden(row_N)
    logits_QV = answers.ask(model, row_N, want_NR).float()
    place_R, end = answers.place_R, answers.canvas.end
    # The end is no possible token to the left of something known.
    known_NR = answers.known_BR[row_N]
    last_known_N1 = torch.where(known_NR, place_R, -1).amax(1, keepdim=True)
    impossible_Q = (place_R < last_known_N1)[want_NR]
    logits_QV[:, end] = logits_QV[:, end].masked_fill(impossible_Q, -torch.inf)

    log_QV = logits_QV.log_softmax(-1)
    probability_QV = log_QV.exp()
    best_Q2 = probability_QV.topk(2, dim=-1)
    entropy_Q = -(probability_QV * log_QV.clamp(min=-1e4)).sum(-1)  # 0 times minus infinity must be 0

    def place(values_Q: Tensor) -> Tensor:
        return torch.zeros(want_NR.shape, dtype=values_Q.dtype, device=values_Q.device).masked_scatter(
            want_NR, values_Q
        )

    token_NR = place(best_Q2.indices[:, 0])
    horizon_N1 = first_end(want_NR & (token_NR == end), place_R)
    return Survey(
        candidate_NR=want_NR & (place_R <= horizon_N1),
        token_NR=token_NR,
        probability_NR=place(best_Q2.values[:, 0]),
        margin_NR=place(best_Q2.values[:, 0] - best_Q2.values[:, 1]),
        entropy_NR=place(entropy_Q),
        end_NR=place(probability_QV[:, end]),
    )


def first_end(is_end_NR: Tensor, place_R: Tensor) -> Tensor:
    """The first place that is marked, or the number of places where none is: [N, 1]."""
    return torch.where(is_end_NR, place_R, len(place_R)).amin(1, keepdim=True)


class _Chooser(Protocol):
    def choose(self, seen: Survey) -> Tensor: ...


def _parallel_steps(chooser: _Chooser, model: Model, answers: Answers, row_N: Tensor) -> Iterator[Step]:
    while len(row_N := answers.unfinished(row_N)):
        seen = survey(model, answers, row_N)
        yield fill_chosen(answers, row_N, seen, chooser.choose(seen))


def fill_chosen(answers: Answers, row_N: Tensor, seen: Survey, chosen_NR: Tensor) -> Step:
    """Fill the chosen places with their most likely tokens."""
    assert bool(chosen_NR.any(1).all()), "every pass must fill something"
    n, place_F = chosen_NR.nonzero(as_tuple=True)
    return answers.fill(row_N[n], place_F, seen.token_NR[chosen_NR], seen.probability_NR[chosen_NR])


@dataclass(frozen=True)
class Certainty:
    """The surest places, a fixed number a pass."""

    by: Measure = "probability"
    count: int = 1

    any_order = True

    def __post_init__(self) -> None:
        if self.by not in get_args(Measure):
            raise UserError(f"certainty cannot be measured by {self.by!r}; use one of {', '.join(get_args(Measure))}.")
        if self.count < 1:
            raise UserError(f"{self.count} places a pass would never end; use a count of 1 or more.")

    def steps(self, model: Model, answers: Answers, row_N: Tensor) -> Iterator[Step]:
        return _parallel_steps(self, model, answers, row_N)

    def choose(self, seen: Survey) -> Tensor:
        certainty_NR = {
            "probability": seen.probability_NR,
            "margin": seen.margin_NR,
            "entropy": -seen.entropy_NR,
        }[self.by]
        return seen.candidate_NR & (_order(certainty_NR, seen.candidate_NR) < self.count)


@dataclass(frozen=True)
class EntropyBound:
    """As many places a pass as an entropy budget allows.

    The tokens of one pass are chosen as if they did not depend on each other. How wrong that can be is at most the sum
    of their entropies less the largest one, which is what `bound` bounds, in nats.
    """

    bound: float = 0.1

    any_order = True

    def __post_init__(self) -> None:
        if not self.bound >= 0:
            raise UserError(f"an entropy bound of {self.bound} is impossible; use 0 or more.")

    def steps(self, model: Model, answers: Answers, row_N: Tensor) -> Iterator[Step]:
        return _parallel_steps(self, model, answers, row_N)

    def choose(self, seen: Survey) -> Tensor:
        order_NR = _order(-seen.entropy_NR, seen.candidate_NR)
        entropy_NR = seen.entropy_NR.masked_fill(~seen.candidate_NR, torch.inf)
        sorted_NR = entropy_NR.sort(dim=1, stable=True).values
        # In this order the last one is the largest, so what counts is the sum of those before it.
        before_NR = sorted_NR.cumsum(1) - sorted_NR
        fits_NR = before_NR.nan_to_num(nan=torch.inf) <= self.bound
        fits_NR[:, 0] = True
        return seen.candidate_NR & fits_NR.gather(1, order_NR)


@dataclass(frozen=True)
class Threshold:
    """All places of which the model is sure enough."""

    # The tokens of one pass are chosen as if they did not depend on each other, and a path has dozens of them.
    probability: float = 0.999

    any_order = True

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:
            raise UserError(f"a probability of {self.probability} is impossible; use 0 to 1.")

    def steps(self, model: Model, answers: Answers, row_N: Tensor) -> Iterator[Step]:
        return _parallel_steps(self, model, answers, row_N)

    def choose(self, seen: Survey) -> Tensor:
        surest_NR = _order(seen.probability_NR, seen.candidate_NR) == 0
        return seen.candidate_NR & ((seen.probability_NR >= self.probability) | surest_NR)


def _order(value_NR: Tensor, candidate_NR: Tensor) -> Tensor:
    """0 for the candidate with the highest value of its maze, 1 for the next, ...; of equal ones the left one first."""
    descending = value_NR.masked_fill(~candidate_NR, -torch.inf).argsort(dim=1, descending=True, stable=True)
    return descending.argsort(dim=1)
