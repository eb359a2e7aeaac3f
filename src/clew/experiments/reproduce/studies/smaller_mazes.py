"""Models of larger mazes on smaller ones, plain and embedded: the paper's table of generalization."""

from __future__ import annotations

from clew.experiments.reproduce.recipes import (
    LAPTOP_MAZES,
    MLMU,
    NEXT,
    OBJECTIVES,
    PAPER_MAZES,
    RunScale,
    dfs_run,
    square,
)
from clew.experiments.reproduce.result import Result
from clew.experiments.reproduce.study import Claim, Exam, Finding, Run, Show, Study, Table
from clew.experiments.reproduce.tell import EXACT, PER_TOKEN, exam_table, point
from clew.experiments.reproduce.verdict import Side, verdict
from clew.report.panels import Panel, Series

# Trained on, tested on. Two sides apart at least: around a maze that is one side smaller there are but a handful of
# larger ones, of which often none is held out.
SIZES = {"laptop": (5, 3), "paper": (20, 10)}
PLAIN, EMBEDDED = "smaller, plain", "smaller, embedded"
# Of the paper's table: per token, exact.
PAPER = {(NEXT, PLAIN): (30, 21), (NEXT, EMBEDDED): (37, 29), (MLMU, PLAIN): (2, 0), (MLMU, EMBEDDED): (100, 100)}
EXAMS = ("held-out", PLAIN, EMBEDDED)


def runs(scale: RunScale) -> list[Run]:
    large, small = SIZES[scale]
    count = PAPER_MAZES if scale == "paper" else LAPTOP_MAZES
    exams = (
        Exam(mazes=count),
        Exam(PLAIN, mazes=count, size=small),
        Exam(EMBEDDED, mazes=count, size=small, embedded_in=large),
    )
    return [dfs_run(scale, objective, large, exams) for objective in OBJECTIVES]


def show(result: Result) -> Show:
    paper = [["the paper, % (trained on 20x20, tested on 10x10)", "per token", "exact"]]
    paper += [[f"{name}, {exam}", f"{token}", f"{exact}"] for (name, exam), (token, exact) in PAPER.items()]
    series = []
    for objective in result.values("objective"):
        means = [(exam, result.mean(exam=exam, objective=objective)) for exam in EXAMS]
        series.append(Series(objective, [point(exam, mean) for exam, mean in means if mean]))
    tables = [
        exam_table(result, EXACT, "objective", EXAMS),
        exam_table(result, PER_TOKEN, "objective", EXAMS, "per_token"),
        Table("the paper's table", paper),
    ]
    return Show(tables, [Panel("mazes as large as in training, and smaller", "", EXACT, series)])


def findings(result: Result) -> list[Finding]:
    large, small = SIZES["paper" if result.scale == "paper" else "laptop"]
    task = f"DFS {square(small)} by models of {square(large)}"
    sides = {(o, e): Side(o, result.entries(objective=o), e) for o in OBJECTIVES for e in (PLAIN, EMBEDDED)}
    plain = Claim("on smaller mazes as they are, next token still solves some, and MLM-U fewer", "21 against 0", task)
    both = Claim("on embedded mazes MLM-U beats next token", "100 against 29", task)
    found = [verdict(plain, sides[NEXT, PLAIN], sides[MLMU, PLAIN])]
    for objective, numbers in ((MLMU, "100 against 0"), (NEXT, "29 against 21")):
        claim = Claim(f"embedding smaller mazes in larger ones helps {objective}", numbers, task)
        runs = result.entries(objective=objective)
        found.append(verdict(claim, Side("embedded", runs, EMBEDDED), Side("plain", runs, PLAIN)))
    return [*found, verdict(both, sides[MLMU, EMBEDDED], sides[NEXT, EMBEDDED])]


STUDY = Study(
    name="smaller-mazes",
    title="Larger models on smaller mazes",
    source="appendix, table of smaller mazes",
    question="Can a model that was trained on larger mazes solve smaller ones, as they are or embedded in larger ones?",
    paper="Trained on 20x20 and tested on 10x10: next token 21 % plain and 29 % embedded, MLM-U 0 % and 100 %.",
    runs=runs,
    show=show,
    findings=findings,
)
