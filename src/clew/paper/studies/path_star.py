"""Trainings on path-star graphs, where only the first step is a choice, in minutes.

`path-star` has the claim: MLM-U and next token on arms of five nodes, next token with eight to ten times the graphs
that MLM-U needs, and both controls. `path-star-variants` has the paper's other comparisons (models, fixed sets,
convergence on shorter arms, ordered masks, mask samplers) and changes one thing at a time: sizes, initial weights and
learning rates. Each part has a label `part`; runs that two parts share are trained once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from clew.mazes.generators import StarShape
from clew.objectives.config import ObjectiveConfig, RateConfig
from clew.paper.named_configs import HALF_HIDDEN, StarKind, star_config
from clew.paper.results import HELD_OUT, MLMU, NEXT
from clew.paper.study import EvaluationSpec, RunScale, RunSpec

ON_MLMU, REVERSED = "next token on MLM-U's network", "next token, path reversed"
KINDS: dict[str, StarKind] = {NEXT: "next", ON_MLMU: "next-on-mlmu", REVERSED: "next-reversed"}  # others: MLM-U
Shape = tuple[int, int]  # arms, and nodes of an arm with the centre
# Steps of MLM-U, until its curve is flat, and of next token: eight to ten times those in which MLM-U reaches 98 %.
PAIR_STEPS: dict[Shape, tuple[int, int]] = {(2, 5): (600, 3900), (3, 5): (900, 4200)}
# On the same network MLM-U needs at most 390 steps; for the path reversed next token needs at most 90, on arms of 4.
CONTROL_STEPS = {ON_MLMU: 480, REVERSED: 180}
# Both objectives solve arms of four: their steps, next token as many as MLM-U or twice as many.
SHORT_STEPS: dict[Shape, tuple[int, int]] = {(2, 4): (720, 720), (3, 4): (1200, 1200), (5, 4): (900, 1800)}
SHORT, SET_SHAPE, WIDE = SHORT_STEPS
SET_SIZES = (250, 500, 1_000, 2_000, 8_000, 32_000)
# Shape, labels, and steps of MLM-U alone: one thing changed at a time from d=2, l=4, and d=5, l=5.
SIZES: tuple[tuple[Shape, int | None, int], ...] = (
    *(((2, 3), None, 360), ((2, 6), None, 600), ((2, 8), None, 600), ((10, 3), None, 320), ((5, 5), None, 900)),
    *(((2, 4), 12, 360), ((2, 4), 25, 360), ((2, 4), 50, 720)),
)
# Changes of one thing, with the same steps for both objectives.
RECIPES: dict[str, dict[str, Any]] = {
    "as in the pairs": {},
    "GPT-2 initialization": {"init": "gpt-2"},
    "Muon 0.007": {"muon_lr": 0.007},
    "AdamW for all": {"optimizer": "adamw"},
}
STRATIFIED = RateConfig(sampling="stratified")
QUARTER = replace(STRATIFIED, fully_hidden=0.25)
UNIFORM, HALF = "uniform, a sequence (the paper)", "half fully hidden"
SAMPLER_OBJECTIVES = {
    UNIFORM: ObjectiveConfig(),
    "uniform, stratified": ObjectiveConfig(rates=STRATIFIED),
    "a quarter fully hidden": ObjectiveConfig(rates=QUARTER),
    HALF: HALF_HIDDEN,
    "all fully hidden": ObjectiveConfig(rates=RateConfig(fully_hidden=1.0)),
    "adaptive": ObjectiveConfig(rates=RateConfig("adaptive", "stratified")),
    "half along the confidence, a quarter fully hidden": ObjectiveConfig(rates=QUARTER, confidence_share=0.5),
    "weights 1/t": ObjectiveConfig(rates=STRATIFIED, weighting="rate"),
    "weights 1/t, at most 5": ObjectiveConfig(rates=STRATIFIED, weighting="rate", max_weight=5.0),
}
ORDERED = {
    "ordered: the right is hidden": ObjectiveConfig("ordered", STRATIFIED),
    "ordered: the left is hidden": ObjectiveConfig("ordered-reverse", STRATIFIED),
}
DECODERS = {HELD_OUT: "left-to-right", "right to left": "right-to-left", "by confidence": "certainty"}
GRAPHS = 1000  # of an evaluation


def star_run(
    part: str, shape: Shape, name: str, steps: int, seeds: int | None = None, more: Any = None, **settings: Any
) -> RunSpec:
    """Return a run of an objective, labelled with its part and its graphs, and with `more` labels."""
    config = star_config(KINDS.get(name, "mlmu-sampler"), *shape, steps=steps, **settings)
    # Accuracy near 1/d is noisy, so next token is evaluated on more graphs.
    held_out = 2000 if name in KINDS else 500
    config = replace(config, evaluate_every=max(1, steps // 20), held_out=held_out, keep_last=1, threads=1)
    nodes = settings.get("labels") or StarShape(*shape).nodes
    labels = {"part": part, "graph": f"d={shape[0]}, l={shape[1]}, N={nodes}", "objective": name} | (more or {})
    # Masked models are decoded in every order, next token in its own.
    words = [HELD_OUT] if name in KINDS else DECODERS
    evaluations = tuple(EvaluationSpec(word, GRAPHS, decoder=DECODERS[word]) for word in words)
    return RunSpec(labels, config, evaluations, seeds=seeds)


def path_star_runs(scale: RunScale) -> list[RunSpec]:
    """Return the same runs at both scales: the paper has no such graphs."""
    found = []
    for shape, (mlmu_steps, next_steps) in PAIR_STEPS.items():
        found += [star_run("pairs", shape, MLMU, mlmu_steps), star_run("pairs", shape, NEXT, next_steps, seeds=1)]
    return [*found, *(star_run("controls", (2, 5), name, steps) for name, steps in CONTROL_STEPS.items())]


def variant_runs(scale: RunScale) -> list[RunSpec]:
    """Return the runs of `path-star-variants`, the same at both scales."""
    found = []
    for layers in (2, 4, 8):  # eight are those of the pairs
        labels = {"model": f"{layers} layers"}
        found.append(star_run("models", (2, 5), MLMU, PAIR_STEPS[2, 5][0], more=labels, depth=layers))
    for count in SET_SIZES:
        for name in (MLMU, NEXT):
            labels, steps = {"mazes": f"{count:,}"}, SHORT_STEPS[SET_SHAPE][0]
            run = star_run("fixed sets", SET_SHAPE, name, steps, 1, labels, graphs=count)
            evaluations = (EvaluationSpec(mazes=GRAPHS), EvaluationSpec("training graphs", GRAPHS, split="train"))
            found.append(replace(run, evaluations=evaluations, train_mazes=200))
    # All samplers on one graph, uniform rates and the sampler of the pairs on a larger one. There uniform rates have
    # more than twice the steps in which half fully hidden reaches 95 %.
    samplers = [(HALF, WIDE, SHORT_STEPS[WIDE][0]), (UNIFORM, WIDE, 1200)]
    samplers += [(name, SHORT, SHORT_STEPS[SHORT][0]) for name in SAMPLER_OBJECTIVES]
    for name, shape, steps in samplers:
        labels, seeds = {"sampler": name}, None if (name, shape) == (HALF, SHORT) else 1
        found.append(star_run("samplers", shape, MLMU, steps, seeds, labels, objective=SAMPLER_OBJECTIVES[name]))
    for name, objective in ORDERED.items():
        found.append(star_run("ordered masks", SHORT, name, SHORT_STEPS[SHORT][0], 1, objective=objective))
    for shape, both in SHORT_STEPS.items():
        for name, steps in zip((MLMU, NEXT), both, strict=True):
            found.append(star_run("short arms", shape, name, steps, seeds=1 if shape == WIDE else None))
    found += [star_run("sizes", shape, MLMU, steps, 1, labels=nodes) for shape, nodes, steps in SIZES]
    for recipe, settings in RECIPES.items():
        for name in (MLMU, NEXT):
            found.append(star_run("recipes", SHORT, name, 720, 1, {"recipe": recipe}, **settings))
    return found
