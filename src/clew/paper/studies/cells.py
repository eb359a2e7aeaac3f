"""Our own questions on the cell network: both objectives on text and on cells, and decoders.

All objectives on cells train the same network from the same weights on the same mazes for the same minutes; only the
labels that are hidden and predicted differ.
"""

from __future__ import annotations

from dataclasses import replace

from clew.decoding.decode import DECODERS
from clew.objectives.config import ObjectiveConfig, ObjectiveName
from clew.paper.cell_configs import SMALL_SIZES, cells
from clew.paper.configs import paper
from clew.paper.named_configs import laptop_dfs_4_mlmu
from clew.paper.results import EXACT, HELD_OUT, Pivot, Report, Result, Table, parameters
from clew.paper.study import (
    MLMU,
    NEXT,
    OBJECTIVES,
    EvaluationSpec,
    RunScale,
    RunSpec,
    Study,
    dfs_run,
    laptop_schedule,
    laptop_text,
    square,
)
from clew.paper.verdict import Claim, Comparison, Finding, arm, verdict_on_best
from clew.training.config import Budget, TrainConfig

MINUTES = {"laptop": 2.0, "paper": 24 * 60.0}  # of one core, of one GPU
# Steps that a cell network takes in that time, about: sizes grow over the first 40 %.
STEPS_A_MINUTE = {"laptop": 300, "paper": 2000}
# One cell a pass, from the start: what left to right is on text.
LEFT_TO_RIGHT = "walk:ask=cell"


def text_minutes(scale: RunScale, objective: ObjectiveName, size: int) -> TrainConfig:
    """Return the laptop's, or the paper's, model and recipe on text for MINUTES."""
    if scale == "laptop":
        return laptop_text(objective, size, minutes=MINUTES[scale])
    return replace(paper("dfs", size, objective), budget=Budget(minutes=MINUTES[scale]))


def cell_minutes(scale: RunScale, objective: ObjectiveName, size: int, minutes: float | None = None) -> TrainConfig:
    """Return the cell network on DFS mazes of up to this size for so many minutes."""
    minutes = minutes or MINUTES[scale]
    sizes = (*(smaller for smaller in SMALL_SIZES if smaller < size), size)
    config = cells("dfs", sizes, steps=round(STEPS_A_MINUTE[scale] * minutes))
    chosen = ObjectiveConfig(objective) if objective == "next-token" else replace(config.objective, name=objective)
    config = replace(config, objective=chosen)
    if scale == "laptop":
        return laptop_schedule(config, minutes=minutes)
    return replace(config, budget=Budget(minutes=minutes))


CONFIGS = {"text": (text_minutes, "left-to-right"), "cells": (cell_minutes, LEFT_TO_RIGHT)}

ORDERED = "ordered masks"
ON_CELLS: dict[str, ObjectiveName] = {**OBJECTIVES, ORDERED: "ordered"}
REPRESENTATION_SIZES = {"laptop": (4, 6, 8), "paper": (5, 10, 20)}
REPRESENTATION_MAZES = {"laptop": 500, "paper": 2000}
ONE_PASS = "one pass"


def representation_runs(scale: RunScale) -> list[RunSpec]:
    mazes = REPRESENTATION_MAZES[scale]
    found = []
    for size in REPRESENTATION_SIZES[scale]:
        for form, (config, decoder) in CONFIGS.items():
            decoders = {HELD_OUT: decoder} | ({ONE_PASS: "one-pass"} if form == "cells" else {})
            evaluations = tuple(EvaluationSpec(word, mazes, decoder=each) for word, each in decoders.items())
            for name, objective in (ON_CELLS if form == "cells" else OBJECTIVES).items():
                labels = {"objective": name, "representation": form, "size": square(size)}
                found.append(RunSpec(labels, config(scale, objective, size), evaluations))
    return found


def _on(objective: str, form: str) -> dict[str, str]:
    return {"name": f"{objective} on {form}", "objective": objective, "representation": form}


