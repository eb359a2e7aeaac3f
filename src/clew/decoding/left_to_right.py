"""Left to right, the most likely token each time: the paper's decoding.

Three forms give the same tokens. `LeftToRightNaive` runs the whole model over the whole canvas of every maze for each
token, as the published code does. `LeftToRight` asks for one place of each unfinished maze, over a sequence that ends
there; and for a decoder-only model it keeps the keys and values of what was read.

Shape suffixes: B mazes, N mazes that are unfinished, R places, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from clew.decoding.answers import Answers, Step
from clew.decoding.canvas import Canvas
from clew.models.blocks import KeysAndValues
from clew.models.decoder_only import DecoderOnly
from clew.models.interface import Model

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
