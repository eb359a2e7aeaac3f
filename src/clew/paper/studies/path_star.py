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
from clew.paper.recipes import MLMU, NEXT, RunScale
from clew.paper.result import Mean, Result
from clew.paper.star_configs import SAMPLER, StarKind, star_config
from clew.paper.study import Claim, Exam, Finding, Run, Show, Study, Table
from clew.paper.tell import EXACT, bars, curves, exam_table, pivot, reached, table_of
from clew.paper.verdict import Side, verdict
from clew.training.config import TrainConfig
from clew.viz.charts import Panel

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
SEEDED_SAMPLERS = (UNIFORM, "half fully hidden")  # with as many seeds as are asked for; the others with one
TARGET = 0.95
MODEL_SIZES = {"2 layers": {"depth": 2}, "4 layers": {}, "8 layers": {"depth": 8}, "width 32": {"width": 32}}
LEFT, RIGHT, CERTAINTY = "held-out", "right to left", "by confidence"
DECODERS = {LEFT: "left-to-right", RIGHT: "right-to-left", CERTAINTY: "certainty"}
GRAPHS = 1000  # of an exam
TRAINED = "training graphs"


def graph_name(arms: int, length: int, labels: int | None = None) -> str:
    return f"d={arms}, l={length}, N={labels or StarShape(arms, length).nodes}"


def runs(scale: RunScale) -> list[Run]:
    """The same at both scales: the paper has no such graphs."""
    found = [
        *pair_runs(),
        *control_runs(),
        *size_runs(),
        *set_runs(),
        *mask_runs(),
        *sampler_runs(),
        *model_runs(),
    ]
    return [replace(run, config=replace(run.config, threads=1)) for run in found]


def _exams(masked: bool = True) -> tuple[Exam, ...]:
    """By every decoder that the model can be read with."""
    names = DECODERS if masked else {LEFT: DECODERS[LEFT]}
    return tuple(Exam(name, GRAPHS, decoder=decoder) for name, decoder in names.items())


