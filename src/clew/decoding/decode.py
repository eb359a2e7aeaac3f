"""Choose a decoder by name, and run it step by step or to the end.

    decoder = parse_decoder("threshold:probability=0.8")      # as on the command line
    decoded = decode(model, codec.decoding_state(tasks), decoder)
    for step in decode_steps(model, codec.decoding_state(tasks), decoder): ...

Decoders from outside the package are registered with clew.register("decoder", NAME); see clew.decoding.state.Decoder.

Shape suffixes: B mazes, R positions of the response.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any, get_type_hints

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from clew.decoding.cells import CellState, CellWalk
from clew.decoding.codec import Codec
from clew.decoding.repair import Repair
from clew.decoding.state import Decoder, DecodingState, Step
from clew.decoding.text_decoders import (
    BothEnds,
    Certainty,
    EntropyBound,
    LeftToRight,
    LeftToRightNaive,
    RightToLeft,
    Threshold,
)
from clew.errors import UserError
from clew.mazes.maze import Cell, TaskBatch
from clew.models.cell_network import CellNetwork
from clew.models.config import Model
from clew.models.decoder_only import DecoderOnly
from clew.registry import registered, registered_names

# More than any maze has needed; each round is a pass.
REPAIR_ROUNDS = 200


@dataclass(frozen=True)
class Entry:
    """A decoder that can be chosen by name."""

    component: Any  # its class
    make: Callable[..., Decoder]
    options: dict[str, type]  # int, float or str
    summary: str


def _entry(component: Any, summary: str, make: Callable[..., Decoder] | None = None, **fixed: Any) -> Entry:
    """Return an entry whose options are the parameters of `make`, or else the fields of the class, without `fixed`."""
    hints = get_type_hints(make or component)
    names = hints if make else [f.name for f in fields(component)] if is_dataclass(component) else []
    kinds = {name: hints[name] if hints[name] in (int, float) else str for name in names}
    options = {name: kind for name, kind in kinds.items() if name not in {*fixed, "return"}}
    return Entry(component, partial(make or component, **fixed), options, summary)


def _repair(inner: str = "threshold", rounds: int = 4, margin: int = 1) -> Decoder:
    return Repair(decoder_named(inner), rounds, margin)


DECODERS: dict[str, Entry] = {
    "left-to-right": _entry(LeftToRight, "one token a pass, from the start"),
    "left-to-right-naive": _entry(LeftToRightNaive, "the same, without a cache and without dropping finished mazes"),
    "right-to-left": _entry(RightToLeft, "the end token first, then one token a pass back to the start"),
    "both-ends": _entry(BothEnds, "the end token first, then two tokens a pass, from both sides"),
    "certainty": _entry(Certainty, "the most probable positions first, `count` a pass", by="probability"),
    "certainty-margin": _entry(Certainty, "the positions with the largest margin first, `count` a pass", by="margin"),
    "certainty-entropy": _entry(Certainty, "the positions of least entropy first, `count` a pass", by="entropy"),
    "threshold": _entry(Threshold, "all positions above a `probability` in each pass"),
    "entropy-bound": _entry(EntropyBound, "as many positions a pass as the entropy `bound` allows"),
    "repair": _entry(Repair, "another decoder (`inner`), then repairs of invalid parts of the path", _repair),
}
CELL_DECODERS: dict[str, Entry] = {
    "one-pass": _entry(CellWalk, "a walk over the labels of one pass", ask="never", rounds=0),
    "walk": _entry(CellWalk, "a walk from `origin` that queries again at every `ask`"),
    "walk-repair": _entry(CellWalk, "the same; at a dead end it returns to the last fork", rounds=REPAIR_ROUNDS),
}


def find_decoder(name: str) -> Entry:
    """Return the entry of a decoder, built in or registered."""
    if entry := (DECODERS | CELL_DECODERS).get(name):
        return entry
    if (decoder := registered("decoder", name)) is not None:
        return _entry(decoder, (decoder.__doc__ or name).strip().splitlines()[0])
    names = ", ".join([*DECODERS, *CELL_DECODERS, *registered_names("decoder")])
    raise UserError(
        f"there is no decoder {name!r}; choose one of {names}, or give --plugin with the module that registers it."
    )


def decoders_for(model: Model) -> dict[str, Entry]:
    """Return the decoders that suit a model, without the naive one."""
    plugins = {name: find_decoder(name) for name in registered_names("decoder")}
    entries = DECODERS | CELL_DECODERS | plugins
    del entries["left-to-right-naive"]
    return {name: entry for name, entry in entries.items() if mismatch(model, entry.component) is None}


def default_decoder(codec: Codec) -> str:
    """Return the name of the default decoder: the paper's for text models, a walk with repair for cell networks."""
    return "walk-repair" if codec.vocabulary is None else "left-to-right"


