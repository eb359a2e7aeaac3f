"""The choices behind the next-token baseline: its architecture, its learning rate and its weight decay."""

from __future__ import annotations

from dataclasses import replace

from clew.experiments.laptop import OPTIMIZER, text_model
from clew.experiments.reproduce.recipes import NEXT, RunScale, dfs_run, laptop_run, laptop_text, paper_run
from clew.experiments.reproduce.result import Mean, Result
from clew.experiments.reproduce.study import Finding, Run, Show, Study, Table
from clew.experiments.reproduce.tell import EXACT, NOT_MEASURED, clearly_above, compare, curves, point, score_table
from clew.report.panels import Panel, Series
from clew.training.config import DataConfig

LAPTOP_SIZE = 4
DECODER_ONLY, ENCODER_DECODER = "decoder-only", "encoder-decoder"


def architecture_runs(scale: RunScale) -> list[Run]:
    if scale == "paper":
        return [
            dfs_run(scale, NEXT, 10, architecture=DECODER_ONLY),
            paper_run({"architecture": ENCODER_DECODER}, "paper-dfs-10-next-encdec-8m"),
        ]
    vocabulary = DataConfig(sizes=(LAPTOP_SIZE,)).vocabulary
    other = laptop_text(NEXT, LAPTOP_SIZE, model=text_model("next-token", vocabulary, encoder_decoder=True))
    return [
        laptop_run({"architecture": DECODER_ONLY}, laptop_text(NEXT, LAPTOP_SIZE)),
        laptop_run({"architecture": ENCODER_DECODER}, other),
    ]


def architecture_show(result: Result) -> Show:
    panels = [curves(result, "held-out mazes", x, "architecture") for x in ("mazes", "minutes")]
    return Show([score_table(result, "architecture")], panels)


def architecture_findings(result: Result) -> list[Finding]:
    means = [(name, result.mean(architecture=name)) for name in (DECODER_ONLY, ENCODER_DECODER)]
    return [compare("next token does better on a decoder-only model than on the encoder-decoder", "a figure", *means)]


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
SWEEP_STEPS = 150


def sweep_runs(scale: RunScale) -> list[Run]:
    return [
        *(_sweep_run(scale, "learning rate", rate, rate, CHOSEN_DECAY) for rate in RATES),
        *(_sweep_run(scale, "weight decay", decay, CHOSEN_RATE, decay) for decay in DECAYS),
    ]


def _sweep_run(scale: RunScale, knob: str, value: str, rate: str, decay: str) -> Run:
    labels = {"knob": knob, "value": value}
    if scale == "paper":
        return paper_run(labels, f"paper-dfs-10-next-8m-{'rate' if knob == 'learning rate' else 'decay'}-{value}")
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
    """Whether some other value is clearly better than the one that the paper chose."""
    claim = f"a {knob} of {chosen} is the best for next token"
    means: dict[str, Mean] = {}
    for value in result.values("value", knob=knob):
        if (mean := result.mean(knob=knob, value=value)) is not None:
            means[value] = mean
    if chosen not in means:
        return Finding(claim, paper, "", "cannot be told", NOT_MEASURED)
    ours = ", ".join(f"{value}: {mean}" for value, mean in means.items())
    best = max(means, key=lambda value: means[value].value)
    if clearly_above(means[best], means[chosen]):
        return Finding(claim, paper, ours, "does not hold", f"{best} is better.")
    if all(clearly_above(means[chosen], mean) for value, mean in means.items() if value != chosen):
        return Finding(claim, paper, ours, "holds", "it is clearly better than all others tried.")
    return Finding(claim, paper, ours, "cannot be told", "others are within two standard errors of it.")


RATES_AND_DECAYS = Study(
    name="rates-and-decays",
    title="Learning rates and weight decays for next token",
    source="appendix, figure of learning rates and table of weight decays",
    question="Which learning rate and weight decay suit next token?",
    paper="A learning rate of 1e-3 and a weight decay of 1e-4 are chosen; larger decays cost two to three points.",
    runs=sweep_runs,
    show=sweep_show,
    findings=sweep_findings,
    notes=(
        "The paper does not say which learning rates it tried; these are ours.",
        "In the 150 steps of the laptop scale even a decay of 1e-2 shrinks a weight by no more than 0.15 %, so the "
        "decays differ in the fourth digit of the loss, and in no maze.",
    ),
)
