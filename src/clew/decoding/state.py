"""State of the responses of a batch while they are decoded.

    state = codec.decoding_state(tasks)                     # all positions are hidden
    logits_QV = state.query(model, row_N, want_NR)          # at these positions of these mazes
    step = state.fill(row_F, position_F, token_F, probability_F)

The number of positions, `max_response_length`, depends only on the size of the maze, so the state does not reveal the
length of the true path. A response is over at its end token: once that is filled in, the positions after it are
dropped.

Shape suffixes: B mazes, N some of them, T positions of the sequence, R positions of the response (0 is its first
token), F filled positions, Q queried positions of all N mazes in row-major order, V vocabulary, C cells of a maze.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from clew.data.batch import Batch
from clew.models.config import Model

if TYPE_CHECKING:
    from clew.decoding.codec import Codec
    from clew.mazes.maze import TaskBatch


@dataclass(frozen=True)
class Step:
    """One step of decoding a batch: positions that a pass filled, or positions that were hidden again.

    A maze occurs in `row_F` if and only if the pass queried it.
    """

    row_F: Tensor  # int64; row of the maze in the batch
    position_F: Tensor  # int64; 0 is the first token of the response; for a cell network the index of the cell
    token_F: Tensor  # int64; of a step that hides, the tokens that were there
    probability_F: Tensor  # float32; that the model gave the token
    hidden: bool = False  # the positions were hidden again, which takes no pass
    # Only of cell networks: for each queried row, the probability that a cell is on the path, [C].
    cell_probabilities: Mapping[int, npt.NDArray[np.float32]] | None = None


class Decoder(Protocol):
    """A decoding method; a frozen dataclass whose fields are its options.

    Two optional class attributes: `any_order` is True if positions are filled in another order than left to right;
    `for_cells` is True if it decodes cell networks, whose state is a clew.decoding.cells.CellState.
    """

    def steps(self, model: Model, state: Any, row_N: Tensor) -> Iterator[Step]:
        """Fill the hidden positions of these mazes, and yield every step."""
        ...


class DecodingState:
    """Prompts, and the positions of the responses with the tokens known so far.

    Position r of the response of maze b is position first_B[b] + r of its sequence.
    """

    def __init__(
        self,
        batch: Batch,
        *,
        end: int,  # the end token
        max_response_length: int,
        tasks: TaskBatch | None = None,  # for decoders that check a path against its maze
        codec: Codec | None = None,
    ) -> None:
        assert max_response_length >= 1, "a response has at least its end token"
        # Only the prompts are kept: responses that the batch has are cut off.
        is_prompt_BT = batch.valid_BT & ~batch.response_BT
        self.first_B = is_prompt_BT.sum(1)
        longest = int(self.first_B.max()) if len(self.first_B) else 0
        self.prompt = replace(
            batch,
            tokens_BT=batch.tokens_BT[:, :longest].masked_fill(~is_prompt_BT[:, :longest], 0),
            valid_BT=is_prompt_BT[:, :longest],
            response_BT=torch.zeros_like(is_prompt_BT[:, :longest]),
        )
        self.end, self.max_response_length, self.tasks, self.codec = end, max_response_length, tasks, codec
        shape, device = (len(batch), max_response_length), self.first_B.device
        self.token_BR = torch.zeros(shape, dtype=torch.int64, device=device)
        self.probability_BR = torch.zeros(shape, device=device)
        self.known_BR = torch.zeros(shape, dtype=torch.bool, device=device)
        # Positions that belong to the response, the end token included; all of them until the end token is known.
        self.length_B = torch.full((len(batch),), max_response_length, dtype=torch.int64, device=device)
        self.position_R = torch.arange(max_response_length, device=device)

    def __len__(self) -> int:
        return len(self.first_B)

    def to(self, device: torch.device | str) -> DecodingState:
        """Move the tensors to a device, in place, and return the state."""
        for name, value in vars(self).items():
            if isinstance(value, (Tensor, Batch)):
                setattr(self, name, value.to(device))
        return self

    def hidden(self, row_N: Tensor) -> Tensor:
        """Return which positions of these mazes are still to be filled, [N, R]."""
        return ~self.known_BR[row_N] & (self.position_R < self.length_B[row_N, None])

    def unfinished(self, row_N: Tensor) -> Tensor:
        """Return those of these mazes that have hidden positions."""
        return row_N[self.hidden(row_N).any(1)]

    def fill(self, row_F: Tensor, position_F: Tensor, token_F: Tensor, probability_F: Tensor) -> Step:
        """Write tokens into positions."""
        self.token_BR[row_F, position_F] = token_F
        self.probability_BR[row_F, position_F] = probability_F.float()
        self.known_BR[row_F, position_F] = True
        ends_F = token_F == self.end
        self.length_B.scatter_reduce_(0, row_F[ends_F], position_F[ends_F] + 1, "amin")
        self.known_BR[row_F[ends_F]] &= self.position_R < self.length_B[row_F[ends_F], None]
        return Step(row_F, position_F, token_F, probability_F.float())

    def hide(self, row_F: Tensor, position_F: Tensor) -> Step:
        """Hide positions again; where the end token is among them, the length is unknown again."""
        token_F = self.token_BR[row_F, position_F]
        self.known_BR[row_F, position_F] = False
        self.length_B[row_F[token_F == self.end]] = self.max_response_length
        return Step(row_F, position_F, token_F, torch.zeros(len(row_F), device=token_F.device), hidden=True)

    def query(self, model: Model, row_N: Tensor, want_NR: Tensor, whole: bool = False) -> Tensor:
        """Return logits [Q, V] at the wanted positions, given the prompt and all known positions.

        The sequence is cut after the last position that is known or wanted, unless it shall be `whole`.
        """
        known_NR = self.known_BR[row_N]
        needed_R = (known_NR | want_NR).any(0)
        width = self.max_response_length if whole else int((needed_R * (self.position_R + 1)).max())
        first_N = self.first_B[row_N]
        length = int(first_N.max()) + width
        prompt = self.prompt.rows(row_N)

        def join(prompt_NT: Tensor, response_NR: Tensor, padding: int) -> Tensor:
            """Append to each prompt its response."""
            out = torch.full((len(row_N), length), padding, dtype=prompt_NT.dtype, device=prompt_NT.device)
            cut = min(prompt_NT.shape[1], length)
            out[:, :cut] = prompt_NT[:, :cut]
            return out.scatter_(1, first_N[:, None] + self.position_R[:width], response_NR[:, :width])

        is_prompt_NT = prompt.valid_BT
        order_NT = join(is_prompt_NT.long() - 1, (~known_NR).long(), -1)
        batch = replace(
            prompt,
            tokens_BT=join(prompt.tokens_BT, self.token_BR[row_N], 0),
            valid_BT=order_NT >= 0,
            response_BT=join(torch.zeros_like(is_prompt_NT), torch.ones_like(known_NR), 0),
        )
        return model(batch, order_NT, join(torch.zeros_like(is_prompt_NT), want_NR, 0))

    def responses(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return tokens and probabilities [B, R], with -1 and 0 where there is none, and the lengths."""
        valid_BR = self.known_BR & (self.position_R < self.length_B[:, None])
        token_BR = self.token_BR.masked_fill(~valid_BR, -1)
        return token_BR.cpu(), self.probability_BR.masked_fill(~valid_BR, 0).cpu(), self.length_B.cpu()
