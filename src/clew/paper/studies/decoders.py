"""Decoders against each other: the paper's future work on certainty."""

from __future__ import annotations

from dataclasses import replace

from clew.decoding.decode import DECODERS
from clew.paper.named_configs import laptop_dfs_4_mlmu
from clew.paper.recipes import MLMU, RunScale, dfs_run, square
from clew.paper.result import Result
from clew.paper.studies.cells import LEFT_TO_RIGHT, cell_config
from clew.paper.study import Claim, Exam, Finding, Run, Show, Study
from clew.paper.tell import EXACT, point, table_of
from clew.paper.verdict import Side, verdict_on_best
from clew.viz.charts import Panel, Series

FIRST = "left-to-right"
BY_CERTAINTY = [name for name in DECODERS if name.startswith("certainty")]
ON_TEXT = list(DECODERS)
ON_CELLS = [LEFT_TO_RIGHT, "one-pass", "walk", "walk:origin=goal", "walk-repair"]
TEXT_SIZE = {"laptop": 4, "paper": 10}
CELLS = {"laptop": {5: 2.0, 10: 4.0}, "paper": {10: 600.0, 20: 600.0}}  # size: minutes
MAZES = {"laptop": 1000, "paper": 2000}


def runs(scale: RunScale) -> list[Run]:
    found = [_text_run(scale)]
    for side, minutes in CELLS[scale].items():
        config = cell_config(scale, "mlm-u", side, minutes)
        found.append(Run({"model": f"cell network, {square(side)}"}, config, _exams(scale, ON_CELLS)))
    return found


def _text_run(scale: RunScale) -> Run:
    """The config of half an hour on two cores: a model that has learnt little says little of decoders."""
    size = TEXT_SIZE[scale]
    labels = {"model": f"text, {square(size)}"}
    if scale == "laptop":
        return Run(labels, replace(laptop_dfs_4_mlmu(), threads=2), _exams(scale, ON_TEXT))
    return dfs_run(scale, MLMU, size, _exams(scale, ON_TEXT), model=labels["model"])


def _exams(scale: RunScale, decoders: list[str]) -> tuple[Exam, ...]:
    return tuple(Exam(name, mazes=MAZES[scale], decoder=name) for name in decoders)


def show(result: Result) -> Show:
    models = {model: model for model in result.values("model")}
    names = [name for name in (*ON_TEXT, *ON_CELLS) if result.scores(name)]
    tables = [
        table_of(EXACT, names, models, lambda name, model: result.mean(exam=name, model=model)),
        table_of("passes of the model a maze", names, models, lambda name, model: passes(result, name, model)),
    ]
    series = []
    for model in models:
        means = [(name, result.mean(exam=name, model=model)) for name in names]
        series.append(Series(model, [point(name, mean) for name, mean in means if mean]))
    return Show(tables, [Panel("held-out mazes, the same weights", "", EXACT, series)])


def passes(result: Result, decoder: str, model: str) -> str:
    """How often the model is asked for a maze, on average."""
    found = [scores["passes"] for scores in result.scores(decoder, model=model)]
    return f"{sum(found) / len(found):.1f}" if found else ""


def findings(result: Result) -> list[Finding]:
    found = []
    for model in result.values("model"):
        on_cells = bool(result.scores(LEFT_TO_RIGHT, model=model))
        first, names = (LEFT_TO_RIGHT, ON_CELLS) if on_cells else (FIRST, ON_TEXT)
        sides = {name: Side(name, result.entries(model=model), exam=name) for name in names}
        if not on_cells:
            certain = Claim("writing by certainty beats left to right", "suggested, not measured", model)
            others = [sides[name] for name in BY_CERTAINTY]
            found.append(verdict_on_best(certain, sides[first], others, base_is_best=False))
        some = Claim("some decoder beats left to right", "not measured", model)
        others = [sides[name] for name in names if name != first]
        found.append(verdict_on_best(some, sides[first], others, base_is_best=False))
    return found


STUDY = Study(
    name="decoders",
    title="Decoders",
    source="ours; the paper's future work on certainty",
    question="Is it better to write the path by certainty, in parallel or with repair, than from left to right?",
    paper="It might be beneficial to generate tokens by the model's certainty instead of from left to right.",
    runs=runs,
    show=show,
    findings=findings,
    notes=(f"On cells, left to right is `{LEFT_TO_RIGHT}`: one cell a pass, from the start.",),
)
