"""Wrong answers that were kept with the scores, ready to be drawn.

drawn_examples(result, "held-out", 4, objective="MLM-U")      # (task, path, predicted, title) for clew.viz
"""

from __future__ import annotations

from clew.paper.result import Result
from clew.tokenization.read import tasks_in_text
from clew.viz.drawing import Picture


def drawn_examples(result: Result, exam: str, count: int, title: str = "", **labels: str) -> list[Picture]:
    """The first examples of the runs with these labels, titled with their class of failure."""
    found: list[Picture] = []
    for scores in result.scores(exam, **labels):
        for example in scores["examples"][: count - len(found)]:
            (parsed,) = tasks_in_text(example["maze"])
            predicted = [(int(row), int(col)) for row, col in example["predicted"]]
            found.append((parsed.task, parsed.path, predicted, f"{title}{example['class']}"))
    return found
