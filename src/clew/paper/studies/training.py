"""What happens during training: numbers of training mazes, speed of convergence, and overfitting.

The convergence and overfitting figures show held-out and training accuracy against mazes seen and against GPU or core
hours: a point every 20 epochs at paper scale, every fortieth of a run at laptop scale.
"""

from __future__ import annotations

from typing import Literal

from clew.paper.results import Result
from clew.paper.study import (
    LAPTOP_SET,
    MAZES,
    MLMU,
    NEXT,
    OBJECTIVES,
    EvaluationSpec,
    RunScale,
    RunSpec,
    Study,
    square,
    text_run,
)
from clew.paper.tables import EXACT, X_LABELS, Pivot, reached
from clew.paper.verdict import (
    ALPHA,
    NOT_MEASURED,
    Arm,
    Claim,
    Comparison,
    Finding,
    arm,
    concluded,
    paired,
    verdict_on_differences,
)

SIZES = {"laptop": (4,), "paper": (5, 10)}
SETS = {"laptop": (2_000, 6_000, 20_000, 60_000), "paper": (25_000, 50_000, 75_000, 100_000)}
NEAR = 0.95  # of the best score; a set that reaches it is enough


def efficiency_runs(scale: RunScale) -> list[RunSpec]:
    return [
        text_run(
            scale,
            {"objective": name, "size": square(size), "mazes": f"{count:,}"},
            objective,
            size,
            mazes=count,
            paper_scale={"epochs": 2000},
        )
        for size in SIZES[scale]
        for count in SETS[scale]
        for name, objective in OBJECTIVES.items()
    ]


def efficiency_findings(result: Result) -> list[Finding]:
    return [_efficiency(result, size) for size in result.values("size")]


def _efficiency(result: Result, size: str) -> Finding:
    text = "MLM-U needs fewer training mazes than next token for the same accuracy"
    claim = Claim(text, "a quarter: 25,000 of 5x5 against 100,000", f"DFS {size}", main="data")
    arms = {
        (objective, int(mazes.replace(",", ""))): arm(result, size=size, mazes=mazes, objective=objective)
        for mazes in result.values("mazes")
        for objective in OBJECTIVES
    }
    known = [each.share for (objective, _), each in arms.items() if objective == NEXT and each.mean]
    if not known:
        return Finding(claim, "inconclusive", "", NOT_MEASURED)
    # Next token's best accuracy is one that at least one of the two objectives reaches.
    target = NEAR * max(known)
    needed = {
        objective: next((count for (o, count), each in arms.items() if o == objective and each.share >= target), None)
        for objective in OBJECTIVES
    }
    mlmu, plain = needed[MLMU], needed[NEXT]
    words = [f"{name} " + ("never" if needed[name] is None else f"{needed[name]:,} mazes") for name in (MLMU, NEXT)]
    assert plain is not None
    outcome: bool | None = None
    if mlmu is None:
        outcome, because = False, "MLM-U does not get there with any number tried."
    elif mlmu == plain:
        because = "both need as many, of the numbers tried."
    else:
        first, other = (MLMU, NEXT) if mlmu < plain else (NEXT, MLMU)
        few, many = sorted((mlmu, plain))
        pairs = paired(arms[first, few], arms[other, few])
        if pairs and all(pair.difference > 0 and pair.p < ALPHA for pair in pairs):
            outcome, because = first == MLMU, f"{first} needs {many / few:g} times fewer."
        else:
            because = "with the smaller of the two numbers the intervals of both objectives overlap."
    return concluded(claim, result.entries(size=size), outcome, f"to {100 * target:.0f} %: {', '.join(words)}", because)


DATA_EFFICIENCY = Study(
    name="data-efficiency",
    title="Data efficiency",
    source="figure 3",
    question="How many training mazes does each objective need?",
    paper="MLM-U solves 5x5 and 10x10 with 25,000 mazes; next token needs 100,000 on 5x5, stays below 50 % on 10x10.",
    runs=efficiency_runs,
    tables=[Pivot("objective", "mazes", f"{EXACT}, {{size}}, by training mazes", each=("size",), chart="lines")],
    claims=[efficiency_findings],
    notes=("All runs take as many steps, so fewer mazes are seen more often.",),
)

TARGETS = (0.99, 0.95, 0.9, 0.75, 0.5, 0.25, 0.1)  # the highest that all runs reach is compared
CLOSE = 1.1  # differences below a tenth do not decide


def convergence_runs(scale: RunScale) -> list[RunSpec]:
    size = 5 if scale == "paper" else 4
    return [
        text_run(scale, {"objective": name, "size": square(size)}, objective, size, paper_scale={"epochs": 2000})
        for name, objective in OBJECTIVES.items()
    ]


def speed_findings(result: Result) -> list[Finding]:
    found = []
    for size in result.values("size"):
        arms = [arm(result, size=size, objective=objective) for objective in (MLMU, NEXT)]
        text, task = "MLM-U needs fewer training mazes (epochs) to converge", f"DFS {size}"
        found.append(_faster(Claim(text, "2.17 times fewer epochs", task), "mazes", *arms))
        text = "MLM-U needs less training time to converge"
        found.append(_faster(Claim(text, "2.03 times fewer GPU hours", task, main="hours"), "hours", *arms))
    return found


