"""Parameters by name, and sharded tensors made whole: what everything that is saved by name needs.

for name, parameter in named_parameters(model): ...    # the names of the bare model
whole(tensor)                                          # a DTensor's full value; collective, all ranks must call
copy_into(tensor, whole_tensor)                        # and back into the shards
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

# What DDP and torch.compile put before the names of the model that they wrap.
_WRAPPERS = {"module", "_orig_mod"}


def bare_name(name: str) -> str:
    """A parameter's name without what DDP and torch.compile add, so that checkpoints fit however a model is run."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def bare_model(model: nn.Module) -> nn.Module:
    """The model inside DDP and torch.compile."""
    while True:
        inner = next((m for name, m in model.named_children() if name in _WRAPPERS), None)
        if inner is None:
            return model
        model = inner


def named_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """The trainable parameters, each once (a tied one under its first name), under their bare names."""
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            yield bare_name(name), parameter


def whole(tensor: Tensor) -> Tensor:
    """The full value of a tensor that may be sharded. If it is, every rank must call this, in the same order."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def shard_like(full: Tensor, example: Tensor) -> Tensor:
    """`full`, which every rank holds, cut as `example` is."""
    if not isinstance(example, DTensor):
        return full
    # No source rank: every rank cuts its own copy, and nothing is sent.
    return distribute_tensor(full, example.device_mesh, example.placements, src_data_rank=None)


@torch.no_grad()
def copy_into(tensor: Tensor, full: Tensor) -> None:
    """Write the full value into a tensor that may be sharded."""
    tensor.copy_(shard_like(full.to(tensor.device, tensor.dtype), tensor))
