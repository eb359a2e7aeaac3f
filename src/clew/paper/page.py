"""Result files, docs/results.md and the README's lines on the paper's claims, generated from results/ alone.

    write_result(study, value, file)           # results/NAME/SCALE.json and SCALE.png
    write_pages(Path())                        # docs/results.md, README.md and results/claims.png

A finding is evidence for one of the paper's six main claims if it has that key as `main`. Runs that did not converge
are only named. Of each study, the largest scale is reported; smoke results never are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clew.files import atomic_write, read_json, to_plain, write_json
from clew.paper.results import Arm, Entry, Result, curves, run_name
from clew.paper.studies import MAIN_CLAIMS, RULES, STUDIES
from clew.paper.study import Study
from clew.paper.verdict import Finding, Verdict, converged_only, has_converged
from clew.viz.charts import Panel, draw_panels
from clew.viz.pages import replace_section

PAGE = Path("docs/results.md")
README, MARKS = Path("README.md"), "claims"
REPORTED = ("paper", "laptop")  # the largest scale first
CLAIMS_PICTURE = "claims.png"


@dataclass(frozen=True)
class MainVerdict:
    """A main claim with the findings of all studies about it."""

    text: str
    paper: str  # the paper's numbers
    study: str  # the study that tests it first
    evidence: Sequence[tuple[Result, Finding]]

    @property
    def decided(self) -> list[tuple[Result, Finding]]:
        return [(result, finding) for result, finding in self.evidence if finding.verdict != "inconclusive"]

    @property
    def verdict(self) -> Verdict:
        """The one that all deciding findings agree on, else inconclusive."""
        words = {finding.verdict for _, finding in self.decided}
        return words.pop() if len(words) == 1 else "inconclusive"


def write_result(study: Study, value: dict[str, Any], file: Path) -> None:
    """Write a result with its findings, and its picture.

    The picture shows the runs that converged (all, if none did), with the curves that the verdicts rest on.
    """
    result = Result(value)
    findings = study.findings(result)
    converged = converged_only(result)
    shown = converged if converged.runs else result
    report = study.report(shown)
    panels = [*report.panels, *curve_panels(shown, findings)]
    if panels or report.galleries:
        draw_panels(file.with_suffix(".png"), panels, report.galleries)
    texts: dict[str, Any] = {"study": study.name, "question": study.question, "the paper found": study.paper}
    texts["found here"] = [to_plain(finding) for finding in findings]
    # Last: a result that exists has its picture.
    write_json(file, texts | {name: each for name, each in value.items() if name not in texts})


def write_pages(root: Path) -> list[Path]:
    """Write all results again, the page, the picture of the claims and, between its marks, the README's lines."""
    results = root / "results"
    for name, study in STUDIES.items():
        for file in sorted((results / name).glob("*.json")):
            write_result(study, read_json(file), file)
    if panels := _claim_panels(results):
        draw_panels(results / CLAIMS_PICTURE, panels)
    with atomic_write(root / PAGE) as out:
        out.write(results_page(results))
    pages, readme = [root / PAGE], root / README
    if readme.is_file() and f"<!-- {MARKS}:" in readme.read_text(encoding="utf-8"):
        replace_section(readme, MARKS, claim_lines(read_results(results)))
        pages.append(readme)
    return pages


def read_results(results: Path) -> dict[str, Result]:
    """Return every study that was run, at the largest scale."""
    found = {}
    for name in STUDIES:
        files = [results / name / f"{scale}.json" for scale in REPORTED]
        if file := next((file for file in files if file.exists()), None):
            found[name] = Result(read_json(file))
    return found


def results_page(results: Path) -> str:
    found = read_results(results)
    picture = f"\n![The curves behind the verdicts](../results/{CLAIMS_PICTURE})\n" if _claim_panels(results) else ""
    sections = [_section(STUDIES[name], result) for name, result in found.items()]
    head = f"# Results: the paper's six main claims\n\n{claim_lines(found)}{picture}"
    return "".join([head, RULES, _not_converged(found), *sections])


def main_verdicts(results: Mapping[str, Result]) -> list[MainVerdict]:
    """Return each main claim with its verdict."""
    found = [(result, each) for name, result in results.items() for each in STUDIES[name].findings(result)]
    return [
        MainVerdict(**texts, evidence=[each for each in found if each[1].main == key])
        for key, texts in MAIN_CLAIMS.items()
    ]


