"""How tasks are put to a model and its answers read back: the form of its sequences and its vocabulary.

    codec = Codec.of("edge-list", height=10, width=10)      # the size that the model was trained on
    canvas = codec.canvas(tasks)                             # 10x10 or smaller
    path = codec.read(decoded.response(0), tasks.height, tasks.width)

Cell labels have no vocabulary, so their models take mazes of any size; their response is the path itself: the index of
each cell, and height * width for the end. A text model takes the mazes whose every token is in its vocabulary.

Shape suffixes: N, B mazes, T positions, R places of the response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from clew.data.batch import Batch, CellBatch, encode_tasks, text_seeds
from clew.data.config import CELL_LABELS
from clew.data.loader import sequence_lengths
from clew.decoding.state import Canvas, blank_canvas
from clew.errors import UserError
from clew.mazes.maze import Path, TaskBatch
from clew.mazes.solvers import MAX_EVENTS_PER_CELL
from clew.tokenization.cell_labels import LABELS
from clew.tokenization.format import format_named
from clew.tokenization.vocabulary import Vocabulary

TRACE = "wall-list-trace"
PROMPT_WORDS = 16  # at most so many tokens of a prompt tell neither a passage nor a wall


@dataclass(frozen=True)
class Codec:
    """The form of a model's sequences; the vocabulary is None for cell labels."""

    form: str
    vocabulary: Vocabulary | None

    @classmethod
    def of(cls, form: str, height: int, width: int) -> Codec:
        """The codec of a model that was trained on mazes of this size."""
        known = format_named(form)
        return cls(known.name, None if known.name == CELL_LABELS else known.vocabulary(height, width))

    def end(self, height: int, width: int) -> int:
        """The token that ends a response."""
        if self.vocabulary is None:
            return height * width
        return self.vocabulary.id_of[format_named(self.form).end_token]

    def room(self, height: int, width: int) -> int:
        """As many places as a path of any length needs, which visits a cell at most once."""
        cells = height * width
        if self.form.startswith("wall-list"):
            # bos, (the trace, 5 tokens an event,) 3 tokens a cell, eos
            return 2 + 3 * cells + (5 * MAX_EVENTS_PER_CELL * cells if self.form == TRACE else 0)
        return cells + 1

    def length(self, tasks: TaskBatch) -> int:
        """At least as many tokens as the longest sequence of these tasks may have, prompt and response."""
        prompt_N = sequence_lengths(tasks, self.form, len(tasks))
        return int(prompt_N.max(initial=0)) + PROMPT_WORDS + self.room(tasks.height, tasks.width)

    def canvas(
        self, tasks: TaskBatch, text_seed_N: npt.NDArray[np.uint64] | None = None, room: int | None = None
    ) -> Canvas:
        """The tasks as prompts with empty places after them; their paths are not looked at.

        Without seeds, each maze's text is that of its place in the batch.
        """
        without = replace(tasks, path=tasks.path[:0], offset_N1=np.zeros(len(tasks) + 1, dtype=np.int64))
        batch, end = self._batch(without, text_seed_N), self.end(tasks.height, tasks.width)
        room = room or self.room(tasks.height, tasks.width)
        if isinstance(batch, CellBatch):  # the prompt is the maze, and the response lies on its cells
            return Canvas(batch, torch.zeros(len(tasks), dtype=torch.int64), room, end, tasks, self)
        return blank_canvas(batch, end=end, room=room, tasks=tasks, codec=self)

    def truth(self, tasks: TaskBatch) -> tuple[Tensor, Tensor]:
        """The responses that say the tasks' own paths: tokens [N, R], -1 after the end, and their lengths."""
        if self.vocabulary is None:
            return _cells_in_order(tasks)
        batch = self._batch(tasks, None)
        length_B = batch.response_BT.sum(1)
        token_BR = torch.full((len(tasks), int(length_B.max())), -1, dtype=torch.int64)
        token_BR[torch.arange(token_BR.shape[1]) < length_B[:, None]] = batch.tokens_BT[batch.response_BT]
        return token_BR, length_B

    def read(self, response: Sequence[int], height: int, width: int) -> Path:
        """The path that the tokens say, or a UserError that says which token is wrong."""
        if self.vocabulary is not None:
            tokens = self.vocabulary.decode(response)
            return format_named(self.form).parse_response(tokens, height=height, width=width)
        end = height * width
        if not response or response[-1] != end:
            raise UserError(f"the response has no end after {len(response)} steps.")
        if len(response) == 1:
            raise UserError("the response has no cell before its end.")
        return [divmod(cell, width) for cell in response[:-1]]

    def word(self, token: int) -> str:
        """A token, or a label, as people read it."""
        if self.vocabulary is not None:
            return self.vocabulary.decode([token])[0]
        return LABELS[token]

    def _batch(self, tasks: TaskBatch, text_seed_N: npt.NDArray[np.uint64] | None) -> Batch:
        if text_seed_N is None:
            text_seed_N = text_seeds(0, "test", np.arange(len(tasks)))
        return encode_tasks(self.form, tasks, text_seed_N, vocabulary=self.vocabulary)


def _cells_in_order(tasks: TaskBatch) -> tuple[Tensor, Tensor]:
    """The paths as cell indices and an end, -1 after it, and their lengths."""
    length_B = torch.from_numpy(tasks.length_N.astype(np.int64)) + 1
    token_BR = torch.full((len(tasks), int(length_B.max())), -1, dtype=torch.int64)
    place_R = torch.arange(token_BR.shape[1])
    token_BR[place_R < length_B[:, None] - 1] = torch.from_numpy(tasks.path.astype(np.int64))
    token_BR[place_R == length_B[:, None] - 1] = tasks.height * tasks.width
    return token_BR, length_B
