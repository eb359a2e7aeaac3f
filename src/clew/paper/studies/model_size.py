"""Models of three sizes, both objectives: the paper's figure of scaling."""

from __future__ import annotations

from clew.data.config import DataConfig
from clew.paper.configs import ModelSize, paper
from clew.paper.laptop import text_model
from clew.paper.recipes import (
    MLMU,
    NEXT,
    OBJECTIVES,
    RunScale,
    laptop_run,
    laptop_text,
    paper_run,
    side_of,
    square,
)
from clew.paper.result import Result
from clew.paper.study import Claim, Finding, Run, Show, Study
from clew.paper.tell import EXACT, bars, parameter_table, pivot
from clew.paper.verdict import Side, verdict, verdict_on_differences

# Width and depth; the largest has about eight times the parameters of the smallest, as in the paper.
LAPTOP = {"small": (64, 6), "medium": (96, 8), "large": (128, 12)}
PAPER: tuple[ModelSize, ...] = ("3m", "8m", "25m")
LAPTOP_SIZE, PAPER_SIZE = 4, 20


def runs(scale: RunScale) -> list[Run]:
    if scale == "paper":
        return [
            paper_run({"objective": name, "model": model.upper()}, paper("dfs", PAPER_SIZE, objective, model))
            for model in PAPER
            for name, objective in OBJECTIVES.items()
        ]
    vocabulary = DataConfig(sizes=(LAPTOP_SIZE,)).vocabulary
    found = []
    for name, (width, depth) in LAPTOP.items():
        for objective, plain in OBJECTIVES.items():
            model = text_model(plain, vocabulary, width=width, depth=depth)
            config = laptop_text(objective, LAPTOP_SIZE, model=model)
            found.append(laptop_run({"objective": objective, "model": name}, config))
    return found


def show(result: Result) -> Show:
    tables = [pivot(result, EXACT, "objective", "model"), parameter_table(result, "objective", "model")]
    return Show(tables, [bars(result, "held-out mazes", "model", "objective")])


def findings(result: Result) -> list[Finding]:
    small, *_, large = result.values("model")
    task = f"DFS {square(PAPER_SIZE if result.scale == 'paper' else LAPTOP_SIZE)}"
    sides = {(o, m): side_of(result, o, model=m) for o in OBJECTIVES for m in (small, large)}
    named = {m: Side(f"MLM-U, {m}", sides[MLMU, m].runs) for m in (small, large)}
    gains = Claim("MLM-U gains from a larger model", "20x20: 85 with 3M, 100 with 8M", task, main="scaling")
    paper = "20x20: next token gains 43 % of its score from 3M to 25M"
    return [
        verdict(gains, named[large], named[small]),
        verdict_on_differences(
            Claim("MLM-U gains more from a larger model than next token", paper, task),
            f"gain from {small} to {large}",
            (sides[MLMU, large], sides[MLMU, small]),
            (sides[NEXT, large], sides[NEXT, small]),
        ),
    ]


STUDY = Study(
    name="model-size",
    title="Model size",
    source="figure 6, left",
    question="What does a larger model gain with each objective?",
    paper="On 20x20 mazes MLM-U goes from 85 % with 3M parameters to 100 % with 8M; next token gains slowly.",
    runs=runs,
    show=show,
    findings=findings,
)
