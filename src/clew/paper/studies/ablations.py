"""One setting changed at a time: positions, the next-token baseline's architecture and optimizer, and masks.

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
from clew.paper.named_configs import OPTIMIZER
from clew.paper.results import EXACT, HELD_OUT, Pivot, Report, Result, Table, gallery, paper_table
from clew.paper.studies.path_star import SAMPLER_OBJECTIVES, UNIFORM
from clew.paper.study import LAPTOP_SET, MAZES, MLMU, EvaluationSpec, RunScale, RunSpec, Study, square, text_run
from clew.paper.verdict import Best, Comparison, Finding

SIZE = {"laptop": 4, "paper": 10}
TASK = {"laptop": "DFS 4x4", "paper": "DFS 10x10"}
BITS: dict[str, PositionChoice] = {"float32": "rope-fp32", "float16": "rope-fp16"}
MEMORIZED_SIZES = {"laptop": (5, 15, 27), "paper": (5, 10, 15, 20, 25, 30)}
MEMORIZED_MAZES = {"laptop": 10, "paper": 100}
# A small model: memorizing ten paths needs little, and the texts are long.
MEMORIZING = {"width": 64, "depth": 4}
MEMORIZING_STEPS = {5: 120, 15: 120, 27: 200}
MEMORIZING_EVALUATIONS = 20  # decoding ten long texts takes as long as some steps
TRAINED = "training mazes"
MANY = {"laptop": (4, LAPTOP_SET[4]), "paper": (30, 100_000)}  # side, training mazes
# Of MLM-U on 4x4 mazes, whose curve is flat after 2,500 steps.
SHORT = {"steps": 3_000}


def precision_runs(scale: RunScale) -> list[RunSpec]:
    found = []
    count, (many_size, many) = MEMORIZED_MAZES[scale], MANY[scale]
    evaluation = EvaluationSpec(TRAINED, mazes=count, split="train", failures=2)
    memorized: dict[str, Any] = {"evaluations": [evaluation], "mazes": count}
    for size in MEMORIZED_SIZES[scale]:
        for bits, positions in BITS.items():
            labels = {"precision": bits, "size": square(size), "mazes": f"{count}"}
            laptop = {"steps": MEMORIZING_STEPS[size], **MEMORIZING} if scale == "laptop" else {}
            run = text_run(scale, labels, "mlm-u", size, positions=positions, laptop=laptop, **memorized)
            if scale == "laptop":
                # Nothing is held out: the question is whether the training mazes can be memorized at all.
                every = MEMORIZING_STEPS[size] // MEMORIZING_EVALUATIONS
                config = replace(run.config, batch_size=count, held_out=0, evaluate_every=every)
                run = replace(run, config=config, train_mazes=count)
            found.append(run)
    for bits, positions in BITS.items():
        labels = {"precision": bits, "size": square(many_size), "mazes": f"{many:,}"}
        found.append(text_run(scale, labels, "mlm-u", many_size, positions=positions, laptop=SHORT))
    return found


def precision_report(result: Result) -> Report:
    few, *many = result.values("mazes") or [""]
    title = f"{EXACT}, of {few} mazes trained on"
    memorized = Pivot("precision", "size", title, evaluation=TRAINED, where={"mazes": few}, chart="bars")(result)
    tables = [*memorized.tables]
    for mazes in many:
        title = f"{EXACT}, held-out, {mazes} training mazes"
        tables += Pivot("precision", "size", title, where={"mazes": mazes})(result).tables
    sizes = result.values("size", mazes=few)
    examples = gallery(result, TRAINED, 2, precision="float16", size=sizes[-1]) if sizes else []
    return Report(tables, memorized.panels, [examples])


def precision_findings(result: Result) -> list[Finding]:
    few, *many = result.values("mazes") or [""]
    cases = [(few, size, TRAINED) for size in result.values("size", mazes=few)[-1:]]
    cases += [(mazes, size, HELD_OUT) for mazes in many for size in result.values("size", mazes=mazes)]
    found = []
    for mazes, size, evaluation in cases:
        if evaluation == TRAINED:
            text = "large mazes can be memorized with RoPE in float32, but not with float16"
            numbers, task = "30x30: 100 against 50", f"{mazes} memorized mazes of DFS {size}"
        else:
            text = "with many training mazes too, RoPE in float32 solves more held-out mazes than float16"
            numbers, task = "30x30: 93.8 against 40", f"DFS {size}, {mazes} training mazes"
        where = {"size": size, "mazes": mazes, "evaluation": evaluation}
        arms = [{"name": f"RoPE in {bits}", "precision": bits, **where} for bits in BITS]
        found += Comparison(text, numbers, task, arms[0], arms[1], main="precision")(result)
    return found


POSITION_PRECISION = Study(
    name="position-precision",
    title="Precision of the position encodings",
    source="figure 7, and the comparison on 30x30 mazes in its section",
    question="Does MLM-U on large mazes need position encodings of more than half precision?",
    paper="With RoPE in float16 an 8M model cannot memorize 100 mazes of 25x25 and more, and reaches 40 % of held-out "
    "30x30 mazes; with float32 it memorizes them, and reaches 93.8 %.",
    runs=precision_runs,
    tables=[precision_report],
    claims=[precision_findings],
    notes=(
        "At laptop scale ten mazes and a small model. The pictures show answers with float16: red is the true path, "
        "amber arrows the prediction.",
    ),
)

PAPER_POSITIONS = "RoPE, float32 (the paper)"
POSITIONS: dict[str, PositionChoice] = {
    PAPER_POSITIONS: "rope-fp32",
    "RoPE, float16": "rope-fp16",
    "learned": "learned",
    "none": "none",
}
BETTER_POSITIONS = "other position encodings suit MLM-U better than RoPE"
POSITION_ENCODINGS = Study(
    name="position-encodings",
    title="Position encodings",
    source="ours; the paper's future work on positions",
    question="Which position encoding suits MLM-U?",
    paper="Encodings were tailored to next token; whether RoPE is optimal for masked objectives is an open question.",
    runs=lambda scale: [
        text_run(scale, {"positions": name}, "mlm-u", SIZE[scale], positions=positions, laptop=SHORT)
        for name, positions in POSITIONS.items()
    ],
    tables=[Pivot("positions", "score", chart="bars")],
    claims=[Best(BETTER_POSITIONS, "asked as future work, not measured", TASK, "positions", PAPER_POSITIONS, False)],
)

DECODER_ONLY, ENCODER_DECODER = "decoder-only", "encoder-decoder"


def architecture_runs(scale: RunScale) -> list[RunSpec]:
    size = SIZE[scale]
    shared = {"objective": "next token", "size": square(size)} if scale == "paper" else {}
    causal: dict[str, Any] = {"laptop": {"encoder_decoder": True}, "paper_scale": {"architecture": ENCODER_DECODER}}
    return [
        text_run(scale, {**shared, "architecture": DECODER_ONLY}, "next-token", size),
        text_run(scale, {"architecture": ENCODER_DECODER}, "next-token", size, **causal),
    ]


ARCHITECTURES = Study(
    name="architectures",
    title="Architectures for next token",
    source="appendix, figure of architectures",
    question="Which architecture suits next token: a decoder alone, or the encoder-decoder of MLM-U made causal?",
    paper="On 10x10 mazes the decoder-only model converges faster and generalizes better.",
    runs=architecture_runs,
    tables=[Pivot("architecture", "score")],
    claims=[
        Comparison(
            "next token does better on a decoder-only model than on the encoder-decoder",
            "a figure",
            TASK,
            {"architecture": DECODER_ONLY},
            {"architecture": ENCODER_DECODER},
        )
    ],
)

LEARNING_RATES = ("1e-4", "3e-4", "1e-3", "3e-3")
DECAYS = ("1e-2", "1e-3", "1e-4", "1e-5")
CHOSEN_RATE, CHOSEN_DECAY = "1e-3", "1e-4"


def sweep_run(scale: RunScale, knob: str, value: str, rate: str, decay: str) -> RunSpec:
    # AdamW, as in the paper: the question is about its settings. The paper's sweep too is shorter than its other runs.
    optimizer = replace(OPTIMIZER, kind="adamw", lr=float(rate), weight_decay=float(decay))
    return text_run(
        scale,
        {"knob": knob, "value": value},
        "next-token",
        SIZE[scale],
        laptop={"steps": 4_000, "optimizer": optimizer},
        paper_scale={"lr": float(rate), "weight_decay": float(decay), "epochs": 500},
    )


RATES_AND_DECAYS = Study(
    name="rates-and-decays",
    title="Learning rates and weight decays for next token",
    source="appendix, figure of learning rates and table of weight decays",
    question="Which learning rate and weight decay suit next token?",
    paper="A learning rate of 1e-3 and a weight decay of 1e-4 are chosen; larger decays cost two to three points.",
    runs=lambda scale: [
        *(sweep_run(scale, "learning rate", rate, rate, CHOSEN_DECAY) for rate in LEARNING_RATES),
        *(sweep_run(scale, "weight decay", decay, CHOSEN_RATE, decay) for decay in DECAYS),
    ],
    tables=[
        Pivot("value", "score", each=("knob",), chart="lines"),
        paper_table("the paper's table", "weight decay|1e-2|1e-3|1e-4|1e-5", "the paper, %|41|41.1|43.7|43.5"),
    ],
    claims=[
        Best(f"a {knob} of {base} is the best for next token", numbers, TASK, "value", base, True, {"knob": knob})
        for knob, base, numbers in (
            ("learning rate", CHOSEN_RATE, "chosen from a figure"),
            ("weight decay", CHOSEN_DECAY, "43.7 against 41.0 to 43.5"),
        )
    ],
    notes=("The paper does not say which learning rates it tried; these are ours.",),
)

ORDERED, REVERSE = "ordered: the right is hidden", "reverse: the left is hidden"
MASKS: dict[str, ObjectiveName] = {MLMU: "mlm-u", ORDERED: "ordered", REVERSE: "ordered-reverse"}
BACKWARD = "right to left"


def ordered_runs(scale: RunScale) -> list[RunSpec]:
    size, count = SIZE[scale], MAZES[scale]
    evaluations = (EvaluationSpec(mazes=count), EvaluationSpec(BACKWARD, mazes=count // 2, decoder="right-to-left"))
    return [
        text_run(scale, {"masks": name, "size": square(size)}, objective, size, family="astar", evaluations=evaluations)
        for name, objective in MASKS.items()
    ]


ORDERED_MASKS = Study(
    name="ordered-masks",
    title="Ordered masks",
    source="appendix, ordered masks",
    question="Is it enough to hide everything to the right of a random place, instead of random tokens?",
    paper="On A* 10x10 mazes ordered masks reach 73 % of the tokens and less than 4 % of the paths.",
    runs=ordered_runs,
    tables=[
        Pivot("masks", "evaluation", each=("size",), chart="bars"),
        Pivot("masks", "evaluation", score="per_token", each=("size",)),
        Pivot("masks", "evaluation", score="shortest", each=("size",)),
    ],
    claims=[
        Comparison(text, numbers, "A* {size}", better, baseline, each=("size",))
        for text, numbers, better, baseline in (
            (
                "ordered masks are far inferior to MLM-U",
                "A* 10x10: 98.5 against less than 4",
                {"masks": MLMU},
                {"masks": ORDERED},
            ),
            (
                "the published code's order, reversed and read left to right, is worse than the paper's text",
                "not measured",
                {"masks": ORDERED},
                {"masks": REVERSE},
            ),
            (
                "reversed masks are better read from right to left",
                "not measured",
                {"name": BACKWARD, "masks": REVERSE, "evaluation": BACKWARD},
                {"name": "left to right", "masks": REVERSE},
            ),
        )
    ],
    notes=(
        "The paper's published code hides the tokens to the left of the cut, the opposite of its text; both are "
        "measured, and both are also read from right to left.",
    ),
)

RATES = {
    "uniform, one a batch": RateConfig(sampling="batch"),
    "fixed at 15 %": RateConfig("fixed", fixed=0.15),
    "fixed at 50 %": RateConfig("fixed", fixed=0.5),
    "beta(2, 1): mostly hidden": RateConfig("beta", beta_a=2.0, beta_b=1.0),
    "cosine": RateConfig("cosine"),
}
SAMPLERS = SAMPLER_OBJECTIVES | {name: ObjectiveConfig(rates=rates) for name, rates in RATES.items()}
BETTER_SAMPLER = "another mask sampler is better than a uniform rate, drawn for each sequence"


def sampler_runs(scale: RunScale) -> list[RunSpec]:
    runs = [text_run(scale, {"rates": name}, "mlm-u", SIZE[scale], laptop=SHORT) for name in SAMPLERS]
    return [replace(run, config=replace(run.config, objective=SAMPLERS[run.labels["rates"]])) for run in runs]


def by_length(result: Result) -> Report:
    """Return the exact paths of each sampler by the length of the path, over all seeds."""
    cells: dict[str, dict[str, list[int]]] = {}
    for rates in result.values("rates"):
        for scores in result.scores(rates=rates):
            for part in scores.get("by_length", []):
                counts = cells.setdefault(f"{part['low']} to {part['high']}", {}).setdefault(rates, [0, 0])
                counts[0] += part["exact"]["hits"]
                counts[1] += part["exact"]["count"]
    rows = [
        [rates, *(f"{100 * hits / count:.1f}" if count else "" for hits, count in found)]
        for rates in result.values("rates")
        if (found := [cells[head].get(rates, [0, 0]) for head in cells])
    ]
    return Report([Table(f"{EXACT}, by cells of the path", [["", *cells], *rows])] if cells else [])


MASK_RATES = Study(
    name="mask-rates",
    title="Mask samplers",
    source="ours; the paper's future work on masks",
    question="Is a uniform masking rate, drawn for each sequence, the best way to draw masks for MLM-U?",
    paper="The uniform rate is the simplest but unlikely the optimal one.",
    runs=sampler_runs,
    tables=[Pivot("rates", "score"), by_length],
    claims=[Best(BETTER_SAMPLER, "expected as future work, not measured", TASK, "rates", UNIFORM, False)],
)
