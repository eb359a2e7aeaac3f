"""docs/results.md is what the files under results/ say, and no verdict rests on a run that did not converge."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from synthetic_results import curve, entry, result

from clew.files import read_json, to_plain, write_json
from clew.paper.page import (
    MARKS,
    PAGE,
    README,
    claim_lines,
    markdown,
    read_results,
    results_page,
    write_pages,
    write_result,
)
from clew.paper.results import Result, run_name
from clew.paper.runner import Options, reproduce
from clew.paper.studies import STUDIES
from clew.viz.pages import read_section

ROOT = Path(__file__).parents[2]


def main_claims(results: Path) -> str:
    return claim_lines(read_results(results))


COMMITTED = [file for name in STUDIES for file in sorted((ROOT / "results" / name).glob("*.json"))]
VERDICT = re.compile(r"\*\*(reproduced|contradicted|inconclusive|holds|does not hold|cannot be told)\*\*")
CLIMBING = curve([i / 40 for i in range(1, 41)])


def test_the_committed_page_is_the_generated_one() -> None:
    assert (ROOT / PAGE).read_text() == results_page(ROOT / "results"), "run: clew reproduce report"
    assert read_section(ROOT / README, MARKS) == main_claims(ROOT / "results"), "run: clew reproduce report"
    for picture in re.findall(r"\]\(\.\./(results/\S+\.png)\)", (ROOT / PAGE).read_text()):
        assert (ROOT / picture).exists()


@pytest.mark.parametrize("file", COMMITTED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_committed_result_says_what_follows_from_its_numbers(file: Path) -> None:
    value = read_json(file)
    study = STUDIES[file.parent.name]
    assert value["found here"] == [to_plain(each) for each in study.findings(Result(value))], (
        "run: clew reproduce report"
    )
    assert file.with_suffix(".png").exists()
    assert (value["scale"], value["question"]) == (file.stem, study.question)


def check_verdicts(value: dict[str, Any]) -> None:
    """Every run that a verdict rests on is flat, by a simpler rule than that of clew.paper.verdict."""
    curves = {run_name(run): run["curve"] for run in value["runs"]}
    for finding in value["found here"]:
        if finding["verdict"] == "inconclusive":
            assert finding["ours"] == "" or not finding["not_converged"]
            continue
        assert bool(finding["runs"]) == bool(value["runs"])
        for name in finding["runs"]:
            points = curves[name]
            score = "exact" if "exact" in points[0] else "train-exact"
            last = [point[score] for point in points if point["mazes"] >= 0.75 * points[-1]["mazes"]]
            assert len(last) >= 5, f"{name} was not evaluated often enough"
            half = len(last) // 2
            gain = 2 * (sum(last[-half:]) / half - sum(last[:half]) / half)
            assert gain < 0.02, f"{name} was still learning"  # twice what is allowed: the estimates differ by chance


@pytest.mark.parametrize("file", COMMITTED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_no_committed_verdict_rests_on_a_run_that_did_not_converge(file: Path) -> None:
    check_verdicts(read_json(file))


@pytest.mark.parametrize("points", [CLIMBING, CLIMBING[-4:], curve([0.9] * 10)])
def test_a_verdict_on_a_run_that_did_not_converge_would_be_seen(points: list[dict[str, float]]) -> None:
    run = entry({"objective": "MLM-U"}, 0, points)
    forged = {"verdict": "reproduced", "ours": "90.0", "runs": [run_name(run)], "not_converged": []}
    with pytest.raises(AssertionError, match=r"still learning|often enough"):
        check_verdicts({"runs": [run], "found here": [forged]})
    check_verdicts({"runs": [entry({"objective": "MLM-U"})], "found here": [forged]})


def test_every_verdict_on_a_page_is_a_generated_one() -> None:
    """Outside of the generated parts no page says that a claim is reproduced, or is not."""
    readme = (ROOT / README).read_text().replace(main_claims(ROOT / "results"), "")
    pages = {page: page.read_text() for page in sorted((ROOT / "docs").glob("*.md")) if page.name != PAGE.name}
    for page, text in {ROOT / README: readme, **pages}.items():
        assert page.name == "reproduce.md" or not VERDICT.search(text), page  # reproduce.md says what the words mean


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result of the smallest study, labelled as one of laptop scale."""
    root = tmp_path_factory.mktemp("page")
    reproduce([STUDIES["path-lengths"]], Options("smoke", root), log=lambda line: None)
    folder = root / "results" / "path-lengths"
    write_json(folder / "laptop.json", read_json(folder / "smoke.json") | {"scale": "laptop"})
    return root / "results"


