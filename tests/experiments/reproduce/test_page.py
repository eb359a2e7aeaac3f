"""docs/results.md is what the files under results/ say, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.experiments.reproduce.catalogue import STUDIES
from clew.experiments.reproduce.page import MARKS, PAGE, README, anchor, claims_table, markdown, results_page
from clew.experiments.reproduce.result import Result
from clew.experiments.reproduce.runner import Options, reproduce
from clew.files import read_json, write_json
from clew.plain_json import to_plain
from clew.report.marked import between_marks

ROOT = Path(__file__).parents[3]
COMMITTED = [file for name in STUDIES for file in sorted((ROOT / "results" / name).glob("*.json"))]


def test_the_committed_page_is_the_generated_one() -> None:
    assert (ROOT / PAGE).read_text() == results_page(ROOT / "results"), "run: clew reproduce report"
    assert between_marks(ROOT / README, MARKS) == claims_table(ROOT / "results"), "run: clew reproduce report"


@pytest.mark.parametrize("file", COMMITTED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_committed_result_says_what_follows_from_its_numbers(file: Path) -> None:
    value = read_json(file)
    study = STUDIES[file.parent.name]
    assert value["found here"] == [to_plain(each) for each in study.findings(Result(value))], (
        "run: clew reproduce report"
    )
    assert file.with_suffix(".png").exists()
    assert (value["scale"], value["question"]) == (file.stem, study.question)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result of the smallest study, told as if it were of laptop scale."""
    root = tmp_path_factory.mktemp("page")
    reproduce([STUDIES["path-lengths"]], Options("smoke", root), say=lambda line: None)
    folder = root / "results" / "path-lengths"
    write_json(folder / "laptop.json", read_json(folder / "smoke.json") | {"scale": "laptop"})
    return root / "results"


def test_the_page_has_a_summary_a_section_and_what_is_left_to_do(results: Path) -> None:
    page = results_page(results)
    assert "Of 2 claims, **2 hold** and **0 do not hold**" in page
    assert "| [Path lengths of both families](#path-lengths-of-both-families) |" in page
    assert "\n## Path lengths of both families\n" in page
    assert "](../results/path-lengths/laptop.png)" in page
    assert "- Data efficiency: `clew reproduce data-efficiency --scale laptop`" in page


def test_the_table_of_claims_links_to_the_page(results: Path) -> None:
    table = claims_table(results)
    assert table.startswith("Of 2 claims, **2 hold**")
    link = "[Path lengths of both families](docs/results.md#path-lengths-of-both-families)"
    assert f"| {link} | paths of DFS mazes are longer than those of A* mazes | **holds** |\n" in table
    assert table.count("docs/results.md#") == 1


def test_results_of_length_buckets_are_marked_until_they_are_run_again(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "overfitting"
    folder.mkdir()
    value = read_json(ROOT / "results" / "overfitting" / "laptop.json")

    def marks(batches: str) -> tuple[int, int]:
        runs = [run | {"batches": batches} for run in value["runs"]]
        write_json(folder / "laptop.json", value | {"runs": runs})
        return results_page(tmp_path).count("†"), claims_table(tmp_path).count("†")

    assert marks("length buckets (before version 0.2)") == (3, 2)  # the study, the note, and the note of its section
    assert marks("shuffled") == (0, 0)


def test_smoke_is_never_told_and_paper_goes_first(results: Path, tmp_path: Path) -> None:
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
    assert anchor("A* mazes, with and without") == "a-mazes-with-and-without"
