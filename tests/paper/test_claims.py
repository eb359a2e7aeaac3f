"""The paper's six main claims: one verdict each, from the evidence of all studies."""

from __future__ import annotations

from typing import Any

import pytest
from synthetic_results import curve, entry, result

from clew.paper.page import claim_lines, main_verdicts
from clew.paper.studies import MAIN_CLAIMS, STUDIES

CLIMBING = curve([i / 40 for i in range(1, 41)])


def runs(size: str, mlmu: float, plain: float, points: Any = None) -> list[dict[str, Any]]:
    """A pair of one seed at one size."""
    pairs = (("MLM-U", mlmu), ("next token", plain))
    return [entry({"objective": name, "size": size}, 0, points, held_out=exact) for name, exact in pairs]


UP, DOWN, SAME = runs("4x4", 0.9, 0.5), runs("5x5", 0.5, 0.9), runs("6x6", 0.5, 0.5)
WAITING = runs("7x7", 0.9, 0.5, CLIMBING)


@pytest.mark.parametrize(
    ("evidence", "verdict", "words"),
    [
        ([], "inconclusive", "No result yet: `clew reproduce accuracy-by-size`."),
        (WAITING, "inconclusive", "Here DFS 7x7, laptop scale: no converged runs yet."),
        (SAME, "inconclusive", "Here DFS 6x6, laptop scale: the intervals overlap."),
        (UP, "reproduced", "Here DFS 4x4, laptop scale: reproduced, MLM-U 90.0, next token 50.0."),
        (
            UP + SAME + WAITING,
            "reproduced",
            "DFS 6x6, laptop scale: the intervals overlap; DFS 7x7, laptop scale: no",
        ),
        (DOWN + SAME, "contradicted", "Here DFS 5x5, laptop scale: contradicted, MLM-U 50.0, next token 90.0;"),
        (UP + DOWN, "inconclusive", "reproduced, MLM-U 90.0, next token 50.0; DFS 5x5, laptop scale: contradicted"),
    ],
)
def test_one_verdict_from_all_tasks(evidence: list[dict[str, Any]], verdict: str, words: str) -> None:
    results = {"accuracy-by-size": result(*evidence)} if evidence else {}
    first = main_verdicts(results)[0]
    assert (first.text, first.verdict) == (MAIN_CLAIMS["accuracy"]["text"], verdict)
    line = claim_lines(results).splitlines()[0]
    assert line.startswith(f"1. **{verdict}**: MLM-U solves more held-out DFS mazes than next token")
    assert words in line


def test_there_are_six_lines_and_each_claim_has_a_study_that_tests_it() -> None:
    assert len(claim_lines({}).splitlines()) == len(MAIN_CLAIMS) == 6
    assert {claim["study"] for claim in MAIN_CLAIMS.values()} <= STUDIES.keys()


def test_no_number_of_a_run_that_did_not_converge_is_in_the_lines() -> None:
    results = {"accuracy-by-size": result(*WAITING)}
    assert "90.0" not in claim_lines(results)
    assert "50.0" not in claim_lines(results)


def test_seeds_are_counted() -> None:
    three = [run | {"seed": seed} for seed in range(3) for run in runs("4x4", 0.9, 0.5)]
    assert "DFS 4x4, laptop scale, 3 seeds: reproduced" in claim_lines({"accuracy-by-size": result(*three)})
