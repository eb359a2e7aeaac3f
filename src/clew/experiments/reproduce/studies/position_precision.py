"""Precision of the position encodings: learn a few mazes by heart with RoPE in float32 and in float16.

A float16 knows whole numbers up to 2,048 only. An edge has three tokens, so from 27x27 on every step of the path
stands beyond that, and each place looks like one beside it.
"""

from __future__ import annotations

from dataclasses import replace

from clew.experiments.laptop import text_model
from clew.experiments.reproduce.examples import drawn_examples
from clew.experiments.reproduce.recipes import MLMU, RunScale, laptop_text, paper_run, square
from clew.experiments.reproduce.result import Result
from clew.experiments.reproduce.study import Exam, Finding, Run, Show, Study
from clew.experiments.reproduce.tell import EXACT, bars, compare, pivot
from clew.models.positions import PositionChoice
from clew.training.config import DataConfig, TrainConfig

BITS: dict[str, PositionChoice] = {"float32": "rope-fp32", "float16": "rope-fp16"}
SIZES = {"laptop": (5, 15, 27), "paper": (5, 10, 15, 20, 25, 30)}
MAZES = {"laptop": 10, "paper": 100}
# A thin and flat model: to learn ten paths by heart little is needed, and the texts are long.
LAPTOP_WIDTH, LAPTOP_DEPTH = 64, 4
LAPTOP_STEPS = {5: 120, 15: 120, 27: 200}
BY_HEART = "training mazes"


def runs(scale: RunScale) -> list[Run]:
    exam = Exam(BY_HEART, mazes=MAZES[scale], side="train", failures=2)
    found = []
    for size in SIZES[scale]:
        for bits, positions in BITS.items():
            labels = {"precision": bits, "size": square(size)}
            if scale == "paper":
                found.append(paper_run(labels, f"paper-dfs-{size}-mlmu-8m-overfit-rope{bits[-2:]}", (exam,)))
            else:
                found.append(Run(labels, _laptop(size, positions), (exam,)))
    return found


def _laptop(size: int, positions: PositionChoice) -> TrainConfig:
    model = text_model(
        "mlm-u",
        DataConfig(sizes=(size,)).vocabulary,
        width=LAPTOP_WIDTH,
        depth=LAPTOP_DEPTH,
        positions=positions,
    )
    config = laptop_text(MLMU, size, steps=LAPTOP_STEPS[size], mazes=MAZES["laptop"], model=model)
    # Nothing is held out: the question is whether the training mazes can be learnt at all.
    return replace(config, batch_size=MAZES["laptop"], held_out=0)


def show(result: Result) -> Show:
    largest = result.values("size")[-1]
    return Show(
        [pivot(result, f"{EXACT}, of the mazes trained on", "precision", "size", exam=BY_HEART)],
        [bars(result, "mazes learnt by heart", "size", "precision", exam=BY_HEART)],
        drawn_examples(result, BY_HEART, 2, precision="float16", size=largest),
    )


def findings(result: Result) -> list[Finding]:
    size = result.values("size")[-1]
    means = [(f"RoPE in {b}", result.mean(exam=BY_HEART, precision=b, size=size)) for b in BITS]
    claim = "large mazes can be learnt by heart with RoPE in float32, but not with float16"
    return [compare(claim, "30x30: 100 against 50", *means).at(size)]


STUDY = Study(
    name="position-precision",
    title="Precision of the position encodings",
    source="figure 7",
    question="Does MLM-U on large mazes need position encodings of more than half precision?",
    paper="With RoPE in float16 an 8M model cannot learn 100 mazes of 25x25 and more by heart; with float32 it can.",
    runs=runs,
    show=show,
    findings=findings,
    notes=(
        "At laptop scale ten mazes and a small model. The pictures show answers with float16: red is the true path, "
        "amber arrows the prediction.",
    ),
)
