"""Choose a decoder by name, and run it.

    decoder = parse_decoder("threshold:probability=0.8")      # as on the command line
    decoded = decode(model, codec.decoding_state(tasks), decoder, on_step=steps.append)

Decoders from outside the package are registered with clew.register("decoder", NAME); see clew.decoding.codec.Decoder.

Shape suffixes: B mazes, R positions of the response.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, get_type_hints

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from clew.decoding.cells import CellWalk
from clew.decoding.codec import CellState, Codec, Decoder, DecodingState, Step
from clew.decoding.text_decoders import Certainty, EndFirst, EntropyBound, LeftToRight, Repair, Threshold
from clew.errors import UserError
from clew.files import type_name
from clew.mazes.maze import Cell, TaskBatch
from clew.models.config import Model
from clew.models.transformers import DecoderOnly
from clew.registry import registered, registered_names

# Classes by name; the fields that are given here are no options.
DECODERS: dict[str, partial[Any]] = {
    "left-to-right": partial(LeftToRight),
    "right-to-left": partial(EndFirst, both_ends=False),
    "both-ends": partial(EndFirst, both_ends=True),
    "certainty": partial(Certainty, by="probability"),
    "certainty-margin": partial(Certainty, by="margin"),
    "certainty-entropy": partial(Certainty, by="entropy"),
    "threshold": partial(Threshold),
    "entropy-bound": partial(EntropyBound),
    "repair": partial(Repair),
}
CELL_DECODERS: dict[str, partial[Any]] = {
    "one-pass": partial(CellWalk, query="never", rounds=0),
    "walk": partial(CellWalk),
    "walk-repair": partial(CellWalk, rounds=200),  # more than any maze has needed
}


def all_decoders() -> dict[str, partial[Any]]:
    """Return all decoders by name; registered ones come last and do not replace others."""
    added: dict[str, Any] = {name: registered("decoder", name) for name in registered_names("decoder")}
    built_in = DECODERS | CELL_DECODERS
    return built_in | {name: partial(added[name]) for name in added if name not in built_in}


def decoders_for(model: Model, codec: Codec) -> list[str]:
    """Return the names of the decoders that suit a model."""
    for_cells = codec.vocabulary is None
    return [name for name, make in all_decoders().items() if not _mismatch(model, make.func, for_cells)]


def default_decoder(codec: Codec) -> str:
    """Return the name of the default decoder: the paper's for text models, a walk with repair for cell networks."""
    return "walk-repair" if codec.vocabulary is None else "left-to-right"


def decoder_named(name: str, **options: Any) -> Decoder:
    """Return the decoder of this name; options may be text."""
    known = all_decoders()
    if name not in known:
        raise UserError(
            f"there is no decoder {name!r}; choose one of {', '.join(known)}, "
            "or give --plugin with the module that registers it."
        )
    make = known[name]
    # Not Field.type, which is text in modules that import annotations from __future__.
    kinds = {option: kind for option, kind in get_type_hints(make.func).items() if option not in make.keywords}
    values: dict[str, Any] = {}
    for option, value in options.items():
        if option not in kinds:
            names = ", ".join(kinds) or "none"
            raise UserError(f"the decoder {name} has no option {option!r}; its options: {names}.")
        kind = kinds[option] if kinds[option] in (int, float) else str
        try:
            values[option] = kind(value)
        except ValueError:
            wanted = type_name(kind)
            raise UserError(f"the option {option} of the decoder {name} cannot be {value!r}; give {wanted}.") from None
    if "inner" in values:  # a decoder inside another
        values["inner"] = decoder_named(values["inner"])
    decoder: Decoder = make(**values)
    return decoder


def parse_decoder(text: str) -> Decoder:
    """Return the decoder that a text such as `certainty:count=4` specifies."""
    name, _, rest = text.partition(":")
    pairs = [part.partition("=") for part in rest.split(",")] if rest else []
    if any(not equals for _, equals, _ in pairs):
        raise UserError(f"the decoder {text!r} cannot be read; write options as {name}:option=value.")
    return decoder_named(name, **{option: value for option, _, value in pairs})


@dataclass(frozen=True)
class DecodedBatch:
    """Responses of a batch."""

    token_BR: Tensor  # int64; -1 after the end
    probability_BR: Tensor  # float32; that the model gave each token when it was filled in
    length_B: Tensor  # int64; tokens up to the end token, or max_response_length where there is none
    passes_B: Tensor  # int64; forward passes
    seconds: float  # for the whole batch

    def response(self, row: int) -> list[int]:
        """Return the tokens of one response, the end token included."""
        tokens: list[int] = self.token_BR[row, : int(self.length_B[row])].tolist()
        return tokens


