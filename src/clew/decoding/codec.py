"""Conversion between tasks and the token ids of a model, and the state of responses while they are decoded.

    codec = Codec.of("edge-list", height=10, width=10)      # the size that the model was trained on
    state = codec.decoding_state(tasks)                      # 10x10 or smaller
    logits_QV = state.query(model, row_N, want_NR)           # at these positions of these mazes
    step = state.fill(row_F, position_F, token_F, probability_F)
    path = codec.read(decoded.response(0), tasks.height, tasks.width)

Cell labels have no vocabulary; their response is the path itself: the index of each cell, and height * width as the
end token. `max_response_length` does not reveal the true path's length.

Shape suffixes: B mazes, N some of them, T positions of the sequence, R positions of the response (0 is its first
token), F filled positions, Q queried positions of all N mazes in row-major order, V vocabulary, C cells of a maze.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from clew.data.batch import Batch, CellBatch, encode_tasks, text_seeds
from clew.data.config import CELL_LABELS
from clew.data.loader import sequence_lengths
from clew.errors import UserError
from clew.mazes.maze import Cell, Path, TaskBatch
from clew.mazes.solvers import MAX_EVENTS_PER_CELL
from clew.models.cell_network import OFF, ON, CellNetwork, Stop
from clew.models.config import Model
from clew.tokenization.format import LABELS, PLAN, format_named
from clew.tokenization.tokens import Vocabulary, cell_token

MAX_PROMPT_WORDS = 16  # tokens of a prompt that are part of neither a passage nor a wall
RULED_OUT = -1.0  # replaces the probability of a cell that is visibly off the path

Probabilities = npt.NDArray[np.float32]


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
    cell_probabilities: Mapping[int, Probabilities] | None = None


class Decoder(Protocol):
    """A decoding method; a frozen dataclass whose fields are its options.

    Two optional class attributes: `any_order` is True if positions are filled in another order than left to right;
    `for_cells` is True if it decodes cell networks, whose state is a CellState.
    """

    def steps(self, model: Model, state: Any, row_N: Tensor) -> Iterator[Step]:
        """Fill the hidden positions of these mazes, and yield every step."""
        ...


class State:
    """What is known of the responses of a batch."""

    prompt: Batch

    def __len__(self) -> int:
        return len(self.prompt)

    def to(self, device: torch.device | str) -> None:
        """Move the tensors to a device, in place."""
        for name, value in vars(self).items():
            if isinstance(value, (Tensor, Batch)):
                setattr(self, name, value.to(device))


class DecodingState(State):
    """Prompts, and the positions of the responses with the tokens known so far.

    Position r of the response of maze b is position first_B[b] + r of its sequence. Repair uses tasks and codec.
    """

    def __init__(self, prompt: Batch, end: int, max_response_length: int, tasks: TaskBatch, codec: Codec) -> None:
        self.prompt = replace(prompt, tokens_BT=prompt.tokens_BT.masked_fill(~prompt.valid_BT, 0))
        self.first_B = prompt.valid_BT.sum(1)
        self.end, self.max_response_length, self.tasks, self.codec = end, max_response_length, tasks, codec
        shape, device = (len(prompt), max_response_length), self.first_B.device
        self.token_BR = torch.zeros(shape, dtype=torch.int64, device=device)
        self.probability_BR = torch.zeros(shape, device=device)
        self.known_BR = torch.zeros(shape, dtype=torch.bool, device=device)
        # Positions that belong to the response, the end token included; all of them until the end token is known.
        self.length_B = torch.full(shape[:1], max_response_length, dtype=torch.int64, device=device)
        self.position_R = torch.arange(max_response_length, device=device)

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
        known_NR, prompt, first_N = self.known_BR[row_N], self.prompt.rows(row_N), self.first_B[row_N]
        width = self.max_response_length if whole else int(((known_NR | want_NR) * (self.position_R + 1)).max())
        length = int(first_N.max()) + width

        def join(prompt_NT: Tensor, response_NR: Tensor, padding: int) -> Tensor:
            """Append to each prompt its response."""
            out_NT = torch.full((len(row_N), length), padding, dtype=prompt_NT.dtype, device=prompt_NT.device)
            cut = min(prompt_NT.shape[1], length)
            out_NT[:, :cut] = prompt_NT[:, :cut]
            return out_NT.scatter_(1, first_N[:, None] + self.position_R[:width], response_NR[:, :width])

        nowhere_NT = torch.zeros_like(prompt.valid_BT)
        order_NT = join(prompt.valid_BT.long() - 1, (~known_NR).long(), -1)
        tokens_NT, response_NT = join(prompt.tokens_BT, self.token_BR[row_N], 0), torch.ones_like(known_NR)
        batch = replace(
            prompt, tokens_BT=tokens_NT, valid_BT=order_NT >= 0, response_BT=join(nowhere_NT, response_NT, 0)
        )
        return model(batch, order_NT, join(nowhere_NT, want_NR, 0))

    def responses(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return tokens and probabilities [B, R], with -1 and 0 where there is none, and the lengths."""
        valid_BR = self.known_BR & (self.position_R < self.length_B[:, None])
        token_BR = self.token_BR.masked_fill(~valid_BR, -1)
        return token_BR.cpu(), self.probability_BR.masked_fill(~valid_BR, 0).cpu(), self.length_B.cpu()


