"""The cell network against the paper's models on text: MLM-U and next token on both, the same minutes for all."""

from __future__ import annotations

from dataclasses import replace

from clew.objectives.config import ObjectiveConfig, ObjectiveName
from clew.paper.cell_configs import SMALL_SIZES, cells
from clew.paper.configs import paper
from clew.paper.recipes import MLMU, NEXT, OBJECTIVES, RunScale, laptop_text, scheduled, square
from clew.paper.result import Result
from clew.paper.study import Claim, Exam, Finding, Run, Show, Study
from clew.paper.tell import EXACT, bars, parameter_table, pivot
from clew.paper.verdict import Side, verdict
from clew.training.config import Budget, TrainConfig

TEXT = {f"{objective} on text": objective for objective in OBJECTIVES}
CELLS = {f"{objective} on cells": objective for objective in OBJECTIVES}
SIZES = {"laptop": (5, 10), "paper": (10, 20)}
MINUTES = {"laptop": 2.0, "paper": 24 * 60.0}  # of one core, of one GPU
# Steps that a cell network takes in that time, about: sizes grow over the first 40 %.
STEPS_A_MINUTE = {"laptop": 300, "paper": 2000}
# An untrained text model generates tokens up to the largest length, and each takes a pass over the whole text.
MAZES = {"laptop": 200, "paper": 2000}
# One cell a pass, from the start: what left to right is on text.
LEFT_TO_RIGHT = "walk:ask=cell"


def runs(scale: RunScale) -> list[Run]:
    found = []
    for size in SIZES[scale]:
        for name, objective in TEXT.items():
            labels = {"model": name, "size": square(size)}
            config = text_config(scale, objective, size, MINUTES[scale])
            found.append(Run(labels, config, (Exam(mazes=MAZES[scale]),)))
        for name, objective in CELLS.items():
            labels = {"model": name, "size": square(size)}
            config = cell_config(scale, OBJECTIVES[objective], size, MINUTES[scale])
            found.append(Run(labels, config, (Exam(mazes=MAZES[scale], decoder=LEFT_TO_RIGHT),)))
    return found


def text_config(scale: RunScale, objective: str, size: int, minutes: float) -> TrainConfig:
    """The laptop's, or the paper's, model and recipe on text for so many minutes."""
    if scale == "laptop":
        return laptop_text(objective, size, minutes=minutes)
    return replace(paper("dfs", size, OBJECTIVES[objective]), budget=Budget(minutes=minutes))


def cell_config(scale: RunScale, objective: ObjectiveName, size: int, minutes: float) -> TrainConfig:
    """The cell network on DFS mazes of up to this size for so many minutes."""
    sizes = (*(smaller for smaller in SMALL_SIZES if smaller < size), size)
    config = cells("dfs", sizes, steps=round(STEPS_A_MINUTE[scale] * minutes))
    if objective == "next-token":
        config = replace(config, objective=ObjectiveConfig(objective))
    else:
        config = replace(config, objective=replace(config.objective, name=objective))
    return scheduled(config, minutes=minutes) if scale == "laptop" else replace(config, budget=Budget(minutes=minutes))


def show(result: Result) -> Show:
    tables = [pivot(result, EXACT, "model", "size"), parameter_table(result, "model", "size")]
    return Show(tables, [bars(result, "held-out mazes after the same minutes", "size", "model")])


def findings(result: Result) -> list[Finding]:
    found = []
    for size in result.values("size"):
        sides = {name: Side(name, result.entries(model=name, size=size)) for name in (*TEXT, *CELLS)}
        ours, task = sides[f"{MLMU} on cells"], f"DFS {size}"
        for name in TEXT:
            text = f"in the same minutes the cell network solves more than {name}"
            found.append(verdict(Claim(text, "not measured", task), ours, sides[name]))
        text = "on cells too, MLM-U beats next token"
        found.append(verdict(Claim(text, "not measured", task), ours, sides[f"{NEXT} on cells"]))
    return found


STUDY = Study(
    name="cells",
    title="The cell network against the paper's models",
    source="ours",
    question="What does a network that labels cells reach in the minutes of a text model?",
    paper="Nothing: its models read text only.",
    runs=runs,
    show=show,
    findings=findings,
    notes=(
        "Every training has the same minutes. Text models are decoded from left to right, cell networks one cell a "
        "pass from the start.",
    ),
)
