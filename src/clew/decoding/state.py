"""Where an answer is written: the prompts, and after each of them empty places for the response.

    canvas = blank_canvas(batch, end=end_id, room=101)     # what the batch holds as responses is cut away

The number of places, the room, is a bound that depends on the size of the maze alone, so a canvas says nothing about
how long the true path is.

Shape suffixes: B mazes, T positions of the sequence, R places of the response (place 0 is its first token).

What is known of each response while it is decoded, and how a model is asked for more.

    answers = Answers(canvas)
    logits_QV = answers.ask(model, row_N, want_NR)       # what the model says at these places of these mazes
    step = answers.fill(row_F, place_F, token_F, confidence_F)

A response is over at its end token: once the end is filled in, the places after it are dropped. Nothing else tells
how long a response is.

Shape suffixes: B mazes, N some of them, T positions, R places of the response, F filled places, Q asked places of
all N mazes in row-major order, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from clew.data.batch import Batch
from clew.models.config import Model

if TYPE_CHECKING:
    from clew.decoding.codec import Codec
    from clew.mazes.maze import TaskBatch


@dataclass(frozen=True)
class Canvas:
    """Prompts with room for responses; the place r of maze b is the position first_B[b] + r of its sequence."""

    prompt: Batch  # no response in it; positions that are not valid have no meaning
    first_B: Tensor  # int64; the position of each response's first token, which is the length of its prompt
    room: int
    end: int  # the token that ends a response
    # The mazes themselves and how they were written, for decoders that check a path against its maze.
    tasks: TaskBatch | None = None
    codec: Codec | None = None

    def __len__(self) -> int:
        return len(self.first_B)

    @property
    def device(self) -> torch.device:
        return self.first_B.device

    def to(self, device: torch.device | str) -> Canvas:
        return replace(self, prompt=self.prompt.to(device), first_B=self.first_B.to(device))


def blank_canvas(
    batch: Batch, *, end: int, room: int, tasks: TaskBatch | None = None, codec: Codec | None = None
) -> Canvas:
    """The batch's prompts with `room` empty places each; its responses, if it has any, are not looked at."""
    assert room >= 1, "an answer has at least its end"
    prompt_BT = batch.valid_BT & ~batch.response_BT
    first_B = prompt_BT.sum(1)
    longest = int(first_B.max()) if len(first_B) else 0
    prompt = replace(
        batch,
        tokens_BT=batch.tokens_BT[:, :longest].masked_fill(~prompt_BT[:, :longest], 0),
        valid_BT=prompt_BT[:, :longest],
        response_BT=torch.zeros_like(prompt_BT[:, :longest]),
    )
    return Canvas(prompt, first_B, room, end, tasks, codec)


@dataclass(frozen=True)
class Step:
    """One step of decoding: which places were filled, or hidden again.

    A maze stands in `row_F` if and only if the step's pass asked for it, as often as it had places filled.
    """

    row_F: Tensor  # int64; the mazes' rows in the canvas
    place_F: Tensor  # int64; 0 is the first token of the response
    token_F: Tensor  # int64
    confidence_F: Tensor  # float32; the probability that the model gave the token
    hides: bool = False  # the places were hidden again, which takes no pass; the tokens are those that stood there


class Answers:
    """The responses so far."""

    def __init__(self, canvas: Canvas) -> None:
        count, room, device = len(canvas), canvas.room, canvas.device
        self.canvas = canvas
        self.token_BR = torch.zeros(count, room, dtype=torch.int64, device=device)
        self.known_BR = torch.zeros(count, room, dtype=torch.bool, device=device)
        # How many places belong to the response, its end included; all of the room until the end is known.
        self.limit_B = torch.full((count,), room, dtype=torch.int64, device=device)
        self.place_R = torch.arange(room, device=device)

    def hidden(self, row_N: Tensor) -> Tensor:
        """The places of these mazes that are still to be filled: [N, R]."""
        return ~self.known_BR[row_N] & (self.place_R < self.limit_B[row_N, None])

    def unfinished(self, row_N: Tensor) -> Tensor:
        """Those of these mazes that still have places to fill."""
        return row_N[self.hidden(row_N).any(1)]

    def fill(self, row_F: Tensor, place_F: Tensor, token_F: Tensor, confidence_F: Tensor) -> Step:
        """Write tokens into places."""
        self.token_BR[row_F, place_F] = token_F
        self.known_BR[row_F, place_F] = True
        ends = token_F == self.canvas.end
        self.limit_B.scatter_reduce_(0, row_F[ends], place_F[ends] + 1, "amin")
        # What stood after the end is no part of the response any more.
        self.known_BR[row_F[ends]] &= self.place_R < self.limit_B[row_F[ends], None]
        return Step(row_F, place_F, token_F, confidence_F.float())

    def hide(self, row_F: Tensor, place_F: Tensor) -> Step:
        """Empty places again; where the end is among them, the response is as long as the room again."""
        token_F = self.token_BR[row_F, place_F]
        self.known_BR[row_F, place_F] = False
        self.limit_B[row_F[token_F == self.canvas.end]] = self.canvas.room
        return Step(row_F, place_F, token_F, torch.zeros(len(row_F), device=token_F.device), hides=True)

    def ask(self, model: Model, row_N: Tensor, want_NR: Tensor, whole: bool = False) -> Tensor:
        """Logits [Q, V] at the wanted places, each seen from the prompt and from all that is known.

        The sequence is cut after the last place that is known or wanted; `whole` leaves it as long as the canvas.
        """
        canvas = self.canvas
        known_NR = self.known_BR[row_N]
        needed_R = (known_NR | want_NR).any(0)
        room = canvas.room if whole else int((needed_R * (self.place_R + 1)).max())
        first_N = canvas.first_B[row_N]
        length = int(first_N.max()) + room
        prompt = canvas.prompt.rows(row_N)

        def spread(prompt_NT: Tensor, response_NR: Tensor, fill: int) -> Tensor:
            """The prompts, and after each of them its response; `fill` where neither is."""
            out = torch.full((len(row_N), length), fill, dtype=prompt_NT.dtype, device=prompt_NT.device)
            cut = min(prompt_NT.shape[1], length)
            out[:, :cut] = prompt_NT[:, :cut]
            return out.scatter_(1, first_N[:, None] + self.place_R[:room], response_NR[:, :room])

        is_prompt_NT = prompt.valid_BT
        hidden_NR = (~known_NR).long()
        rank_NT = spread(is_prompt_NT.long() - 1, hidden_NR, -1)
        response_NT = spread(torch.zeros_like(is_prompt_NT), torch.ones_like(known_NR), 0)
        batch = replace(
            prompt,
            tokens_BT=spread(prompt.tokens_BT, self.token_BR[row_N], 0),
            valid_BT=rank_NT >= 0,
            response_BT=response_NT,
        )
        ask_NT = spread(torch.zeros_like(is_prompt_NT), want_NR, 0)
        return model(batch, rank_NT, ask_NT)
