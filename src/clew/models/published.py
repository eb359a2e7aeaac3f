"""Weights that carry the published implementation's names, and our names for them.

    model = load_published("mlmu.safetensors", heads=4)      # an EncoderDecoder
    save_file(to_published(model), "back.safetensors")

The published MLM-U encoder-decoder calls its parts `enc.layers.N.attn.c_attn` (queries, keys and values stacked),
`dec.layers.N.attn.c_attn` (queries), `dec.layers.N.attn.c_attn_mem` (keys and values of the memory), `wpe` (the
decoder's one input vector) and `lm_head` (the embedding too). All names may begin with `w.`; tensors beside them that
do not are then ignored. Sizes are read from the shapes. The number of heads is in no shape: it is given, or a JSON file
of the same name beside the weights says it (see Beside).

Only safetensors files are read: a pickled checkpoint can run any code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from clew.errors import UserError
from clew.files import read_json
from clew.models.build import build_model
from clew.models.config import EncoderDecoderConfig
from clew.models.encoder_decoder import EncoderDecoder

DEFAULT_HEADS = 4
PREFIX = "w."


@dataclass(frozen=True)
class Beside:
    """What a JSON file beside the weights may say, here or under `config`, that the weights do not."""

    heads: int = DEFAULT_HEADS
    grid: int | None = None  # rows and columns of the mazes
    vocab: list[str] | None = None  # the tokens in the order of their ids


# Ours, then theirs; each stands for a weight and a bias.
_BLOCK = {
    "attention_norm": "ln_1",
    "attention_out": "attn.c_proj",
    "feed_forward_norm": "ln_2",
    "feed_forward.up": "mlp.c_fc",
    "feed_forward.down": "mlp.c_proj",
}
_ENCODER_BLOCK = _BLOCK | {"query_key_value": "attn.c_attn"}
_DECODER_BLOCK = _BLOCK | {"query": "attn.c_attn", "memory_key_value": "attn.c_attn_mem"}


def load_published(path: Path | str, heads: int | None = None) -> EncoderDecoder:
    """The model in a safetensors file with published names; UserError if it is not one, whole and of one piece."""
    tensors = without_prefix(read_tensors(Path(path)))
    config = infer_config(tensors, heads if heads is not None else read_beside(Path(path)).heads)
    model = build_model(config, seed=0)
    assert isinstance(model, EncoderDecoder)
    model.load_state_dict(from_published(tensors, model))
    return model


def read_tensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a safetensors file, on the CPU."""
    if not path.is_file():
        raise UserError(f"there is no file {path}; give the path of a safetensors file.")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(
            f"{path} cannot be read as safetensors ({error}); it may be cut off or of another kind, such as a pickled "
            "checkpoint, which is never read: save its weights with safetensors.torch.save_file first."
        ) from None


