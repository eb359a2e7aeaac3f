"""Models with known responses, and small random ones, for the tests of decoding.

Shape suffixes: B mazes, T positions, Q queried positions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from clew.data.batch import Batch
from clew.decoding.codec import Codec, Decoder, Step
from clew.decoding.decode import decode
from clew.mazes.generate import generate
from clew.mazes.maze import TaskBatch
from clew.models.build import build_model
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig

FORMS = {"edge-list": "dfs", "wall-list": "astar", "grid": "dfs"}


def tasks_for(form: str, count: int = 6, side: int = 5, seed: int = 0) -> TaskBatch:
    return generate(FORMS[form], side, side, seed=seed, first=0, count=count, split="test", workers=1)


class Oracle:
    """Predicts the true responses with these confidences, and nonsense after the end token.

    It counts its passes and the positions that were queried.
    """

    def __init__(self, codec: Codec, tasks: TaskBatch, sure: float = 6.0, seed: int = 0) -> None:
        self.truth_BR, self.length_B = codec.truth(tasks)
        self.first_B = codec.decoding_state(tasks).first_B
        assert codec.vocabulary is not None
        self.vocabulary = codec.vocabulary.size
        generator = torch.Generator().manual_seed(seed)
        # How sure it is of each position, all different so that an order by certainty is a random one.
        self.sure_BR = sure + torch.rand(self.truth_BR.shape[0], 1000, generator=generator)
        self.passes = 0
        self.queried: list[int] = []  # number of positions in each pass

    def __call__(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        self.passes += 1
        row, column = query_BT.nonzero(as_tuple=True)
        self.queried.append(len(row))
        maze = batch.index_B[row]
        position = column - self.first_B[maze]
        assert bool((position >= 0).all()), "the prompt is never queried"
        nonsense = 3  # not the end
        inside = position < self.length_B[maze]
        token = torch.where(inside, self.truth_BR[maze, position.clamp(max=self.truth_BR.shape[1] - 1)], nonsense)
        return torch.zeros(len(row), self.vocabulary).scatter(1, token[:, None], self.sure_BR[maze, position][:, None])


def random_models(codec: Codec) -> dict[str, torch.nn.Module]:
    """Every kind of text model, with random weights large enough to disagree."""
    assert codec.vocabulary is not None
    size = codec.vocabulary.size
    two = {"width": 16, "heads": 2}
    configs = {
        "encoder-decoder": EncoderDecoderConfig(size, **two, encoder_depth=2, decoder_depth=2),
        "causal": EncoderDecoderConfig(size, **two, encoder_depth=1, decoder_depth=1, causal=True),
        "published-causal": EncoderDecoderConfig(
            size, **two, encoder_depth=1, decoder_depth=1, causal=True, attend_self=False
        ),
        "decoder-only": DecoderOnlyConfig(size, **two, depth=2),
        "published-decoder-only": DecoderOnlyConfig(
            size, **two, positions="learned", max_length=128, activation="relu", head_bias=False, depth=2, bos_id=7
        ),
    }
    return {name: perturbed(build_model(config, seed=0)) for name, config in configs.items()}


def steps_of(model, codec: Codec, tasks: TaskBatch, decoder: Decoder) -> list[Step]:
    """Return every step of decoding these tasks."""
    steps: list[Step] = []
    decode(model, codec.decoding_state(tasks), decoder, on_step=steps.append)
    return steps


def perturbed(model):
    """Return the model with weights so large that responses differ from maze to maze and from step to step."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name != "head_bias":  # it would outweigh the input
                parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    return model


class WithEnds(torch.nn.Module):
    """A model with a larger logit of the end token, so that responses of a random model differ in length."""

    def __init__(self, model: torch.nn.Module, end: int, bonus: float) -> None:
        super().__init__()
        self.model, self.end, self.bonus = model, end, bonus

    def forward(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        logits = self.model(batch, order_BT, query_BT)
        logits[:, self.end] += self.bonus
        return logits
