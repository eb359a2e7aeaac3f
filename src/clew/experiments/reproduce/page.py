"""docs/results.md, made from results/*/*.json and nothing else.

    text = results_page(Path("results"))
    short = claims_table(Path("results"))      # for the README, between its marks

First a table of all claims with their verdicts, then a section for each study. The largest scale that was run is the
one that is told; smoke results are never told, since they mean nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from clew.experiments.reproduce.catalogue import STUDIES
from clew.experiments.reproduce.result import Result
from clew.experiments.reproduce.study import Finding, Study, Verdict
from clew.files import read_json

PAGE = Path("docs/results.md")
README, MARKS = Path("README.md"), "claims"
VERDICTS = get_args(Verdict)
TOLD: tuple[str, ...] = ("paper", "laptop")  # the largest first
_HEAD = """# Results: which of the paper's claims hold here

Made by `clew reproduce report` from the files under [results/](../results/); nothing on this page is typed by hand.
[How to run each study](reproduce.md).

"""
_MEANING = """
One share is above another if they differ by more than two standard errors (three for the best of many); what differs
by less *cannot be told*. Decoders of one model are compared maze by maze. A claim that does not hold at laptop scale
may still hold at the paper's: mazes, models and budgets are smaller. Numbers are shares of held-out mazes in per cent,
decoded from left to right with the weights of the last step, unless a table says otherwise; ± is a standard error over
the seeds. Models compute in the precision that `precision` in a file names, and in float32 where it names none.
"""


_BUCKETS = """
† Trained before version 0.2 with batches of mazes of similar length, in which a token of a short path weighs more than
one of a long path; to be run again with shuffled batches.
"""


def results_page(results: Path) -> str:
    """The whole page."""
    told = told_results(results)
    claims = [row for name, result in told.items() for row in _claims(STUDIES[name], result, "")]
    parts = [_HEAD]
    if claims:
        parts += [_count(told), "\n", markdown([["study", "claim", "verdict", "the paper", "here", "scale"], *claims])]
        parts.append(_MEANING)
        parts += [_BUCKETS] if any(map(length_buckets, told.values())) else []
    waiting = [study for name, study in STUDIES.items() if name not in told]
    if waiting:
        parts += ["\nNot run yet:\n\n", *(f"- {study.title}: `{command(study)}`\n" for study in waiting)]
    parts += [_section(STUDIES[name], result) for name, result in told.items()]
    return "".join(parts)


def claims_table(results: Path) -> str:
    """How many claims hold, and each in one line."""
    told = told_results(results)
    claims = [row for name, result in told.items() for row in _claims(STUDIES[name], result, PAGE.as_posix())]
    head = ["study", "claim", "verdict"]
    note = _BUCKETS if any(map(length_buckets, told.values())) else ""
    return f"{_count(told)}\n{markdown([head, *(row[: len(head)] for row in claims)])}{note}"


def told_results(results: Path) -> dict[str, Result]:
    """Every study that was run, by name."""
    return {name: result for name in STUDIES if (result := told_result(results, name)) is not None}


def told_result(results: Path, name: str) -> Result | None:
    """What a study measured at the largest scale that was run."""
    files = [results / name / f"{scale}.json" for scale in TOLD]
    return next((Result(read_json(file)) for file in files if file.exists()), None)


def command(study: Study, scale: str = "laptop") -> str:
    """What runs a study."""
    return f"clew reproduce {study.name} --scale {scale}"


def _by_claim(study: Study, result: Result) -> list[list[Finding]]:
    """The findings, those about one claim together."""
    found: dict[str, list[Finding]] = {}
    for finding in study.findings(result):
        found.setdefault(finding.claim, []).append(finding)
    return list(found.values())


def _verdicts(findings: Sequence[Finding]) -> dict[str, list[str]]:
    """Each verdict with the mazes or models that it is said of."""
    places: dict[str, list[str]] = {}
    for finding in findings:
        places.setdefault(finding.verdict, []).append(finding.where)
    return places


def _count(told: dict[str, Result]) -> str:
    claims = [_verdicts(findings) for name, result in told.items() for findings in _by_claim(STUDIES[name], result)]
    hold, fail, open_ = (sum(list(each) == [word] for each in claims) for word in VERDICTS)
    mixed = len(claims) - hold - fail - open_
    return (
        f"Of {len(claims)} claims, **{hold} hold** and **{fail} do not hold** wherever they were looked at, {mixed} "
        f"differ{'s' if mixed == 1 else ''} from one kind of maze or model to another, and {open_} cannot be told at "
        "this scale.\n"
    )


def _claims(study: Study, result: Result, page: str) -> list[list[str]]:
    """Study, claim, verdict, what the paper found, what was found here, and scale; studies are links to the page."""
    rows = []
    for number, findings in enumerate(_by_claim(study, result)):
        link = f"[{study.title}]({page}#{anchor(study.title)}){mark(result)}" if number == 0 else ""
        ours = "; ".join(f"{f.where}: {f.ours}" if f.where else f.ours for f in findings if f.ours)
        places = _verdicts(findings)
        if len(places) == 1:
            verdict = f"**{findings[0].verdict}**"
        else:
            verdict = ". ".join(f"**{word}**: {'; '.join(where)}" for word, where in places.items())
        rows.append([link, findings[0].claim, verdict, findings[0].paper, ours, scale_words(result)])
    return rows


def length_buckets(result: Result) -> bool:
    """Whether a run was trained with batches of mazes of similar length, as datasets were before version 0.2."""
    return any(str(run.get("batches", "")).startswith("length buckets") for run in result.runs)


def mark(result: Result) -> str:
    return " †" if length_buckets(result) else ""


def scale_words(result: Result) -> str:
    """The scale, and how many seeds."""
    seeds = len({run["seed"] for run in result.runs})
    return result.scale + (f", {seeds} seeds" if seeds > 1 else "")


def anchor(title: str) -> str:
    """What a heading is linked by."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")


def _section(study: Study, result: Result) -> str:
    told = result.value["provenance"]
    files = f"../results/{study.name}/{result.scale}"
    show = study.show(result)
    lines = [
        f"\n## {study.title}\n\n",
        f"> {study.question}\n\n",
        f"The paper ({study.source}): {study.paper}\n\n",
        *(f"- {_sentence(finding)}\n" for finding in study.findings(result)),
    ]
    if show.panels or show.pictures:
        lines.append(f"\n![{study.title}]({files}.png)\n")
    lines += [f"\n{table.title}:\n\n{markdown(table.rows)}" for table in show.tables]
    lines += [f"\n{note}\n" for note in study.notes]
    lines += [_BUCKETS] if length_buckets(result) else []
    work = (
        f"{len(result.runs)} trainings, {result.value['minutes']:.0f} minutes" if result.runs else "nothing is trained"
    )
    numbers = f"[{study.name}/{result.scale}.json]({files}.json)"
    lines.append(f"\n`{told['command']}`, {work}, {told['cpu']}, {told['date'][:10]}: {numbers}\n")
    return "".join(lines)


def _sentence(finding: Finding) -> str:
    """A finding as one line."""
    where = f" ({finding.where})" if finding.where else ""
    here = f" Here {finding.ours}:" if finding.ours else ""
    return f"**{finding.verdict}**{where}: {finding.claim}.{here} {finding.because}"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a table; the first one is the head."""
    head, *body = [[word.replace("|", "\\|") for word in row] for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *body])
