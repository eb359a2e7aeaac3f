"""The benchmark solves the same mazes both ways; how fast each is, is not tested."""

import json

import pytest

from clew.benchmarks import going_on
from clew.cli import run as clew


def test_both_ways_solve_the_same_mazes(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(going_on, "AT_ONCE", 4)
    asked = []
    decode = going_on.decode

    def watched(model, canvas, decoder, *, fresh):
        asked.append((fresh, len(canvas)))
        return decode(model, canvas, decoder, fresh=fresh)

    monkeypatch.setattr(going_on, "decode", watched)
    assert clew(["bench", "going-on", "--sizes", "4:6,5:3", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert asked == [(False, 1), (False, 4), (True, 4), (False, 2), (True, 2), (False, 1), (False, 3), (True, 3)]
    assert [(each["side"], each["mazes"]) for each in report["sizes"]] == [(4, 6), (5, 3)]
    for each in report["sizes"]:
        for form in (each["fresh"], each["going_on"]):
            assert form["solved"] + len(form["missed"]) == each["mazes"] <= form["passes"]
        assert each["ratio"] > 0
    assert report["provenance"]["command"].startswith("clew bench going-on --weights grid-dfs --sizes 4:6,5:3")


def test_the_table() -> None:
    form = {"solved": 3, "passes": 8, "processor_seconds": 2.0}
    row = going_on.table([{"side": 5, "mazes": 4, "fresh": form, "going_on": form | {"processor_seconds": 0.5}}])[-1]
    assert row == "| 5x5 | 3 of 4 | 3 of 4 | 2.0 and 2.0 | 0.500 | 0.125 | 4.0 |"


@pytest.mark.parametrize("sizes", ["10", "10:0", "2:5", "10:x", "", "100:1"])
def test_bad_sizes_get_one_sentence(sizes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert clew(["bench", "going-on", "--sizes", sizes]) == 1
    assert "cannot be used; give rows from 3 to 60" in capsys.readouterr().err