def _curve(config: TrainConfig, evaluations: int, held_out: int) -> TrainConfig:
    every = max(1, (config.budget.steps or 1) // evaluations)
    return replace(config, evaluate_every=every, held_out=held_out, keep_last=1)


def _run(part: str, shape: tuple[int, int], name: str, steps: int, **settings: Any) -> Run:
    """A run of a kind, named after its objective and its graphs."""
    config = star_config(KINDS[name], *shape, steps=steps, **settings)
    # Next token stays near 1/d, where accuracy is noisy, so its curve has more points of more graphs.
    config = _curve(config, 20, 500) if name == MLMU else _curve(config, 40, GRAPHS)
    labels = {"part": part, "graph": graph_name(*shape, settings.get("labels")), "objective": name}
    return Run(labels, config, _exams(name == MLMU))


def pair_runs() -> list[Run]:
    found = []
    for shape, steps in PAIR_STEPS.items():
        found += [_run(PAIRS, shape, MLMU, steps), _run(PAIRS, shape, NEXT, TIMES * steps)]
    return found


def control_runs() -> list[Run]:
    steps = TIMES * PAIR_STEPS[CONTROL_SHAPE]
    return [
        replace(_run(CONTROLS, CONTROL_SHAPE, ON_MLMU, steps), seeds=1),
        _run(CONTROLS, CONTROL_SHAPE, REVERSED, REVERSED_STEPS),
    ]


def size_runs() -> list[Run]:
    return [
        replace(_run(SIZES, (arms, length), MLMU, steps, labels=labels), seeds=1)
        for (arms, length, labels), steps in SIZE_STEPS.items()
    ]


def set_runs() -> list[Run]:
    found = []
    for count in SET_SIZES:
        for objective in (MLMU, NEXT):
            run = _run(SETS, CONTROL_SHAPE, objective, SET_STEPS, graphs=count)
            exams = (Exam(LEFT, GRAPHS), Exam(TRAINED, min(count, GRAPHS), split="train"))
            labels = run.labels | {"set": f"{count:,}"}
            found.append(replace(run, labels=labels, exams=exams, train_mazes=200, seeds=1))
    return found


def mask_runs() -> list[Run]:
    found = []
    for words, name in (("the right is hidden", "ordered"), ("the left is hidden", "ordered-reverse")):
        objective = ObjectiveConfig(name, RateConfig(sampling="stratified"))  # type: ignore[arg-type]
        run = _run(MASKS, CONTROL_SHAPE, MLMU, PAIR_STEPS[CONTROL_SHAPE], objective=objective)
        found.append(replace(run, labels=run.labels | {"objective": f"ordered: {words}"}, seeds=1))
    return found


def sampler_runs() -> list[Run]:
    found = []
    for name, objective in SAMPLER_OBJECTIVES.items():
        run = _run(SAMPLERS, SAMPLER_SHAPE, MLMU, SAMPLER_STEPS, objective=objective)
        seeds = None if name in SEEDED_SAMPLERS or objective == SAMPLER else 1
        found.append(replace(run, labels=run.labels | {"sampler": name}, seeds=seeds))
    return found


def model_runs() -> list[Run]:
    found = []
    for name, settings in MODEL_SIZES.items():
        run = _run(MODELS, CONTROL_SHAPE, MLMU, PAIR_STEPS[CONTROL_SHAPE], **settings)
        found.append(replace(run, labels=run.labels | {"model": name}, seeds=1))
    return found


def show(result: Result) -> Show:
    graphs = result.values("graph", part=PAIRS)
    tables = [
        _pair_table(result),
        _decoder_table(result),
        pivot(result, f"controls: {EXACT}", "graph", "objective", part=CONTROLS),
        pivot(result, f"MLM-U by size: {EXACT}", "objective", "graph", part=SIZES),
        *[
            pivot(result, f"fixed sets of graphs, {word}: {EXACT}", "objective", "set", exam=exam, part=SETS)
            for word, exam in (("held-out", LEFT), ("training", TRAINED))
        ],
        exam_table(result, f"ordered masks: {EXACT}", "objective", list(DECODERS), part=MASKS),
        _sampler_table(result),
        pivot(result, f"models of MLM-U: {EXACT}", "graph", "model", part=MODELS),
        _failure_table(result),
    ]
    panels = [
        *[curves(result, graph, "mazes", "objective", part=PAIRS, graph=graph) for graph in graphs],
        curves(result, "samplers", "mazes", "sampler", part=SAMPLERS),
        bars(result, "fixed sets", "set", "objective", part=SETS),
    ]
    return Show(tables, [panel for panel in panels if _has_points(panel)])


def _has_points(panel: Panel) -> bool:
    return any(series.points for series in panel.series)


def _pair_table(result: Result) -> Table:
    """Exact paths beside the share of a guess, with the graphs that were seen and the core seconds."""
    head = ["graph", "objective", "1/d, %", "exact, %", "graphs seen", "core seconds", "parameters"]
    rows = []
    for part in (PAIRS, CONTROLS):
        for graph in result.values("graph", part=part):
            for objective in result.values("objective", part=part, graph=graph):
                entries = result.entries(part=part, graph=graph, objective=objective)
                seen = entries[0]["curve"][-1]["mazes"] if entries[0]["curve"] else 0
                seconds = 60 * sum(entry["minutes"] for entry in entries) / len(entries)
                arms = int(graph.split(",")[0].removeprefix("d="))
                exact = result.mean(part=part, graph=graph, objective=objective)
                numbers = [f"{100 / arms:.1f}", str(exact), f"{seen:,}", f"{seconds:.0f}"]
                rows.append([graph, objective, *numbers, f"{entries[0]['parameters']:,}"])
    return Table("MLM-U, and next token with ten times its graphs", [head, *rows])


def _decoder_table(result: Result) -> Table:
    graphs = {graph: graph for graph in result.values("graph", part=PAIRS)}

    def cell(decoder: str, graph: str) -> Mean | None:
        return result.mean(exam=decoder, part=PAIRS, graph=graph, objective=MLMU)

    return table_of(f"MLM-U by decoder: {EXACT}", list(DECODERS), graphs, cell)


def graphs_to(result: Result, sampler: str, target: float = TARGET) -> list[float | None]:
    """How many graphs each seed needs to reach a held-out accuracy with a sampler; None if it does not."""
    return [reached([entry], "mazes", target) for entry in result.entries(part=SAMPLERS, sampler=sampler)]


def _sampler_table(result: Result) -> Table:
    head = ["sampler", "exact, %", f"graphs to {TARGET:.0%}, each seed", "core seconds"]
    rows = []
    for name in result.values("sampler", part=SAMPLERS):
        needed = ["not reached" if count is None else f"{count:,.0f}" for count in graphs_to(result, name)]
        entries = result.entries(part=SAMPLERS, sampler=name)
        seconds = 60 * sum(entry["minutes"] for entry in entries) / len(entries)
        rows.append([name, str(result.mean(part=SAMPLERS, sampler=name)), ", ".join(needed), f"{seconds:.0f}"])
    return Table(f"mask samplers, {graph_name(*SAMPLER_SHAPE)}, equal steps", [head, *rows])


def _failure_table(result: Result) -> Table:
    """Of all failures of the pairs, how many are of which class."""
    rows = [["graph", "objective", *GRAPH_FAILURES]]
    for graph in result.values("graph", part=PAIRS):
        for objective in result.values("objective", part=PAIRS, graph=graph):
            scores = result.scores(part=PAIRS, graph=graph, objective=objective)
            counts = [sum(each["failures"].get(name, 0) for each in scores) for name in GRAPH_FAILURES]
            rows.append([graph, objective, *(f"{100 * n / max(1, sum(counts)):.1f}" for n in counts)])
    return Table("failures of the pairs, % of all failures", rows)


# Each comparison: the claim, what the paper measured, the labels of both sides and the exam that is compared.
Comparison = tuple[str, str, dict[str, str], dict[str, str]]


def comparisons(result: Result) -> list[Comparison]:
    """The claims that one kind of run solves more held-out graphs than another, on the same graphs."""
    found: list[Comparison] = []
    paper = "DFS 10x10: 100 against 45.2"
    for graph in result.values("graph", part=PAIRS):
        side = {"part": PAIRS, "graph": graph}
        claim = "MLM-U solves more held-out graphs than next token with ten times its training graphs"
        found.append((claim, paper, side | {"objective": MLMU}, side | {"objective": NEXT}))
    graph = graph_name(*CONTROL_SHAPE)
    mlmu = {"part": PAIRS, "graph": graph, "objective": MLMU}
    control = {"part": CONTROLS, "graph": graph}
    found += [
        (
            "MLM-U solves more than next token's objective on MLM-U's network",
            paper,
            mlmu,
            control | {"objective": ON_MLMU},
        ),
        (
            "next token solves more if the path is written from the goal to the start",
            "not measured",
            control | {"objective": REVERSED},
            {"part": PAIRS, "graph": graph, "objective": NEXT},
        ),
    ]
    for objective in result.values("objective", part=MASKS):
        ordered = {"part": MASKS, "graph": graph, "objective": objective}
        found.append(("ordered masks are inferior to MLM-U", "A* 10x10: 98.5 against less than 4", mlmu, ordered))
    return found


def findings(result: Result) -> list[Finding]:
    found = []
    for claim, paper, better, worse in comparisons(result):
        sides = (Side(labels["objective"], result.entries(**labels)) for labels in (better, worse))
        found.append(verdict(Claim(claim, paper, f"path-star {better['graph']}"), *sides))
    return found


STUDY = Study(
    name="path-star",
    title="Path-star graphs",
    source="ours; the published code has these graphs",
    question="Where only the first step is a choice, can next token learn to plan, and can MLM-U?",
    paper="On mazes MLM-U plans and next token does not: DFS 10x10 100 % against 45.2 %.",
    runs=runs,
    show=show,
    findings=findings,
    seeds=3,
    notes=(
        "d arms of l nodes from the centre to an arm's end, both included; labels from N. Without planning, one graph "
        "in d is solved. MLM-U here has half of its masks along the model's own confidence and a quarter of the batch "
        "fully hidden; the table of samplers has the paper's uniform rates beside it.",
        "The runs of size, fixed sets, ordered masks and models have one seed.",
    ),
)
