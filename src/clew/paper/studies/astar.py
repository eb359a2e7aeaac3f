"""A* mazes: MLM-U, next token, and next token that also learns the trace of the search: the paper's table 2."""

from __future__ import annotations

from clew.objectives.config import ObjectiveName
from clew.paper.configs import paper
from clew.paper.recipes import (
    LAPTOP_MAZES,
    MLMU,
    NEXT,
    TRACE,
    RunScale,
    laptop_astar,
    laptop_run,
    paper_run,
    square,
)
from clew.paper.result import Result
from clew.paper.study import Claim, Exam, Finding, Run, Show, Study, Table
from clew.paper.tell import EXACT, bars, pivot, score_table
from clew.paper.verdict import Side, verdict

METHODS: dict[str, ObjectiveName] = {MLMU: "mlm-u", NEXT: "next-token", TRACE: "trace"}
SIZES = {"laptop": (4, 5), "paper": (10, 20, 30)}
LAPTOP_SEEDS = {4: None, 5: 1}  # of the user's --seeds
# Of the paper's table: 10x10, 20x20, 30x30.
PAPER = {
    "MLM-U 8M": (98.5, 95.2, 85.5),
    "MLM-U 8M, per token": (99.7, 97.2, 96.5),
    "next token 15M": (93.6, 39.0, 13.3),
    "next token 175M": (94.9, 53.5, 19.3),
    "next token 175M with A* traces": (98.5, 90.4, 70.2),
}


def astar_run(scale: RunScale, method: str, size: int) -> Run:
    """One method on A* mazes of one size."""
    labels = {"method": method, "size": square(size)}
    if scale == "paper":
        # The paper quotes Searchformer's numbers for next token, of models that it did not train.
        return paper_run(labels, paper("astar", size, METHODS[method], "8m" if method == MLMU else "25m"))
    # A trace is long, and a model that has not learnt to end it writes as much as there is room for.
    exam = Exam(mazes=LAPTOP_MAZES // 2 if method == TRACE else LAPTOP_MAZES)
    return laptop_run(labels, laptop_astar(METHODS[method], size), (exam,), LAPTOP_SEEDS[size])


def runs(scale: RunScale) -> list[Run]:
    return [astar_run(scale, method, size) for size in SIZES[scale] for method in METHODS]


def show(result: Result) -> Show:
    sizes = result.values("size")
    paper = [["the paper, %", *map(square, SIZES["paper"])]]
    paper += [[name, *(f"{number:g}" for number in numbers)] for name, numbers in PAPER.items()]
    tables = [
        pivot(result, EXACT, "method", "size"),
        *(score_table(result, "method", size=size) for size in sizes),
        Table("the paper's table", paper),
    ]
    panels = [
        bars(result, "exact paths", "size", "method"),
        bars(result, "shortest paths", "size", "method", what="shortest", y_label="shortest paths, %"),
    ]
    return Show(tables, panels)


def findings(result: Result) -> list[Finding]:
    claims = {
        NEXT: ("MLM-U finds more exact paths than next token", "30x30: 85.5 against 13.3 (15M) and 19.3 (175M)"),
        TRACE: ("MLM-U finds more exact paths than next token with A* traces", "30x30: 85.5 against 70.2 (175M)"),
    }
    found = []
    for size in result.values("size"):
        mlmu = Side(MLMU, result.entries(method=MLMU, size=size))
        for method, (text, numbers) in claims.items():
            baseline = Side(method, result.entries(method=method, size=size))
            found.append(verdict(Claim(text, numbers, f"A* {size}", main="astar"), mlmu, baseline))
    return found


STUDY = Study(
    name="astar",
    title="A* mazes, with and without search traces",
    source="table 2, and its full form in the appendix",
    question="Does MLM-U beat next token on A* mazes, even when next token also learns from traces of the search?",
    paper="An 8M MLM-U model reaches 85.5 % on 30x30; a 175M next-token model 19.3 %, and 70.2 % with A* traces.",
    runs=runs,
    show=show,
    findings=findings,
    notes=(
        "The paper quotes next token from Searchformer, whose models are larger; here all methods have as many "
        "parameters and steps. An exact match is mostly a test of the tie-break among shortest paths, so valid and "
        "shortest paths are told beside it.",
    ),
)
