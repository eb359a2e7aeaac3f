"""The paper's comparisons on path-star graphs: where MLM-U plans and next token cannot, in minutes.

Every part has a label `part`: the pairs that the claim rests on, with both controls; then accuracy by size, fixed sets,
ordered masks, mask samplers and models. Runs that two parts share are trained once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clew.evaluation.failures import GRAPH_FAILURES
from clew.mazes.path_star import StarShape
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.paper.results import Result
from clew.paper.star_configs import SAMPLER, StarKind, star_config
from clew.paper.study import MLMU, NEXT, EvaluationSpec, RunScale, RunSpec, Study
from clew.paper.tables import EXACT, Pivot, Report, Table, curves, reached
from clew.paper.verdict import Comparison

ON_MLMU, REVERSED = "next token on MLM-U's network", "next token, path reversed"
PAIRS, CONTROLS, SIZES, SETS, MASKS, SAMPLERS, MODELS = (
    *("pairs", "controls", "sizes", "fixed sets", "ordered masks", "samplers", "models"),
)
KINDS: dict[str, StarKind] = {
    MLMU: "mlmu-sampler",
    NEXT: "next",
    ON_MLMU: "next-on-mlmu",
    REVERSED: "next-reversed",
}
# Arms and length of the pairs, and MLM-U's steps; next token has ten times as many, and so ten times the graphs.
PAIR_STEPS = {(2, 4): 700, (3, 4): 1000, (5, 4): 1500}
TIMES = 10
CONTROL_SHAPE = (2, 4)
REVERSED_STEPS = 700
# Arms, length and labels, and steps of MLM-U alone: one thing changed at a time from 2 arms of length 4.
SIZE_STEPS: dict[tuple[int, int, int | None], int] = {
    (2, 3, None): 700,
    (2, 5, None): 1500,
    (2, 6, None): 1500,
    (10, 3, None): 1000,
    (2, 4, 12): 1000,
    (2, 4, 25): 1000,
    (2, 4, 50): 1000,
}
SET_SIZES, SET_STEPS = (250, 1000, 4000), 700
SAMPLER_SHAPE, SAMPLER_STEPS = (5, 4), 1500
UNIFORM = "uniform, a sequence (the paper)"
SAMPLER_OBJECTIVES = {
    UNIFORM: ObjectiveConfig(),
    "uniform, stratified": ObjectiveConfig(rates=RateConfig(sampling="stratified")),
    "a quarter fully hidden": ObjectiveConfig(rates=RateConfig(sampling="stratified", fully_hidden=0.25)),
    "half fully hidden": ObjectiveConfig(rates=RateConfig(sampling="stratified", fully_hidden=0.5)),
    "all fully hidden": ObjectiveConfig(rates=RateConfig(fully_hidden=1.0)),
    "adaptive": ObjectiveConfig(rates=RateConfig("adaptive", "stratified")),
    "half along the confidence, a quarter fully hidden": SAMPLER,
    "weights 1/t": ObjectiveConfig(rates=RateConfig(sampling="stratified"), weighting="rate"),
    "weights 1/t, at most 5": ObjectiveConfig(
        rates=RateConfig(sampling="stratified"), weighting="rate", max_weight=5.0
    ),
}
ORDERED = {
    "ordered: the right is hidden": ObjectiveConfig("ordered", RateConfig(sampling="stratified")),
    "ordered: the left is hidden": ObjectiveConfig("ordered-reverse", RateConfig(sampling="stratified")),
}
SEEDED_SAMPLERS = (UNIFORM, "half fully hidden")  # with as many seeds as are asked for; the others with one
TARGET = 0.95
MODEL_SIZES = {"2 layers": {"depth": 2}, "4 layers": {}, "8 layers": {"depth": 8}, "width 32": {"width": 32}}
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
    # Next token stays near 1/d, where accuracy is noisy, so its curve has more points of more graphs.
    points, held_out = (20, 500) if name == MLMU else (40, GRAPHS)
    config = replace(config, evaluate_every=max(1, steps // points), held_out=held_out, keep_last=1, threads=1)
    labels = {"part": part, "graph": graph_name(*shape, settings.get("labels")), "objective": name}
    # Masked models are decoded in every order, next token in its own.
    decoders = DECODERS if name == MLMU else {LEFT: DECODERS[LEFT]}
    evaluations = tuple(EvaluationSpec(word, GRAPHS, decoder=decoder) for word, decoder in decoders.items())
    return RunSpec(labels, config, evaluations, seeds=seeds)


def runs(scale: RunScale) -> list[RunSpec]:
    """Return the same runs at both scales: the paper has no such graphs."""
    steps = PAIR_STEPS[CONTROL_SHAPE]
    found = []
    for shape, pair_steps in PAIR_STEPS.items():
        found += [_run(PAIRS, shape, MLMU, pair_steps), _run(PAIRS, shape, NEXT, TIMES * pair_steps)]
    found += [
        _run(CONTROLS, CONTROL_SHAPE, ON_MLMU, TIMES * steps, seeds=1),
        _run(CONTROLS, CONTROL_SHAPE, REVERSED, REVERSED_STEPS),
    ]
    for (arms, length, nodes), size_steps in SIZE_STEPS.items():
        found.append(_run(SIZES, (arms, length), MLMU, size_steps, seeds=1, labels=nodes))
    for count in SET_SIZES:
        for name in (MLMU, NEXT):
            run = _run(SETS, CONTROL_SHAPE, name, SET_STEPS, seeds=1, graphs=count)
            evaluations = (EvaluationSpec(LEFT, GRAPHS), EvaluationSpec(TRAINED, min(count, GRAPHS), split="train"))
            labels = run.labels | {"set": f"{count:,}"}
            found.append(replace(run, labels=labels, evaluations=evaluations, train_mazes=200))
    for name, objective in ORDERED.items():
        run = _run(MASKS, CONTROL_SHAPE, MLMU, steps, seeds=1, objective=objective)
        found.append(replace(run, labels=run.labels | {"objective": name}))
    for name, objective in SAMPLER_OBJECTIVES.items():
        seeds = None if name in SEEDED_SAMPLERS or objective == SAMPLER else 1
        run = _run(SAMPLERS, SAMPLER_SHAPE, MLMU, SAMPLER_STEPS, seeds, objective=objective)
        found.append(replace(run, labels=run.labels | {"sampler": name}))
    for name, settings in MODEL_SIZES.items():
        run = _run(MODELS, CONTROL_SHAPE, MLMU, steps, seeds=1, **settings)
        found.append(replace(run, labels=run.labels | {"model": name}))
    return found


def pair_report(result: Result) -> Report:
    """Return exact paths beside the share of a guess, with the graphs seen and the core seconds; and the curves."""
    head = ["graph", "objective", "1/d, %", "exact, %", "graphs seen", "core seconds", "parameters"]
    rows = []
    for part in (PAIRS, CONTROLS):
        for labels in result.combinations("graph", "objective", part=part):
            entries = result.entries(part=part, **labels)
            seen = entries[0]["curve"][-1]["mazes"] if entries[0]["curve"] else 0
            arms = int(labels["graph"].split(",")[0].removeprefix("d="))
            numbers = [f"{100 / arms:.1f}", str(result.mean(part=part, **labels)), f"{seen:,}", _seconds(entries)]
            rows.append([*labels.values(), *numbers, f"{entries[0]['parameters']:,}"])
    graphs = result.values("graph", part=PAIRS)
    panels = [curves(result, graph, "mazes", "objective", part=PAIRS, graph=graph) for graph in graphs]
    return Report([Table("MLM-U, and next token with ten times its graphs", [head, *rows])] if rows else [], panels)


def _seconds(entries: list[dict[str, Any]]) -> str:
    """Return the mean training time of some runs."""
    return f"{60 * sum(entry['minutes'] for entry in entries) / len(entries):.0f}"


def graphs_to(result: Result, sampler: str, target: float = TARGET) -> list[float | None]:
    """Return how many graphs each seed needs to reach a held-out accuracy with a sampler; None if it does not."""
    return [reached([entry], "mazes", target) for entry in result.entries(part=SAMPLERS, sampler=sampler)]


def sampler_report(result: Result) -> Report:
    head = ["sampler", "exact, %", f"graphs to {TARGET:.0%}, each seed", "core seconds"]
    rows = []
    for name in result.values("sampler", part=SAMPLERS):
        needed = ["not reached" if count is None else f"{count:,.0f}" for count in graphs_to(result, name)]
        labels = {"part": SAMPLERS, "sampler": name}
        rows.append([name, str(result.mean(**labels)), ", ".join(needed), _seconds(result.entries(**labels))])
    title = f"mask samplers, {graph_name(*SAMPLER_SHAPE)}, equal steps"
    return Report([Table(title, [head, *rows])], [curves(result, "samplers", "mazes", "sampler", part=SAMPLERS)])


def failure_report(result: Result) -> Report:
    """Return the classes of failures of the pairs."""
    rows = [["graph", "objective", *GRAPH_FAILURES]]
    for labels in result.combinations("graph", "objective", part=PAIRS):
        scores = result.scores(part=PAIRS, **labels)
        counts = [sum(each["failures"].get(name, 0) for each in scores) for name in GRAPH_FAILURES]
        rows.append([*labels.values(), *(f"{100 * n / max(1, sum(counts)):.1f}" for n in counts)])
    return Report([Table("failures of the pairs, % of all failures", rows)])


CONTROL_GRAPH = graph_name(*CONTROL_SHAPE)
MAZE_NUMBERS = "DFS 10x10: 100 against 45.2"
CONTROL_MLMU = {"part": PAIRS, "graph": CONTROL_GRAPH, "objective": MLMU}
CONTROL_TASK = f"path-star {CONTROL_GRAPH}"


PATH_STAR = Study(
    name="path-star",
    title="Path-star graphs",
    source="ours; the published code has these graphs",
    question="Where only the first step is a choice, can next token learn to plan, and can MLM-U?",
    paper="On mazes MLM-U plans and next token does not: DFS 10x10 100 % against 45.2 %.",
    runs=runs,
    tables=[
        pair_report,
        Pivot("evaluation", "graph", f"MLM-U by decoder: {EXACT}", where={"part": PAIRS, "objective": MLMU}),
        Pivot("graph", "objective", f"controls: {EXACT}", where={"part": CONTROLS}),
        Pivot("objective", "graph", f"MLM-U by size: {EXACT}", where={"part": SIZES}),
        Pivot("objective", "set", f"fixed sets of graphs, held-out: {EXACT}", where={"part": SETS}, chart="bars"),
        Pivot("objective", "set", f"fixed sets of graphs, training: {EXACT}", evaluation=TRAINED, where={"part": SETS}),
        Pivot("objective", "evaluation", f"ordered masks: {EXACT}", where={"part": MASKS}),
        sampler_report,
        Pivot("graph", "model", f"models of MLM-U: {EXACT}", where={"part": MODELS}),
        failure_report,
    ],
    claims=[
        Comparison(
            "MLM-U solves more held-out graphs than next token with ten times its training graphs",
            MAZE_NUMBERS,
            "path-star {graph}",
            {"objective": MLMU},
            {"objective": NEXT},
            each=("graph",),
            where={"part": PAIRS},
        ),
        Comparison(
            "MLM-U solves more than next token's objective on MLM-U's network",
            MAZE_NUMBERS,
            CONTROL_TASK,
            CONTROL_MLMU,
            {"part": CONTROLS, "graph": CONTROL_GRAPH, "objective": ON_MLMU},
        ),
        Comparison(
            "next token solves more if the path is written from the goal to the start",
            "not measured",
            CONTROL_TASK,
            {"part": CONTROLS, "graph": CONTROL_GRAPH, "objective": REVERSED},
            {"part": PAIRS, "graph": CONTROL_GRAPH, "objective": NEXT},
        ),
        *(
            Comparison(
                "ordered masks are inferior to MLM-U",
                "A* 10x10: 98.5 against less than 4",
                CONTROL_TASK,
                CONTROL_MLMU,
                {"part": MASKS, "graph": CONTROL_GRAPH, "objective": name},
            )
            for name in ORDERED
        ),
    ],
    seeds=3,
    notes=(
        "d arms of l nodes from the centre to an arm's end, both included; labels from N. Without planning, one graph "
        "in d is solved. MLM-U here has half of its masks along the model's own confidence and a quarter of the batch "
        "fully hidden; the table of samplers has the paper's uniform rates beside it.",
        "The runs of size, fixed sets, ordered masks and models have one seed.",
    ),
)
