"""A moving average of the weights, which often scores better than the weights themselves.

    ema = Ema(model, decay=0.999)
    ema.update(model)                  # after each optimizer step
    with ema.swapped(model):           # evaluate with the average; the weights come back unchanged
        evaluate(model)

After n updates the average moves by

    average <- d average + (1 - d) weights;   d = min(decay, (1 + n) / (10 + n))

so that the random initial weights are forgotten early instead of lingering for 1 / (1 - decay) steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from clew.errors import UserError
from clew.training.named_tensors import copy_into, named_parameters, whole

_UPDATES = "updates"  # cannot be a parameter's name below, since those have a prefix
_AVERAGE = "average."


class Ema:
    """The average of a model's trainable parameters."""

    def __init__(self, model: nn.Module, decay: float = 0.999) -> None:
        if not 0 <= decay < 1:
            raise UserError(f"the decay of the weights' average is {decay}: use a number from 0 to just below 1.")
        self.decay = decay
        self.updates = 0
        self.average = {name: p.detach().clone() for name, p in named_parameters(model)}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the model's weights after a step."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        weights = dict(named_parameters(model))
        assert weights.keys() == self.average.keys(), "the same model at every update"
        torch._foreach_lerp_(list(self.average.values()), [weights[name] for name in self.average], 1 - decay)
        self.updates += 1

    @contextmanager
    def swapped(self, model: nn.Module) -> Iterator[None]:
        """Within, the model has the averaged weights."""
        weights = dict(named_parameters(model))
        kept = {name: p.detach().clone() for name, p in weights.items()}
        try:
            _copy_all(self.average, weights)
            yield
        finally:
            _copy_all(kept, weights)

    def state_tensors(self) -> dict[str, Tensor]:
        """The average and the number of updates; sharded ones are gathered, so every rank must call this."""
        averages = {_AVERAGE + name: whole(tensor) for name, tensor in self.average.items()}
        return {_UPDATES: torch.tensor(self.updates), **averages}

    def load_state_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Take back what `state_tensors` gave."""
        shapes = {_UPDATES: torch.Size(), **{_AVERAGE + name: t.shape for name, t in self.average.items()}}
        if shapes != {name: tensor.shape for name, tensor in tensors.items()}:
            raise UserError("the saved average of the weights is of another model: resume with the saved run's model.")
        for name, tensor in self.average.items():
            copy_into(tensor, tensors[_AVERAGE + name])
        self.updates = int(tensors[_UPDATES])


@torch.no_grad()
def _copy_all(source: dict[str, Tensor], target: dict[str, nn.Parameter]) -> None:
    for name, tensor in source.items():
        target[name].copy_(tensor)
