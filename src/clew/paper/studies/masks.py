"""Which parts of the path are hidden: ordered masks (the paper's appendix) and masking rates (its future work)."""

from __future__ import annotations

from dataclasses import replace

from clew.objectives.config import ObjectiveName, RateConfig
from clew.paper.configs import paper
from clew.paper.recipes import (
    LAPTOP_MAZES,
    MLMU,
    PAPER_MAZES,
    RunScale,
    laptop_astar,
    laptop_run,
    laptop_text,
    paper_run,
    square,
)
from clew.paper.result import Result
from clew.paper.study import Claim, Exam, Finding, Run, Show, Study
from clew.paper.tell import EXACT, PER_TOKEN, bars, exam_table, score_table, single_bars
from clew.paper.verdict import Side, verdict, verdict_on_best

ORDERED, REVERSE = "ordered: the right is hidden", "reverse: the left is hidden"
MASKS: dict[str, ObjectiveName] = {MLMU: "mlm-u", ORDERED: "ordered", REVERSE: "ordered-reverse"}
BACKWARD = "right to left"
ORDERED_SIZES = {"laptop": (4,), "paper": (10,)}


def ordered_runs(scale: RunScale) -> list[Run]:
    count = PAPER_MAZES if scale == "paper" else LAPTOP_MAZES
    exams = (Exam(mazes=count), Exam(BACKWARD, mazes=count // 2, decoder="right-to-left"))
    found = []
    for size in ORDERED_SIZES[scale]:
        for name, objective in MASKS.items():
            labels = {"masks": name, "size": square(size)}
            if scale == "paper":
                found.append(paper_run(labels, paper("astar", size, objective), exams))
            else:
                found.append(laptop_run(labels, laptop_astar(objective, size), exams))
    return found


def ordered_show(result: Result) -> Show:
    tables = [
        exam_table(result, f"{title}, {size}", "masks", ["held-out", BACKWARD], what, size=size)
        for size in result.values("size")
        for what, title in (("exact", EXACT), ("per_token", PER_TOKEN), ("shortest", "shortest paths, %"))
    ]
    panels = [
        bars(result, "left to right", "size", "masks"),
        bars(result, BACKWARD, "size", "masks", exam=BACKWARD),
    ]
    return Show(tables, panels)


def ordered_findings(result: Result) -> list[Finding]:
    found = []
    for size in result.values("size"):
        sides = {name: Side(name, result.entries(masks=name, size=size)) for name in MASKS}
        task, code = f"A* {size}", "not measured"
        ordered = Claim("ordered masks are far inferior to MLM-U", "A* 10x10: 98.5 against less than 4", task)
        text = "the published code's order, reversed and read left to right, is worse than the paper's text"
        backward = Side("right to left", sides[REVERSE].runs, BACKWARD)
        forward = Side("left to right", sides[REVERSE].runs)
        found += [
            verdict(ordered, sides[MLMU], sides[ORDERED]),
            verdict(Claim(text, code, task), sides[ORDERED], sides[REVERSE]),
            verdict(Claim("reversed masks are better read from right to left", code, task), backward, forward),
        ]
    return found


ORDERED_MASKS = Study(
    name="ordered-masks",
    title="Ordered masks",
    source="appendix, ordered masks",
    question="Is it enough to hide everything to the right of a random place, instead of random tokens?",
    paper="On A* 10x10 mazes ordered masks reach 73 % of the tokens and less than 4 % of the paths.",
    runs=ordered_runs,
    show=ordered_show,
    findings=ordered_findings,
    notes=(
        "The paper's published code hides the tokens to the left of the cut, the opposite of its text; both are "
        "measured, and both are also read from right to left.",
    ),
)

PAPER_RATES = "uniform, a sequence (the paper)"
SAMPLERS = {
    PAPER_RATES: RateConfig(),
    "uniform, spread over the batch": RateConfig(sampling="stratified"),
    "uniform, one a batch": RateConfig(sampling="batch"),
    "fixed at 15 %": RateConfig("fixed", fixed=0.15),
    "fixed at 50 %": RateConfig("fixed", fixed=0.5),
    "beta(2, 1): mostly hidden": RateConfig("beta", beta_a=2.0, beta_b=1.0),
    "cosine": RateConfig("cosine"),
    "adaptive: where loss falls": RateConfig("adaptive"),
}
RATES_SIZE = {"laptop": 4, "paper": 10}


def rate_runs(scale: RunScale) -> list[Run]:
    found = []
    for name, rates in SAMPLERS.items():
        if scale == "paper":
            config = paper("dfs", RATES_SIZE[scale], "mlm-u")
            config = replace(config, objective=replace(config.objective, rates=rates))
            found.append(paper_run({"rates": name}, config))
        else:
            config = laptop_text(MLMU, RATES_SIZE[scale], rates=rates)
            found.append(laptop_run({"rates": name}, config))
    return found


def rate_show(result: Result) -> Show:
    return Show([score_table(result, "rates")], [single_bars(result, "held-out mazes", "rates")])


def rate_findings(result: Result) -> list[Finding]:
    sides = {name: Side(name, result.entries(rates=name)) for name in SAMPLERS}
    text = "another masking rate is better than the uniform one, drawn for each sequence"
    claim = Claim(text, "expected as future work, not measured", f"DFS {_size(result)}")
    return [verdict_on_best(claim, sides.pop(PAPER_RATES), list(sides.values()), base_is_best=False)]


def _size(result: Result) -> str:
    return square(RATES_SIZE["paper" if result.scale == "paper" else "laptop"])


MASK_RATES = Study(
    name="mask-rates",
    title="Masking rates",
    source="ours; the paper's future work on masks",
    question="Is a uniform masking rate, drawn for each sequence, the best one for MLM-U?",
    paper="The uniform rate is the simplest but unlikely the optimal one.",
    runs=rate_runs,
    show=rate_show,
    findings=rate_findings,
)
