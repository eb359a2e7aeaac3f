"""Make, count, save and load models by the name of their kind.

    config = sized_config("encoder-decoder", "8m", vocabulary=128)
    model = build_model(config, seed=0)
    write_json("model.json", to_json(config));  config = from_json(read_json("model.json"))

To add a kind of model, write its config and its network, and name both in KINDS. A config is a frozen dataclass of
plain values with a method `forward_flops(batch, order_BT, query_BT)`; a network is a clew.models.config.Model made
from its config, which draws its first weights from torch's global generator (`build_model` seeds it).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from clew.data.batch import Batch
from clew.errors import UserError
from clew.files import from_plain, to_plain
from clew.models.cell_network import CellNetwork, CellNetworkConfig
from clew.models.config import SIZES, DecoderOnlyConfig, EncoderDecoderConfig
from clew.models.decoder_only import DecoderOnly
from clew.models.encoder_decoder import EncoderDecoder


class ModelConfig(Protocol):
    """Any kind's config."""

    def __hash__(self) -> int: ...

    def forward_flops(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> float: ...


@dataclass(frozen=True)
class Kind:
    """A kind of model: its config, and the network that is made from one."""

    config: type[Any]
    model: type[nn.Module]


KINDS = {
    "encoder-decoder": Kind(EncoderDecoderConfig, EncoderDecoder),
    "decoder-only": Kind(DecoderOnlyConfig, DecoderOnly),
    "cell-network": Kind(CellNetworkConfig, CellNetwork),
}

Json: TypeAlias = dict[str, Any]


def kind_of(config: ModelConfig) -> str:
    """The name of a config's kind."""
    return next(name for name, kind in KINDS.items() if kind.config is type(config))


def build_model(config: ModelConfig, seed: int) -> nn.Module:
    """A fresh model on the CPU. The same config and seed give the same weights; no other random state is touched."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return KINDS[kind_of(config)].model(config)


def sized_config(kind: str, size: str, vocabulary: int, **changes: Any) -> EncoderDecoderConfig | DecoderOnlyConfig:
    """A text model of one of the paper's sizes (`3m`, `8m`, `25m`) or `tiny`, with some fields changed."""
    if size not in SIZES:
        raise UserError(f"there is no size '{size}'; choose one of {', '.join(SIZES)}.")
    width, heads, depth = dataclasses.astuple(SIZES[size])
    shape: Json
    if kind == "encoder-decoder":
        shape = {"encoder_depth": depth // 2, "decoder_depth": depth // 2}
    elif kind == "decoder-only":
        shape = {"depth": depth}
    else:
        raise UserError(f"the size '{size}' is for encoder-decoder and decoder-only models, not for '{kind}'.")
    fields = {"vocabulary": vocabulary, "width": width, "heads": heads} | shape | changes
    config = from_json({"kind": kind} | fields)
    assert isinstance(config, EncoderDecoderConfig | DecoderOnlyConfig)
    return config


def count_parameters(model: nn.Module) -> int:
    """How many numbers are trained; a tied weight counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def training_flops(config: ModelConfig, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> float:
    """Floating-point operations of the matrix products of one forward and backward pass over this batch.

    Counts what the targets needs, whichever form computes it, so that a form that wastes work shows a lower share of
    the machine's peak. The backward pass costs twice the forward pass.
    """
    return 3 * config.forward_flops(batch, order_BT, query_BT)


def to_json(config: ModelConfig) -> Json:
    """A config as plain JSON values, its kind first."""
    plain: Json = {"kind": kind_of(config)} | to_plain(config)
    return plain


def from_json(value: Any) -> ModelConfig:
    """The config that `to_json` wrote; UserError if a field is missing, unknown or of the wrong type."""
    if not isinstance(value, dict) or value.get("kind") not in list(KINDS):
        named = f"'{value.get('kind')}'" if isinstance(value, dict) and "kind" in value else "no kind"
        raise UserError(f"the model's config names {named}; it must have a kind, one of {', '.join(KINDS)}.")
    kind: str = value["kind"]
    given = {name: field for name, field in value.items() if name != "kind"}
    config: ModelConfig = from_plain(KINDS[kind].config, given, f"the {kind} model")
    return config
