"""How well a trained run does in its exams, as plain values; each exam is scored once and kept in the run's folder.

    exam_scores(folder, run, exam)

The weights are those of the last step: none is picked by its score on held-out mazes. They compute in the precision
of the run's own evaluations, which the scores name. The held-out mazes are the same for all seeds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from clew.data.config import DataConfig
from clew.data.loader import held_out_draws, open_matching
from clew.decoding.codec import Codec
from clew.decoding.decode import parse_decoder
from clew.evaluation.evaluate import evaluate_tasks
from clew.evaluation.scores import Evaluation
from clew.evaluation.tasks import held_out
from clew.files import read_json, to_plain, write_json
from clew.mazes.maze import PathStar, TaskBatch
from clew.paper.study import Exam, Run
from clew.tokenization.format import format_named
from clew.training.checkpoint import load_model

SCORES = "scores"
# Which held-out mazes; no training mazes are ever among them, whatever their seed.
EXAM_SEED = 0
KEPT = 8  # wrong answers in a run's folder
KEPT_SCORES = (
    *("mazes", "precision", "exact", "per_token", "valid", "shortest", "unparsable"),
    *("passes", "seconds_per_maze", "failures"),
)


def digest(value: Any) -> str:
    """A short name for plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]


def exam_scores(folder: Path, run: Run, exam: Exam) -> dict[str, Any]:
    """The scores of an exam, from the run's folder if they are there."""
    file = _file(folder, exam)
    if not is_scored(folder, exam):
        scores = _score(folder, run.config.data, exam)
        file.parent.mkdir(exist_ok=True)
        write_json(file, {"exam": _asked(exam), "scores": scores})
    found: dict[str, Any] = read_json(file)["scores"]
    return found | {"examples": found["examples"][: exam.failures]}


def is_scored(folder: Path, exam: Exam) -> bool:
    """Whether the scores of an exam are in the run's folder; those of earlier versions lack something."""
    file = _file(folder, exam)
    return file.exists() and {"missed", "precision"} <= read_json(file)["scores"].keys()


def _asked(exam: Exam) -> Any:
    """All that the scores depend on: how many wrong answers are wanted does not, since a few are always kept."""
    return to_plain(replace(exam, name="", failures=0))


def _file(folder: Path, exam: Exam) -> Path:
    return folder / SCORES / f"{digest(_asked(exam))}.json"


def _score(folder: Path, data: DataConfig, exam: Exam) -> dict[str, Any]:
    model, config = load_model(folder, "last")
    if torch.cuda.is_available():
        model.to("cuda")
    height, width = data.shapes[-1]
    tasks, seed = exam_tasks(data, exam)
    evaluation = evaluate_tasks(
        model,
        Codec.of(data.format, height, width),
        tasks,
        parse_decoder(exam.decoder),
        precision=config.precision,
        decoder_name=exam.decoder,
        seed=seed,
        split=exam.split,
    )
    told = evaluation.to_json()
    missed = [number for number, outcome in enumerate(evaluation.outcomes) if not outcome.exact]
    return {name: told[name] for name in KEPT_SCORES} | {"missed": missed, "examples": examples(evaluation, KEPT)}


def exam_tasks(data: DataConfig, exam: Exam) -> tuple[Sequence[TaskBatch], int]:
    """The mazes of an exam, and the seed that orders their texts."""
    if exam.split == "train":
        return [training_mazes(data, exam.mazes)], data.seed
    height, width = (exam.size, exam.size) if exam.size else data.shapes[-1]
    tasks = held_out(
        data.family,
        height,
        width,
        count=exam.mazes,
        seed=EXAM_SEED,
        embedded_in=exam.embedded_in,
        embedding=exam.embedding,
        draws=held_out_draws(data.family, data.dataset_folder if data.source == "dataset" else None),
    )
    return tasks, EXAM_SEED


def training_mazes(data: DataConfig, count: int) -> TaskBatch:
    """The first mazes that a run is trained on."""
    assert data.mazes is not None, "a stream has no mazes that come again"
    return open_matching(data).split("train").slice(0, min(count, data.mazes))


def examples(evaluation: Evaluation, count: int) -> list[dict[str, Any]]:
    """Some wrong answers that can be drawn, of as many classes as there are, each with its maze as text."""
    by_class: dict[str, list[dict[str, Any]]] = {}
    for outcome in evaluation.outcomes:
        if outcome.failure is None or outcome.predicted is None:
            continue
        form = "path-star" if isinstance(outcome.task.maze, PathStar) else "grid"
        text = format_named(form).encode(outcome.task, outcome.path).text
        wrong = {"class": outcome.failure, "maze": text, "predicted": [list(cell) for cell in outcome.predicted]}
        by_class.setdefault(outcome.failure, []).append(wrong)
    taken: list[dict[str, Any]] = []
    while len(taken) < count and any(by_class.values()):
        taken += [found.pop(0) for found in by_class.values() if found][: count - len(taken)]
    return taken
