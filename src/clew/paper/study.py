"""What a study is: the question, the trainings, what is asked of the trained models, and how the answer is told.

    study = STUDIES["accuracy-by-size"]                  # clew.paper.catalogue
    study.runs("laptop")                                 # the trainings, of one seed
    study.show(result), study.findings(result)           # from the numbers of results/NAME/SCALE.json alone

A study knows nothing of folders and clocks; clew.paper.runner does. Two studies that ask for the same
training share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from clew.evaluation.tasks import Embedding
from clew.paper.result import Result
from clew.training.config import TrainConfig
from clew.viz.charts import Panel
from clew.viz.drawing import Picture

Scale = Literal["smoke", "laptop", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)
HELD_OUT = "held-out"


@dataclass(frozen=True)
class Exam:
    """Mazes that a trained model solves, and by which decoder."""

    name: str = HELD_OUT
    mazes: int = 1000
    size: int | None = None  # rows and columns; None for those of the training
    embedded_in: int | None = None  # put into the corner of a random maze of this size
    embedding: Embedding = "joined"
    decoder: str = "left-to-right"
    split: Literal["test", "train"] = "test"  # train: the first mazes of the training set, in their own texts
    failures: int = 0  # how many wrong answers are kept, to be drawn


@dataclass(frozen=True)
class Run:
    """One training and its exams; the labels say what it is in the words of the tables."""

    labels: dict[str, str]
    config: TrainConfig
    exams: tuple[Exam, ...] = (Exam(),)
    # Mazes of the training set that are scored beside the held-out ones whenever the run is evaluated.
    train_mazes: int = 0
    seeds: int | None = None  # at most so many of the user's --seeds, for a run that takes long

    def seeded(self, seed: int) -> Run:
        """The same run with other chance; a stream has other mazes too, a dataset's come in another order."""
        data = self.config.data
        if data.source == "stream":
            data = replace(data, seed=seed)
        return replace(self, config=replace(self.config, data=data, seed=seed))


@dataclass(frozen=True)
class Table:
    """Rows of words; the first row is the head."""

    title: str
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Show:
    """What a reader sees: tables, charts and drawn mazes."""

    tables: Sequence[Table]
    panels: Sequence[Panel] = ()
    galleries: Sequence[Sequence[Picture]] = ()  # drawn mazes, each gallery on rows of its own


Verdict = Literal["reproduced", "contradicted", "inconclusive"]  # clew.paper.verdict says when


@dataclass(frozen=True)
class Claim:
    """A claim that a study tests on one task."""

    text: str
    paper: str  # what the paper measured
    task: str  # such as "DFS 4x4"
    main: str = ""  # the key of the paper's main claim that this is evidence for: clew.paper.claims


@dataclass(frozen=True)
class Finding:
    """A claim with its verdict, the numbers behind it in words, and the runs that it rests on."""

    claim: Claim
    verdict: Verdict
    ours: str  # empty if a run did not converge
    because: str
    runs: tuple[str, ...] = ()  # by clew.paper.result.run_name
    not_converged: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """A table or figure of the paper, or a question of our own."""

    name: str
    title: str
    source: str  # where it stands in the paper
    question: str
    paper: str  # what the paper found, in one sentence
    show: Callable[[Result], Show]
    findings: Callable[[Result], list[Finding]]
    # The trainings of one seed; smoke is made from laptop (clew.paper.shrink).
    runs: Callable[[Literal["laptop", "paper"]], list[Run]] = lambda scale: []
    # What can be measured without training, as plain values.
    measure: Callable[[Scale], dict[str, Any]] | None = None
    seeds: int = 1  # unless the user says so; the smoke scale does one
    notes: Sequence[str] = field(default_factory=tuple)  # what differs from the paper, said on the page
