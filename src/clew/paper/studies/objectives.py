"""MLM-U against next token: by size of maze, on A* mazes, by training set, during training, by model, on smaller mazes.

The figures of convergence and overfitting show held-out and training accuracy against mazes seen and against GPU or
core hours: a point every 20 epochs at paper scale, every fortieth of a run at laptop scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from clew.objectives.config import ObjectiveName
from clew.paper.named_configs import HALF_HIDDEN
from clew.paper.results import EXACT, PER_TOKEN, X_LABELS, Pivot, Result, paper_table, parameters, reached
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
    dfs_run,
    square,
    text_run,
)
from clew.paper.verdict import (
    ALPHA,
    Arm,
    Claim,
    Comparison,
    Finding,
    arm,
    concluded,
    not_measured,
    paired,
    task_of,
    verdict,
    verdict_on_differences,
)

PAIR = {"objective": MLMU}, {"objective": NEXT}  # the arms of most comparisons
SIZES = {"laptop": (4, 5, 6), "paper": (5, 10, 15, 20, 30)}
LAPTOP_SEEDS = {5: 2, 6: 1}  # of the user's --seeds; a run of 6x6 takes most of a day of one core
SAMPLED = "MLM-U, half fully hidden"  # the sampler that needs the fewest path-star graphs, on the largest mazes


def accuracy_runs(scale: RunScale) -> list[RunSpec]:
    runs = [dfs_run(scale, name, size, seeds=LAPTOP_SEEDS.get(size)) for size in SIZES[scale] for name in OBJECTIVES]
    if scale == "laptop":
        size = SIZES[scale][-1]
        labels, rates = {"objective": SAMPLED, "size": square(size)}, {"rates": HALF_HIDDEN.rates}
        runs.append(text_run(scale, labels, "mlm-u", size, seeds=LAPTOP_SEEDS[size], laptop=rates))
    return runs


def sampler_findings(result: Result) -> list[Finding]:
    """Judge the sampler where it was measured."""
    text = "half of each batch fully hidden solves more mazes than uniform rates"
    found = []
    for size in result.values("size", objective=SAMPLED):
        arms = (arm(result, size=size, objective=objective) for objective in (SAMPLED, MLMU))
        found.append(verdict(Claim(text, "not measured", f"DFS {size}"), *arms))
    return found


ACCURACY_BY_SIZE = Study(
    name="accuracy-by-size",
    title="Accuracy by size of maze",
    source="table 1, its full form in the appendix, and figure 1",
    question="Which objective finds the path of more held-out DFS mazes, and how does that change with their size?",
    paper="MLM-U solves all mazes up to 20x20 and 93.8 % of 30x30; next token falls from 100 % at 5x5 to 18.8 %.",
    runs=accuracy_runs,
    tables=[
        Pivot("objective", "size", chart="bars"),
        Pivot("objective", "size", score="per_token", chart="bars"),
        paper_table(
            "the paper's table, %",
            "the paper, exact (per token)|5x5|10x10|15x15|20x20|30x30",
            "next token|100 (100)|45.2 (46)|24.4 (32.2)|20.6 (25.4)|18.8 (25.1)",
            "MLM-U|100 (100)|100 (100)|100 (100)|100 (100)|93.8 (95.8)",
        ),
    ],
    claims=[
        Comparison(
            "MLM-U finds the exact path of more held-out mazes than next token",
            "5x5: 100 against 100; 10x10: 100 against 45.2; 15x15: 100 against 24.4; 20x20: 100 against 20.6; "
            "30x30: 93.8 against 18.8",
            "DFS {size}",
            *PAIR,
            each=("size",),
            main="accuracy",
        ),
        sampler_findings,
    ],
    seeds={"laptop": 3},
)

TRACE = "next token with A* traces"
METHODS: dict[str, ObjectiveName] = {MLMU: "mlm-u", NEXT: "next-token", TRACE: "trace"}
ASTAR_SIZES = {"laptop": (4,), "paper": (10, 20, 30)}


def astar_run(scale: RunScale, method: str, size: int) -> RunSpec:
    """Return a run of one method on A* mazes of one size."""
    # A trace is long, and a model that has not learnt to end it generates up to the largest length.
    laptop_mazes = MAZES["laptop"] // 2 if method == TRACE else MAZES["laptop"]
    return text_run(
        scale,
        {"method": method, "size": square(size)},
        METHODS[method],
        size,
        family="astar",
        evaluations=[EvaluationSpec(mazes=laptop_mazes)] if scale == "laptop" else (),
        # The paper quotes Searchformer's numbers for next token, of models that it did not train.
        paper_scale={} if method == MLMU else {"model": "25m"},
    )


ASTAR = Study(
    name="astar",
    title="A* mazes, with and without search traces",
    source="table 2, and its full form in the appendix",
    question="Does MLM-U beat next token on A* mazes, even when next token also learns from traces of the search?",
    paper="An 8M MLM-U model reaches 85.5 % on 30x30; a 175M next-token model 19.3 %, and 70.2 % with A* traces.",
    runs=lambda scale: [astar_run(scale, method, size) for size in ASTAR_SIZES[scale] for method in METHODS],
    tables=[
        Pivot("method", "size", chart="bars"),
        Pivot("method", "size", score="shortest", chart="bars"),
        Pivot("method", "score", each=("size",)),
        paper_table(
            "the paper's table",
            "the paper, %|10x10|20x20|30x30",
            "MLM-U 8M|98.5|95.2|85.5",
            "MLM-U 8M, per token|99.7|97.2|96.5",
            "next token 15M|93.6|39|13.3",
            "next token 175M|94.9|53.5|19.3",
            "next token 175M with A* traces|98.5|90.4|70.2",
        ),
    ],
    claims=[
        Comparison(text, paper, "A* {size}", {"method": MLMU}, {"method": method}, each=("size",), main="astar")
        for text, paper, method in (
            ("MLM-U finds more exact paths than next token", "30x30: 85.5 against 13.3 (15M) and 19.3 (175M)", NEXT),
            ("MLM-U finds more exact paths than next token with A* traces", "30x30: 85.5 against 70.2 (175M)", TRACE),
        )
    ],
    notes=(
        "The paper quotes next token from Searchformer, whose models are larger; here all methods have as many "
        "parameters and steps. An exact match is mostly a test of the tie-break among shortest paths, so valid and "
        "shortest paths are reported beside it.",
    ),
)

EFFICIENCY_SIZES = {"laptop": (4,), "paper": (5, 10)}
SETS = {"laptop": (2_000, 6_000, 20_000, 60_000), "paper": (25_000, 50_000, 75_000, 100_000)}
NEAR = 0.95  # of the best score; a set that reaches it is enough


def set_run(scale: RunScale, objective: str, size: int, mazes: int, **options: Any) -> RunSpec:
    """Return a run of one objective on a set of this many mazes."""
    labels = {"objective": objective, "size": square(size), "mazes": f"{mazes:,}"}
    return text_run(scale, labels, OBJECTIVES[objective], size, mazes=mazes, **options)


def efficiency_findings(result: Result) -> list[Finding]:
    return [efficiency_finding(result, f"DFS {size}", size=size) for size in result.values("size")]


def efficiency_finding(result: Result, task: str, **labels: str) -> Finding:
    """Compare the smallest training sets with which the objectives reach nearly next token's best accuracy."""
    text = "MLM-U needs fewer training mazes than next token for the same accuracy"
    claim = Claim(text, "a quarter: 25,000 of 5x5 against 100,000", task, main="data")
    arms = {
        (objective, int(mazes.replace(",", ""))): arm(result, **labels, mazes=mazes, objective=objective)
        for mazes in result.values("mazes", **labels)
        for objective in OBJECTIVES
    }
    known = [each.share for (objective, _), each in arms.items() if objective == NEXT and each.mean]
    if not known:
        return not_measured(claim)
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
    return concluded(claim, result.entries(**labels), outcome, f"to {100 * target:.0f} %: {', '.join(words)}", because)


