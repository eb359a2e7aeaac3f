"""Precision of the position encodings: RoPE in float32 and in float16, on mazes learnt by heart and on held-out mazes.

A float16 knows whole numbers up to 2,048 only. An edge has three tokens, so from 27x27 on every step of the path
stands beyond that, and each place looks like one beside it. The paper learns 100 mazes of each size by heart, and
trains on 100,000 mazes of 30x30. At laptop scale ten mazes are learnt by heart, and the many mazes are 4x4, all of
whose places float16 can tell apart.
"""

from __future__ import annotations

from dataclasses import replace

from clew.data.config import DataConfig
from clew.models.positions import PositionChoice
from clew.paper.configs import paper
from clew.paper.examples import drawn_examples
from clew.paper.laptop import text_model
from clew.paper.recipes import (
    LAPTOP_SET,
    MLMU,
    RunScale,
    laptop_run,
    laptop_text,
    paper_run,
    square,
)
from clew.paper.result import Result
from clew.paper.study import Claim, Exam, Finding, Run, Show, Study
from clew.paper.tell import EXACT, bars, pivot
from clew.paper.verdict import Side, verdict
from clew.training.config import TrainConfig

BITS: dict[str, PositionChoice] = {"float32": "rope-fp32", "float16": "rope-fp16"}
SIZES = {"laptop": (5, 15, 27), "paper": (5, 10, 15, 20, 25, 30)}
MAZES = {"laptop": 10, "paper": 100}
# A thin and flat model: to learn ten paths by heart little is needed, and the texts are long.
LAPTOP_WIDTH, LAPTOP_DEPTH = 64, 4
LAPTOP_STEPS = {5: 120, 15: 120, 27: 200}
EVALUATIONS = 20  # of a laptop run; to decode ten long texts takes as long as some steps
BY_HEART = "training mazes"
MANY = {"laptop": (4, LAPTOP_SET[4]), "paper": (30, 100_000)}  # side, training mazes


def runs(scale: RunScale) -> list[Run]:
    exam = Exam(BY_HEART, mazes=MAZES[scale], split="train", failures=2)
    found = []
    for size in SIZES[scale]:
        for bits, positions in BITS.items():
            labels = {"precision": bits, "size": square(size), "mazes": f"{MAZES[scale]}"}
            if scale == "paper":
                found.append(
                    paper_run(labels, paper("dfs", size, "mlm-u", mazes=MAZES[scale], positions=positions), (exam,))
                )
            else:
                found.append(Run(labels, _by_heart(size, positions), (exam,), train_mazes=MAZES[scale]))
    return [*found, *_many(scale)]


def _by_heart(size: int, positions: PositionChoice) -> TrainConfig:
    model = text_model(
        "mlm-u",
        DataConfig(sizes=(size,)).vocabulary,
        width=LAPTOP_WIDTH,
        depth=LAPTOP_DEPTH,
        positions=positions,
    )
    steps = LAPTOP_STEPS[size]
    config = laptop_text(MLMU, size, steps=steps, mazes=MAZES["laptop"], model=model)
    # Nothing is held out: the question is whether the training mazes can be learnt at all.
    return replace(config, batch_size=MAZES["laptop"], held_out=0, evaluate_every=steps // EVALUATIONS)


def _many(scale: RunScale) -> list[Run]:
    """A full training set, with both precisions; the one in float32 is that of accuracy-by-size."""
    size, mazes = MANY[scale]
    found = []
    for bits, positions in BITS.items():
        labels = {"precision": bits, "size": square(size), "mazes": f"{mazes:,}"}
        if scale == "paper":
            found.append(paper_run(labels, paper("dfs", size, "mlm-u", positions=positions)))
        else:
            model = text_model("mlm-u", DataConfig(sizes=(size,)).vocabulary, positions=positions)
            found.append(laptop_run(labels, laptop_text(MLMU, size, model=model)))
    return found


def show(result: Result) -> Show:
    few, *many = result.values("mazes") or [""]
    tables = [pivot(result, f"{EXACT}, of {few} mazes trained on", "precision", "size", exam=BY_HEART, mazes=few)]
    tables += [pivot(result, f"{EXACT}, held-out, {n} training mazes", "precision", "size", mazes=n) for n in many]
    panels = [bars(result, "mazes learnt by heart", "size", "precision", exam=BY_HEART, mazes=few)]
    sizes = result.values("size", mazes=few)
    examples = drawn_examples(result, BY_HEART, 2, precision="float16", size=sizes[-1]) if sizes else []
    return Show(tables, panels, [examples])


def findings(result: Result) -> list[Finding]:
    found = []
    few, *many = result.values("mazes") or [""]
    for size in result.values("size", mazes=few)[-1:]:
        text = "large mazes can be learnt by heart with RoPE in float32, but not with float16"
        claim = Claim(text, "30x30: 100 against 50", f"{few} mazes of DFS {size} by heart", main="precision")
        found.append(verdict(claim, *_sides(result, size, few, BY_HEART)))
    for mazes in many:
        for size in result.values("size", mazes=mazes):
            text = "with many training mazes too, RoPE in float32 solves more held-out mazes than float16"
            claim = Claim(text, "30x30: 93.8 against 40", f"DFS {size}, {mazes} training mazes", main="precision")
            found.append(verdict(claim, *_sides(result, size, mazes, "held-out")))
    return found


def _sides(result: Result, size: str, mazes: str, exam: str) -> tuple[Side, Side]:
    full, half = (Side(f"RoPE in {b}", result.entries(precision=b, size=size, mazes=mazes), exam) for b in BITS)
    return full, half


STUDY = Study(
    name="position-precision",
    title="Precision of the position encodings",
    source="figure 7, and the comparison on 30x30 mazes in its section",
    question="Does MLM-U on large mazes need position encodings of more than half precision?",
    paper="With RoPE in float16 an 8M model cannot learn 100 mazes of 25x25 and more by heart, and reaches 40 % of "
    "held-out 30x30 mazes; with float32 it learns them, and reaches 93.8 %.",
    runs=runs,
    show=show,
    findings=findings,
    notes=(
        "At laptop scale ten mazes and a small model. The pictures show answers with float16: red is the true path, "
        "amber arrows the prediction.",
    ),
)