def test_the_page_has_a_summary_a_section_and_what_is_left_to_do(results: Path) -> None:
    page = results_page(results)
    assert page.startswith(f"# Results: the paper's six main claims\n\n{main_claims(results)}")
    assert "\n## Path lengths of both families\n" in page
    assert "](../results/path-lengths/laptop.png)" in page
    assert "| DFS | 5x5 |" in page
    assert "- Data efficiency: not run yet. `clew reproduce data-efficiency --scale laptop`" in page


def written(root: Path, *runs: dict[str, Any]) -> Path:
    """The results folder with one result of accuracy-by-size."""
    file = root / "accuracy-by-size" / "laptop.json"
    file.parent.mkdir(parents=True)
    write_json(file, result(*runs).value)
    write_result(STUDIES["accuracy-by-size"], read_json(file), file)
    return root


def runs(size: str, points: Any = None) -> list[dict[str, Any]]:
    pairs = (("MLM-U", 0.914), ("next token", 0.528))
    return [entry({"objective": name, "size": size}, 0, points, held_out=exact) for name, exact in pairs]


def test_what_did_not_converge_is_named_but_its_numbers_are_not_on_the_page(tmp_path: Path) -> None:
    page = results_page(written(tmp_path, *runs("4x4", CLIMBING)))
    assert "- Accuracy by size of maze: 2 of 2 runs did not converge." in page
    assert "## Accuracy by size" not in page
    assert "91.4" not in page
    assert "52.8" not in page


def test_converged_runs_are_shown_without_the_others(tmp_path: Path) -> None:
    page = results_page(written(tmp_path, *runs("4x4"), *runs("5x5", CLIMBING)))
    assert "- **reproduced** (DFS 4x4, laptop scale): MLM-U finds the exact path" in page
    assert "|  | 4x4 |\n" in page
    assert "- Accuracy by size of maze: 2 of 4 runs did not converge." in page
    assert "DFS 5x5, laptop scale: no converged runs yet" in page
    assert page.count("**") == 2 * (6 + 1 + 3)  # six claims, one finding, and the three words that are explained


def test_runs_that_are_not_finished_are_named_beside_the_others(tmp_path: Path) -> None:
    results = written(tmp_path, *runs("4x4"))
    file = results / "accuracy-by-size" / "laptop.json"
    assert "Not finished yet" not in results_page(results)
    write_json(file, read_json(file) | {"missing": ["MLM-U, 5x5, seed 1", "next token, 5x5, seed 1"]})
    assert "\nNot finished yet: MLM-U, 5x5, seed 1; next token, 5x5, seed 1.\n" in results_page(results)


def test_the_picture_has_the_curves_of_the_decided_claims(tmp_path: Path) -> None:
    results = written(tmp_path / "results", *runs("4x4", CLIMBING))
    (tmp_path / "docs").mkdir()
    write_pages(tmp_path)
    picture = "](../results/claims.png)"
    assert picture not in (tmp_path / "docs" / "results.md").read_text()
    write_json(results / "accuracy-by-size" / "laptop.json", result(*runs("4x4")).value)
    write_pages(tmp_path)
    assert picture in (tmp_path / "docs" / "results.md").read_text()
    assert (results / "claims.png").exists()


def test_smoke_is_never_reported_and_paper_goes_first(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "path-lengths"
    folder.mkdir()
    value = read_json(results / "path-lengths" / "laptop.json")
    write_json(folder / "smoke.json", value | {"scale": "smoke"})
    assert "## Path" not in results_page(tmp_path)
    write_json(folder / "laptop.json", value)
    write_json(folder / "paper.json", value | {"scale": "paper"})
    assert "path-lengths/paper.json" in results_page(tmp_path)
    assert "path-lengths/laptop.json" not in results_page(tmp_path)


def test_a_table_of_words() -> None:
    assert markdown([["a", "b"], ["1", "x | y"]]) == "| a | b |\n| --- | --- |\n| 1 | x \\| y |\n"
