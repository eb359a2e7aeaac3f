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
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from clew.decoding.cells import CellWalk
from clew.decoding.codec import CellState, Codec, Decoder, DecodingState, Probabilities, Step
from clew.decoding.text_decoders import THRESHOLD, EndFirst, LeftToRight, Parallel, Repair
from clew.errors import UserError
from clew.files import from_plain
from clew.mazes.maze import Cell, TaskBatch
from clew.models.config import Model
from clew.models.transformers import DecoderOnly
from clew.registry import registered, registered_names

# Classes by name, with defaults of their options.
DECODERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "left-to-right": (LeftToRight, {}),
    "right-to-left": (EndFirst, {}),
    "both-ends": (EndFirst, {"ends": "both"}),
    "certainty": (Parallel, {}),
    "certainty-margin": (Parallel, {"by": "margin"}),
    "certainty-entropy": (Parallel, {"by": "entropy"}),
    "threshold": (Parallel, {"probability": THRESHOLD}),
    "entropy-bound": (Parallel, {"by": "entropy", "bound": 0.1}),
    "repair": (Repair, {}),
}
CELL_DECODERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "one-pass": (CellWalk, {"query": "never"}),
    "walk": (CellWalk, {}),
    "walk-repair": (CellWalk, {"rounds": 200}),  # more than any maze has needed
}


def all_decoders() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return all decoders by name; registered ones come last and do not replace others."""
    built_in = DECODERS | CELL_DECODERS
    added: dict[str, Any] = {name: (registered("decoder", name), {}) for name in registered_names("decoder")}
    return built_in | added | built_in


def decoders_for(model: Model, codec: Codec) -> list[str]:
    """Return the names of the decoders that suit a model."""
    for_cells = codec.vocabulary is None
    return [name for name, (kind, _) in all_decoders().items() if not _mismatch(model, kind, for_cells)]


def default_decoder(codec: Codec) -> str:
    """Return the name of the default decoder: the paper's for text models, a walk with repair for cell networks."""
    return "walk-repair" if codec.vocabulary is None else "left-to-right"


def parse_decoder(text: str) -> Decoder:
    """Return the decoder that a text such as `certainty:count=4` specifies."""
    name, _, rest = text.partition(":")
    pairs = [part.partition("=") for part in rest.split(",")] if rest else []
    if any(not equals for _, equals, _ in pairs):
        raise UserError(f"the decoder {text!r} cannot be read; write options as {name}:option=value.")
    return decoder_named(name, **{option: value for option, _, value in pairs})


def decoder_named(name: str, **options: Any) -> Decoder:
    """Return the decoder of this name; options may be text."""
    known = all_decoders()
    if name not in known:
        raise UserError(
            f"there is no decoder {name!r}; choose one of {', '.join(known)}, "
            "or give --plugin with the module that registers it."
        )
    kind, defaults = known[name]
    if options and not getattr(kind, "__dataclass_fields__", None):
        raise UserError(f"the decoder {name} has no options; leave them out.")
    if not options:
        return kind(**defaults)  # type: ignore[no-any-return]
    given = defaults | {option: _number(value) for option, value in options.items()}
    decoder: Decoder = from_plain(kind, given, f"the decoder {name}", {"inner": decoder_named})
    return decoder


def _number(value: Any) -> Any:
    """Return the number that a text says, or the value as it is."""
    for convert in (int, float) if isinstance(value, str) else ():
        try:
            return convert(value)
        except ValueError:
            continue
    return value


class DecodedBatch(NamedTuple):
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
                passes_B[step.row_F.cpu()] += 1  # once a maze, however often it occurs
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
    cell_probabilities: Probabilities | None = None


def split_steps(codec: Codec, tasks: TaskBatch, steps: Iterable[Step]) -> list[list[TaskStep]]:
    """Return the steps of each maze of a decoded batch."""
    shape = (tasks.height, tasks.width)
    found: list[list[TaskStep]] = [[] for _ in range(len(tasks))]
    passes = np.zeros(len(tasks), dtype=np.int64)
    for step in steps:
        for row in sorted(set(step.row_F.tolist())):
            passes[row] += not step.hidden
            own_F = step.row_F == row
            positions, tokens, probabilities = (
                tuple(x_F[own_F].tolist()) for x_F in (step.position_F, step.token_F, step.probability_F)
            )
            texts = tuple(map(codec.token_text, tokens))
            cells = tuple(
                divmod(position, tasks.width) if codec.vocabulary is None else codec.cell_named((text,), *shape)
                for position, text in zip(positions, texts, strict=True)
            )
            on_C = (step.cell_probabilities or {}).get(row)
            on_HW = None if on_C is None else on_C.clip(min=0).reshape(shape)
            found[row].append(TaskStep(int(passes[row]), positions, cells, texts, probabilities, step.hidden, on_HW))
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
    parameter = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    return torch.device("cpu") if parameter is None else parameter.device
