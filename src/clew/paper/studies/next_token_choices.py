"""The choices behind the next-token baseline: its architecture, its learning rate and its weight decay."""

from __future__ import annotations

from dataclasses import replace

from clew.data.config import DataConfig
from clew.paper.configs import paper
from clew.paper.laptop import OPTIMIZER, text_model
from clew.paper.recipes import NEXT, RunScale, dfs_run, laptop_run, laptop_text, paper_run, square
from clew.paper.result import Result
from clew.paper.study import Claim, Finding, Run, Show, Study, Table
from clew.paper.tell import EXACT, point, score_table
from clew.paper.verdict import Side, verdict, verdict_on_best
from clew.viz.charts import Panel, Series

SIZES = {"smoke": 4, "laptop": 4, "paper": 10}
LAPTOP_SIZE = SIZES["laptop"]
DECODER_ONLY, ENCODER_DECODER = "decoder-only", "encoder-decoder"


def architecture_runs(scale: RunScale) -> list[Run]:
    if scale == "paper":
        return [
            dfs_run(scale, NEXT, 10, architecture=DECODER_ONLY),
            paper_run(
                {"architecture": ENCODER_DECODER}, paper("dfs", 10, "next-token", architecture="encoder-decoder")
            ),
        ]
    vocabulary = DataConfig(sizes=(LAPTOP_SIZE,)).vocabulary
    other = laptop_text(NEXT, LAPTOP_SIZE, model=text_model("next-token", vocabulary, encoder_decoder=True))
    return [
        laptop_run({"architecture": DECODER_ONLY}, laptop_text(NEXT, LAPTOP_SIZE)),
        laptop_run({"architecture": ENCODER_DECODER}, other),
    ]


def architecture_show(result: Result) -> Show:
    return Show([score_table(result, "architecture")])


def architecture_findings(result: Result) -> list[Finding]:
    first, second = (Side(name, result.entries(architecture=name)) for name in (DECODER_ONLY, ENCODER_DECODER))
    text = "next token does better on a decoder-only model than on the encoder-decoder"
    return [verdict(Claim(text, "a figure", f"DFS {square(SIZES[result.scale])}"), first, second)]


ARCHITECTURES = Study(
    name="architectures",
    title="Architectures for next token",
    source="appendix, figure of architectures",
    question="Which architecture suits next token: a decoder alone, or the encoder-decoder of MLM-U made causal?",
    paper="On 10x10 mazes the decoder-only model converges faster and generalizes better.",
    runs=architecture_runs,
    show=architecture_show,
    findings=architecture_findings,
)

RATES = ("1e-4", "3e-4", "1e-3", "3e-3")
DECAYS = ("1e-2", "1e-3", "1e-4", "1e-5")
PAPER_DECAYS = dict(zip(DECAYS, (41.0, 41.1, 43.7, 43.5), strict=True))
CHOSEN_RATE, CHOSEN_DECAY = "1e-3", "1e-4"
SWEEP_STEPS = 4_000  # the paper's sweep too is shorter than its other runs: 500 epochs


def sweep_runs(scale: RunScale) -> list[Run]:
    return [
        *(_sweep_run(scale, "learning rate", rate, rate, CHOSEN_DECAY) for rate in RATES),
        *(_sweep_run(scale, "weight decay", decay, CHOSEN_RATE, decay) for decay in DECAYS),
    ]


def _sweep_run(scale: RunScale, knob: str, value: str, rate: str, decay: str) -> Run:
    labels = {"knob": knob, "value": value}
    if scale == "paper":
        config = paper("dfs", 10, "next-token", lr=float(rate), weight_decay=float(decay), epochs=500)
        return paper_run(labels, config)
    # AdamW, as in the paper: the question is about its settings.
    optimizer = replace(OPTIMIZER, kind="adamw", lr=float(rate), weight_decay=float(decay))
    return laptop_run(labels, laptop_text(NEXT, LAPTOP_SIZE, steps=SWEEP_STEPS, optimizer=optimizer))


def sweep_show(result: Result) -> Show:
    tables = [score_table(result, "value", knob=knob) for knob in result.values("knob")]
    paper = [["weight decay", *DECAYS], ["the paper, %", *(f"{PAPER_DECAYS[decay]:g}" for decay in DECAYS)]]
    panels = []
    for knob in result.values("knob"):
        means = [(value, result.mean(knob=knob, value=value)) for value in result.values("value", knob=knob)]
        points = [point(float(value), mean) for value, mean in means if mean]
        panels.append(Panel(knob, knob, EXACT, [Series(NEXT, points)], log_x=True))
    return Show([*tables, Table("the paper's table", paper)], panels)


def sweep_findings(result: Result) -> list[Finding]:
    return [
        _best(result, "learning rate", CHOSEN_RATE, "chosen from a figure"),
        _best(result, "weight decay", CHOSEN_DECAY, "43.7 against 41.0 to 43.5"),
    ]


def _best(result: Result, knob: str, chosen: str, paper: str) -> Finding:
    claim = Claim(f"a {knob} of {chosen} is the best for next token", paper, f"DFS {square(SIZES[result.scale])}")
    sides = {value: Side(value, result.entries(knob=knob, value=value)) for value in result.values("value", knob=knob)}
    return verdict_on_best(claim, sides.pop(chosen, Side(chosen, [])), list(sides.values()), base_is_best=True)


RATES_AND_DECAYS = Study(
    name="rates-and-decays",
    title="Learning rates and weight decays for next token",
    source="appendix, figure of learning rates and table of weight decays",
    question="Which learning rate and weight decay suit next token?",
    paper="A learning rate of 1e-3 and a weight decay of 1e-4 are chosen; larger decays cost two to three points.",
    runs=sweep_runs,
    show=sweep_show,
    findings=sweep_findings,
    notes=("The paper does not say which learning rates it tried; these are ours.",),
)
