"""Evaluate the trained model of a run; the scores are kept in the run's folder.

    evaluation_scores(folder, run, evaluation)      # plain values

The weights are those of the last step: none are picked by their score on held-out mazes. They compute in the precision
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
from clew.paper.study import EvaluationSpec, RunSpec
from clew.tokenization.format import format_named
from clew.training.checkpoint import load_model

SCORES = "scores"
# Of the held-out mazes; no training mazes are ever among them, whatever their seed.
SEED = 0
KEPT_FAILURES = 8  # wrong answers in a run's folder
KEPT_SCORES = (
    *("mazes", "precision", "exact", "per_token", "valid", "shortest", "unparsable"),
    *("passes", "seconds_per_maze", "failures"),
)


def digest(value: Any) -> str:
    """Return a short name for plain values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:10]


def evaluation_scores(folder: Path, run: RunSpec, evaluation: EvaluationSpec) -> dict[str, Any]:
    """Return the scores of an evaluation, from the run's folder if they are there."""
    file = _file(folder, evaluation)
    if not is_scored(folder, evaluation):
        scores = _score(folder, run.config.data, evaluation)
        file.parent.mkdir(exist_ok=True)
        write_json(file, {"exam": _identity(evaluation), "scores": scores})
    found: dict[str, Any] = read_json(file)["scores"]
    return found | {"examples": found["examples"][: evaluation.failures]}


def is_scored(folder: Path, evaluation: EvaluationSpec) -> bool:
    """Return whether the scores are in the run's folder; those of versions before 0.2 lack keys."""
    file = _file(folder, evaluation)
    return file.exists() and {"missed", "precision"} <= read_json(file)["scores"].keys()


def _identity(evaluation: EvaluationSpec) -> Any:
    """Return all that the scores depend on; a few wrong answers are kept, however many are wanted."""
    return to_plain(replace(evaluation, name="", failures=0))


def _file(folder: Path, evaluation: EvaluationSpec) -> Path:
    return folder / SCORES / f"{digest(_identity(evaluation))}.json"


def _score(folder: Path, data: DataConfig, spec: EvaluationSpec) -> dict[str, Any]:
    model, config = load_model(folder, "last")
    if torch.cuda.is_available():
        model.to("cuda")
    tasks, seed = evaluation_tasks(data, spec)
    evaluation = evaluate_tasks(
        model,
        Codec.of(data.format, *data.shapes[-1]),
        tasks,
        parse_decoder(spec.decoder),
        precision=config.precision,
        decoder_name=spec.decoder,
        seed=seed,
        split=spec.split,
    )
    scores = evaluation.to_json()
    missed = [number for number, outcome in enumerate(evaluation.outcomes) if not outcome.exact]
    kept = {name: scores[name] for name in KEPT_SCORES}
    return kept | {"missed": missed, "examples": failure_examples(evaluation, KEPT_FAILURES)}


def evaluation_tasks(data: DataConfig, spec: EvaluationSpec) -> tuple[Sequence[TaskBatch], int]:
    """Return the mazes of an evaluation, and the seed that orders their texts."""
    if spec.split == "train":
        return [training_mazes(data, spec.mazes)], data.seed
    height, width = (spec.size, spec.size) if spec.size else data.shapes[-1]
    tasks = held_out(
        data.family,
        height,
        width,
        count=spec.mazes,
        seed=SEED,
        embedded_in=spec.embedded_in,
        embedding=spec.embedding,
        draws=held_out_draws(data.family, data.dataset_folder if data.source == "dataset" else None),
    )
    return tasks, SEED


def training_mazes(data: DataConfig, count: int) -> TaskBatch:
    """Return the first mazes of a run's training set."""
    assert data.mazes is not None, "a stream has no training set"
    return open_matching(data).split("train").slice(0, min(count, data.mazes))


def failure_examples(evaluation: Evaluation, count: int) -> list[dict[str, Any]]:
    """Return wrong answers that can be drawn, of as many classes as there are, each with its maze as text."""
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
