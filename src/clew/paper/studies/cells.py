"""Our own questions on the cell network: the objectives on one network, and decoders.

All objectives train the same network from the same weights on the same mazes for the same steps; only the labels that
are hidden and predicted differ.
"""

from __future__ import annotations

from dataclasses import replace

from clew.decoding.decode import DECODERS
from clew.objectives.config import ObjectiveConfig
from clew.paper.cell_configs import SAMPLER, SMALL_SIZES, CellFamily, cells
from clew.paper.named_configs import laptop_dfs_4_mlmu
from clew.paper.results import EXACT, HELD_OUT, Pivot, Report, Result, Table, curves
from clew.paper.study import MLMU, NEXT, EvaluationSpec, RunScale, RunSpec, Study, dfs_run, square
from clew.paper.verdict import Claim, Comparison, Finding, arm, verdict_on_best
from clew.training.config import TrainConfig

# One cell a pass, from the start: what left to right is on text. The loops are those of training: labels of next token
# do not settle, because all but the neighbours of the last cell are arbitrary.
LEFT_TO_RIGHT = "walk:query=cell,loops=1,tolerance=0"
STEPS = {"laptop": {"dfs": 2000, "astar": 1500}, "paper": {"dfs": 20_000, "astar": 20_000}}
SIZE = {"laptop": 10, "paper": 20}
EVALUATIONS, HELD_OUT_A_SIZE = 24, 50  # of a run


