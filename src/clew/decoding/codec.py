"""Conversion between tasks and the token ids of a model: sequence format and vocabulary.

    codec = Codec.of("edge-list", height=10, width=10)      # the size that the model was trained on
    state = codec.decoding_state(tasks)                      # 10x10 or smaller
    path = codec.read(decoded.response(0), tasks.height, tasks.width)

Cell labels have no vocabulary, so their models take mazes of any size; their response is the path itself: the index of
each cell, and height * width as the end token. A text model takes the mazes whose tokens are all in its vocabulary.

Shape suffixes: N, B mazes, T positions, R positions of the response.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from clew.data.batch import Batch, CellBatch, encode_tasks, text_seeds
from clew.data.config import CELL_LABELS
from clew.data.loader import sequence_lengths
from clew.decoding.cells import CellState
from clew.decoding.state import DecodingState
from clew.errors import UserError
from clew.mazes.maze import Cell, Path, TaskBatch
from clew.mazes.solvers import MAX_EVENTS_PER_CELL
from clew.tokenization.cell_grid import LABELS
from clew.tokenization.format import format_named
from clew.tokenization.tokens import Vocabulary, cell_token
from clew.tokenization.wall_list import PLAN

MAX_PROMPT_WORDS = 16  # tokens of a prompt that are part of neither a passage nor a wall


@dataclass(frozen=True)
class Codec:
    """Sequence format of a model; the vocabulary is None for cell labels."""

    format_name: str
    vocabulary: Vocabulary | None

    @classmethod
    def of(cls, format_name: str, height: int, width: int) -> Codec:
        """Return the codec of a model that was trained on mazes of this size."""
        known = format_named(format_name)
        return cls(known.name, None if known.name == CELL_LABELS else known.vocabulary(height, width))

    def end(self, height: int, width: int) -> int:
        """Return the end token."""
        if self.vocabulary is None:
            return height * width
        return self.vocabulary.id_of[format_named(self.format_name).end_token]

    def max_response_length(self, height: int, width: int) -> int:
        """Return the number of tokens of the longest path, which visits every cell once."""
        cells = height * width
        if self.format_name.startswith("wall-list"):
            # bos, (the trace, 5 tokens an event,) 3 tokens a cell, eos
            events = MAX_EVENTS_PER_CELL * cells if self.format_name == "wall-list-trace" else 0
            return 2 + 3 * cells + 5 * events
        own = getattr(format_named(self.format_name), "max_response_length", None)  # of a registered format
        return cells + 1 if own is None else int(own(height, width))

    def max_length(self, tasks: TaskBatch) -> int:
        """Return an upper bound of the sequence length of these tasks, prompt and response."""
        prompt_N = sequence_lengths(tasks, self.format_name, len(tasks))
        return int(prompt_N.max(initial=0)) + MAX_PROMPT_WORDS + self.max_response_length(tasks.height, tasks.width)

    def decoding_state(
        self,
        tasks: TaskBatch,
        text_seed_N: npt.NDArray[np.uint64] | None = None,
        max_response_length: int | None = None,
    ) -> DecodingState | CellState:
        """Return the tasks as prompts with hidden responses; the tasks' own paths are not used.

        The seeds choose the order of edges in each text; by default they follow from the rows of the batch.
        """
        no_paths = replace(tasks, path=tasks.path[:0], offset_N1=np.zeros(len(tasks) + 1, dtype=np.int64))
        batch, end = self._batch(no_paths, text_seed_N), self.end(tasks.height, tasks.width)
        if isinstance(batch, CellBatch):
            return CellState(batch, end)
        length = max_response_length or self.max_response_length(tasks.height, tasks.width)
        return DecodingState(batch, end=end, max_response_length=length, tasks=tasks, codec=self)

    def truth(self, tasks: TaskBatch) -> tuple[Tensor, Tensor]:
        """Return the responses of the tasks' own paths: tokens [N, R], -1 after the end, and their lengths."""
        if self.vocabulary is None:
            length_B = torch.from_numpy(tasks.length_N.astype(np.int64)) + 1
            responses = [torch.from_numpy(tasks.path_of(i).astype(np.int64)) for i in range(len(tasks))]
            end = torch.tensor([tasks.height * tasks.width])
            tokens = torch.cat([part for response in responses for part in (response, end)])
        else:
            batch = self._batch(tasks, None)
            length_B, tokens = batch.response_BT.sum(1), batch.tokens_BT[batch.response_BT]
        token_BR = torch.full((len(tasks), int(length_B.max())), -1, dtype=torch.int64)
        token_BR[torch.arange(token_BR.shape[1]) < length_B[:, None]] = tokens
        return token_BR, length_B

    def read(self, response: Sequence[int], height: int, width: int) -> Path:
        """Return the path of a response; raise a UserError that names the token that is wrong."""
        if self.vocabulary is not None:
            tokens = self.vocabulary.decode(response)
            return format_named(self.format_name).parse_response(tokens, height=height, width=width)
        if not response or response[-1] != height * width:
            raise UserError(f"the response has no end after {len(response)} steps.")
        if len(response) == 1:
            raise UserError("the response has no cell before its end.")
        return [divmod(cell, width) for cell in response[:-1]]

    def token_text(self, token: int) -> str:
        """Return the text of a token or of a label."""
        return LABELS[token] if self.vocabulary is None else self.vocabulary.decode([token])[0]

    def cell_named(self, tokens: tuple[str, ...], height: int, width: int) -> Cell | None:
        """Return the cell that these tokens of a response stand for, or None."""
        return _cell_names(self.format_name, height, width).get(tokens)

    def _batch(self, tasks: TaskBatch, text_seed_N: npt.NDArray[np.uint64] | None) -> Batch:
        if text_seed_N is None:
            text_seed_N = text_seeds(0, "test", np.arange(len(tasks)))
        return encode_tasks(self.format_name, tasks, text_seed_N, vocabulary=self.vocabulary)


@lru_cache(maxsize=8)
def _cell_names(format_name: str, height: int, width: int) -> dict[tuple[str, ...], Cell]:
    """Return the tokens of every cell in a response."""
    cells = [(row, col) for row in range(height) for col in range(width)]
    if format_name.startswith("path-star"):
        return {(str(col),): (row, col) for row, col in cells}
    if format_name.startswith("wall-list"):
        return {(PLAN, str(col), str(row)): (row, col) for row, col in cells}
    return {(cell_token(cell),): cell for cell in cells}