def _faster(claim: Claim, x: Literal["mazes", "hours"], mlmu: Arm, plain: Arm) -> Finding:
    """Compare when both objectives first reach an accuracy, seed by seed."""
    runs = [*mlmu.runs, *plain.runs]
    for target in TARGETS:
        ours, theirs = ({run["seed"]: reached([run], x, target) for run in each.runs} for each in (mlmu, plain))
        pairs = [(a, b) for seed in ours if (a := ours[seed]) is not None and (b := theirs.get(seed)) is not None]
        if pairs and 2 * len(pairs) == len(runs):
            break
    else:
        return concluded(claim, runs, None, "no accuracy that all runs reach", "there is nothing to compare.")
    unit = "mazes" if x == "mazes" else X_LABELS[runs[0]["device"]].removesuffix(" of training")
    digits = 0 if x == "mazes" else 2
    means = [sum(each) / len(pairs) for each in zip(*pairs, strict=True)]
    words = f"to {target:.0%}: MLM-U {means[0]:,.{digits}f}, next token {means[1]:,.{digits}f} {unit}"
    ratios = [late / early for early, late in pairs]
    if all(ratio > CLOSE for ratio in ratios):
        outcome, because = True, f"MLM-U is {means[1] / means[0]:.2f} times as fast as next token."
    elif all(ratio < 1 / CLOSE for ratio in ratios):
        outcome, because = False, f"next token is {means[0] / means[1]:.2f} times as fast as MLM-U."
    else:
        outcome, because = None, f"they differ by less than {CLOSE - 1:.0%}, or the seeds disagree."
    return concluded(claim, runs, outcome, words, because)


CONVERGENCE = Study(
    name="convergence",
    title="Convergence where both succeed",
    source="figure 4",
    question="On mazes that both objectives can solve, which one gets there first, by mazes seen and by time?",
    paper="On 5x5 mazes MLM-U converges 2.17 times faster in epochs and 2.03 times faster in GPU hours.",
    runs=convergence_runs,
    tables=[Pivot("objective", "size")],
    claims=[
        speed_findings,
        Comparison(
            "at the end of the training MLM-U solves more held-out mazes",
            "5x5: 100 against 100",
            "DFS {size}",
            {"objective": MLMU},
            {"objective": NEXT},
            each=("size",),
        ),
    ],
    seeds={"laptop": 3, "paper": 3},
    notes=(
        "The curves are means over the seeds; the shade is their standard error. Dashed: training mazes.",
        "The paper's own hours, 17.7 for MLM-U and 13.7 for next token, make 2.17 times fewer epochs 1.68 times fewer "
        "hours, not 2.03.",
    ),
)

TRAINED = "training mazes"


def overfitting_runs(scale: RunScale) -> list[RunSpec]:
    size = 10 if scale == "paper" else 4
    # Sets that other studies have too.
    sets = (100_000,) if scale == "paper" else (2_000, LAPTOP_SET[4])
    evaluations = (EvaluationSpec(mazes=MAZES[scale]), EvaluationSpec(TRAINED, mazes=MAZES[scale], split="train"))
    return [
        text_run(
            scale,
            {"objective": name, "size": square(size), "mazes": f"{mazes:,}"},
            objective,
            size,
            evaluations=evaluations,
            mazes=mazes,
        )
        for name, objective in OBJECTIVES.items()
        for mazes in sets
    ]


def overfitting_findings(result: Result) -> list[Finding]:
    found = []
    for labels in result.combinations("size", "mazes"):
        gaps = [
            (arm(result, **labels, objective=o, evaluation=TRAINED), arm(result, **labels, objective=o))
            for o in (NEXT, MLMU)
        ]
        paper = "10x10: next token below 50 held-out with training mazes solved; MLM-U 100 on both"
        claim = Claim("next token overfits more than MLM-U", paper, OVERFITTING_TASK.format(**labels))
        found.append(verdict_on_differences(claim, "training above held-out mazes by", *gaps))
    return found


OVERFITTING_TASK = "DFS {size}, {mazes} training mazes"
OVERFITTING = Study(
    name="overfitting",
    title="Overfitting",
    source="figure 5",
    question="Which objective memorizes its training mazes instead of learning to solve mazes?",
    paper="On 10x10 mazes next token fits its training mazes but solves below 50 % of others; MLM-U reaches 100 %.",
    runs=overfitting_runs,
    tables=[Pivot("objective", "evaluation", f"{EXACT}, {{mazes}} training mazes", each=("mazes",))],
    claims=[
        overfitting_findings,
        Comparison(
            "MLM-U generalizes better than next token",
            "10x10: 100 against 46",
            OVERFITTING_TASK,
            {"objective": MLMU},
            {"objective": NEXT},
            each=("size", "mazes"),
        ),
    ],
)