@torch.no_grad()
def decode(
    model: Model,
    state: DecodingState | CellState,
    decoder: Decoder,
    on_step: Callable[[Step], None] = lambda step: None,
) -> DecodedBatch:
    """Decode to the end, without gradients and with the model in evaluation mode.

    `on_step` is called with every step and may raise an exception to stop.
    """
    check_decoder(model, decoder, isinstance(state, CellState))
    began, device = time.perf_counter(), device_of(model)
    passes_B = torch.zeros(len(state), dtype=torch.int64)
    state.to(device)
    module = model if isinstance(model, nn.Module) else nn.Module()
    training = module.training
    module.eval()
    try:
        for step in decoder.steps(model, state, torch.arange(len(state), device=device)):
            on_step(step)
            if not step.hidden:
                passes_B += torch.zeros_like(passes_B).index_fill(0, step.row_F.cpu(), 1)  # once a maze
    finally:
        module.train(training)
    return DecodedBatch(*state.responses(), passes_B, time.perf_counter() - began)


@dataclass(frozen=True)
class TaskStep:
    """One step of decoding one maze."""

    number: int  # of the forward pass, from 1; of a step that hides, that of the pass before
    positions: tuple[int, ...]  # in the response; for a cell network, row-major indices of cells
    cells: tuple[Cell | None, ...]  # that the tokens name; None for tokens that are no cell by themselves
    tokens: tuple[str, ...]
    probabilities: tuple[float, ...]
    hidden: bool  # the positions were hidden again
    # Only of cell networks: the probability that each cell is on the path after this pass, [H, W].
    cell_probabilities: npt.NDArray[np.float32] | None = None


def split_steps(codec: Codec, tasks: TaskBatch, steps: Iterable[Step]) -> list[list[TaskStep]]:
    """Return the steps of each maze of a decoded batch."""
    found: list[list[TaskStep]] = [[] for _ in range(len(tasks))]
    passes = [0] * len(tasks)
    for step in steps:
        filled: dict[int, list[tuple[int, Cell | None, str, float]]] = {}
        columns = (step.row_F, step.position_F, step.token_F, step.probability_F)
        for row, position, token, probability in zip(*(column.tolist() for column in columns), strict=True):
            text = codec.token_text(token)
            named = divmod(position, tasks.width) if codec.vocabulary is None else None
            cell = named or codec.cell_named((text,), tasks.height, tasks.width)
            filled.setdefault(row, []).append((position, cell, text, probability))
        for row, values in filled.items():
            passes[row] += not step.hidden
            on_C = (step.cell_probabilities or {}).get(row)
            grid_HW = None if on_C is None else on_C.clip(min=0).reshape(tasks.height, tasks.width)
            positions, cells, tokens, probabilities = zip(*values, strict=True)
            found[row].append(TaskStep(passes[row], positions, cells, tokens, probabilities, step.hidden, grid_HW))
    return found


def check_decoder(model: Model, decoder: Decoder, for_cells: bool) -> None:
    """Raise a UserError if the decoder does not suit the model, or its responses, which may be labels of cells."""
    if problem := _mismatch(model, decoder, for_cells):
        raise UserError(problem)


def _mismatch(model: Model, decoder: Any, for_cells: bool) -> str | None:
    """Return why a decoder, or its class, does not suit the model; None if it does."""
    if for_cells != getattr(decoder, "for_cells", False):
        kind = "labels cells" if for_cells else "predicts tokens"
        names = "one-pass, walk or walk-repair" if for_cells else "another one, such as left-to-right"
        return f"this decoder is not for a model that {kind}; use {names}."
    if getattr(decoder, "any_order", False) and is_causal(model):
        return (
            "this model was made to predict the next token, so it can only be decoded left-to-right; "
            "other decoders need a model that fills in any position, such as one trained with MLM-U."
        )
    return None


def is_causal(model: Model) -> bool:
    """Return whether the model can only attend to the left."""
    return isinstance(model, DecoderOnly) or bool(getattr(getattr(model, "config", None), "causal", False))


def device_of(model: Model) -> torch.device:
    """Return the device of the model's weights."""
    parameter = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if parameter is None else parameter.device
