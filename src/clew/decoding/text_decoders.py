"""Decoders for text models: left to right, right to left, from both ends, several positions a pass, with repair.

    weight_SHW = attention_on_cells(model, codec, task, path)     # for each step of a path, on the cells of the maze

`Parallel` queries every hidden position in each pass and fills some of them, up to the horizon only, the first position
where the end is the most likely token, because models are rarely trained beyond the end of the path. The horizon is
found anew in every pass, and fixed once the end token is filled in. The end token is not considered to the left of a
known position.

Shape suffixes: N unfinished mazes, R positions of the response, F filled positions, Q queried positions of all mazes,
D width, V vocabulary; S steps of a path, T positions of the sequence, H and W rows and columns of the maze.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from clew.decoding.codec import Codec, Decoder, DecodingState, Step
from clew.errors import UserError
from clew.mazes.maze import Path, Task, TaskBatch
from clew.models.blocks import record_attention
from clew.models.config import Model
from clew.models.transformers import DecoderOnly, EncoderDecoder
from clew.tokenization.format import BEGIN

TOKENS_PER_CELL = {"edge-list": 1, "grid": 1, "path-star": 1, "wall-list": 3}  # of the formats that can be repaired


@dataclass(frozen=True)
class LeftToRight:
    """Fill the leftmost hidden position, one a pass: the paper's decoding.

    Sequences end at that position; keys and values of decoder-only models are cached.
    """

    def steps(self, model: Model, state: DecodingState, row_N: Tensor) -> Iterator[Step]:
        if isinstance(model, DecoderOnly):
            yield from _cached_steps(model, state, row_N)
            return
        while len(row_N := state.unfinished(row_N)):
            want_NR = _leftmost(state.hidden(row_N))
            yield fill_best(state, row_N, want_NR.int().argmax(1), state.query(model, row_N, want_NR))


def _leftmost(hidden_NR: Tensor) -> Tensor:
    return hidden_NR & (hidden_NR.cumsum(1) == 1)


def fill_best(state: DecodingState, row_F: Tensor, position_F: Tensor, logits_FV: Tensor) -> Step:
    """Fill these positions with their most likely tokens."""
    probability_F, token_F = logits_FV.float().softmax(-1).max(-1)
    return state.fill(row_F, position_F, token_F, probability_F)


def _cached_steps(model: DecoderOnly, state: DecodingState, row_N: Tensor) -> Iterator[Step]:
    """Decode left to right with a cache of keys and values; finished mazes are removed from it."""
    assert not bool(state.known_BR[row_N].any()), "a next-token model begins at the first position"
    cache, first_N, prompt = model.new_cache(), state.first_B[row_N], state.prompt.rows(row_N)
    longest = int(first_N.max())
    position_NT = torch.arange(longest, device=row_N.device).expand(len(row_N), -1)
    x_NTD = model.extend(cache, prompt.tokens_BT[:, :longest], position_NT, prompt.valid_BT[:, :longest])
    # Prompts may differ in length: the first token of a response is predicted at the last token of its prompt.
    logits_NV = model.head(x_NTD[torch.arange(len(row_N), device=row_N.device), first_N - 1])
    for position in range(state.max_response_length):
        yield fill_best(state, row_N, torch.full_like(row_N, position), logits_NV)
        active = (state.length_B[row_N] > position + 1).nonzero()[:, 0]
        if not len(active) or position + 1 == state.max_response_length:
            return
        if len(active) < len(row_N):
            row_N, first_N = row_N[active], first_N[active]
            cache.keep(active)
        x_N1D = model.extend(cache, state.token_BR[row_N, position][:, None], (first_N + position)[:, None])
        logits_NV = model.head(x_N1D[:, 0])


@dataclass(frozen=True)
class EndFirst:
    """Fill the end token first, then the rightmost hidden position in each pass, or the leftmost and the rightmost.

    The first pass takes the first position where the end is the most likely token, or else the one where its
    probability is highest.
    """

    ends: Literal["right", "both"] = "right"

    any_order = True

    def steps(self, model: Model, state: DecodingState, row_N: Tensor) -> Iterator[Step]:
        known_end_B = (state.known_BR & (state.token_BR == state.end)).any(1)
        if len(without_N := state.unfinished(row_N[~known_end_B[row_N]])):
            hidden_NR, predicted = state.hidden(without_N), predict(model, state, without_N)
            first_N = _first(hidden_NR & (predicted.token_NR == state.end), state.position_R)[:, 0]
            likeliest_N = predicted.end_NR.masked_fill(~hidden_NR, -1).argmax(1)
            position_N = torch.where(first_N < state.max_response_length, first_N, likeliest_N)
            probability_N = predicted.end_NR.gather(1, position_N[:, None])[:, 0]
            yield state.fill(without_N, position_N, torch.full_like(position_N, state.end), probability_N)
        while len(row_N := state.unfinished(row_N)):
            hidden_NR = state.hidden(row_N)
            want_NR = _leftmost(hidden_NR.flip(1)).flip(1)
            if self.ends == "both":
                want_NR = want_NR | _leftmost(hidden_NR)
            logits_FV = state.query(model, row_N, want_NR).float()
            logits_FV[:, state.end] = -torch.inf  # it is known, further right
            n, position_F = want_NR.nonzero(as_tuple=True)
            yield fill_best(state, row_N[n], position_F, logits_FV)


class Predictions(NamedTuple):
    """Predictions at the hidden positions; defined at `candidate_NR` only."""

    candidate_NR: Tensor  # bool; hidden, and not beyond the horizon
    token_NR: Tensor  # most likely token
    probability_NR: Tensor  # its probability
    margin_NR: Tensor  # its probability minus that of the second
    entropy_NR: Tensor  # in nats
    end_NR: Tensor  # probability of the end token


def predict(model: Model, state: DecodingState, row_N: Tensor) -> Predictions:
    """Query every hidden position of these mazes."""
    want_NR = state.hidden(row_N)
    logits_QV = state.query(model, row_N, want_NR).float()
    last_known_N1 = torch.where(state.known_BR[row_N], state.position_R, -1).amax(1, keepdim=True)
    before_known_Q = (state.position_R < last_known_N1)[want_NR]
    logits_QV[:, state.end] = logits_QV[:, state.end].masked_fill(before_known_Q, -torch.inf)
    log_QV = logits_QV.log_softmax(-1)
    probability_QV = log_QV.exp()
    best_Q2 = probability_QV.topk(2, dim=-1)
    entropy_Q = -(probability_QV * log_QV.clamp(min=-1e4)).sum(-1)  # 0 times minus infinity must be 0
    margin_Q = best_Q2.values[:, 0] - best_Q2.values[:, 1]
    values = (best_Q2.indices[:, 0], best_Q2.values[:, 0], margin_Q, entropy_Q, probability_QV[:, state.end])
    token_NR, *others = (torch.zeros_like(want_NR, dtype=x_Q.dtype).masked_scatter(want_NR, x_Q) for x_Q in values)
    horizon_N1 = _first(want_NR & (token_NR == state.end), state.position_R)
    return Predictions(want_NR & (state.position_R <= horizon_N1), token_NR, *others)


def _first(marked_NR: Tensor, position_R: Tensor) -> Tensor:
    """Return the first marked position, or the number of positions if there is none, [N, 1]."""
    return torch.where(marked_NR, position_R, len(position_R)).amin(1, keepdim=True)


@dataclass(frozen=True)
class Parallel:
    """Fill the `count` surest positions a pass, and all others with at least `probability` or within `bound`.

    `bound` limits the sum of the entropies, in nats, of the surer positions. The tokens of one pass are chosen
    independently, and the resulting error is at most the sum of their entropies minus the largest one.
    """

    count: int = 1
    by: Literal["probability", "margin", "entropy"] = "probability"  # margin: between the two best probabilities
    probability: float = math.inf
    bound: float = -math.inf

    any_order = True

    def __post_init__(self) -> None:
        if self.count < 1:
            raise UserError(f"{self.count} positions a pass would never end; use a count of 1 or more.")
        if not (0 <= self.probability <= 1 or self.probability == math.inf):
            raise UserError(f"a probability of {self.probability} is impossible; use 0 to 1.")
        if not (self.bound >= 0 or self.bound == -math.inf):
            raise UserError(f"an entropy bound of {self.bound} is impossible; use 0 or more.")

    def steps(self, model: Model, state: DecodingState, row_N: Tensor) -> Iterator[Step]:
        while len(row_N := state.unfinished(row_N)):
            predicted = predict(model, state, row_N)
            chosen_NR = self.choose(predicted)
            n, position_F = chosen_NR.nonzero(as_tuple=True)
            token_F, probability_F = predicted.token_NR[chosen_NR], predicted.probability_NR[chosen_NR]
            yield state.fill(row_N[n], position_F, token_F, probability_F)

    def choose(self, predicted: Predictions) -> Tensor:
        """Return which candidates are filled, at least one of each maze, [N, R]."""
        candidate_NR, _, probability_NR, margin_NR, entropy_NR, _ = predicted
        sureness_NR = {"probability": probability_NR, "margin": margin_NR, "entropy": -entropy_NR}[self.by]
        order_NR = sureness_NR.masked_fill(~candidate_NR, -torch.inf).argsort(dim=1, descending=True, stable=True)
        sum_NR = entropy_NR.masked_fill(~candidate_NR, torch.inf).gather(1, order_NR).cumsum(1)
        rank_NR = order_NR.argsort(dim=1)
        before_NR = F.pad(sum_NR[:, :-1], (1, 0)).gather(1, rank_NR)
        chosen_NR = (rank_NR < self.count) | (probability_NR >= self.probability) | (before_NR <= self.bound)
        return candidate_NR & chosen_NR


@dataclass(frozen=True)
class Repair:
    """Run another decoder, and then up to `rounds` repairs of its paths. The true path is never used.

    Everything from the first to the last position that breaks a rule of valid paths is hidden again, with a margin that
    doubles from round to round, and the inner decoder fills the gap. From the second round on, everything after the
    first wrong position is hidden, because the length may be wrong.
    """

    inner: Decoder = field(default_factory=lambda: Parallel(probability=THRESHOLD))
    rounds: int = 4
    margin: int = 1

    any_order = True

    def __post_init__(self) -> None:
        if isinstance(self.inner, Repair):
            raise UserError("a repair cannot repair a repair; give it another inner decoder.")
        if self.rounds < 1 or self.margin < 0:
            raise UserError("a repair needs 1 or more rounds, and a margin of 0 or more.")

    def steps(self, model: Model, state: DecodingState, row_N: Tensor) -> Iterator[Step]:
        if state.codec.format_name not in TOKENS_PER_CELL:
            raise UserError(
                f"a response of the format {state.codec.format_name} cannot be repaired; use another decoder."
            )
        yield from self.inner.steps(model, state, row_N)
        for number in range(self.rounds):
            gaps: dict[int, range] = {}
            for row in row_N.tolist():
                length = int(state.length_B[row])
                response = state.token_BR[row, :length].tolist()
                if wrong := wrong_positions(state.codec, state.tasks[row][0], response):
                    margin = self.margin * 2**number * TOKENS_PER_CELL[state.codec.format_name]
                    last = length - 1 if number else min(length - 1, max(wrong) + margin)
                    gaps[row] = range(max(0, min(wrong) - margin), last + 1)
            if not gaps:
                return
            pairs = [(row, position) for row, positions in gaps.items() for position in positions]
            row_F, position_F = torch.tensor(pairs, device=row_N.device).T
            yield state.hide(row_F, position_F)
            row_N = torch.tensor(list(gaps), device=row_N.device)
            yield from self.inner.steps(model, state, row_N)


THRESHOLD = 0.999  # high because the tokens of one pass are chosen independently, and a path has dozens of them


def wrong_positions(codec: Codec, task: Task, response: list[int]) -> list[int]:
    """Return the positions of a response that break the rules of a valid path, in order."""
    assert codec.vocabulary is not None
    per_cell, shape = TOKENS_PER_CELL[codec.format_name], task.maze.cells.shape
    first = 1 if codec.format_name == "wall-list" else 0  # such responses begin with the token bos
    ended = bool(response) and response[-1] == codec.end(*shape)
    texts = codec.vocabulary.decode(response[:-1] if ended else response)
    groups = [tuple(texts[i : i + per_cell]) for i in range(first, len(texts), per_cell)]
    cells = [codec.cell_named(group, *shape) for group in groups]

    wrong_cells = {i for i, cell in enumerate(cells) if cell is None}
    for i, (here, there) in enumerate(pairwise(cells)):
        if here is not None and there is not None and not task.maze.is_open(here, there):
            wrong_cells |= {i, i + 1}
    if cells and cells[0] != task.start:
        wrong_cells.add(0)
    if cells and cells[-1] != task.goal:
        wrong_cells.add(len(cells) - 1)
    wrong = {first + i * per_cell + k for i in wrong_cells for k in range(len(groups[i]))}
    if not (ended and cells and cells[-1] == task.goal):
        wrong.add(len(response) - 1)  # the path may end too early or too late
    if first and texts[:1] != [BEGIN]:
        wrong.add(0)
    return sorted(wrong)


@torch.inference_mode()
def attention_on_cells(model: Model, codec: Codec, task: Task, path: Path) -> npt.NDArray[np.float32]:
    """Return how much the prediction of each step of a path attends to each cell, [S, H, W].

    The weights of all tokens that name a cell are added up. They are means over the heads of the layers that predict
    the path: the decoder of an encoder-decoder, all layers of a decoder-only model. A model that is trained from left
    to right attends to the path before the step too; another sees nothing of the path, as in its first pass.
    """
    if not isinstance(model, (EncoderDecoder, DecoderOnly)):
        raise UserError("only text models have attention; use a model such as text-dfs-4-mlmu.")
    batch = codec.encode(TaskBatch.from_tasks([task], [path]))
    shape = task.maze.cells.shape
    cells = [codec.cell_named((codec.token_text(token),), *shape) for token in batch.tokens_BT[0].tolist()]
    steps = [t for t in batch.response_BT[0].nonzero().flatten().tolist() if cells[t] is not None]
    if len(steps) != len(path):
        raise UserError(
            f"{codec.format_name} has several tokens a cell; attention is drawn of edge-list and path-star."
        )
    from_left = isinstance(model, DecoderOnly) or model.config.causal
    order_BT = batch.response_BT.long() * (batch.response_BT.cumsum(1) if from_left else 1)
    naive, model.naive = model.naive, True  # all positions, in their order
    try:
        with record_attention() as layers:
            model(batch, order_BT, batch.response_BT)
    finally:
        model.naive = naive
    if isinstance(model, EncoderDecoder):
        layers = layers[-len(model.decoder) :]
    mean_TT = torch.stack([weight_BHTT[0].mean(0) for weight_BHTT in layers]).mean(0)
    if isinstance(model, DecoderOnly):
        # Token t is predicted at the position of token t - 1; with a token before the sequence, all move by one.
        mean_TT = mean_TT[:-1] if model.config.bos_id is None else mean_TT[1:, 1:]
        steps = [t - 1 for t in steps]
    found_SHW = np.zeros((len(steps), *shape), dtype=np.float32)
    for number, step in enumerate(steps):
        for weight, cell in zip(mean_TT[step].tolist(), cells, strict=False):
            if cell is not None:
                found_SHW[(number, *cell)] += weight
    return found_SHW