def cell_run(scale: RunScale, family: CellFamily, objective: ObjectiveConfig, size: int, steps: int) -> TrainConfig:
    """Return an objective on the cell network, on mazes of growing sizes up to this one."""
    config = cells(family, (*(smaller for smaller in SMALL_SIZES if smaller < size), size), steps=steps)
    return replace(
        config,
        objective=objective,
        evaluate_every=max(1, steps // EVALUATIONS),
        held_out=HELD_OUT_A_SIZE * len(config.data.sizes),
        keep_last=1,
        threads=1 if scale == "laptop" else None,
    )


FAMILIES: dict[str, CellFamily] = {"DFS": "dfs", "A*": "astar"}
SAMPLED = "MLM-U, 0.9 fully hidden"
ON_CELLS = {NEXT: ObjectiveConfig("next-token"), MLMU: ObjectiveConfig(), SAMPLED: ObjectiveConfig(rates=SAMPLER)}
ONE_PASS = "one pass"
MAZES = {"laptop": 500, "paper": 2000}  # of an evaluation


def objective_runs(scale: RunScale) -> list[RunSpec]:
    size, found = SIZE[scale], []
    evaluations = tuple(
        EvaluationSpec(word, MAZES[scale], size=size, decoder=decoder)
        for word, decoder in ((HELD_OUT, LEFT_TO_RIGHT), (ONE_PASS, "one-pass"))
    )
    for family, name in FAMILIES.items():
        for objective, kind in ON_CELLS.items():
            labels = {"family": family, "objective": objective, "size": square(size)}
            config = cell_run(scale, name, kind, size, STEPS[scale][name])
            found.append(RunSpec(labels, config, evaluations, seeds=1 if objective == SAMPLED else None))
    return found


def _curves(result: Result) -> Report:
    """Return held-out accuracy against mazes seen."""
    families = result.values("family")
    return Report(panels=[curves(result, family, "mazes", "objective", family=family) for family in families])


OBJECTIVE_ON_CELLS = Study(
    name="objective-on-cells",
    title="The objective alone, on the cell network",
    source="ours; the paper changes the objective of text models",
    question="Is MLM-U better than next token if network, input, mazes and steps are the same?",
    paper="The learning objective is critical: modifying it alone takes next token's 45.2 % at 10x10 to 100 %.",
    runs=objective_runs,
    tables=[
        Pivot("objective", "family", chart="bars"),
        Pivot("objective", "family", f"{EXACT}, one pass", evaluation=ONE_PASS),
        Pivot("objective", "family", "valid and shortest, %", "shortest"),
        _curves,
    ],
    claims=[
        Comparison(
            text,
            numbers,
            f"{family} {{size}} on the cell network",
            {"objective": better},
            {"objective": baseline},
            each=("size",),
            where={"family": family},
            # The main claim on A* mazes is also about search traces, which the cell network does not have.
            main="accuracy" if (family, baseline) == ("DFS", NEXT) else "",
        )
        for family, numbers in (
            ("DFS", "text, 10x10: 100 against 45.2"),
            ("A*", "text, 10x10: 98.5 against 93.6 (15M)"),
        )
        for text, better, baseline in (
            ("MLM-U finds more exact paths than next token", MLMU, NEXT),
            ("with most mazes fully hidden, MLM-U finds more exact paths than with uniform rates", SAMPLED, MLMU),
        )
    ],
    seeds={"laptop": 3},
    notes=(
        "All objectives train the same network from the same weights on the same mazes with the same recipe, which was "
        "chosen for MLM-U. MLM-U has the paper's uniform rates; beside it stands the sampler of the shipped weights, "
        "with one seed. All are decoded one cell a pass from the start, which is left to right; the second table has "
        "one pass for the whole path, for which next token is not trained.",
        "The network is not causal, so next token is trained on one prefix of a path a maze, drawn uniformly, where a "
        "decoder-only text model is trained on all of them at once.",
    ),
)

FIRST = "left-to-right"
TEXT_DECODERS = list(DECODERS)
CELL_DECODERS = [LEFT_TO_RIGHT, "one-pass", "walk", "walk:origin=goal", "walk-repair"]
DECODER_CELLS = {"laptop": {5: 700, 10: 1500}, "paper": {10: 20_000, 20: 20_000}}  # size: steps


def decoder_runs(scale: RunScale) -> list[RunSpec]:
    on_text, on_cells = (
        tuple(EvaluationSpec(name, mazes=MAZES[scale], decoder=name) for name in names)
        for names in (TEXT_DECODERS, CELL_DECODERS)
    )
    if scale == "laptop":
        # Half an hour of two cores: the decoders of a model that has learnt little hardly differ.
        found = [RunSpec({"model": "text, 4x4"}, replace(laptop_dfs_4_mlmu(), threads=2), on_text)]
    else:
        run = dfs_run(scale, MLMU, 10, evaluations=on_text)
        found = [replace(run, labels=run.labels | {"model": "text, 10x10"})]
    for size, steps in DECODER_CELLS[scale].items():
        config = cell_run(scale, "dfs", ON_CELLS[SAMPLED], size, steps)
        found.append(RunSpec({"model": f"cell network, {square(size)}"}, config, on_cells))
    return found


def passes(result: Result) -> Report:
    """Return the mean number of passes of the model for a maze."""
    models = result.values("model")
    rows = []
    for name in (*TEXT_DECODERS, *CELL_DECODERS):
        counts = [[scores["passes"] for scores in result.scores(name, model=model)] for model in models]
        if any(counts):
            rows.append([name, *(f"{sum(found) / len(found):.1f}" if found else "" for found in counts)])
    return Report([Table("passes of the model a maze", [["", *models], *rows])])


def decoder_findings(result: Result) -> list[Finding]:
    found = []
    for model in result.values("model"):
        on_cells = bool(result.scores(LEFT_TO_RIGHT, model=model))
        first, names = (LEFT_TO_RIGHT, CELL_DECODERS) if on_cells else (FIRST, TEXT_DECODERS)
        arms = {name: arm(result, model=model, evaluation=name, name=name) for name in names}
        base = arms.pop(first)
        if not on_cells:
            claim = Claim("decoding by certainty beats left to right", "suggested, not measured", model)
            others = [each for name, each in arms.items() if name.startswith("certainty")]
            found.append(verdict_on_best(claim, base, others, base_is_best=False))
        claim = Claim("some decoder beats left to right", "not measured", model)
        found.append(verdict_on_best(claim, base, [*arms.values()], base_is_best=False))
    return found


DECODERS_STUDY = Study(
    name="decoders",
    title="Decoders",
    source="ours; the paper's future work on certainty",
    question="Is it better to decode the path by certainty, in parallel or with repair, than from left to right?",
    paper="It might be beneficial to generate tokens by the model's certainty instead of from left to right.",
    runs=decoder_runs,
    tables=[Pivot("evaluation", "model", chart="bars"), passes],
    claims=[decoder_findings],
    notes=(f"On cells, left to right is `{LEFT_TO_RIGHT}`: one cell a pass, from the start.",),
)
