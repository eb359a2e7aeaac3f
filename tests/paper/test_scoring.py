"""Wrong answers are kept with the scores, of as many classes as there are, and can be drawn from the file alone."""

from __future__ import annotations

import json

import pytest

from clew.evaluation.scores import Evaluation, Outcome
from clew.mazes.generate import generate
from clew.mazes.maze import Path
from clew.paper.results import Result, gallery
from clew.paper.runner import failure_examples


def evaluation(family: str, wrong: list[Path | None]) -> Evaluation:
    """Mazes with some predictions; the rest is right."""
    tasks = generate(family, 5, 5, seed=0, first=0, count=len(wrong), split="test")
    outcomes = []
    for i, predicted in enumerate(wrong):
        task, path = tasks[i]
        outcomes.append(Outcome(task, path, path if predicted == [] else predicted, None, [], len(path) + 1, 1))
    return Evaluation("model", "left-to-right", tuple(outcomes), 1.0)


@pytest.mark.parametrize("family", ["dfs", "astar"])
def test_what_is_kept_is_what_is_drawn(family: str) -> None:
    jump: Path = [(0, 0), (4, 4)]
    found = evaluation(family, [[], jump, None, jump])
    kept = failure_examples(found, 8)
    assert len(kept) == 2  # neither the right answer nor the one that says no path
    run = {"labels": {"objective": "a"}, "seed": 0, "exams": {"held-out": {"examples": json.loads(json.dumps(kept))}}}
    result = Result({"scale": "laptop", "runs": [run], "measured": {}})
    (task, path, predicted, title), _ = gallery(result.arm(objective="a"), 8, "DFS: ")
    assert (task, path, predicted) == (found.outcomes[1].task, found.outcomes[1].path, jump)
    assert title == "DFS: diagonal or gap"
    assert len(gallery(result.arm(objective="a"), 1)) == 1


def test_every_class_comes_before_a_second_of_any() -> None:
    gap: Path = [(0, 0), (4, 4)]
    tasks = generate("dfs", 5, 5, seed=0, first=0, count=4, split="test")
    stopped = tasks[3][1][:-1]  # short of the goal
    kept = failure_examples(evaluation("dfs", [gap, gap, gap, stopped]), 3)
    assert [each["class"] for each in kept] == ["diagonal or gap", "short of the goal", "diagonal or gap"]
