"""Train MLM-U and next token on the same path-star graphs for the same minutes, and score both.

for score in train_pair(Path("demo/path-star"), minutes=1):
    print(score)                # MLM-U: 99.1 % (98.3 to 99.5) of 1,000 held-out graphs, 71,040 graphs in 60 s
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clew.decoding.decode import decoder_named
from clew.evaluation.evaluate import evaluate_tasks
from clew.evaluation.intervals import Proportion
from clew.evaluation.scores import Evaluation
from clew.evaluation.tasks import held_out
from clew.paper.star_configs import StarKind, star_config
from clew.trained import load
from clew.training.callbacks import Callback, RunEnd
from clew.training.config import Budget
from clew.training.train import train

KINDS: dict[str, StarKind] = {"MLM-U": "mlmu-sampler", "next token": "next"}
DECODER = "left-to-right"
# Of the graphs that are scored; those of another seed are scored in training.
SEED = 1


@dataclass(frozen=True)
class PairScore:
    """One of the two models after its training."""

    name: str
    folder: Path
    end: RunEnd
    graphs: int  # seen in training
    evaluation: Evaluation

    @property
    def exact(self) -> Proportion:
        return self.evaluation.scores.exact

    def __str__(self) -> str:
        seen = f"{self.graphs:,} graphs in {self.end.elapsed:.0f} s"
        return f"{self.name}: {self.exact} of {self.exact.count:,} held-out graphs, {seen}"


def train_pair(
    folder: Path,
    minutes: float,
    *,
    arms: int = 2,
    length: int = 4,
    graphs: int = 1000,
    threads: int | None = None,
    callbacks: Sequence[Callback] = (),
) -> Iterator[PairScore]:
    """Train both, one after the other, each in a folder of its own below `folder`, and score each when it is done."""
    for name, kind in KINDS.items():
        config = star_config(kind, arms, length)
        config = replace(config, budget=Budget(minutes=minutes), evaluate_every=200, threads=threads)
        run = folder / kind
        end = train(config, run, callbacks=callbacks).end
        trained = load(run)
        tasks = held_out(trained.family, trained.height, trained.width, count=graphs, seed=SEED)
        evaluation = evaluate_tasks(
            trained.model, trained.codec, tasks, decoder_named(DECODER), name=name, decoder_name=DECODER, seed=SEED
        )
        yield PairScore(name, run, end, end.step * config.batch_size, evaluation)
