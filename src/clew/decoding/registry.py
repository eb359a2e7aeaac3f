"""The decoders there are, by name.

    decoder = decoder_named("certainty", count=4)
    decoder = parse_decoder("threshold:probability=0.8")     # as on the command line

To add one, write a frozen dataclass with `steps` (see clew.decoding.decode.Decoder) and name it in DECODERS.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from clew.decoding.cells import CellWalk
from clew.decoding.codec import Codec
from clew.decoding.decode import Decoder, reads_left_to_right_only
from clew.decoding.left_to_right import BothEnds, LeftToRight, LeftToRightNaive, RightToLeft
from clew.decoding.parallel import Certainty, EntropyBound, Threshold
from clew.decoding.repair import Repair
from clew.errors import UserError
from clew.models.cell_network import CellNetwork
from clew.models.config import Model

# More than any maze has needed; each round is a pass.
REPAIR_ROUNDS = 200


@dataclasses.dataclass(frozen=True)
class Entry:
    """A named decoder: how to make one, and what it does in one line."""

    make: Callable[..., Decoder]
    options: dict[str, type]  # name -> int, float or str
    summary: str


def _entry(decoder: type[Any], summary: str, **fixed: Any) -> Entry:
    """An entry whose options are the fields of the decoder that are not fixed."""
    kinds = {"int": int, "float": float}
    options = {f.name: kinds.get(str(f.type), str) for f in dataclasses.fields(decoder) if f.name not in fixed}

    def make(**options: Any) -> Decoder:
        made: Decoder = decoder(**fixed, **options)
        return made

    return Entry(make, options, summary)


def _repair(inner: str = "threshold", rounds: int = 4, margin: int = 1) -> Decoder:
    return Repair(decoder_named(inner), rounds, margin)


DECODERS: dict[str, Entry] = {
    "left-to-right": _entry(LeftToRight, "one token a pass, from the start"),
    "left-to-right-naive": _entry(LeftToRightNaive, "the same, computing everything anew for every token"),
    "right-to-left": _entry(RightToLeft, "the end first, then one token a pass back to the start"),
    "both-ends": _entry(BothEnds, "the end first, then two tokens a pass, from both sides"),
    "certainty": _entry(Certainty, "the most probable places first, `count` a pass", by="probability"),
    "certainty-margin": _entry(Certainty, "the places with the clearest lead first, `count` a pass", by="margin"),
    "certainty-entropy": _entry(Certainty, "the places of least entropy first, `count` a pass", by="entropy"),
    "threshold": _entry(Threshold, "all places above a `probability` in each pass"),
    "entropy-bound": _entry(EntropyBound, "as many places a pass as the entropy `bound` allows"),
    "repair": Entry(
        _repair,
        {"inner": str, "rounds": int, "margin": int},
        "another decoder (`inner`), then hide and try again what breaks the maze's rules",
    ),
}


# Decoders for models that predict labels of cells.
CELL_DECODERS: dict[str, Entry] = {
    "one-pass": _entry(CellWalk, "a walk over the labels of one pass", ask="never", rounds=0),
    "walk": _entry(CellWalk, "a walk from `origin` that asks again at every `ask`"),
    "walk-repair": _entry(CellWalk, "the same; from a dead end it goes back to its last fork", rounds=REPAIR_ROUNDS),
}


def decoders_for(model: Model) -> dict[str, Entry]:
    """Return the decoders that a model can be read with, without those that give the same as another."""
    if isinstance(model, CellNetwork):
        return CELL_DECODERS
    if reads_left_to_right_only(model):
        return {"left-to-right": DECODERS["left-to-right"]}
    return {name: entry for name, entry in DECODERS.items() if name != "left-to-right-naive"}


def default_decoder(codec: Codec) -> str:
    """Return the decoder for a model if none is given: the paper's for text models, a walk with repair for cells."""
    return "walk-repair" if codec.vocabulary is None else "left-to-right"


def decoder_named(name: str, **options: Any) -> Decoder:
    """The decoder of this name, with some of its options set."""
    known = DECODERS | CELL_DECODERS
    if name not in known:
        raise UserError(f"there is no decoder {name!r}; choose one of {', '.join(known)}.")
    entry = known[name]
    for option, value in options.items():
        if option not in entry.options:
            options_known = ", ".join(entry.options) or "none"
            raise UserError(f"the decoder {name} has no option {option!r}; its options: {options_known}.")
        kind = entry.options[option]
        if not isinstance(value, (int, float) if kind is float else kind) or isinstance(value, bool):
            raise UserError(f"the option {option} of the decoder {name} cannot be {value!r}; give {_spoken(kind)}.")
    return entry.make(**options)


def parse_decoder(text: str) -> Decoder:
    """The decoder that a text such as `certainty:count=4` names."""
    name, _, rest = text.partition(":")
    entry = (DECODERS | CELL_DECODERS).get(name)
    options: dict[str, Any] = {}
    for part in rest.split(",") if rest and entry else ():
        option, equals, value = part.partition("=")
        if not equals:
            raise UserError(f"the decoder {text!r} cannot be read; write options as {name}:option=value.")
        kind = entry.options.get(option, str) if entry else str
        try:
            options[option] = kind(value)
        except ValueError:
            raise UserError(
                f"the option {option} of the decoder {name} cannot be {value!r}; give {_spoken(kind)}."
            ) from None
    return decoder_named(name, **options)


def _spoken(kind: type) -> str:
    return {int: "a whole number", float: "a number"}.get(kind, "a word")