class CellState(State):
    """Visible labels of cells and the paths so far."""

    prompt: CellBatch

    def __init__(self, prompt: CellBatch, end: int) -> None:
        self.prompt, self.end = prompt, end
        self.label_BC = torch.zeros_like(prompt.tokens_BT)
        self.visible_BC = torch.zeros_like(prompt.valid_BT)
        self.probability_BC = torch.zeros(prompt.tokens_BT.shape)  # of each cell when it was last walked to
        self.paths: list[list[int]] = [[] for _ in range(len(prompt))]

    def query(self, model: Model, row_N: Tensor, stop: Stop) -> Probabilities:
        """Return the probability that each cell of these mazes is on the path, or RULED_OUT, [N, C]."""
        batch, label_NC = self.prompt.rows(row_N), self.label_BC[row_N]
        visible_NC = self.visible_BC[row_N] & batch.valid_BT
        order_NC = torch.where(visible_NC, 0, torch.where(batch.valid_BT, 1, -1))
        # Loops are a property of CellNetwork; a registered model has its own.
        options = (stop,) if isinstance(model, CellNetwork) else ()
        logits_QV = model(replace(batch, tokens_BT=label_NC), order_NC, order_NC == 1, *options)
        on_NC = torch.where(visible_NC, label_NC.float(), 0.0)
        on_NC[order_NC == 1] = logits_QV.float().softmax(-1)[:, ON]
        on_NC[visible_NC & (label_NC == OFF)] = RULED_OUT
        found: Probabilities = on_NC.cpu().numpy()
        return found

    def show(self, row: int, cells: list[int], label: int) -> None:
        """Make these labels visible."""
        self.label_BC[row, cells] = label
        self.visible_BC[row, cells] = True

    def fill(self, walks: list[tuple[int, list[int]]], on: Mapping[int, Probabilities]) -> Step:
        """Fill the cells of each (row, cells), given the probabilities of the rows."""
        device = self.label_BC.device
        row_F = torch.tensor([row for row, cells in walks for _ in cells], dtype=torch.int64, device=device)
        cell_F = torch.tensor([cell for _, cells in walks for cell in cells], dtype=torch.int64, device=device)
        probability_F = torch.tensor([float(on[row][cell]) for row, cells in walks for cell in cells], device=device)
        self.probability_BC[row_F, cell_F] = probability_F
        return Step(row_F, cell_F, torch.full_like(cell_F, ON), probability_F, cell_probabilities=on)

    def responses(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return tokens and probabilities [B, C + 1], with -1 and 0 after the end, and the lengths."""
        shape = (len(self), self.label_BC.shape[1] + 1)
        token_BR, probability_BR = torch.full(shape, -1), torch.zeros(shape)
        for row, path in enumerate(self.paths):
            token_BR[row, : len(path) + 1] = torch.tensor([*path, self.end])
            # The end token has the probability of the last cell.
            probability_BR[row, : len(path) + 1] = self.probability_BC[row, [*path, (path or [0])[-1]]].cpu()
        return token_BR, probability_BR, torch.tensor([len(path) + 1 for path in self.paths])


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

    def encode(self, tasks: TaskBatch, text_seed_N: npt.NDArray[np.uint64] | None = None) -> Batch:
        """Return the tasks with their paths as the batch that the model reads.

        The seeds choose the order of edges in each text; by default they follow from the rows of the batch.
        """
        if text_seed_N is None:
            text_seed_N = text_seeds(0, "test", np.arange(len(tasks)))
        return encode_tasks(self.format_name, tasks, text_seed_N, vocabulary=self.vocabulary)

    def decoding_state(
        self,
        tasks: TaskBatch,
        text_seed_N: npt.NDArray[np.uint64] | None = None,
        max_response_length: int | None = None,
    ) -> DecodingState | CellState:
        """Return the tasks as prompts with hidden responses; the tasks' own paths are not used."""
        no_paths = replace(tasks, path=tasks.path[:0], offset_N1=np.zeros(len(tasks) + 1, dtype=np.int64))
        batch, end = self.encode(no_paths, text_seed_N), self.end(tasks.height, tasks.width)
        if isinstance(batch, CellBatch):
            return CellState(batch, end)
        length = max_response_length or self.max_response_length(tasks.height, tasks.width)
        return DecodingState(batch, end, length, tasks, self)

    def truth(self, tasks: TaskBatch) -> tuple[Tensor, Tensor]:
        """Return the responses of the tasks' own paths: tokens [N, R], -1 after the end, and their lengths."""
        if self.vocabulary is None:
            end = self.end(tasks.height, tasks.width)
            responses = [torch.tensor([*tasks.path_of(i).tolist(), end]) for i in range(len(tasks))]
        else:
            batch = self.encode(tasks)
            responses = [tokens_T[keep_T] for tokens_T, keep_T in zip(batch.tokens_BT, batch.response_BT, strict=True)]
        length_B = torch.tensor([len(tokens_R) for tokens_R in responses])
        return pad_sequence(responses, batch_first=True, padding_value=-1), length_B

    def read(self, response: Sequence[int], height: int, width: int) -> Path:
        """Return the path of a response; raise a UserError that names the token that is wrong."""
        if self.vocabulary is not None:
            tokens = self.vocabulary.decode(response)
            return format_named(self.format_name).parse_response(tokens, height=height, width=width)
        if len(response) < 2 or response[-1] != height * width:
            raise UserError(f"{len(response)} labelled cells are no path with an end.")
        return [divmod(cell, width) for cell in response[:-1]]

    def token_text(self, token: int) -> str:
        return LABELS[token] if self.vocabulary is None else self.vocabulary.decode([token])[0]

    def cell_named(self, tokens: tuple[str, ...], height: int, width: int) -> Cell | None:
        """Return the cell that these tokens of a response stand for, or None."""
        return _cell_names(self.format_name, height, width).get(tokens)


@lru_cache(maxsize=8)
def _cell_names(format_name: str, height: int, width: int) -> dict[tuple[str, ...], Cell]:
    cells = [(row, col) for row in range(height) for col in range(width)]
    if format_name.startswith("path-star"):
        return {(str(col),): (row, col) for row, col in cells}
    if format_name.startswith("wall-list"):
        return {(PLAN, str(col), str(row)): (row, col) for row, col in cells}
    return {(cell_token(cell),): cell for cell in cells}
