"""Trained models solve held-out mazes that grow, in as many seconds as there are.

    for model, size, until in turns(load_models(()), GROWING, seconds=75):
        trial = solve(model, size, seed=1, until=until)

Large mazes take longer, so there are fewer of them; and where the machine is slow, fewer again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from clew.decoding.decode import default_decoder, parse_decoder
from clew.errors import UserError
from clew.evaluation.evaluate import evaluate_tasks
from clew.evaluation.scores import Evaluation
from clew.evaluation.tasks import held_out
from clew.trained import TrainedModel, load, shipped_models
from clew.viz.demo_page import Trial

SHIPPED = ("cells-dfs", "cells-astar")


@dataclass(frozen=True)
class Size:
    """Mazes of one size: how many, and how many at once; the time is looked at after each batch."""

    side: int
    mazes: int
    batch: int


GROWING = (Size(5, 500, 250), Size(10, 500, 100), Size(15, 200, 50), Size(20, 200, 25), Size(30, 100, 5))


def load_models(names: Sequence[str]) -> list[TrainedModel]:
    """The named models, or else those that come with Clew."""
    models = [load(name) for name in names or [name for name in SHIPPED if name in shipped_models()]]
    for model in models:
        if model.codec.vocabulary is not None:
            raise UserError(
                f"{model.name} reads text of one size, so it cannot solve mazes that grow; give --weights a model "
                "that reads cells."
            )
    return models


def turns(
    models: Sequence[TrainedModel], sizes: Sequence[Size], seconds: float
) -> Iterator[tuple[TrainedModel, Size, float]]:
    """Each model with each size, and until when it may work; what a small size leaves over, the later ones share."""
    pairs = [(model, size) for model in models for size in sizes]
    end = time.perf_counter() + seconds
    for number, (model, size) in enumerate(pairs):
        now = time.perf_counter()
        yield model, size, now + (end - now) / (len(pairs) - number)


def solve(model: TrainedModel, size: Size, seed: int, until: float = float("inf")) -> Trial:
    """Solve the mazes batch by batch, one batch at least, as long as time.perf_counter() stays below `until`."""
    (tasks,) = held_out(model.family, size.side, size.side, count=size.mazes, seed=seed)
    decoder = default_decoder(model.codec)
    parts: list[Evaluation] = []
    took = 0.0
    for first in range(0, size.mazes, size.batch):
        began = time.perf_counter()
        if parts and began + took > until:  # the next batch will take as long as the last
            break
        some = tasks.select(np.arange(first, min(first + size.batch, size.mazes)))
        parts.append(evaluate_tasks(model.model, model.codec, some, parse_decoder(decoder), size.batch))
        took = time.perf_counter() - began
    outcomes = tuple(outcome for part in parts for outcome in part.outcomes)
    evaluation = Evaluation(model.name, decoder, outcomes, sum(part.seconds for part in parts))
    return Trial(model.name, model.family, size.side, evaluation)