def decoder_named(name: str, **options: Any) -> Decoder:
    """Return the decoder of this name with some options set."""
    entry = find_decoder(name)
    for option, value in options.items():
        if option not in entry.options:
            known = ", ".join(entry.options) or "none"
            raise UserError(f"the decoder {name} has no option {option!r}; its options: {known}.")
        kind = entry.options[option]
        if not isinstance(value, (int, float) if kind is float else kind) or isinstance(value, bool):
            raise _wrong_value(name, option, value, kind)
    return entry.make(**options)


def parse_decoder(text: str) -> Decoder:
    """Return the decoder that a text such as `certainty:count=4` specifies."""
    name, _, rest = text.partition(":")
    entry = find_decoder(name)
    options: dict[str, Any] = {}
    for part in rest.split(",") if rest else ():
        option, equals, value = part.partition("=")
        if not equals:
            raise UserError(f"the decoder {text!r} cannot be read; write options as {name}:option=value.")
        kind = entry.options.get(option, str)
        try:
            options[option] = kind(value)
        except ValueError:
            raise _wrong_value(name, option, value, kind) from None
    return decoder_named(name, **options)


def _wrong_value(name: str, option: str, value: Any, kind: type) -> UserError:
    wanted = {int: "a whole number", float: "a number"}.get(kind, "a word")
    return UserError(f"the option {option} of the decoder {name} cannot be {value!r}; give {wanted}.")


@dataclass(frozen=True)
class DecodedBatch:
    """Responses of a batch."""

    token_BR: Tensor  # int64; -1 after the end
    probability_BR: Tensor  # float32; that the model gave each token when it was filled in
    length_B: Tensor  # int64; tokens up to the end token, or max_response_length where there is none
    ended_B: Tensor  # bool; whether there is an end token
    passes_B: Tensor  # int64; forward passes of each maze
    seconds: float  # for the whole batch

    def __len__(self) -> int:
        return len(self.length_B)

    def response(self, row: int) -> list[int]:
        """Return the tokens of one response, the end token included."""
        tokens: list[int] = self.token_BR[row, : int(self.length_B[row])].tolist()
        return tokens


def decode_steps(model: Model, state: DecodingState | CellState, decoder: Decoder) -> Iterator[Step]:
    """Fill the state, without gradients and with the model in evaluation mode, and yield every step."""
    check_decoder(model, decoder)
    state.to(device_of(model))
    steps = decoder.steps(model, state, torch.arange(len(state), device=device_of(model)))
    while True:
        # Set and restored around each step, so that the caller's code between two steps is not affected.
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
    state: DecodingState | CellState,
    decoder: Decoder,
    on_step: Callable[[Step], None] = lambda step: None,
) -> DecodedBatch:
    """Decode to the end; `on_step` is called with every step and may raise an exception to stop."""
    began = time.perf_counter()
    passes_B = torch.zeros(len(state), dtype=torch.int64)
    for step in decode_steps(model, state, decoder):
        on_step(step)
        if not step.hidden:
            passes_B += torch.zeros_like(passes_B).index_fill(0, step.row_F.cpu(), 1)  # once a maze
    token_BR, probability_BR, length_B = state.responses()
    ended_B = (token_BR == state.end).any(1)
    return DecodedBatch(token_BR, probability_BR, length_B, ended_B, passes_B, time.perf_counter() - began)


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
            found[row].append(
                TaskStep(passes[row], positions, cells, tokens, probabilities, step.hidden, grid_HW)  # type: ignore[arg-type]
            )
    return found


def check_decoder(model: Model, decoder: Decoder) -> None:
    """Raise a UserError if the decoder does not suit the model."""
    if problem := mismatch(model, decoder):
        raise UserError(problem)


def mismatch(model: Model, decoder: Any) -> str | None:
    """Return why a decoder, or its class, does not suit the model; None if it does."""
    for_cells = isinstance(model, CellNetwork)
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
    if isinstance(model, nn.Module):
        for parameter in model.parameters():
            return parameter.device
    return torch.device("cpu")
