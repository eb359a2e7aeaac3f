"""The paper's six main claims, with one verdict each.

    main_verdicts(told_results(Path("results")))      # [MainVerdict, ...], in the order of MAIN_CLAIMS
    claim_lines(results)                              # the six lines of docs/results.md and of the README

The first five are those of the paper's abstract and of the list in its introduction; the sixth is the finding of its
section on position encodings, without which the largest mazes fail. A finding is evidence for one of them if its claim
has that key as `main`; any study may add evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clew.paper.result import Result
from clew.paper.study import Finding, Study, Verdict


@dataclass(frozen=True)
class MainClaim:
    """One of the paper's main claims."""

    key: str
    text: str
    paper: str  # its numbers
    study: str  # what tests it first


MAIN_CLAIMS = (
    MainClaim(
        "accuracy",
        "MLM-U solves more held-out DFS mazes than next token",
        "10x10: 100 % against 45.2 %; 30x30: 93.8 % against 18.8 %",
        "accuracy-by-size",
    ),
    MainClaim(
        "astar",
        "MLM-U solves more A* mazes than next token, even than next token that learns search traces",
        "30x30: 85.5 % with 8M parameters against 19.3 %, and 70.2 % with traces, both with 175M",
        "astar",
    ),
    MainClaim(
        "data",
        "MLM-U needs a quarter of next token's training mazes",
        "5x5: 25,000 against 100,000",
        "data-efficiency",
    ),
    MainClaim(
        "hours",
        "where both succeed, MLM-U converges in half of next token's GPU hours",
        "5x5: 2.03 times faster",
        "convergence",
    ),
    MainClaim(
        "scaling",
        "MLM-U gains from larger models on harder mazes",
        "20x20: 85 % with 3M parameters, 100 % with 8M",
        "model-size",
    ),
    MainClaim(
        "precision",
        "on large mazes MLM-U needs position encodings in float32",
        "30x30: 93.8 % against 40 % with float16",
        "position-precision",
    ),
)


@dataclass(frozen=True)
class MainVerdict:
    """A main claim with what all studies found about it."""

    claim: MainClaim
    verdict: Verdict
    evidence: Sequence[tuple[Result, Finding]]  # from all studies


def main_verdicts(told: Mapping[str, Result], studies: Mapping[str, Study]) -> list[MainVerdict]:
    """Each main claim with its verdict.

    Reproduced if some task reproduced it and none contradicted it, contradicted if it is the other way round, else
    inconclusive.
    """
    by_key: dict[str, list[tuple[Result, Finding]]] = {}
    for name, result in told.items():
        for finding in studies[name].findings(result):
            by_key.setdefault(finding.claim.main, []).append((result, finding))
    found = []
    for claim in MAIN_CLAIMS:
        evidence = by_key.get(claim.key, [])
        words = {finding.verdict for _, finding in evidence} - {"inconclusive"}
        verdict: Verdict = words.pop() if len(words) == 1 else "inconclusive"
        found.append(MainVerdict(claim, verdict, evidence))
    return found


def claim_lines(told: Mapping[str, Result], studies: Mapping[str, Study]) -> str:
    """One line for each main claim: verdict, claim, the paper's numbers, tasks and scales, and our numbers."""
    lines = []
    for number, main in enumerate(main_verdicts(told, studies), start=1):
        claim = main.claim
        lines.append(f"{number}. **{main.verdict}**: {claim.text} (the paper, {claim.paper}). {_evidence(main)}\n")
    return "".join(lines)


def scale_words(result: Result, finding: Finding | None = None) -> str:
    """The scale, and how many seeds a finding rests on, or the whole result."""
    names = [name.rsplit(", ", 1)[-1] for name in finding.runs] if finding else [str(r["seed"]) for r in result.runs]
    seeds = len(set(names))
    return f"{result.scale} scale" + (f", {seeds} seeds" if seeds > 1 else "")


def _evidence(main: MainVerdict) -> str:
    """What was found on which tasks; of runs that did not converge, no number."""
    if not main.evidence:
        return f"Not run yet: `clew reproduce {main.claim.study}`."
    words = [
        f"{finding.claim.task}, {scale_words(result, finding)}: {finding.verdict}, {finding.ours}"
        for result, finding in main.evidence
        if finding.verdict != "inconclusive"
    ]
    open_tasks: dict[tuple[str, str], list[str]] = {}
    for result, finding in main.evidence:
        if finding.verdict == "inconclusive":
            why = "no converged runs yet" if not finding.ours else "the intervals overlap"
            open_tasks.setdefault((f"{result.scale} scale", why), []).append(finding.claim.task)
    words += [f"{', '.join(dict.fromkeys(tasks))}, {scale}: {why}" for (scale, why), tasks in open_tasks.items()]
    return f"Here {'; '.join(words)}."
