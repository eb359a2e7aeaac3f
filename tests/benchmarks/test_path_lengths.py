"""The figure of path lengths, small; and the shipped numbers, measured again in part."""

from __future__ import annotations

from pathlib import Path

import pytest
from path_lengths import main

from clew.errors import UserError
from clew.files import read_json
from clew.mazes.generate import generate
from clew.paper.studies.path_lengths import COUNT, FAMILIES, SIZES, measure

RESULTS = Path(__file__).parents[2] / "results" / "path-lengths.json"


def test_the_numbers_are_those_of_the_mazes() -> None:
    lengths = [len(path) for _, path in generate("dfs", 4, 4, seed=3, first=0, count=50, split="test")]
    measured = measure("dfs", 4, count=50, seed=3)
    mean = sum(lengths) / 50
    assert measured["mean"] == pytest.approx(mean, abs=1e-3)
    assert measured["standard_deviation"] ** 2 == pytest.approx(sum((x - mean) ** 2 for x in lengths) / 49, rel=1e-2)
    assert (measured["shortest"], measured["longest"]) == (min(lengths), max(lengths))
    assert measured["one_shortest"] == 1  # a DFS maze has one path
    assert 0 < measure("astar", 6, count=50)["one_shortest"] < 1


def test_one_maze_has_no_deviation() -> None:
    with pytest.raises(UserError, match="at least 2"):
        measure("dfs", 4, count=1)


def test_figure_and_numbers_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(tmp_path / "a.png", tmp_path / "a.json", count=5, seed=1)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    written = read_json(tmp_path / "a.json")
    assert [(row["family"], row["size"]) for row in written["path_lengths"]] == [
        (family, size) for family in FAMILIES for size in SIZES
    ]
    assert written["provenance"]["seeds"] == [1]
    assert "--count 5 --seed 1" in written["provenance"]["command"]
    assert capsys.readouterr().out.count(" cells, ") == 6


@pytest.mark.parametrize("family", FAMILIES)
def test_the_shipped_numbers_come_out_again(family: str) -> None:
    shipped = {(row["family"], row["size"]): row for row in read_json(RESULTS)["path_lengths"]}
    assert {row["count"] for row in shipped.values()} == {COUNT}
    again = measure(family, 10)
    assert again == shipped[family, 10]
