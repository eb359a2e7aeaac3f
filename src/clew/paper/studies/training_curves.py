"""What happens during training: convergence where both objectives succeed, and overfitting where next token does.

The paper's figures of convergence on 5x5 and on 10x10 mazes: held-out and training accuracy, against mazes seen and
against GPU or core hours. At paper scale there is a point every 20 epochs, at laptop scale every fortieth of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from clew.paper.configs import paper
from clew.paper.recipes import (
    LAPTOP_MAZES,
    LAPTOP_SET,
    MLMU,
    NEXT,
    OBJECTIVES,
    PAPER_MAZES,
    RunScale,
    laptop_run,
    laptop_text,
    paper_run,
    side_of,
    square,
)
from clew.paper.result import Entry, Result
from clew.paper.study import Claim, Exam, Finding, Run, Show, Study
from clew.paper.tell import CURVE_WORDS, EXACT, exam_table, pivot, reached
from clew.paper.verdict import Side, concluded, verdict, verdict_on_differences

TARGETS = (0.99, 0.95, 0.9, 0.75, 0.5, 0.25, 0.1)  # the highest that all runs reach is compared
CLOSE = 1.1  # a tenth is soon gained or lost
TRAINED = "training mazes"
LAPTOP_SIZE = 4
FEW, MANY = (
    2_000,
    LAPTOP_SET[LAPTOP_SIZE],
)  # mazes of a training set; data-efficiency and accuracy-by-size have them too


def convergence_runs(scale: RunScale) -> list[Run]:
    if scale == "paper":
        labels = {"size": square(5)}
        return [
            paper_run({"objective": name, **labels}, paper("dfs", 5, objective, epochs=2000))
            for name, objective in OBJECTIVES.items()
        ]
    labels = {"size": square(LAPTOP_SIZE)}
    return [laptop_run({"objective": o, **labels}, laptop_text(o, LAPTOP_SIZE)) for o in OBJECTIVES]


def convergence_show(result: Result) -> Show:
    return Show([pivot(result, EXACT, "objective", "size")])


def convergence_findings(result: Result) -> list[Finding]:
    found = []
    for size in result.values("size"):
        mlmu, plain = (side_of(result, objective, size=size) for objective in (MLMU, NEXT))
        task = f"DFS {size}"
        mazes = Claim("MLM-U needs fewer training mazes (epochs) to converge", "2.17 times fewer epochs", task)
        hours = Claim("MLM-U needs less training time to converge", "2.03 times fewer GPU hours", task, main="hours")
        ends = Claim("at the end of the training MLM-U solves more held-out mazes", "5x5: 100 against 100", task)
        found += [
            _faster(mazes, "mazes", mlmu, plain),
            _faster(hours, "hours", mlmu, plain),
            verdict(ends, mlmu, plain),
        ]
    return found


def _faster(claim: Claim, x: Literal["mazes", "hours"], mlmu: Side, plain: Side) -> Finding:
    """Compare when both objectives first reach an accuracy, seed by seed."""
    runs = [*mlmu.runs, *plain.runs]
    for target in TARGETS:
        times = {side.name: _times(side.runs, x, target) for side in (mlmu, plain)}
        pairs = [(times[MLMU][seed], times[NEXT][seed]) for seed in times[MLMU].keys() & times[NEXT].keys()]
        if pairs and 2 * len(pairs) == len(runs):
            break
    else:
        return concluded(claim, runs, None, "no accuracy that all runs reach", "there is nothing to compare.")
    words = "mazes" if x == "mazes" else CURVE_WORDS[runs[0]["device"]].removesuffix(" of training")
    digits = 0 if x == "mazes" else 2
    means = [sum(each) / len(pairs) for each in zip(*pairs, strict=True)]
    ours = f"to {target:.0%}: MLM-U {means[0]:,.{digits}f}, next token {means[1]:,.{digits}f} {words}"
    ratios = [late / early for early, late in pairs]
    if all(ratio > CLOSE for ratio in ratios):
        outcome, because = True, f"MLM-U is {means[1] / means[0]:.2f} times as fast as next token."
    elif all(ratio < 1 / CLOSE for ratio in ratios):
        outcome, because = False, f"next token is {means[0] / means[1]:.2f} times as fast as MLM-U."
    else:
        outcome, because = None, f"they differ by less than {CLOSE - 1:.0%}, or the seeds disagree."
    return concluded(claim, runs, outcome, ours, because)


def _times(runs: Sequence[Entry], x: str, target: float) -> dict[int, float]:
    """When each seed reaches an accuracy; a seed that does not is left out."""
    found = {run["seed"]: reached([run], x, target) for run in runs}
    return {seed: value for seed, value in found.items() if value is not None}


CONVERGENCE = Study(
    name="convergence",
    title="Convergence where both succeed",
    source="figure 4",
    question="On mazes that both objectives can solve, which one gets there first, by mazes seen and by time?",
    paper="On 5x5 mazes MLM-U converges 2.17 times faster in epochs and 2.03 times faster in GPU hours.",
    runs=convergence_runs,
    show=convergence_show,
    findings=convergence_findings,
    seeds=3,
    notes=(
        "The curves are means over the seeds; the shade is their standard error. Dashed: training mazes.",
        "The paper's own hours, 17.7 for MLM-U and 13.7 for next token, make 2.17 times fewer epochs 1.68 times fewer "
        "hours, not 2.03.",
    ),
)


def overfitting_runs(scale: RunScale) -> list[Run]:
    found = []
    for objective in OBJECTIVES:
        count = PAPER_MAZES if scale == "paper" else LAPTOP_MAZES
        exams = (Exam(mazes=count), Exam(TRAINED, mazes=count, split="train"))
        if scale == "paper":
            labels = {"objective": objective, "size": square(10), "mazes": "100,000"}
            found.append(paper_run(labels, paper("dfs", 10, OBJECTIVES[objective]), exams))
            continue
        for mazes in (FEW, MANY):
            labels = {"objective": objective, "size": square(LAPTOP_SIZE), "mazes": f"{mazes:,}"}
            found.append(laptop_run(labels, laptop_text(objective, LAPTOP_SIZE, mazes=mazes), exams))
    return found


def overfitting_show(result: Result) -> Show:
    sets = result.values("mazes")
    exams = [TRAINED, "held-out"]
    return Show([exam_table(result, f"{EXACT}, {n} training mazes", "objective", exams, mazes=n) for n in sets])


def overfitting_findings(result: Result) -> list[Finding]:
    found = []
    for size, mazes in ((s, m) for s in result.values("size") for m in result.values("mazes", size=s)):
        held = {o: side_of(result, o, size=size, mazes=mazes) for o in OBJECTIVES}
        trained = {o: Side(o, held[o].runs, TRAINED) for o in OBJECTIVES}
        task = f"DFS {size}, {mazes} training mazes"
        paper = "10x10: next token below 50 held-out with training mazes solved; MLM-U 100 on both"
        found.append(
            verdict_on_differences(
                Claim("next token overfits more than MLM-U", paper, task),
                "training above held-out mazes by",
                (trained[NEXT], held[NEXT]),
                (trained[MLMU], held[MLMU]),
            )
        )
        generalizes = Claim("MLM-U generalizes better than next token", "10x10: 100 against 46", task)
        found.append(verdict(generalizes, held[MLMU], held[NEXT]))
    return found


OVERFITTING = Study(
    name="overfitting",
    title="Overfitting",
    source="figure 5",
    question="Which objective learns its training mazes by heart instead of learning to solve mazes?",
    paper="On 10x10 mazes next token fits its training mazes but solves below 50 % of others; MLM-U reaches 100 %.",
    runs=overfitting_runs,
    show=overfitting_show,
    findings=overfitting_findings,
)
