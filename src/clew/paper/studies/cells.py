"""Our own questions on the cell network: cells against text, objectives on one network, and decoders.

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
from clew.paper.results import Result
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
from clew.paper.tables import EXACT, Parameters, Pivot, Report, Table
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


# An untrained text model generates tokens up to the largest length, and each takes a pass over the whole text.
CELLS_MAZES = {"laptop": 200, "paper": 2000}
CELLS_SIZES = {"laptop": (5, 10), "paper": (10, 20)}


def cells_runs(scale: RunScale) -> list[RunSpec]:
    found = []
    for size in CELLS_SIZES[scale]:
        for form, config, decoder in (
            ("text", text_minutes, "left-to-right"),
            ("cells", cell_minutes, LEFT_TO_RIGHT),
        ):
            for name, objective in OBJECTIVES.items():
                labels = {"model": f"{name} on {form}", "size": square(size)}
                evaluation = EvaluationSpec(mazes=CELLS_MAZES[scale], decoder=decoder)
                found.append(RunSpec(labels, config(scale, objective, size), (evaluation,)))
    return found


CELLS = Study(
    name="cells",
    title="The cell network against the paper's models",
    source="ours",
    question="What does a network that labels cells reach in the minutes of a text model?",
    paper="Nothing: its models read text only.",
    runs=cells_runs,
    tables=[Pivot("model", "size", chart="bars"), Parameters("model", "size")],
    claims=[
        Comparison(
            text, "not measured", "DFS {size}", {"model": f"{MLMU} on cells"}, {"model": baseline}, each=("size",)
        )
        for text, baseline in (
            (f"in the same minutes the cell network solves more than {NEXT} on text", f"{NEXT} on text"),
            (f"in the same minutes the cell network solves more than {MLMU} on text", f"{MLMU} on text"),
            ("on cells too, MLM-U beats next token", f"{NEXT} on cells"),
        )
    ],
    notes=(
        "Every training has the same minutes. Text models are decoded from left to right, cell networks one cell a "
        "pass from the start.",
    ),
)

ORDERED = "ordered masks"
ON_CELLS: dict[str, ObjectiveName] = {**OBJECTIVES, ORDERED: "ordered"}
REPRESENTATION_SIZES = {"laptop": (4, 6, 8), "paper": (5, 10, 20)}
REPRESENTATION_MAZES = {"laptop": 500, "paper": 2000}
ONE_PASS = "one pass"


def representation_runs(scale: RunScale) -> list[RunSpec]:
    mazes = REPRESENTATION_MAZES[scale]
    on_text = (EvaluationSpec(mazes=mazes),)
    on_cells = (
        EvaluationSpec(mazes=mazes, decoder=LEFT_TO_RIGHT),
        EvaluationSpec(ONE_PASS, mazes=mazes, decoder="one-pass"),
    )
    found = []
    for size in REPRESENTATION_SIZES[scale]:
        for name, objective in OBJECTIVES.items():
            labels = {"objective": name, "representation": "text", "size": square(size)}
            found.append(RunSpec(labels, text_minutes(scale, objective, size), on_text))
        for name, objective in ON_CELLS.items():
            labels = {"objective": name, "representation": "cells", "size": square(size)}
            found.append(RunSpec(labels, cell_minutes(scale, objective, size), on_cells))
    return found


def _on(objective: str, form: str) -> dict[str, str]:
    return {"name": f"{objective} on {form}", "objective": objective, "representation": form}


OBJECTIVE_OR_REPRESENTATION = Study(
    name="objective-or-representation",
    title="Objective or representation",
    source="ours; the paper changes the objective alone",
    question="How much of the paper's gap belongs to the objective, and how much to how a maze is written?",
    paper="The learning objective is critical: modifying it alone takes next token's 45.2 % at 10x10 to 100 %.",
    runs=representation_runs,
    tables=[
        Pivot("objective", "representation", each=("size",), chart="bars"),
        Pivot(
            "objective",
            "size",
            f"{EXACT}, all labels of one pass",
            evaluation=ONE_PASS,
            where={"representation": "cells"},
        ),
        Parameters("objective", "representation"),
    ],
    claims=[
        Comparison(text, numbers, task, better, baseline, each=("size",))
        for text, numbers, task, better, baseline in (
            (
                "changing next token's objective gains more than changing its representation",
                "only the objective was changed",
                "DFS {size}",
                _on(MLMU, "text"),
                _on(NEXT, "cells"),
            ),
            *(
                (
                    "MLM-U beats next token in every representation",
                    "on text, 10x10: 100 against 45.2",
                    f"DFS {{size}} as {form}",
                    _on(MLMU, form),
                    _on(NEXT, form),
                )
                for form in ("text", "cells")
            ),
            (
                "on cells too, MLM-U beats ordered masks",
                "A* 10x10 on text: 98.5 against less than 4",
                "DFS {size} as cells",
                _on(MLMU, "cells"),
                _on(ORDERED, "cells"),
            ),
        )
    ],
    notes=(
        "Every training has the same minutes. All objectives on cells train the same network from the same weights on "
        "the same mazes. Text models are decoded from left to right; cell networks one cell a pass from the start.",
    ),
)

FIRST = "left-to-right"
# A decoder that is the same as another, only slower, is left out.
TEXT_DECODERS = [name for name in DECODERS if name != "left-to-right-naive"]
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
    names = [name for name in (*TEXT_DECODERS, *CELL_DECODERS) if result.scores(name)]
    rows = []
    for name in names:
        counts = [[scores["passes"] for scores in result.scores(name, model=model)] for model in models]
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
