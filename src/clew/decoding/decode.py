"""Run a decoder, step by step or to the end.

    decoded = decode(model, canvas, decoder_named("left-to-right"))
    for step in decode_steps(model, canvas, decoder): ...      # watch it: the same steps, as they are taken

Shape suffixes: B mazes, R places of the response.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias, cast

import torch
from torch import Tensor, nn

from clew.decoding.cells import CellDecoder, CellState
from clew.decoding.state import Answers, Canvas, Step
from clew.errors import UserError
from clew.models.cell_network import CellNetwork
from clew.models.config import Model
from clew.models.decoder_only import DecoderOnly


class Decoder(Protocol):
    """A way to fill in the responses; each is a frozen dataclass whose fields are its options."""

    @property
    def any_order(self) -> bool:
        """Whether it asks for places in another order than from left to right."""
        ...

    def steps(self, model: Model, answers: Answers, row_N: Tensor) -> Iterator[Step]:
        """Fill in the hidden places of these mazes, and tell every step."""
        ...


AnyDecoder: TypeAlias = Decoder | CellDecoder


@dataclass(frozen=True)
class DecodedBatch:
    """The responses of a canvas."""

    token_BR: Tensor  # int64; -1 after the end
    confidence_BR: Tensor  # float32; the probability the model gave each token when it was filled in
    length_B: Tensor  # int64; the number of tokens with the end, or the whole room where no end was found
    ended_B: Tensor  # bool
    passes_B: Tensor  # int64; how often the model was asked for each maze
    seconds: float  # for the whole batch

    def __len__(self) -> int:
        return len(self.length_B)

    def response(self, row: int) -> list[int]:
        """The tokens of one response, the end included."""
        tokens: list[int] = self.token_BR[row, : int(self.length_B[row])].tolist()
        return tokens


def decode_steps(model: Model, canvas: Canvas, decoder: AnyDecoder, cells: CellState | None = None) -> Iterator[Step]:
    """Yield the steps of decoding all mazes of the canvas, without gradients and with the model in evaluation mode."""
    check_order(model, decoder)
    canvas = canvas.to(device_of(model))
    row_B = torch.arange(len(canvas), device=canvas.device)
    if isinstance(model, CellNetwork):
        steps = cast(CellDecoder, decoder).cell_steps(model, cells or CellState(canvas), row_B)
    else:
        steps = cast(Decoder, decoder).steps(model, Answers(canvas), row_B)
    while True:
        # Set and put back around each step: what the caller does between two steps is its own.
        training = isinstance(model, nn.Module) and model.training
        if isinstance(model, nn.Module):
            model.eval()
        try:
            with torch.no_grad():
                step = next(steps, None)
        finally:
            if training:
                assert isinstance(model, nn.Module)
                model.train()
        if step is None:
            return
        yield step


def decode(
    model: Model,
    canvas: Canvas,
    decoder: AnyDecoder,
    on_step: Callable[[Step], None] = lambda step: None,
) -> DecodedBatch:
    """Decode to the end; `on_step` is called with every step."""
    began = time.perf_counter()
    count, room = len(canvas), canvas.room
    token_BR = torch.full((count, room), -1, dtype=torch.int64)
    confidence_BR = torch.zeros(count, room)
    passes_B = torch.zeros(count, dtype=torch.int64)
    cells = CellState(canvas.to(device_of(model))) if isinstance(model, CellNetwork) else None
    for step in decode_steps(model, canvas, decoder, cells):
        on_step(step)
        row_F, place_F = step.row_F.cpu(), step.place_F.cpu()
        token_BR[row_F, place_F] = -1 if step.hides else step.token_F.cpu()
        confidence_BR[row_F, place_F] = step.confidence_F.cpu()
        if not step.hides:
            passes_B += torch.zeros(count, dtype=torch.int64).index_fill(0, row_F, 1)  # once a maze
    if cells is not None:
        token_BR, confidence_BR = _paths(cells, confidence_BR, canvas.end)
    is_end_BR = token_BR == canvas.end
    ended_B = is_end_BR.any(1)
    length_B = torch.where(ended_B, is_end_BR.int().argmax(1) + 1, room)
    token_BR[torch.arange(room) >= length_B[:, None]] = -1
    return DecodedBatch(token_BR, confidence_BR, length_B, ended_B, passes_B, time.perf_counter() - began)


def check_order(model: Model, decoder: AnyDecoder) -> None:
    """UserError if the decoder asks in an order that the model cannot answer."""
    if isinstance(model, CellNetwork) != hasattr(decoder, "cell_steps"):
        wanted = (
            "one-pass, walk or walk-repair" if isinstance(model, CellNetwork) else "another one, such as left-to-right"
        )
        raise UserError(f"this decoder is not for a model that {_predicts(model)}; use {wanted}.")
    if getattr(decoder, "any_order", False) and reads_left_to_right_only(model):
        raise UserError(
            "this model was made to predict the next token, so it can only be decoded left-to-right; "
            "other decoders need a model that fills in any place, such as one trained with MLM-U."
        )


def _predicts(model: Model) -> str:
    return "labels cells" if isinstance(model, CellNetwork) else "predicts tokens"


def _paths(cells: CellState, confidence_BC: Tensor, end: int) -> tuple[Tensor, Tensor]:
    """Return the paths as tokens with their end, and the confidence of each; the end has that of the last cell."""
    token_BR, sure_BR = torch.full_like(confidence_BC, -1, dtype=torch.int64), torch.zeros_like(confidence_BC)
    for row, path in enumerate(cells.paths):
        token_BR[row, : len(path) + 1] = torch.tensor([*path, end])
        sure_BR[row, : len(path) + 1] = confidence_BC[row, [*path, path[-1]]]
    return token_BR, sure_BR


def reads_left_to_right_only(model: Model) -> bool:
    """Whether the model's architecture sees only what stands to the left."""
    return isinstance(model, DecoderOnly) or bool(getattr(getattr(model, "config", None), "causal", False))


def device_of(model: Model) -> torch.device:
    """Where the model's weights are."""
    if isinstance(model, nn.Module):
        for parameter in model.parameters():
            return parameter.device
    return torch.device("cpu")