DATA_EFFICIENCY = Study(
    name="data-efficiency",
    title="Data efficiency",
    source="figure 3",
    question="How many training mazes does each objective need?",
    paper="MLM-U solves 5x5 and 10x10 with 25,000 mazes; next token needs 100,000 on 5x5, stays below 50 % on 10x10.",
    runs=lambda scale: [
        set_run(scale, objective, size, mazes, paper_scale={"epochs": 2000})
        for size in EFFICIENCY_SIZES[scale]
        for mazes in SETS[scale]
        for objective in OBJECTIVES
    ],
    tables=[Pivot("objective", "mazes", f"{EXACT}, {{size}}, by training mazes", each=("size",), chart="lines")],
    claims=[efficiency_findings],
    notes=("All runs take as many steps, so fewer mazes are seen more often.",),
)

TARGETS = (0.99, 0.95, 0.9, 0.75, 0.5, 0.25, 0.1)  # the highest that all runs reach is compared
CLOSE = 1.1  # differences below a tenth do not decide


def speed_findings(result: Result) -> list[Finding]:
    found = []
    for size in result.values("size"):
        mlmu, plain = (arm(result, size=size, objective=objective) for objective in (MLMU, NEXT))
        text, task = "MLM-U needs fewer training mazes (epochs) to converge", f"DFS {size}"
        found.append(faster(Claim(text, "2.17 times fewer epochs", task), "mazes", mlmu, plain))
        text = "MLM-U needs less training time to converge"
        found.append(faster(Claim(text, "2.03 times fewer GPU hours", task, main="hours"), "hours", mlmu, plain))
    return found