GAINS_MORE = "changing next token's objective gains more than changing its representation"
CELLS_HELP = "in the same minutes more mazes are solved on cells than on text"
NOT_ORDERED = "on cells too, MLM-U beats ordered masks"
EVERYWHERE = "MLM-U beats next token in every representation"
ON_TEXT = "on text, 10x10: 100 against 45.2"
OBJECTIVE_OR_REPRESENTATION = Study(
    name="objective-or-representation",
    title="Objective or representation",
    source="ours; the paper changes the objective alone",
    question="How much of the paper's gap belongs to the objective, and how much to how a maze is written?",
    paper="The learning objective is critical: modifying it alone takes next token's 45.2 % at 10x10 to 100 %.",
    runs=representation_runs,
    tables=[
        Pivot("objective", "representation", each=("size",), chart="bars"),
        Pivot("objective", "size", f"{EXACT}, one pass", evaluation=ONE_PASS, where={"representation": "cells"}),
        parameters("objective", "representation"),
    ],
    claims=[
        Comparison(text, numbers, task, better, baseline, each=("size",))
        for text, numbers, task, better, baseline in (
            (GAINS_MORE, "only the objective was changed", "DFS {size}", _on(MLMU, "text"), _on(NEXT, "cells")),
            *((CELLS_HELP, "not measured", "DFS {size}", _on(o, "cells"), _on(o, "text")) for o in (MLMU, NEXT)),
            (EVERYWHERE, ON_TEXT, "DFS {size} as text", _on(MLMU, "text"), _on(NEXT, "text")),
            (EVERYWHERE, ON_TEXT, "DFS {size} as cells", _on(MLMU, "cells"), _on(NEXT, "cells")),
            (NOT_ORDERED, "A* 10x10: 98.5, < 4", "DFS {size} as cells", _on(MLMU, "cells"), _on(ORDERED, "cells")),
        )
    ],
    notes=(
        "Every training has the same minutes. All objectives on cells train the same network from the same weights on "
        "the same mazes. Text models are decoded from left to right; cell networks one cell a pass from the start.",
    ),
)

FIRST = "left-to-right"
TEXT_DECODERS = list(DECODERS)
CELL_DECODERS = [LEFT_TO_RIGHT, "one-pass", "walk", "walk:origin=goal", "walk-repair"]
DECODER_CELLS = {"laptop": {5: 2.0, 10: 4.0}, "paper": {10: 600.0, 20: 600.0}}  # size: minutes
DECODER_MAZES = {"laptop": 1000, "paper": 2000}


def decoder_runs(scale: RunScale) -> list[RunSpec]:
    on_text, on_cells = (
        tuple(EvaluationSpec(name, mazes=DECODER_MAZES[scale], decoder=name) for name in names)
        for names in (TEXT_DECODERS, CELL_DECODERS)
    )
    if scale == "laptop":
        # Half an hour of two cores: the decoders of a model that has learnt little hardly differ.
        found = [RunSpec({"model": "text, 4x4"}, replace(laptop_dfs_4_mlmu(), threads=2), on_text)]
    else:
        run = dfs_run(scale, MLMU, 10, evaluations=on_text)
        found = [replace(run, labels=run.labels | {"model": "text, 10x10"})]
    for size, minutes in DECODER_CELLS[scale].items():
        config = cell_minutes(scale, "mlm-u", size, minutes)
        found.append(RunSpec({"model": f"cell network, {square(size)}"}, config, on_cells))
    return found


def passes(result: Result) -> Report:
    """Return the mean number of passes of the model for a maze."""
    models = result.values("model")
    rows = []
    for name in (*TEXT_DECODERS, *CELL_DECODERS):
        counts = [[scores["passes"] for scores in result.scores(name, model=model)] for model in models]
        if any(counts):
            rows.append([name, *(f"{sum(found) / len(found):.1f}" if found else "" for found in counts)])
    return Report([Table("passes of the model a maze", [["", *models], *rows])])


def decoder_findings(result: Result) -> list[Finding]:
    found = []
    for model in result.values("model"):
        on_cells = bool(result.scores(LEFT_TO_RIGHT, model=model))
        first, names = (LEFT_TO_RIGHT, CELL_DECODERS) if on_cells else (FIRST, TEXT_DECODERS)
        arms = {name: arm(result, model=model, evaluation=name, name=name) for name in names}
        base = arms.pop(first)
        if not on_cells:
            claim = Claim("decoding by certainty beats left to right", "suggested, not measured", model)
            others = [each for name, each in arms.items() if name.startswith("certainty")]
            found.append(verdict_on_best(claim, base, others, base_is_best=False))
        claim = Claim("some decoder beats left to right", "not measured", model)
        found.append(verdict_on_best(claim, base, [*arms.values()], base_is_best=False))
    return found


DECODERS_STUDY = Study(
    name="decoders",
    title="Decoders",
    source="ours; the paper's future work on certainty",
    question="Is it better to decode the path by certainty, in parallel or with repair, than from left to right?",
    paper="It might be beneficial to generate tokens by the model's certainty instead of from left to right.",
    runs=decoder_runs,
    tables=[Pivot("evaluation", "model", chart="bars"), passes],
    claims=[decoder_findings],
    notes=(f"On cells, left to right is `{LEFT_TO_RIGHT}`: one cell a pass, from the start.",),
)