def without_prefix(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with `w.`, without it; if there are none, all of them."""
    prefixed = {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items() if name.startswith(PREFIX)}
    return prefixed or dict(tensors)


def infer_config(tensors: Mapping[str, Tensor], heads: int) -> EncoderDecoderConfig:
    """The sizes that the names and shapes tell; UserError if these are no weights of the published encoder-decoder."""
    depths = {}
    for stack in ("enc", "dec"):
        numbers = {int(found[1]) for name in tensors if (found := re.match(rf"{stack}\.layers\.(\d{{1,6}})\.", name))}
        depths[stack] = max(numbers, default=-1) + 1
    embedding = tensors.get("lm_head.weight")
    if embedding is None or not all(depths.values()):
        raise UserError(
            "these weights do not have the names of the published MLM-U encoder-decoder (enc.layers.N..., "
            "dec.layers.N..., lm_head.weight), the only published model whose names are known; rename them first."
        )
    if embedding.dim() != 2:
        raise UserError(f"lm_head.weight has the shape {list(embedding.shape)}, but it must be vocabulary by width.")
    vocabulary, width = embedding.shape
    # A stack cannot have more blocks than there are tensors; a made-up number would build a giant.
    if max(depths.values()) > len(tensors):
        raise UserError("some blocks of these weights are missing; get the whole file.")
    return EncoderDecoderConfig(vocabulary, width, heads, encoder_depth=depths["enc"], decoder_depth=depths["dec"])


def read_beside(path: Path) -> Beside:
    """What the JSON file of the same name beside the weights says."""
    beside = path.with_suffix(".json")
    if not beside.is_file():
        return Beside()
    told: Any = read_json(beside)
    told = told if isinstance(told, dict) else {}
    config = told.get("config") if isinstance(told.get("config"), dict) else told

    def number(name: str) -> int | None:
        value = config.get(name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise UserError(f"{beside} says {name} {value!r}, but that must be a whole number; correct it.")
        return value

    tokens = told.get("vocab")
    if tokens is not None and not (isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)):
        raise UserError(f"the vocab of {beside} must be a list of words; correct it, or remove it.")
    return Beside(number("heads") or DEFAULT_HEADS, number("grid"), tokens)


def from_published(tensors: Mapping[str, Tensor], model: EncoderDecoder) -> dict[str, Tensor]:
    """Our names for the published tensors, checked against the shapes of `model`."""
    names = published_names(model.config)
    ours = model.state_dict()
    missing, unknown = sorted(set(names.values()) - set(tensors)), sorted(set(tensors) - set(names.values()))
    if missing:
        raise UserError(f"the weights lack {missing[0]} ({len(missing)} missing in all); get the whole file.")
    if unknown:
        raise UserError(f"the weights have {unknown[0]}, which the published encoder-decoder does not; remove it.")
    state = {}
    for name, theirs in names.items():
        tensor = tensors[theirs]
        shape = (1, *ours[name].shape) if name == "query" else tuple(ours[name].shape)
        if tuple(tensor.shape) != shape:
            raise UserError(
                f"{theirs} has the shape {list(tensor.shape)}, but the rest of the weights needs {list(shape)}; "
                "these are not the weights of one model."
            )
        if not tensor.is_floating_point():
            raise UserError(f"{theirs} holds {tensor.dtype}, not floating-point numbers; save the weights as float32.")
        if not bool(torch.isfinite(tensor).all()):
            raise UserError(f"{theirs} holds numbers that are not finite; get weights from an earlier checkpoint.")
        state[name] = tensor.float().view_as(ours[name])
    return state


def to_published(model: EncoderDecoder) -> dict[str, Tensor]:
    """The weights of `model` under the published names, without a prefix."""
    if model.config.positions not in ("rope-fp32", "rope-fp16"):
        raise UserError(
            f"the published model has RoPE, so weights with {model.config.positions} positions do not fit it."
        )
    state = model.state_dict()
    names = published_names(model.config)
    return {theirs: state[ours].view(1, -1) if ours == "query" else state[ours] for ours, theirs in names.items()}


def published_names(config: EncoderDecoderConfig) -> dict[str, str]:
    """Our parameters' names, and the published ones."""
    pairs = {"encoder_norm": "enc.ln_f", "decoder_norm": "dec.ln_f"}
    for number in range(config.encoder_depth):
        pairs |= {
            f"encoder.{number}.{ours}": f"enc.layers.{number}.{theirs}" for ours, theirs in _ENCODER_BLOCK.items()
        }
    for number in range(config.decoder_depth):
        pairs |= {
            f"decoder.{number}.{ours}": f"dec.layers.{number}.{theirs}" for ours, theirs in _DECODER_BLOCK.items()
        }
    names = {f"{ours}.{part}": f"{theirs}.{part}" for ours, theirs in pairs.items() for part in ("weight", "bias")}
    return names | {"embedding.weight": "lm_head.weight", "head_bias": "lm_head.bias", "query": "wpe.weight"}