def faster(
    claim: Claim, x: Literal["mazes", "hours"], mlmu: Arm, plain: Arm, targets: Sequence[float] = TARGETS
) -> Finding:
    """Compare when both objectives first reach the highest target that all runs reach, seed by seed."""
    runs = [*mlmu.runs, *plain.runs]
    for target in targets:
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
    runs=lambda scale: [
        dfs_run(scale, objective, 5 if scale == "paper" else 4, paper_scale={"epochs": 2000})
        for objective in OBJECTIVES
    ],
    tables=[Pivot("objective", "size")],
    claims=[
        speed_findings,
        Comparison(
            "at the end of the training MLM-U solves more held-out mazes",
            "5x5: 100 against 100",
            "DFS {size}",
            *PAIR,
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
OVERFITTING_TASK = "DFS {size}, {mazes} training mazes"


def overfitting_runs(scale: RunScale) -> list[RunSpec]:
    size = 10 if scale == "paper" else 4
    sets = (100_000,) if scale == "paper" else (2_000, LAPTOP_SET[4])  # that other studies have too
    evaluations = (EvaluationSpec(mazes=MAZES[scale]), EvaluationSpec(TRAINED, mazes=MAZES[scale], split="train"))
    return [set_run(scale, name, size, mazes, evaluations=evaluations) for name in OBJECTIVES for mazes in sets]


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
            *PAIR,
            each=("size", "mazes"),
        ),
    ],
)

# The largest has about eight times the parameters of the smallest, as in the paper.
MODELS: dict[str, dict[str, dict[str, Any]]] = {
    "laptop": {
        "small": {"width": 32, "depth": 6},
        "medium": {"width": 64, "depth": 6},
        "large": {},
    },
    "paper": {name.upper(): {"model": name} for name in ("3m", "8m", "25m")},
}


def model_size_runs(scale: RunScale) -> list[RunSpec]:
    return [
        text_run(scale, {"objective": name, "model": model}, objective, 20 if scale == "paper" else 4, **settings)
        for model, settings in MODELS[scale].items()
        for name, objective in OBJECTIVES.items()
    ]


def model_size_findings(result: Result) -> list[Finding]:
    small, *_, large = result.values("model")
    task = task_of({"laptop": "DFS 4x4", "paper": "DFS 20x20"}, result)
    named = [arm(result, objective=MLMU, model=model, name=f"MLM-U, {model}") for model in (large, small)]
    gains = [
        (arm(result, model=large, objective=name), arm(result, model=small, objective=name)) for name in (MLMU, NEXT)
    ]
    larger = Claim("MLM-U gains from a larger model", "20x20: 85 with 3M, 100 with 8M", task, main="scaling")
    paper = "20x20: next token gains 43 % of its score from 3M to 25M"
    more = Claim("MLM-U gains more from a larger model than next token", paper, task)
    return [verdict(larger, *named), verdict_on_differences(more, f"gain from {small} to {large}", *gains)]


