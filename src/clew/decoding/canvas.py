"""Where an answer is written: the prompts, and after each of them empty places for the response.

    canvas = blank_canvas(batch, end=end_id, room=101)     # what the batch holds as responses is cut away

The number of places, the room, is a bound that depends on the size of the maze alone, so a canvas says nothing about
how long the true path is.

Shape suffixes: B mazes, T positions of the sequence, R places of the response (place 0 is its first token).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from clew.data.batch import Batch

if TYPE_CHECKING:
    from clew.decoding.script import Script
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
    script: Script | None = None

    def __len__(self) -> int:
        return len(self.first_B)

    @property
    def device(self) -> torch.device:
        return self.first_B.device

    def to(self, device: torch.device | str) -> Canvas:
        return replace(self, prompt=self.prompt.to(device), first_B=self.first_B.to(device))


def blank_canvas(
    batch: Batch, *, end: int, room: int, tasks: TaskBatch | None = None, script: Script | None = None
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
    return Canvas(prompt, first_B, room, end, tasks, script)
