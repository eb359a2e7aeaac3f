"""Build and count models, and keep their weights on disk: safetensors and a model.json with checksums.

    model = build_model(sized_config("encoder-decoder", "8m", vocabulary=128), seed=0)
    write_weights(folder, {"model": to_json(config), "form": "cell-labels", ...}, model.state_dict())
    description, tensors = read_weights(folder)
    model = build_trained(from_json(description["model"]), tensors, folder / WEIGHTS_FILE)

The field `sha256` of model.json holds the SHA-256 of model.safetensors, and of model.json without that field. Folders
of versions that stored none are read unchecked. Nothing is read with pickle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from clew.data.batch import Batch
from clew.errors import UserError, machine_memory
from clew.files import atomic_write, json_checksum, read_json, write_json
from clew.models.cell_network import CellNetwork
from clew.models.config import ModelConfig, kind_of
from clew.models.transformers import DecoderOnly, EncoderDecoder
from clew.registry import registered

WEIGHTS_FILE, WEIGHTS_JSON = "model.safetensors", "model.json"
CHECKSUMS = "sha256"
NETWORKS = {"encoder-decoder": EncoderDecoder, "decoder-only": DecoderOnly, "cell-network": CellNetwork}


def build_model(config: ModelConfig, seed: int) -> nn.Module:
    """Return a new model on the CPU; the same config and seed give the same weights. Other random state is kept."""
    kind = kind_of(config)
    network: Any = NETWORKS.get(kind) or registered("model", kind)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model: nn.Module = network(config)
    return model


def count_parameters(model: nn.Module) -> int:
    """Return the number of trained values; a tied weight counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def training_flops(config: ModelConfig, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> float:
    """Return the floating-point operations of the matrix products of one forward and backward pass over a batch.

    Counts what the targets need, whichever implementation computes it. The backward pass costs twice the forward pass.
    0 for a model without `forward_flops`.
    """
    forward_flops = getattr(config, "forward_flops", None)
    return 3 * float(forward_flops(batch, order_BT, query_BT)) if forward_flops else 0.0


def write_weights(folder: Path, description: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write weights and their description, with checksums, into a folder."""
    data = safetensors.torch.save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})
    with atomic_write(folder / WEIGHTS_FILE, "wb") as file:
        file.write(data)
    checksums = {WEIGHTS_FILE: hashlib.sha256(data).hexdigest(), WEIGHTS_JSON: json_checksum(description)}
    write_json(folder / WEIGHTS_JSON, {**description, CHECKSUMS: checksums})  # last: it marks a folder of weights


def read_weights(folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return what `write_weights` wrote, without the checksums; UserError if a file is damaged."""
    where = folder / WEIGHTS_JSON
    description = read_json(where)
    if not isinstance(description, dict):
        raise UserError(f"{where} must hold a JSON object that describes a model.")
    sha256 = None
    if (checksums := description.pop(CHECKSUMS, None)) is not None:
        if not isinstance(checksums, dict) or checksums.get(WEIGHTS_JSON) != json_checksum(description):
            raise UserError(f"{where} is damaged: its SHA-256 is not the one that was stored in it; restore it.")
        sha256 = str(checksums.get(WEIGHTS_FILE))
    return description, read_tensors(folder / WEIGHTS_FILE, sha256)


def read_tensors(path: Path, sha256: str | None = None) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, whose checksum must be `sha256` if that is given."""
    try:
        data = path.read_bytes()
        if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
            raise UserError(f"{path} is damaged: its SHA-256 is not the one that was stored with it; restore it.")
        return safetensors.torch.load(data)
    except (SafetensorError, OSError) as error:
        problem = "missing" if isinstance(error, FileNotFoundError) else f"damaged ({error})"
        raise UserError(f"{path} is {problem}; restore it, or use another model or checkpoint.") from None


def build_trained(config: ModelConfig, tensors: Mapping[str, Tensor], where: Path | str) -> nn.Module:
    """Return the model with these weights, in evaluation mode.

    UserError, before memory is allocated for the model, if the weights are of another model or not finite.
    """
    check_tensors(build_without_memory(config).state_dict(), tensors, where)
    model = build_model(config, seed=0)
    model.load_state_dict(dict(tensors))
    return model.eval()


def build_without_memory(config: ModelConfig) -> nn.Module:
    """Return the model with names and shapes alone; a class from outside the package may need memory."""
    with torch.device("meta" if kind_of(config) in NETWORKS else "cpu"):
        return build_model(config, seed=0)


def check_tensors(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], where: Path | str) -> None:
    """Raise UserError unless the tensors have the names and shapes of a model's own, and finite numbers."""
    if odd := sorted(own.keys() ^ tensors.keys()):
        found = "lacks" if odd[0] in own else "has, beyond the model's,"
        raise UserError(f"{where} {found} {odd[0]!r}: it belongs to another model; use it with its own config.")
    for name, tensor in tensors.items():
        if own[name].shape != tensor.shape or own[name].is_floating_point() != tensor.is_floating_point():
            raise UserError(
                f"{where} holds {name!r} of shape {list(tensor.shape)} ({tensor.dtype}), but the model needs "
                f"{list(own[name].shape)} ({own[name].dtype}); use it with its own config."
            )
        if tensor.layout is not torch.strided or tensor.is_meta or not bool(torch.isfinite(tensor).all()):
            raise UserError(f"{where} holds numbers in {name!r} that are not finite; restore it, or train anew.")


def check_memory(config: ModelConfig) -> None:
    """Raise UserError if training a model takes more memory than this machine has."""
    # Bytes of a value, its gradient and AdamW's two averages.
    if 16 * count_parameters(build_without_memory(config)) > machine_memory():
        raise UserError(
            "the model is too large to be trained here: with its optimizer it takes more than the "
            f"{machine_memory() / 1e9:,.0f} GB of memory of this machine; use a smaller --model.width or depth."
        )