MODEL_SIZE = Study(
    name="model-size",
    title="Model size",
    source="figure 6, left",
    question="What does a larger model gain with each objective?",
    paper="On 20x20 mazes MLM-U goes from 85 % with 3M parameters to 100 % with 8M; next token gains slowly.",
    runs=model_size_runs,
    tables=[Pivot("objective", "model", chart="bars"), parameters("objective", "model")],
    claims=[model_size_findings],
)

# Trained on, tested on. Two sides apart at least: there are few larger mazes around a maze that is one side smaller,
# and often none of them is held out.
SMALLER_SIZES = {"laptop": (5, 3), "paper": (20, 10)}
SMALLER_TASK = {
    scale: f"DFS {square(small)} by models of {square(large)}" for scale, (large, small) in SMALLER_SIZES.items()
}
PLAIN, JOINED, CUT_OFF = "smaller, plain", "smaller, embedded", "smaller, cut off"
FORMS = {CUT_OFF: "cut off from the rest, as in the published code", JOINED: "joined to the rest by one passage"}


def smaller_runs(scale: RunScale) -> list[RunSpec]:
    (large, small), count = SMALLER_SIZES[scale], MAZES[scale]
    evaluations = (
        EvaluationSpec(mazes=count),
        EvaluationSpec(PLAIN, mazes=count, size=small),
        EvaluationSpec(JOINED, mazes=count, size=small, embedded_in=large),
        EvaluationSpec(CUT_OFF, mazes=count, size=small, embedded_in=large, embedding="cut-off"),
    )
    return [dfs_run(scale, objective, large, evaluations=evaluations) for objective in OBJECTIVES]


def embedded_findings(result: Result) -> list[Finding]:
    """Judge the claims about embedded mazes, for each form that was measured: older results lack one."""
    found = []
    for form, words in FORMS.items():
        if not result.scores(form):
            continue
        task = {scale: f"{text}, {words}" for scale, text in SMALLER_TASK.items()}
        for objective, numbers in ((MLMU, "100 against 0"), (NEXT, "29 against 21")):
            embedded = {"name": "embedded", "objective": objective, "evaluation": form}
            plain = {"name": "plain", "objective": objective, "evaluation": PLAIN}
            text = f"embedding smaller mazes in larger ones helps {objective}"
            found += Comparison(text, numbers, task, embedded, plain)(result)
        mlmu, plain = ({"objective": objective, "evaluation": form} for objective in (MLMU, NEXT))
        found += Comparison("on embedded mazes MLM-U beats next token", "100 against 29", task, mlmu, plain)(result)
    return found


SMALLER_MAZES = Study(
    name="smaller-mazes",
    title="Larger models on smaller mazes",
    source="appendix, table of smaller mazes",
    question="Can a model that was trained on larger mazes solve smaller ones, as they are or embedded in larger ones?",
    paper="Trained on 20x20 and tested on 10x10: next token 21 % plain and 29 % embedded, MLM-U 0 % and 100 %.",
    runs=smaller_runs,
    tables=[
        Pivot("objective", "evaluation", chart="bars"),
        Pivot("objective", "evaluation", PER_TOKEN, "per_token"),
        paper_table(
            "the paper's table; its embedded mazes are cut off from the rest",
            "the paper, % (trained on 20x20, tested on 10x10)|per token|exact",
            f"next token, {PLAIN}|30|21",
            f"next token, {CUT_OFF}|37|29",
            f"MLM-U, {PLAIN}|2|0",
            f"MLM-U, {CUT_OFF}|100|100",
        ),
    ],
    claims=[
        Comparison(
            "on smaller mazes as they are, next token still solves some, and MLM-U fewer",
            "21 against 0",
            SMALLER_TASK,
            {"objective": NEXT, "evaluation": PLAIN},
            {"objective": MLMU, "evaluation": PLAIN},
        ),
        embedded_findings,
    ],
)
