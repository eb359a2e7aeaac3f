"""The grid-pointer and next token on cells against the paper's models on text: the same minutes for all."""

from __future__ import annotations

from dataclasses import replace

from clew.experiments.grid_presets import single_size
from clew.experiments.presets import preset
from clew.experiments.reproduce.recipes import NEXT, OBJECTIVES, SHORT, RunScale, laptop_text, scheduled, square
from clew.experiments.reproduce.result import Result
from clew.experiments.reproduce.study import Claim, Exam, Finding, Run, Show, Study
from clew.experiments.reproduce.tell import EXACT, bars, parameter_table, pivot
from clew.experiments.reproduce.verdict import Side, verdict
from clew.training.config import Budget, TrainConfig

TEXT = {f"{objective} on text": objective for objective in OBJECTIVES}
POINTER, RIVAL = "grid-pointer", "next token on cells"
SIZES = {"laptop": (5, 8), "paper": (10, 20)}
MINUTES = {"laptop": 2.0, "paper": 24 * 60.0}
# An untrained text model writes until there is no room left, and each token is a pass over the whole text.
MAZES = {"laptop": 200, "paper": 2000}


def runs(scale: RunScale) -> list[Run]:
    exam = Exam(mazes=MAZES[scale])
    found = []
    for size in SIZES[scale]:
        configs = {name: _text(scale, objective, size) for name, objective in TEXT.items()}
        configs[RIVAL], configs[POINTER] = (
            scheduled(single_size(kind, size), minutes=MINUTES[scale]) for kind in ("grid-next-token", "grid-pointer")
        )
        found += [Run({"model": name, "size": square(size)}, config, (exam,)) for name, config in configs.items()]
    return found


def _text(scale: RunScale, objective: str, size: int) -> TrainConfig:
    if scale == "laptop":
        return laptop_text(objective, size, minutes=MINUTES[scale])
    return replace(preset(f"paper-dfs-{size}-{SHORT[objective]}-8m"), budget=Budget(minutes=MINUTES[scale]))


def show(result: Result) -> Show:
    tables = [pivot(result, EXACT, "model", "size"), parameter_table(result, "model", "size")]
    return Show(tables, [bars(result, "held-out mazes after the same minutes", "size", "model")])


def findings(result: Result) -> list[Finding]:
    found = []
    for size in result.values("size"):
        sides = {name: Side(name, result.entries(model=name, size=size)) for name in (*TEXT, POINTER, RIVAL)}
        text = "in the same minutes the grid-pointer solves more than the paper's models on text"
        found += [
            verdict(Claim(text, "not measured", f"DFS {size}, {name}"), sides[POINTER], sides[name]) for name in TEXT
        ]
        text = f"on cells too, MLM-U beats {NEXT}"
        found.append(verdict(Claim(text, "not measured", f"DFS {size}"), sides[POINTER], sides[RIVAL]))
    return found


STUDY = Study(
    name="grid-pointer",
    title="The grid-pointer against the paper's models",
    source="ours",
    question="What does a model that reads cells and points at them reach in the minutes of a text model?",
    paper="Nothing: its models read text only.",
    runs=runs,
    show=show,
    findings=findings,
    notes=("Every training has the same minutes.",),
)
