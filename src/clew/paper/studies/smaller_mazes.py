"""Models of larger mazes on smaller ones, plain and embedded: the paper's table of generalization."""

from __future__ import annotations

from clew.paper.recipes import (
    LAPTOP_MAZES,
    MLMU,
    NEXT,
    OBJECTIVES,
    PAPER_MAZES,
    RunScale,
    dfs_run,
    square,
)
from clew.paper.result import Result
from clew.paper.study import Claim, Exam, Finding, Run, Show, Study, Table
from clew.paper.tell import EXACT, PER_TOKEN, exam_table, point
from clew.paper.verdict import Side, verdict
from clew.viz.charts import Panel, Series

# Trained on, tested on. Two sides apart at least: around a maze that is one side smaller there are but a handful of
# larger ones, of which often none is held out.
SIZES = {"laptop": (5, 3), "paper": (20, 10)}
PLAIN, JOINED, CUT_OFF = "smaller, plain", "smaller, embedded", "smaller, cut off"
# Of the paper's table: per token, exact. Its embedded mazes are cut off from the rest.
PAPER = {(NEXT, PLAIN): (30, 21), (NEXT, CUT_OFF): (37, 29), (MLMU, PLAIN): (2, 0), (MLMU, CUT_OFF): (100, 100)}
EXAMS = ("held-out", PLAIN, JOINED, CUT_OFF)
FORMS = {CUT_OFF: "cut off from the rest, as in the published code", JOINED: "joined to the rest by one passage"}


def runs(scale: RunScale) -> list[Run]:
    large, small = SIZES[scale]
    count = PAPER_MAZES if scale == "paper" else LAPTOP_MAZES
    exams = (
        Exam(mazes=count),
        Exam(PLAIN, mazes=count, size=small),
        Exam(JOINED, mazes=count, size=small, embedded_in=large),
        Exam(CUT_OFF, mazes=count, size=small, embedded_in=large, embedding="cut-off"),
    )
    return [dfs_run(scale, objective, large, exams) for objective in OBJECTIVES]


def show(result: Result) -> Show:
    paper = [["the paper, % (trained on 20x20, tested on 10x10)", "per token", "exact"]]
    paper += [[f"{name}, {exam}", f"{token}", f"{exact}"] for (name, exam), (token, exact) in PAPER.items()]
    exams = [exam for exam in EXAMS if result.scores(exam)]
    series = []
    for objective in result.values("objective"):
        means = [(exam, result.mean(exam=exam, objective=objective)) for exam in exams]
        series.append(Series(objective, [point(exam, mean) for exam, mean in means if mean]))
    tables = [
        exam_table(result, EXACT, "objective", exams),
        exam_table(result, PER_TOKEN, "objective", exams, "per_token"),
        Table("the paper's table", paper),
    ]
    return Show(tables, [Panel("mazes as large as in training, and smaller", "", EXACT, series)])


def findings(result: Result) -> list[Finding]:
    large, small = SIZES["paper" if result.scale == "paper" else "laptop"]
    task = f"DFS {square(small)} by models of {square(large)}"
    plain = Claim("on smaller mazes as they are, next token still solves some, and MLM-U fewer", "21 against 0", task)
    found = [verdict(plain, *(Side(o, result.entries(objective=o), PLAIN) for o in (NEXT, MLMU)))]
    for exam, words in FORMS.items():
        if not result.scores(exam):
            continue
        for objective, numbers in ((MLMU, "100 against 0"), (NEXT, "29 against 21")):
            claim = Claim(f"embedding smaller mazes in larger ones helps {objective}", numbers, f"{task}, {words}")
            runs = result.entries(objective=objective)
            found.append(verdict(claim, Side("embedded", runs, exam), Side("plain", runs, PLAIN)))
        both = Claim("on embedded mazes MLM-U beats next token", "100 against 29", f"{task}, {words}")
        found.append(verdict(both, *(Side(o, result.entries(objective=o), exam) for o in (MLMU, NEXT))))
    return found


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
