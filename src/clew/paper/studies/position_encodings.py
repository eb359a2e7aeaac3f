"""Position encodings for masked objectives: the paper's future work on positions."""

from __future__ import annotations

from clew.data.config import DataConfig
from clew.models.positions import PositionChoice
from clew.paper.configs import paper
from clew.paper.laptop import text_model
from clew.paper.recipes import MLMU, RunScale, laptop_run, laptop_text, paper_run, square
from clew.paper.result import Result
from clew.paper.study import Claim, Finding, Run, Show, Study
from clew.paper.tell import score_table, single_bars
from clew.paper.verdict import Side, verdict_on_best

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
            found.append(paper_run({"positions": name}, paper("dfs", 10, "mlm-u", positions=positions)))
        else:
            model = text_model("mlm-u", DataConfig(sizes=(LAPTOP_SIZE,)).vocabulary, positions=positions)
            found.append(laptop_run({"positions": name}, laptop_text(MLMU, LAPTOP_SIZE, model=model)))
    return found


def show(result: Result) -> Show:
    return Show([score_table(result, "positions")], [single_bars(result, "held-out mazes", "positions")])


def findings(result: Result) -> list[Finding]:
    sides = {name: Side(name, result.entries(positions=name)) for name in CHOICES}
    size = square(10 if result.scale == "paper" else LAPTOP_SIZE)
    text = "other position encodings suit MLM-U better than RoPE"
    claim = Claim(text, "asked as future work, not measured", f"DFS {size}")
    return [verdict_on_best(claim, sides.pop(PAPER_CHOICE), list(sides.values()), base_is_best=False)]


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
