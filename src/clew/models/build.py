"""Build, count, save and load models by the name of their kind.

    config = sized_config("encoder-decoder", "8m", vocabulary=128)
    model = build_model(config, seed=0)
    write_json("model.json", to_json(config));  config = from_json(read_json("model.json"))

`clew.register("model", KIND)` adds a kind from outside the package: an nn.Module made from an instance of its `Config`,
a frozen dataclass, with a forward pass as described in clew.models.config.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from clew.data.batch import Batch
from clew.errors import UserError
from clew.files import from_plain, to_plain
from clew.models.cell_network import CellNetwork, CellNetworkConfig
from clew.models.config import SIZES, DecoderOnlyConfig, EncoderDecoderConfig
from clew.models.transformers import DecoderOnly, EncoderDecoder
from clew.registry import registered, registered_names, unknown_component

Json: TypeAlias = dict[str, Any]


class ModelConfig(Protocol):
    """A config of any kind."""

    def __hash__(self) -> int: ...


KINDS: dict[str, tuple[type[Any], type[nn.Module]]] = {
    "encoder-decoder": (EncoderDecoderConfig, EncoderDecoder),
    "decoder-only": (DecoderOnlyConfig, DecoderOnly),
    "cell-network": (CellNetworkConfig, CellNetwork),
}


def config_class(kind: str) -> type[Any]:
    """Return the dataclass of a kind's configs."""
    return _find_kind(kind)[0]


def change_kind(plain: Json, kind: str) -> Json:
    """Return the fields of another kind of model: those that both have as they are, the rest at defaults or null."""
    made = config_class(kind)
    names = [field.name for field in dataclasses.fields(made)]
    return {"kind": kind} | {name: plain.get(name, to_plain(getattr(made, name, None))) for name in names}


def _find_kind(kind: object) -> tuple[type[Any], type[nn.Module]]:
    """Return the config class and the network of a kind, built in or registered."""
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind]
    network = registered("model", kind) if isinstance(kind, str) else None
    if network is None:
        raise unknown_component("model", str(kind), KINDS)
    if not dataclasses.is_dataclass(getattr(network, "Config", None)):
        raise UserError(f"the model {kind!r} has no dataclass `Config`; add it to the class that is registered.")
    return network.Config, network


def kind_of(config: ModelConfig) -> str:
    """Return the name of a config's kind."""
    for kind in (*KINDS, *registered_names("model")):
        if _find_kind(kind)[0] is type(config):
            return kind
    raise UserError(f"{type(config).__name__} is the config of no built-in or registered model.")


def build_model(config: ModelConfig, seed: int) -> nn.Module:
    """Return a new model on the CPU; the same config and seed give the same weights. Other random state is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return _find_kind(kind_of(config))[1](config)


def sized_config(kind: str, size: str, vocabulary: int, **changes: Any) -> EncoderDecoderConfig | DecoderOnlyConfig:
    """Return the config of a text model of one of the paper's sizes (`3m`, `8m`, `25m`) or `tiny`, with changes."""
    if size not in SIZES:
        raise UserError(f"there is no size '{size}'; choose one of {', '.join(SIZES)}.")
    width, heads, depth = SIZES[size]
    fields: Json = {"kind": kind, "vocabulary": vocabulary, "width": width, "heads": heads}
    if kind == "encoder-decoder":
        fields |= {"encoder_depth": depth // 2, "decoder_depth": depth // 2}
    elif kind == "decoder-only":
        fields |= {"depth": depth}
    else:
        raise UserError(f"the size '{size}' is for encoder-decoder and decoder-only models, not for '{kind}'.")
    config = from_json(fields | changes)
    assert isinstance(config, EncoderDecoderConfig | DecoderOnlyConfig)
    return config


def count_parameters(model: nn.Module) -> int:
    """Return the number of trained values; a tied weight counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def training_flops(config: ModelConfig, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> float:
    """Return the floating-point operations of the matrix products of one forward and backward pass over a batch.

    Counts what the targets need, whichever implementation computes it, so that wasted work shows as a lower share of
    the machine's peak. The backward pass costs twice the forward pass. 0 for a model without `forward_flops`.
    """
    forward_flops = getattr(config, "forward_flops", None)
    return 3 * float(forward_flops(batch, order_BT, query_BT)) if forward_flops else 0.0


def to_json(config: ModelConfig) -> Json:
    """Return a config as JSON values, its kind first."""
    plain: Json = {"kind": kind_of(config)} | to_plain(config)
    return plain


def from_json(value: Any) -> ModelConfig:
    """Return the config that `to_json` wrote; UserError if a field is missing, unknown or of the wrong type."""
    if not isinstance(value, dict) or "kind" not in value:
        raise UserError(f"the model's config names no kind; it must have a kind, one of {', '.join(KINDS)}.")
    given = {name: field for name, field in value.items() if name != "kind"}
    if value["kind"] in ("encoder-decoder", "decoder-only") and "start" in given:
        given["init"] = given.pop("start")  # the name before version 0.2
    config: ModelConfig = from_plain(_find_kind(value["kind"])[0], given, f"the {value['kind']} model")
    return config
