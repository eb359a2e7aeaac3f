"""What happens during training: convergence where both objectives succeed, and overfitting where next token does.

The paper's figures of convergence on 5x5 and on 10x10 mazes.
"""

from __future__ import annotations

from dataclasses import replace

from clew.experiments.presets import preset
from clew.experiments.reproduce.recipes import (
    LAPTOP_MAZES,
    MLMU,
    NEXT,
    OBJECTIVES,
    PAPER_MAZES,
    SHORT,
    RunScale,
    laptop_text,
    paper_run,
    square,
)
from clew.experiments.reproduce.result import Mean, Result, mean_of
from clew.experiments.reproduce.study import Exam, Finding, Run, Show, Study, Verdict
from clew.experiments.reproduce.tell import (
    EXACT,
    clearly_above,
    compare,
    compare_differences,
    curves,
    difference,
    exam_table,
    pivot,
    reached,
)

TARGETS = (0.99, 0.95, 0.9, 0.75, 0.5, 0.25, 0.1)  # the highest that both reach is compared
TRAINED = "training mazes"
# Few mazes, seen often: about fifty times each.
OVERFIT_SIZE, OVERFIT_MAZES, OVERFIT_STEPS, OVERFIT_SCORED = 4, 500, 400, 200


def convergence_runs(scale: RunScale) -> list[Run]:
    if scale == "laptop":
        return [half_hour_run(objective) for objective in OBJECTIVES]
    labels = {"size": square(5)}
    return [paper_run({"objective": o, **labels}, f"paper-dfs-5-{SHORT[o]}-8m-100k") for o in OBJECTIVES]


def half_hour_run(objective: str) -> Run:
    """The longest trainings on text that a laptop does: one objective's preset of 4x4 mazes, on two cores."""
    config = replace(preset(f"laptop-dfs-4-{SHORT[objective]}"), threads=2)
    return Run({"objective": objective, "size": square(4)}, config, (Exam(mazes=PAPER_MAZES),))


def convergence_show(result: Result) -> Show:
    panels = [curves(result, f"held-out, by {x}", x, "objective") for x in ("mazes", "minutes")]
    return Show([pivot(result, EXACT, "objective", "size")], panels)


def convergence_findings(result: Result) -> list[Finding]:
    ends = [(objective, result.mean(objective=objective)) for objective in (MLMU, NEXT)]
    return [
        _faster(result, "mazes", "MLM-U needs fewer training mazes (epochs) to converge", "2.17 times fewer epochs"),
        _faster(result, "minutes", "MLM-U needs less training time to converge", "2.03 times fewer GPU hours"),
        compare("at the end of the training MLM-U solves more held-out mazes", "5x5: 100 against 100", *ends),
    ]


def _faster(result: Result, x: str, claim: str, paper: str) -> Finding:
    for target in TARGETS:
        mlmu, plain = (_reached(result, objective, x, target) for objective in (MLMU, NEXT))
        if mlmu is not None and plain is not None:
            break
    else:
        return Finding(claim, paper, "", "cannot be told", "they reach no score in common.")
    digits = 0 if x == "mazes" else 2
    ours = f"to {target:.0%}: MLM-U {mlmu.value:,.{digits}f}, next token {plain.value:,.{digits}f} {x}"
    (quick, fast), (slow, late) = sorted(((MLMU, mlmu), (NEXT, plain)), key=lambda pair: pair[1].value)
    times = late.value / fast.value
    # With one seed there is no error to go by, and a tenth is soon gained or lost.
    if times < 1.1 or not clearly_above(late, fast):
        return Finding(claim, paper, ours, "cannot be told", "they are too close to each other.")
    verdict: Verdict = "holds" if quick == MLMU else "does not hold"
    return Finding(claim, paper, ours, verdict, f"{quick} is {times:.2f} times as fast as {slow}.")


def _reached(result: Result, objective: str, x: str, target: float) -> Mean | None:
    """When the seeds reach a score, on average; None if one does not."""
    found = [reached([entry], x, target) for entry in result.entries(objective=objective)]
    known = [value for value in found if value is not None]
    return mean_of(known) if found and len(known) == len(found) else None


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
    notes=("The curves are means over the seeds; the shade is their standard error.",),
)


def overfitting_runs(scale: RunScale) -> list[Run]:
    found = []
    for objective in OBJECTIVES:
        labels = {"objective": objective}
        count = PAPER_MAZES if scale == "paper" else LAPTOP_MAZES
        exams = (Exam(mazes=count), Exam(TRAINED, mazes=count, side="train"))
        if scale == "paper":
            found.append(paper_run(labels, f"paper-dfs-10-{SHORT[objective]}-8m", exams))
        else:
            config = laptop_text(objective, OVERFIT_SIZE, steps=OVERFIT_STEPS, mazes=OVERFIT_MAZES)
            found.append(Run(labels, config, exams, train_mazes=OVERFIT_SCORED))
    return found


def overfitting_show(result: Result) -> Show:
    table = exam_table(result, EXACT, "objective", [TRAINED, "held-out"])
    both = {"exact": ", held-out", "train-exact": ", trained"}
    return Show([table], [curves(result, "training and held-out mazes", "mazes", "objective", both)])


def overfitting_findings(result: Result) -> list[Finding]:
    held = {objective: result.mean(objective=objective) for objective in OBJECTIVES}
    gaps = {o: difference(result.mean(exam=TRAINED, objective=o), held[o]) for o in OBJECTIVES}
    return [
        compare_differences(
            "next token overfits more than MLM-U",
            "10x10: next token below 50 held-out with training mazes solved; MLM-U 100 on both",
            "training above held-out mazes by",
            (NEXT, gaps[NEXT]),
            (MLMU, gaps[MLMU]),
        ),
        compare(
            "MLM-U generalizes better than next token",
            "10x10: 100 against 46",
            (MLMU, held[MLMU]),
            (NEXT, held[NEXT]),
        ),
    ]


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
