"""Build models, and count their parameters and operations.

model = build_model(sized_config("encoder-decoder", "8m", vocabulary=128), seed=0)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from clew.data.batch import Batch
from clew.models.cell_network import CellNetwork
from clew.models.config import ModelConfig, kind_of
from clew.models.transformers import DecoderOnly, EncoderDecoder
from clew.registry import registered

NETWORKS: dict[str, type[nn.Module]] = {
    "encoder-decoder": EncoderDecoder,
    "decoder-only": DecoderOnly,
    "cell-network": CellNetwork,
}


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

    Counts what the targets need, whichever implementation computes it, so that wasted work shows as a lower share of
    the machine's peak. The backward pass costs twice the forward pass. 0 for a model without `forward_flops`.
    """
    forward_flops = getattr(config, "forward_flops", None)
    return 3 * float(forward_flops(batch, order_BT, query_BT)) if forward_flops else 0.0
