"""The pages say what the benchmarks measured."""

import shutil
from pathlib import Path

import pytest

from clew.benchmarks.pages import Section
from clew.benchmarks.sections import SECTIONS
from clew.cli import run as clew
from clew.report.marked import between_marks

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_the_page_says_what_was_measured(section: Section) -> None:
    assert between_marks(ROOT / "docs" / section.page, section.name) == section.text(ROOT)


def test_all_are_written_by_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copytree(ROOT / "results", tmp_path / "results")
    for page in {section.page for section in SECTIONS}:
        file = tmp_path / "docs" / page
        text = file.read_text()
        for section in SECTIONS:
            text = text.replace(f"<!-- {section.name}: begin -->", f"<!-- {section.name}: begin -->\nold")
        file.write_text(text)
    assert clew(["bench", "report", "--root", str(tmp_path)]) == 0
    told = capsys.readouterr().out.split()
    assert sorted(told) == sorted({str(tmp_path / "docs" / section.page) for section in SECTIONS})
    for page in {section.page for section in SECTIONS}:
        assert (tmp_path / "docs" / page).read_text() == (ROOT / "docs" / page).read_text()
