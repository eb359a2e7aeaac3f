"""Position encodings for masked objectives: the paper's future work on positions."""

from __future__ import annotations

from dataclasses import replace

from clew.experiments.laptop import text_model
from clew.experiments.presets import preset
from clew.experiments.reproduce.recipes import MLMU, RunScale, laptop_run, laptop_text, paper_run
from clew.experiments.reproduce.result import Result
from clew.experiments.reproduce.study import Finding, Run, Show, Study
from clew.experiments.reproduce.tell import best_of, curves, score_table, single_bars
from clew.models.positions import PositionChoice
from clew.training.config import DataConfig

PAPER_CHOICE = "RoPE, float32 (the paper)"
CHOICES: dict[str, PositionChoice] = {
    PAPER_CHOICE: "rope-fp32",
    "RoPE, float16": "rope-fp16",
    "learned": "learned",
    "none": "none",
}
LAPTOP_SIZE = 4


def runs(scale: RunScale) -> list[Run]:
    found = []
    for name, positions in CHOICES.items():
        if scale == "paper":
            model = replace(preset("paper-dfs-10-mlmu-8m").model, positions=positions)  # type: ignore[type-var]
            found.append(paper_run({"positions": name}, "paper-dfs-10-mlmu-8m", model=model))
        else:
            model = text_model("mlm-u", DataConfig(sizes=(LAPTOP_SIZE,)).vocabulary, positions=positions)
            found.append(laptop_run({"positions": name}, laptop_text(MLMU, LAPTOP_SIZE, model=model)))
    return found


def show(result: Result) -> Show:
    panels = [
        single_bars(result, "held-out mazes", "positions"),
        curves(result, "during training", "mazes", "positions"),
    ]
    return Show([score_table(result, "positions")], panels)


def findings(result: Result) -> list[Finding]:
    means = {name: result.mean(positions=name) for name in result.values("positions")}
    claim = "other position encodings suit MLM-U better than RoPE"
    return [best_of(claim, "asked as future work, not measured", means, PAPER_CHOICE)]


STUDY = Study(
    name="position-encodings",
    title="Position encodings",
    source="ours; the paper's future work on positions",
    question="Which position encoding suits MLM-U?",
    paper="Encodings were tailored to next token; whether RoPE is optimal for masked objectives is an open question.",
    runs=runs,
    show=show,
    findings=findings,
)