def claim_lines(results: Mapping[str, Result]) -> str:
    """Return a line for each main claim: verdict, claim, the paper's numbers, tasks and scales, and our numbers."""
    return "".join(
        f"{number}. **{main.verdict}**: {main.text} (the paper, {main.paper}). {_evidence(main)}\n"
        for number, main in enumerate(main_verdicts(results), start=1)
    )


def _evidence(main: MainVerdict) -> str:
    """Return what was found on which tasks; of runs that did not converge, no number."""
    if not main.evidence:
        return f"No result yet: `clew reproduce {main.study}`."
    words = [f"{_where(*each)}: {each[1].verdict}, {each[1].ours}" for each in main.decided]
    undecided: dict[str, list[str]] = {}
    for result, finding in main.evidence:
        if finding.verdict == "inconclusive":
            why = "the intervals overlap" if finding.ours else "no converged runs yet"
            undecided.setdefault(f"{result.scale} scale: {why}", []).append(finding.task)
    words += [f"{', '.join(dict.fromkeys(tasks))}, {why}" for why, tasks in undecided.items()]
    return f"Here {'; '.join(words)}."


def _where(result: Result, finding: Finding) -> str:
    """Return task and scale, and how many seeds a finding rests on: those of the arm that has the fewest."""
    counts = Counter(name.rsplit(", ", 1)[0] for name in finding.runs)
    seeds = min(counts.values(), default=0)
    return f"{finding.task}, {result.scale} scale" + (f", {seeds} seeds" if seeds > 1 else "")


def _claim_panels(results: Path) -> list[Panel]:
    """Return the curves of the first task that decided each claim."""
    mains = main_verdicts(read_results(results))
    return [curve_panels(result, [finding])[0] for main in mains for result, finding in main.decided[:1]]


def curve_panels(result: Result, findings: Sequence[Finding]) -> list[Panel]:
    """Return for each task the curves of the runs that its verdicts rest on, against mazes seen and hours."""
    panels = []
    for task in dict.fromkeys(finding.task for finding in findings):
        names = {name for finding in findings if finding.task == task for name in finding.runs}
        entries = [entry for entry in result.runs if run_name(entry) in names and entry["curve"]]
        groups: dict[str, list[Entry]] = {}
        for entry in entries:
            # Labels that all runs of the task share are left out of the names.
            own = [word for key, word in entry["labels"].items() if len({e["labels"].get(key) for e in entries}) > 1]
            groups.setdefault(", ".join(own) or task, []).append(entry)
        arms = [Arm(name, runs) for name, runs in groups.items()]
        panels += [curves(task, "mazes", arms), curves(task, "hours", arms)] if arms else []
    return panels


def _not_converged(results: Mapping[str, Result]) -> str:
    """Return the studies that were not run yet, and those with runs that did not converge."""
    lines = []
    for name, study in STUDIES.items():
        runs = results[name].runs if name in results else []
        count = sum(not has_converged(run) for run in runs)
        what = f"{count} of {len(runs)} runs did not converge" if name in results else "not run yet"
        if count or name not in results:
            lines.append(f"- {study.title}: {what}. `clew reproduce {name} --scale laptop`\n")
    return "".join(["\nTo be run until they have converged:\n\n", *lines]) if lines else ""


def _section(study: Study, result: Result) -> str:
    """Return what the converged runs of a study show; nothing if there are none."""
    shown = converged_only(result)
    if result.runs and not shown.runs:
        return ""
    origin = result.value["provenance"]
    files = f"../results/{study.name}/{result.scale}"
    lines = [f"\n## {study.title}\n\n> {study.question}\n\n{study.paper}\n\n"]
    for finding in study.findings(result):
        if not finding.not_converged:
            where = _where(result, finding)
            lines.append(f"- **{finding.verdict}** ({where}): {finding.text}. Here {finding.ours}: {finding.because}\n")
    lines.append(f"\n![{study.title}]({files}.png)\n")
    lines += [f"\n{table.title}:\n\n{markdown(table.rows)}" for table in study.report(shown).tables]
    lines += [f"\n{note}\n" for note in study.notes]
    if missing := result.value.get("missing"):
        lines.append(f"\nNot finished yet: {'; '.join(missing)}.\n")
    work = f"{len(result.runs)} runs, {result.value['minutes']:.0f} minutes" if result.runs else "nothing is trained"
    numbers = f"[{study.name}/{result.scale}.json]({files}.json)"
    lines.append(f"\n`{origin['command']}`, {work}, {origin['cpu']}, {origin['date'][:10]}: {numbers}\n")
    return "".join(lines)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table; the first one is the head."""
    head, *body = [[word.replace("|", "\\|") for word in row] for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *body])
