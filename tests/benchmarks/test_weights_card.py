"""The cards of shipped weights say what was measured."""

from pathlib import Path

import pytest
import weights_card

from clew.errors import UserError
from clew.files import read_json, write_json
from clew.viz.pages import read_section

ROOT = Path(__file__).parents[2]
SHIPPED = sorted(path.name for path in (ROOT / "weights").iterdir())


@pytest.mark.parametrize("name", SHIPPED)
def test_the_pages_say_what_was_measured(name: str) -> None:
    results = read_json(ROOT / "results" / f"{name}.json")
    for page, link in weights_card.pages(name, ROOT):
        assert read_section(page, name) == weights_card.tables(name, results, f"{link}/{name}.json")


def test_the_readme_says_what_was_measured() -> None:
    results = {name: read_json(ROOT / "results" / f"{name}.json") for name in weights_card.PAPER}
    assert read_section(ROOT / "README.md", "shipped") == weights_card.summary(results)


def evaluation(hits: int, lengths: dict[tuple[int, int], tuple[int, int]]) -> dict:
    share = {"share": hits / 100, "hits": hits, "count": 100, "low": 0.9, "high": 1.0}
    by_length = [
        {"low": low, "high": high, "mazes": count, "exact": {"hits": right}}
        for (low, high), (right, count) in lengths.items()
    ]
    scores = {"decoder": "repair", "exact": share, "shortest": share, "passes": 1.25, "seconds_per_maze": 0.01}
    return {**scores, "by_length": by_length}


def test_every_length_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    provenance = {"command": "clew evaluate x --size 5 --json", "cpu": "a processor", "date": "2026-01-01T00:00"}
    each = evaluation(98, {(1, 10): (50, 50), (21, 21): (20, 20), (31, 40): (28, 30)})
    write_json(
        Path("5.json"), {"mazes": "100 held-out dfs mazes of 5x5", "provenance": provenance, "evaluations": [each]}
    )
    monkeypatch.setattr(weights_card, "PAPER", {"x": {"5x5": "100"}})
    for page, _ in weights_card.pages("x"):
        page.parent.mkdir(parents=True)
        page.write_text("above\n<!-- x: begin -->\n<!-- x: end -->\nbelow\n")
    Path("README.md").write_text("<!-- shipped: begin -->\n<!-- shipped: end -->\n")
    Path("results").mkdir()
    weights_card.main("x", [Path("5.json")])
    weights_card.main("x")  # again, from what was gathered
    text = weights_card.pages("x")[0][0].read_text()
    assert "| 5x5 | `repair` | 98 of 100 | 98.0 | 90.0 to 100.0 | 98.0 | 1.2 | 10 |\n" in text
    assert "| 5x5 | `repair` | 1 to 10: 100.0 (50); 21: 100.0 (20); 31 to 40: 93.3 (30) |\n\n" in text
    assert text.startswith("above\n")
    assert text.endswith("<!-- x: end -->\nbelow\n")
    row = "| `x` | 100 of 5x5 | 98.0 (90.0 to 100.0) | 100 | 98.0 |\n"
    assert read_section(Path("README.md"), "shipped").endswith(row)
    weights_card.pages("x")[1][0].write_text("no marks")
    with pytest.raises(UserError, match="must have the marks"):
        weights_card.main("x")


def test_no_miss_is_rounded_away() -> None:
    assert [weights_card._percent(share) for share in (1, 0.9996, 0.999, 0.995)] == ["100.0", "99.96", "99.90", "99.5"]
