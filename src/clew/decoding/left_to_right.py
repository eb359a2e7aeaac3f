"""Left to right, the most likely token each time: the paper's decoding.

Three forms give the same tokens. `LeftToRightNaive` runs the whole model over the whole canvas of every maze for each
token, as the published code does. `LeftToRight` asks for one place of each unfinished maze, over a sequence that ends
there; and for a decoder-only model it keeps the keys and values of what was read.

Shape suffixes: B mazes, N mazes that are unfinished, R places, D width, V vocabulary.

Right to left, and from both ends: first the model says where the path ends, then that is held fast.

The first pass asks for every place and settles the end at the first place where it is the most likely token; where it
is so nowhere, at the place where it is likeliest. `RightToLeft` then goes from there to the left, one place a pass.
`BothEnds` fills in the leftmost and the rightmost hidden place in each pass, until they meet.

Shape suffixes: N unfinished mazes, R places of the response, F filled places.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clew.decoding.parallel import first_end, survey
from clew.decoding.state import Answers, Canvas, Step
from clew.models.blocks import KeysAndValues
from clew.models.config import Model
from clew.models.decoder_only import DecoderOnly

NO_TOKEN = -1


@dataclass(frozen=True)
class LeftToRight:
    """Fill the leftmost hidden place, one a pass."""

    any_order = False

    def steps(self, model: Model, answers: Answers, row_N: Tensor) -> Iterator[Step]:
        if isinstance(model, DecoderOnly):
            yield from _with_cache(model, answers, row_N)
            return
        while len(row_N := answers.unfinished(row_N)):
            hidden_NR = answers.hidden(row_N)
            want_NR = hidden_NR & (hidden_NR.cumsum(1) == 1)
            logits_NV = answers.ask(model, row_N, want_NR)
            yield _fill_best(answers, row_N, want_NR.int().argmax(1), logits_NV)


@dataclass(frozen=True)
class LeftToRightNaive:
    """The same with nothing spared: every pass computes every position of every maze, finished ones too."""

    any_order = False

    def steps(self, model: Model, answers: Answers, row_N: Tensor) -> Iterator[Step]:
        # Finished mazes go on as if they had no end, which keeps all of them in step; what they say is not told.
        endless = Answers(replace(answers.canvas, end=NO_TOKEN))
        endless.token_BR, endless.known_BR = answers.token_BR.clone(), answers.known_BR.clone()
        for place in range(answers.canvas.room):
            going_N = answers.hidden(row_N)[:, place]
            if not bool(answers.hidden(row_N)[:, place:].any()):
                return
            want_NR = ~endless.known_BR[row_N] & (answers.place_R == place)
            with _naive(model):
                logits_MV = endless.ask(model, row_N, want_NR, whole=True)
            asked_N = want_NR.any(1)
            _fill_best(endless, row_N[asked_N], torch.full_like(row_N[asked_N], place), logits_MV)
            if bool(going_N.any()):
                row_M = row_N[going_N]
                yield _fill_best(answers, row_M, torch.full_like(row_M, place), logits_MV[going_N[asked_N]])


def _fill_best(answers: Answers, row_N: Tensor, place_N: Tensor, logits_NV: Tensor) -> Step:
    confidence_N, token_N = logits_NV.float().softmax(-1).max(-1)
    return answers.fill(row_N, place_N, token_N, confidence_N)


@contextmanager
def _naive(model: Model) -> Iterator[None]:
    """The model in its naive form, if it has one."""
    if not hasattr(model, "naive"):
        yield
        return
    before, model.naive = model.naive, True
    try:
        yield
    finally:
        model.naive = before


def _with_cache(model: DecoderOnly, answers: Answers, row_N: Tensor) -> Iterator[Step]:
    canvas = answers.canvas
    assert not bool(answers.known_BR[row_N].any()), "a next-token model reads from the very left"
    row_N = answers.unfinished(row_N)
    if not len(row_N):
        return
    reader = _Reader(model, canvas, row_N)
    for place in range(canvas.room):
        yield _fill_best(answers, row_N, torch.full_like(row_N, place), reader.logits_NV)
        going = (answers.limit_B[row_N] > place + 1).nonzero()[:, 0]
        if not len(going) or place + 1 == canvas.room:
            return
        if len(going) < len(row_N):
            row_N = row_N[going]
            reader.keep(going)
        reader.read(answers.token_BR[row_N, place], place)


class _Reader:
    """A decoder-only model and what it has read of some mazes: the prompts, then token after token."""

    def __init__(self, model: DecoderOnly, canvas: Canvas, row_N: Tensor) -> None:
        self.model, self.cache = model, model.new_cache()
        self.first_N = canvas.first_B[row_N]
        longest = int(self.first_N.max())
        place_NT = torch.arange(longest, device=canvas.device).expand(len(row_N), -1)
        prompt = canvas.prompt.rows(row_N)
        x_NTD = model.extend(self.cache, prompt.tokens_BT[:, :longest], place_NT, prompt.valid_BT[:, :longest])
        # Prompts may differ in length: the first token of a response is read at the last one of its prompt.
        self.logits_NV = model.head(x_NTD[torch.arange(len(row_N), device=canvas.device), self.first_N - 1])

    def read(self, token_N: Tensor, place: int) -> None:
        x_N1D = self.model.extend(self.cache, token_N[:, None], (self.first_N + place)[:, None])
        self.logits_NV = self.model.head(x_N1D[:, 0])

    def keep(self, going: Tensor) -> None:
        """Forget the mazes that are finished."""
        cache = self.cache
        self.first_N = self.first_N[going]
        cache.real_BK = None if cache.real_BK is None else cache.real_BK[going]
        for number, block in enumerate(cache.blocks):
            assert block.key_BHKE is not None
            assert block.value_BHKE is not None
            cache.blocks[number] = KeysAndValues(block.key_BHKE[going], block.value_BHKE[going])


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
