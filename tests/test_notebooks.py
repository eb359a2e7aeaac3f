"""The notebooks run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def executed(file: Path, folder: Path) -> list[dict]:
    """Execute a notebook in a folder and return its code cells; an error in a cell is raised."""
    notebook = nbformat.read(file, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "notebooks are stored without outputs"
    nbclient.NotebookClient(notebook, timeout=250, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell: dict) -> set[str]:
    return {kind for output in cell["outputs"] for kind in output.get("data", {})}


def test_there_are_two() -> None:
    assert [file.stem for file in NOTEBOOKS] == ["first-steps", "mask-sampler"]


def test_first_steps(tmp_path: Path) -> None:
    cells = executed(NOTEBOOKS[0], tmp_path)
    assert "image/svg+xml" in kinds(cells[0])
    slider = next(output["data"]["text/html"] for output in cells[2]["outputs"] if "data" in output)
    assert 'type="range"' in slider
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "runs" / "first" / "metrics.jsonl").exists()


def test_a_mask_sampler_against_uniform_rates(tmp_path: Path) -> None:
    cells = executed(NOTEBOOKS[1], tmp_path)
    assert "image/png" in kinds(cells[1])
    assert "image/png" in kinds(cells[-1])
    assert "mostly-hidden" in (tmp_path / "runs" / "mostly-hidden" / "config.json").read_text()
