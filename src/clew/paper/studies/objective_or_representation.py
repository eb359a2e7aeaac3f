"""Objectives on one network: MLM-U, next token and ordered masks on the cell network, beside the paper's text models.

The network, its input, the mazes and the minutes are the same for all objectives on cells; only the labels that are
hidden and predicted differ.
"""

from __future__ import annotations

from clew.objectives.config import ObjectiveName
from clew.paper.recipes import MLMU, NEXT, OBJECTIVES, RunScale, square
from clew.paper.result import Result
from clew.paper.studies.cells import LEFT_TO_RIGHT, cell_config, text_config
from clew.paper.study import Claim, Exam, Finding, Run, Show, Study
from clew.paper.tell import EXACT, bars, parameter_table, pivot
from clew.paper.verdict import Side, verdict

TEXT, CELLS = "text", "cells"
ORDERED = "ordered masks"
ON_CELLS: dict[str, ObjectiveName] = {**OBJECTIVES, ORDERED: "ordered"}
SIZES = {"laptop": (4, 6, 8), "paper": (5, 10, 20)}
MINUTES = {"laptop": 2.0, "paper": 24 * 60.0}  # of one core, of one GPU
MAZES = {"laptop": 500, "paper": 2000}
ONE_PASS = "one pass"


def runs(scale: RunScale) -> list[Run]:
    minutes, mazes = MINUTES[scale], MAZES[scale]
    cell_exams = (Exam(mazes=mazes, decoder=LEFT_TO_RIGHT), Exam(ONE_PASS, mazes=mazes, decoder="one-pass"))
    found = []
    for size in SIZES[scale]:
        for name in OBJECTIVES:
            labels = {"objective": name, "representation": TEXT, "size": square(size)}
            found.append(Run(labels, text_config(scale, name, size, minutes), (Exam(mazes=mazes),)))
        for name, objective in ON_CELLS.items():
            labels = {"objective": name, "representation": CELLS, "size": square(size)}
            found.append(Run(labels, cell_config(scale, objective, size, minutes), cell_exams))
    return found


def show(result: Result) -> Show:
    sizes = result.values("size")
    tables = [pivot(result, f"{EXACT}, {size}", "objective", "representation", size=size) for size in sizes]
    tables.append(
        pivot(result, f"{EXACT}, all labels of one pass", "objective", "size", exam=ONE_PASS, representation=CELLS)
    )
    panels = [bars(result, size, "representation", "objective", size=size) for size in sizes]
    return Show([*tables, parameter_table(result, "objective", "representation")], panels)


def findings(result: Result) -> list[Finding]:
    found = []
    for size in result.values("size"):
        cases = [(name, form) for name in ON_CELLS for form in (TEXT, CELLS)]
        sides = {
            (name, form): Side(f"{name} on {form}", result.entries(objective=name, representation=form, size=size))
            for name, form in cases
        }
        text = "changing next token's objective gains more than changing its representation"
        claim = Claim(text, "only the objective was changed", f"DFS {size}")
        found.append(verdict(claim, sides[MLMU, TEXT], sides[NEXT, CELLS]))
        for form in (TEXT, CELLS):
            text, paper = "MLM-U beats next token in every representation", "on text, 10x10: 100 against 45.2"
            found.append(verdict(Claim(text, paper, f"DFS {size} as {form}"), sides[MLMU, form], sides[NEXT, form]))
        text, paper = "on cells too, MLM-U beats ordered masks", "A* 10x10 on text: 98.5 against less than 4"
        found.append(verdict(Claim(text, paper, f"DFS {size} as {CELLS}"), sides[MLMU, CELLS], sides[ORDERED, CELLS]))
    return found


STUDY = Study(
    name="objective-or-representation",
    title="Objective or representation",
    source="ours; the paper changes the objective alone",
    question="How much of the paper's gap belongs to the objective, and how much to how a maze is written?",
    paper="The learning objective is critical: modifying it alone takes next token's 45.2 % at 10x10 to 100 %.",
    runs=runs,
    show=show,
    findings=findings,
    notes=(
        "Every training has the same minutes. All objectives on cells train the same network from the same weights on "
        "the same mazes. Text models are decoded from left to right; cell networks one cell a pass from the start.",
    ),
)
