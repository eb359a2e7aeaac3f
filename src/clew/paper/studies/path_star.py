"""The paper's comparisons on path-star graphs, where only the first step is a choice, in minutes.

`path-star` has the claim: MLM-U and next token on arms of five nodes, next token with eight to ten times the graphs
that MLM-U needs, and both controls. `path-star-variants` has the paper's other comparisons (models, fixed sets,
convergence on shorter arms, ordered masks, mask samplers) and changes one thing at a time: sizes, initial weights and
learning rates. Each part has a label `part`; runs that two parts share are trained once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clew.evaluation.scores import GRAPH_FAILURES
from clew.mazes.generators import StarShape
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.paper.named_configs import HALF_HIDDEN, StarKind, star_config
from clew.paper.results import EXACT, Entry, Pivot, Report, Result, Table, curves, reached
from clew.paper.studies.objectives import efficiency_finding, faster
from clew.paper.study import MLMU, NEXT, EvaluationSpec, RunScale, RunSpec, Study
from clew.paper.verdict import Claim, Comparison, Finding, arm, verdict

ON_MLMU, REVERSED = "next token on MLM-U's network", "next token, path reversed"
PAIRS, CONTROLS = "pairs", "controls"
SHORT, SIZES, RECIPES, SETS, MASKS, SAMPLERS, MODELS = (
    *("short arms", "sizes", "recipes", "fixed sets", "ordered masks", "samplers", "models"),
)
KINDS: dict[str, StarKind] = {
    MLMU: "mlmu-sampler",
    NEXT: "next",
    ON_MLMU: "next-on-mlmu",
    REVERSED: "next-reversed",
}
# Arms and length of the pairs, and the steps of MLM-U, until its curve is flat, and of next token: eight to ten times
# those in which MLM-U reaches 98 %.
PAIR_STEPS = {(2, 5): (600, 3900), (3, 5): (900, 4200)}
CONTROL_SHAPE = (2, 5)
ON_MLMU_STEPS = 480  # MLM-U needs at most 390 on the same network
REVERSED_STEPS = 180  # on arms of 4, next token needs at most 90 for the path reversed
# Both objectives solve arms of four: their steps, next token as many as MLM-U or twice as many.
SHORT_PAIR_STEPS = {(2, 4): (720, 720), (3, 4): (1200, 1200), (5, 4): (900, 1800)}
SHORT_SHAPE, WIDE_SHAPE = (2, 4), (5, 4)
# Arms, length and labels, and steps of MLM-U alone: one thing changed at a time from 2 arms of length 4, and 5 arms of
# length 5.
SIZE_STEPS: dict[tuple[int, int, int | None], int] = {
    (2, 3, None): 360,
    (2, 6, None): 600,
    (2, 8, None): 600,
    (10, 3, None): 320,
    (5, 5, None): 900,
    (2, 4, 12): 360,
    (2, 4, 25): 360,
    (2, 4, 50): 720,
}
# The recipe of the short arms, and changes of one thing, with the same steps for both objectives.
RECIPE_STEPS = 720
RECIPE_CHANGES: dict[str, dict[str, Any]] = {
    "as in the pairs": {},
    "GPT-2 initialization": {"init": "gpt-2"},
    "Muon 0.007": {"muon_lr": 0.007},
    "AdamW for all": {"optimizer": "adamw"},
}
SET_SHAPE, SET_SIZES = (3, 4), (250, 500, 1_000, 2_000, 8_000, 32_000)
STRATIFIED = RateConfig(sampling="stratified")
UNIFORM, HALF = "uniform, a sequence (the paper)", "half fully hidden"
SAMPLER_OBJECTIVES = {
    UNIFORM: ObjectiveConfig(),
    "uniform, stratified": ObjectiveConfig(rates=STRATIFIED),
    "a quarter fully hidden": ObjectiveConfig(rates=replace(STRATIFIED, fully_hidden=0.25)),
    HALF: HALF_HIDDEN,
    "all fully hidden": ObjectiveConfig(rates=RateConfig(fully_hidden=1.0)),
    "adaptive": ObjectiveConfig(rates=RateConfig("adaptive", "stratified")),
    "half along the confidence, a quarter fully hidden": ObjectiveConfig(
        rates=replace(STRATIFIED, fully_hidden=0.25), confidence_share=0.5
    ),
    "weights 1/t": ObjectiveConfig(rates=STRATIFIED, weighting="rate"),
    "weights 1/t, at most 5": ObjectiveConfig(rates=STRATIFIED, weighting="rate", max_weight=5.0),
}
ORDERED = {
    "ordered: the right is hidden": ObjectiveConfig("ordered", STRATIFIED),
    "ordered: the left is hidden": ObjectiveConfig("ordered-reverse", STRATIFIED),
}
# On SHORT_SHAPE all samplers have as many steps; on WIDE_SHAPE uniform rates have more than twice the steps in which
# half fully hidden reaches its target.
UNIFORM_STEPS = 1200
TARGET, PLANNED = 0.95, 0.98
# Of CONTROL_SHAPE; eight layers are the model of the pairs.
MODEL_SIZES = {"2 layers": {"depth": 2}, "4 layers": {"depth": 4}, "8 layers": {}}
LEFT, RIGHT, CERTAINTY = "held-out", "right to left", "by confidence"
DECODERS = {LEFT: "left-to-right", RIGHT: "right-to-left", CERTAINTY: "certainty"}
GRAPHS = 1000  # of an evaluation
TRAINED = "training graphs"


def graph_name(arms: int, length: int, labels: int | None = None) -> str:
    return f"d={arms}, l={length}, N={labels or StarShape(arms, length).nodes}"


def _run(
    part: str, shape: tuple[int, int], name: str, steps: int, seeds: int | None = None, **settings: Any
) -> RunSpec:
    """Return a run of a kind, labelled with its objective and its graphs."""
    config = star_config(KINDS[name], *shape, steps=steps, **settings)
    # Accuracy near 1/d is noisy, so next token is evaluated on more graphs.
    held_out = 500 if name == MLMU else 2000
    config = replace(config, evaluate_every=max(1, steps // 20), held_out=held_out, keep_last=1, threads=1)
    labels = {"part": part, "graph": graph_name(*shape, settings.get("labels")), "objective": name}
    # Masked models are decoded in every order, next token in its own.
    decoders = DECODERS if name == MLMU else {LEFT: DECODERS[LEFT]}
    evaluations = tuple(EvaluationSpec(word, GRAPHS, decoder=decoder) for word, decoder in decoders.items())
    return RunSpec(labels, config, evaluations, seeds=seeds)


def runs(scale: RunScale) -> list[RunSpec]:
    """Return the same runs at both scales: the paper has no such graphs."""
    found = []
    for shape, (mlmu_steps, next_steps) in PAIR_STEPS.items():
        found += [_run(PAIRS, shape, MLMU, mlmu_steps), _run(PAIRS, shape, NEXT, next_steps, seeds=1)]
    return [
        *found,
        _run(CONTROLS, CONTROL_SHAPE, ON_MLMU, ON_MLMU_STEPS),
        _run(CONTROLS, CONTROL_SHAPE, REVERSED, REVERSED_STEPS),
    ]


def variant_runs(scale: RunScale) -> list[RunSpec]:
    """Return the runs of `path-star-variants`, the same at both scales."""
    found = []
    for name, settings in MODEL_SIZES.items():
        run = _run(MODELS, CONTROL_SHAPE, MLMU, PAIR_STEPS[CONTROL_SHAPE][0], **settings)
        found.append(replace(run, labels=run.labels | {"model": name}))
    for count in SET_SIZES:
        for name in (MLMU, NEXT):
            run = _run(SETS, SET_SHAPE, name, SHORT_PAIR_STEPS[SET_SHAPE][0], seeds=1, graphs=count)
            evaluations = (EvaluationSpec(LEFT, GRAPHS), EvaluationSpec(TRAINED, GRAPHS, split="train"))
            labels = run.labels | {"mazes": f"{count:,}"}
            found.append(replace(run, labels=labels, evaluations=evaluations, train_mazes=200))
    # All samplers on one graph, uniform rates and the sampler of the pairs on a larger one.
    steps = SHORT_PAIR_STEPS[SHORT_SHAPE][0]
    samplers = [(HALF, WIDE_SHAPE, SHORT_PAIR_STEPS[WIDE_SHAPE][0]), (UNIFORM, WIDE_SHAPE, UNIFORM_STEPS)]
    samplers += [(name, SHORT_SHAPE, steps) for name in SAMPLER_OBJECTIVES]
    for name, shape, sampler_steps in samplers:
        seeds = None if name == HALF and shape != WIDE_SHAPE else 1
        run = _run(SAMPLERS, shape, MLMU, sampler_steps, seeds, objective=SAMPLER_OBJECTIVES[name])
        found.append(replace(run, labels=run.labels | {"sampler": name}))
    for name, objective in ORDERED.items():
        run = _run(MASKS, SHORT_SHAPE, MLMU, steps, seeds=1, objective=objective)
        found.append(replace(run, labels=run.labels | {"objective": name}))
    for shape, both in SHORT_PAIR_STEPS.items():
        for name, pair_steps in zip((MLMU, NEXT), both, strict=True):
            found.append(_run(SHORT, shape, name, pair_steps, seeds=1 if shape == WIDE_SHAPE else None))
    for (arms, length, nodes), size_steps in SIZE_STEPS.items():
        found.append(_run(SIZES, (arms, length), MLMU, size_steps, seeds=1, labels=nodes))
    for change, settings in RECIPE_CHANGES.items():
        for name in (MLMU, NEXT):
            run = _run(RECIPES, SHORT_SHAPE, name, RECIPE_STEPS, seeds=1, **settings)
            found.append(replace(run, labels=run.labels | {"recipe": change}))
    return found


def pair_report(result: Result) -> Report:
    """Return exact paths beside the share of a guess, with the graphs seen and the core seconds; and the curves."""
    head = ["graph", "objective", "seeds", "1/d, %", "exact, %", "graphs seen", "graphs to 98 %, each seed"]
    head += ["core seconds", "parameters"]
    rows = []
    for part in (PAIRS, CONTROLS, SHORT):
        for labels in result.combinations("graph", "objective", part=part):
            entries = result.entries(part=part, **labels)
            arms = int(labels["graph"].split(",")[0].removeprefix("d="))
            exact = str(result.mean(part=part, **labels))
            numbers = [str(len(entries)), f"{100 / arms:.1f}", exact, *_costs(entries, PLANNED)]
            rows.append([*labels.values(), *numbers, f"{entries[0]['parameters']:,}"])
    panels = [
        curves(result, labels["graph"], "mazes", "objective", **labels)
        for part in (PAIRS, SHORT)
        for labels in result.combinations("part", "graph", part=part)
    ]
    title = "MLM-U and next token"
    return Report([Table(title, [head, *rows])] if rows else [], panels)


def _costs(entries: Sequence[Entry], target: float) -> list[str]:
    """Return the graphs seen, the graphs that each seed needs to reach a held-out accuracy, and the core seconds."""
    seen = entries[0]["curve"][-1]["mazes"] if entries[0]["curve"] else 0
    needed = [reached([entry], "mazes", target) for entry in entries]
    words = ", ".join("not reached" if count is None else f"{count:,.0f}" for count in needed)
    minutes: list[float] = [entry.get("core_minutes") or entry["minutes"] for entry in entries]
    return [f"{seen:,}", words, f"{60 * sum(minutes) / len(minutes):.0f}"]


def sampler_report(result: Result) -> Report:
    head = ["graph", "sampler", "exact, %", "graphs seen", f"graphs to {TARGET:.0%}, each seed", "core seconds"]
    rows = []
    for labels in result.combinations("graph", "sampler", part=SAMPLERS):
        exact = str(result.mean(part=SAMPLERS, **labels))
        rows.append([*labels.values(), exact, *_costs(result.entries(part=SAMPLERS, **labels), TARGET)])
    panels = [
        curves(result, f"samplers, {graph}", "mazes", "sampler", part=SAMPLERS, graph=graph)
        for graph in result.values("graph", part=SAMPLERS)
    ]
    return Report([Table("mask samplers of MLM-U", [head, *rows])] if rows else [], panels)


def failure_report(result: Result) -> Report:
    """Return the classes of failures of the pairs."""
    rows = [["graph", "objective", *GRAPH_FAILURES]]
    for part in (PAIRS, SHORT):
        for labels in result.combinations("graph", "objective", part=part):
            scores = result.scores(part=part, **labels)
            counts = [sum(each["failures"].get(name, 0) for each in scores) for name in GRAPH_FAILURES]
            rows.append([*labels.values(), *(f"{100 * n / max(1, sum(counts)):.1f}" for n in counts)])
    return Report([Table("failures of the pairs, % of all failures", rows)])


SHORT_GRAPH, CONTROL_GRAPH = graph_name(*SHORT_SHAPE), graph_name(*CONTROL_SHAPE)
MAZE_NUMBERS = "DFS 10x10: 100 against 45.2"
PAIR = {"objective": MLMU}, {"objective": NEXT}
SOLVES_MORE = "MLM-U solves more held-out graphs than next token"
GRAPHS_NOTE = (
    "d arms of l nodes from the centre to an arm's end, both included; labels from N. Without planning, one graph in d "
    "is solved. MLM-U here has half of each batch fully hidden."
)


def model_findings(result: Result) -> list[Finding]:
    """Compare the largest model of MLM-U with each smaller one."""
    *smaller, largest = (
        arm(result, part=MODELS, model=model, name=f"MLM-U, {model}") for model in result.values("model", part=MODELS)
    )
    task = f"path-star {CONTROL_GRAPH}"
    paper = "20x20: 85 with 3M, 100 with 8M"
    return [
        verdict(
            Claim(
                f"MLM-U with more layers solves more than with {each.runs[0]['labels']['model']}",
                paper,
                task,
                main="scaling",
            ),
            largest,
            each,
        )
        for each in smaller
    ]


def set_findings(result: Result) -> list[Finding]:
    return [
        efficiency_finding(result, f"path-star {graph}", part=SETS, graph=graph)
        for graph in result.values("graph", part=SETS)
    ]


def speed_findings(result: Result) -> list[Finding]:
    """Compare the graphs that both objectives need where both succeed: accuracies near chance say nothing."""
    found = []
    for graph in result.values("graph", part=SHORT):
        claim = Claim("MLM-U needs fewer training graphs to converge", "2.17 times fewer epochs", f"path-star {graph}")
        mlmu, plain = (arm(result, part=SHORT, graph=graph, objective=objective) for objective in (MLMU, NEXT))
        found.append(faster(claim, "mazes", mlmu, plain, (PLANNED, TARGET)))
    return found


def by_decoder(part: str) -> Pivot:
    return Pivot("evaluation", "graph", f"MLM-U by decoder: {EXACT}", where={"part": part, "objective": MLMU})


def control_claim(text: str, paper: str, better: tuple[str, str], baseline: tuple[str, str]) -> Comparison:
    """Return a comparison of two runs, each given by part and objective, on the graph of the controls."""
    ours, theirs = (dict(zip(("part", "objective"), names, strict=True)) for names in (better, baseline))
    return Comparison(text, paper, f"path-star {CONTROL_GRAPH}", ours, theirs, where={"graph": CONTROL_GRAPH})


PATH_STAR = Study(
    name="path-star",
    title="Path-star graphs",
    source="ours; the published code has these graphs",
    question="Where only the first step is a choice, can next token learn to plan, and can MLM-U?",
    paper="On mazes MLM-U plans and next token does not: DFS 10x10 100 % against 45.2 %.",
    runs=runs,
    tables=[
        pair_report,
        by_decoder(PAIRS),
        Pivot("graph", "objective", f"controls: {EXACT}", where={"part": CONTROLS}),
        failure_report,
    ],
    claims=[
        Comparison(
            f"{SOLVES_MORE} with at least eight times the graphs that MLM-U needs",
            MAZE_NUMBERS,
            "path-star {graph}",
            *PAIR,
            each=("graph",),
            where={"part": PAIRS},
        ),
        control_claim(
            "MLM-U solves more than next token's objective on MLM-U's network",
            MAZE_NUMBERS,
            (PAIRS, MLMU),
            (CONTROLS, ON_MLMU),
        ),
        control_claim(
            "next token solves more if the path is written from the goal to the start",
            "not measured",
            (CONTROLS, REVERSED),
            (PAIRS, NEXT),
        ),
    ],
    seeds={"laptop": 3, "paper": 3},
    notes=(
        f"{GRAPHS_NOTE} Next token has one seed and eight to ten times the graphs in which MLM-U reaches 98 %.",
        "Batch and learning rates were chosen for MLM-U, on graphs of the training split.",
    ),
)

PATH_STAR_VARIANTS = Study(
    name="path-star-variants",
    title="Path-star graphs: short arms, sizes, samplers and models",
    source="ours; the published code has these graphs",
    question="What does it depend on whether MLM-U and next token learn path-star graphs?",
    paper="Uniform mask rates are the paper's; other samplers are its future work.",
    runs=variant_runs,
    tables=[
        pair_report,
        by_decoder(SHORT),
        Pivot("objective", "graph", f"MLM-U by size: {EXACT}", where={"part": SIZES}),
        Pivot(
            "recipe",
            "objective",
            f"initial weights and optimizers, {RECIPE_STEPS} steps: {EXACT}",
            where={"part": RECIPES},
        ),
        Pivot("objective", "mazes", f"fixed sets of graphs, held-out: {EXACT}", where={"part": SETS}, chart="lines"),
        Pivot("objective", "mazes", f"fixed sets, training graphs: {EXACT}", evaluation=TRAINED, where={"part": SETS}),
        Pivot("objective", "evaluation", f"ordered masks: {EXACT}", where={"part": MASKS}),
        sampler_report,
        Pivot("graph", "model", f"models of MLM-U: {EXACT}", where={"part": MODELS}),
        failure_report,
    ],
    claims=[
        Comparison(SOLVES_MORE, MAZE_NUMBERS, "path-star {graph}", *PAIR, each=("graph",), where={"part": SHORT}),
        speed_findings,
        set_findings,
        model_findings,
        *(
            Comparison(
                "ordered masks are inferior to MLM-U",
                "A* 10x10: 98.5 against less than 4",
                f"path-star {SHORT_GRAPH}",
                {"part": SHORT, "graph": SHORT_GRAPH, "objective": MLMU},
                {"part": MASKS, "graph": SHORT_GRAPH, "objective": name},
            )
            for name in ORDERED
        ),
    ],
    seeds={"laptop": 3, "paper": 3},
    notes=(
        f"{GRAPHS_NOTE} The table of samplers has the paper's uniform rates beside it.",
        "Of d=2, l=4, N=7 there are 2,520 graphs in all, one in 16 of them held out, so its 1,000 held-out tasks are "
        "about 300 with their edges in several orders.",
        "Both objectives on d=5, and the runs of size, recipes, fixed sets, ordered masks and other samplers have one "
        "seed.",
    ),
)
