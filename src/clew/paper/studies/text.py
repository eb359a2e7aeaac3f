"""Trainings of the paper's studies: MLM-U against next token on mazes as text, and one setting changed at a time.

A float16 represents whole numbers up to 2,048 only. An edge has three tokens, so from 27x27 on every step of the path
is beyond that, and neighbouring positions get the same encoding. For the precision of positions the paper memorizes 100
mazes of each size, and trains on 100,000 mazes of 30x30. At laptop scale ten mazes are memorized, and the many mazes
are 4x4, whose positions float16 can tell apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clew.models.config import PositionChoice
from clew.objectives.config import ObjectiveConfig, ObjectiveName, RateConfig
from clew.paper.named_configs import HALF_HIDDEN, OPTIMIZER
from clew.paper.results import MLMU, NEXT
from clew.paper.studies.path_star import SAMPLER_OBJECTIVES
from clew.paper.study import LAPTOP_SET, MAZES, OBJECTIVES, EvaluationSpec, RunScale, RunSpec, square, text_run

SIZE = {"laptop": 4, "paper": 10}
LAPTOP_SEEDS = {5: 2, 6: 1}  # of the user's --seeds; a run of 6x6 takes most of a day of one core
# The paper's curves of convergence and of data efficiency are of shorter runs.
SHORTER: dict[str, Any] = {"paper_scale": {"epochs": 2000}}
SHORT = {"steps": 3_000}  # of MLM-U on 4x4 mazes, whose curve is flat after 2,500


def dfs_run(scale: RunScale, objective: str, size: int, mazes: int | None = None, **options: Any) -> RunSpec:
    """Return a run of one objective on DFS mazes of one size, or on a set of so many, which many studies share."""
    labels = {"objective": objective, "size": square(size)} | ({"mazes": f"{mazes:,}"} if mazes else {})
    options |= {"mazes": mazes} if mazes else {}
    return text_run(scale, labels, OBJECTIVES[objective], size, **options)


def accuracy_runs(scale: RunScale) -> list[RunSpec]:
    sizes = (4, 5, 6) if scale == "laptop" else (5, 10, 15, 20, 30)
    runs = [dfs_run(scale, name, size, seeds=LAPTOP_SEEDS.get(size)) for size in sizes for name in OBJECTIVES]
    if scale == "laptop":  # the sampler that needs the fewest path-star graphs, on the largest mazes
        labels = {"objective": "MLM-U, half fully hidden", "size": "6x6"}
        runs.append(text_run(scale, labels, HALF_HIDDEN, 6, seeds=LAPTOP_SEEDS[6]))
    return runs


def astar_runs(scale: RunScale, methods: tuple[str, ...] = (MLMU, NEXT, "next token with A* traces")) -> list[RunSpec]:
    found = []
    for size in (4,) if scale == "laptop" else (10, 20, 30):
        for method in methods:
            objective = OBJECTIVES.get(method, "trace")
            # A trace is long, and a model that has not learnt to end it generates up to the largest length.
            mazes = MAZES[scale] // (2 if (scale, objective) == ("laptop", "trace") else 1)
            # The paper quotes Searchformer's numbers for next token, of models that it did not train.
            settings: dict[str, Any] = {"paper_scale": {} if method == MLMU else {"model": "25m"}}
            settings |= {"evaluations": [EvaluationSpec(mazes=mazes)], "family": "astar"}
            found.append(text_run(scale, {"method": method, "size": square(size)}, objective, size, **settings))
    return found


def efficiency_runs(scale: RunScale) -> list[RunSpec]:
    sets = [(4, mazes) for mazes in (2_000, 6_000, 20_000, 60_000)]
    if scale == "paper":
        sets = [(size, mazes) for size in (5, 10) for mazes in (25_000, 50_000, 75_000, 100_000)]
    return [dfs_run(scale, name, size, mazes, **SHORTER) for size, mazes in sets for name in OBJECTIVES]


def convergence_runs(scale: RunScale) -> list[RunSpec]:
    return [dfs_run(scale, name, 5 if scale == "paper" else 4, **SHORTER) for name in OBJECTIVES]


def overfitting_runs(scale: RunScale) -> list[RunSpec]:
    evaluations = [EvaluationSpec(mazes=MAZES[scale]), EvaluationSpec("training mazes", MAZES[scale], split="train")]
    sets = (100_000,) if scale == "paper" else (2_000, LAPTOP_SET[4])  # that other studies have too
    return [dfs_run(scale, o, SIZE[scale], mazes, evaluations=evaluations) for o in OBJECTIVES for mazes in sets]


def model_size_runs(scale: RunScale) -> list[RunSpec]:
    models: dict[str, dict[str, Any]]
    side, models = 20, {name.upper(): {"model": name} for name in ("3m", "8m", "25m")}
    if scale == "laptop":  # the largest has about eight times the parameters of the smallest, as in the paper
        side, models = 4, {"small": {"width": 32, "depth": 6}, "medium": {"width": 64, "depth": 6}, "large": {}}
    labels = [{"objective": name, "model": model} for model in models for name in OBJECTIVES]
    return [text_run(scale, each, OBJECTIVES[each["objective"]], side, **models[each["model"]]) for each in labels]


def smaller_runs(scale: RunScale) -> list[RunSpec]:
    # Two sides apart at least: few larger mazes lie around a maze that is one side smaller, and often none is held out.
    (large, small), count = (20, 10) if scale == "paper" else (5, 3), MAZES[scale]
    evaluations = [EvaluationSpec(mazes=count), EvaluationSpec("smaller, plain", count, small)]
    evaluations.append(EvaluationSpec("smaller, embedded", count, small, embedded_in=large))
    evaluations.append(EvaluationSpec("smaller, cut off", count, small, embedded_in=large, embedding="cut-off"))
    return [dfs_run(scale, objective, large, evaluations=evaluations) for objective in OBJECTIVES]


BITS: dict[str, PositionChoice] = {"float32": "rope-fp32", "float16": "rope-fp16"}
# Steps by side, with as few evaluations: decoding ten long texts takes as long as some steps.
MEMORIZED, MEMORIZING_EVALUATIONS = {5: 120, 15: 120, 27: 200}, 20


def precision_runs(scale: RunScale) -> list[RunSpec]:
    found = []
    laptop = scale == "laptop"
    count, many_size, many = (10, 4, LAPTOP_SET[4]) if laptop else (100, 30, 100_000)
    evaluation = EvaluationSpec("training mazes", count, split="train")
    for size in MEMORIZED if laptop else (5, 10, 15, 20, 25, 30):
        for bits, positions in BITS.items():
            labels = {"precision": bits, "size": square(size), "mazes": f"{count}"}
            # A small model: memorizing ten paths needs little, and the texts are long.
            small = {"steps": MEMORIZED.get(size), "width": 64, "depth": 4}
            settings: dict[str, Any] = {"positions": positions, "mazes": count, "evaluations": [evaluation]}
            run = text_run(scale, labels, "mlm-u", size, laptop=small, **settings)
            if laptop:  # nothing is held out: the question is whether the training mazes can be memorized at all
                every = MEMORIZED[size] // MEMORIZING_EVALUATIONS
                config = replace(run.config, batch_size=count, held_out=0, evaluate_every=every)
                run = replace(run, config=config, train_mazes=count)
            found.append(run)
    for bits, positions in BITS.items():
        labels = {"precision": bits, "size": square(many_size), "mazes": f"{many:,}"}
        found.append(text_run(scale, labels, "mlm-u", many_size, positions=positions, laptop=SHORT))
    return found


POSITIONS: dict[str, PositionChoice] = {
    "RoPE, float32 (the paper)": "rope-fp32",
    "RoPE, float16": "rope-fp16",
    "learned": "learned",
    "none": "none",
}


def position_runs(scale: RunScale) -> list[RunSpec]:
    found = []
    for name, positions in POSITIONS.items():
        found.append(text_run(scale, {"positions": name}, "mlm-u", SIZE[scale], positions=positions, laptop=SHORT))
    return found


def architecture_runs(scale: RunScale) -> list[RunSpec]:
    causal: dict[str, Any] = {"laptop": {"encoder_decoder": True}, "paper_scale": {"architecture": "encoder-decoder"}}
    kinds = {"decoder-only": {}, "encoder-decoder": causal}
    return [text_run(scale, {"architecture": kind}, "next-token", SIZE[scale], **kinds[kind]) for kind in kinds]


# Learning rates and decays of next token; the last of each is the paper's choice. The paper does not say which rates it
# tried.
KNOBS = {"learning rate": ("1e-4", "3e-4", "3e-3", "1e-3"), "weight decay": ("1e-2", "1e-3", "1e-5", "1e-4")}


def sweep_runs(scale: RunScale) -> list[RunSpec]:
    found = []
    for knob, value in [(knob, value) for knob, values in KNOBS.items() for value in values]:
        rate, decay = (float(value if name == knob else values[-1]) for name, values in KNOBS.items())
        # AdamW, as in the paper: the question is about its settings. The paper's sweep too is shorter.
        laptop = {"steps": 4_000, "optimizer": replace(OPTIMIZER, kind="adamw", lr=rate, weight_decay=decay)}
        paper = {"lr": rate, "weight_decay": decay, "epochs": 500}
        labels = {"knob": knob, "value": value}
        found.append(text_run(scale, labels, "next-token", SIZE[scale], laptop=laptop, paper_scale=paper))
    return found


MASKS: dict[str, ObjectiveName] = {
    MLMU: "mlm-u",
    "ordered: the right is hidden": "ordered",
    "reverse: the left is hidden": "ordered-reverse",
}


def ordered_runs(scale: RunScale) -> list[RunSpec]:
    size, count = SIZE[scale], MAZES[scale]
    backward = EvaluationSpec("right to left", count // 2, decoder="right-to-left")
    settings: dict[str, Any] = {"family": "astar", "evaluations": [EvaluationSpec(mazes=count), backward]}
    return [text_run(scale, {"masks": name, "size": square(size)}, MASKS[name], size, **settings) for name in MASKS]


SAMPLERS = SAMPLER_OBJECTIVES | {
    "uniform, one a batch": ObjectiveConfig(rates=RateConfig(sampling="batch")),
    "fixed at 15 %": ObjectiveConfig(rates=RateConfig("fixed", fixed=0.15)),
    "fixed at 50 %": ObjectiveConfig(rates=RateConfig("fixed", fixed=0.5)),
    "beta(2, 1): mostly hidden": ObjectiveConfig(rates=RateConfig("beta", beta_a=2.0, beta_b=1.0)),
    "cosine": ObjectiveConfig(rates=RateConfig("cosine")),
}


def sampler_runs(scale: RunScale) -> list[RunSpec]:
    return [text_run(scale, {"rates": name}, SAMPLERS[name], SIZE[scale], laptop=SHORT) for name in SAMPLERS]


def failure_runs(scale: RunScale) -> list[RunSpec]:
    """Return runs that other studies have too: the smaller and the larger side of each family."""
    sizes = (4, 5) if scale == "laptop" else (10, 30)
    runs = [("DFS", dfs_run(scale, name, size)) for size in sizes for name in OBJECTIVES]
    runs += [("A*", run) for run in astar_runs(scale, (NEXT, MLMU)) if run.labels["size"] != "10x10"]
    found = []
    for family, run in runs:
        objective, size = run.labels.values()
        evaluations = tuple(replace(evaluation, failures=4) for evaluation in run.evaluations)
        labels = {"family": family, "objective": objective, "size": size}
        found.append(replace(run, labels=labels, evaluations=evaluations))
    return found
