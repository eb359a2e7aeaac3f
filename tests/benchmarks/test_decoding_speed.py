"""The benchmark of decoding, on mazes small enough for a test."""

import json

from clew.benchmarks import decoding
from clew.cli import run


def test_both_forms_give_the_same_tokens_of_the_true_lengths(monkeypatch, capsys):
    monkeypatch.setattr(decoding, "SIDE", 3)
    assert run(["bench", "decoding", "--mazes", "4", "--size", "tiny", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["same_tokens"] is True
    assert out["ratio"] == out["naive_seconds"] / out["fast_seconds"] > 0
    assert out["tokens"] > 4
    assert out["provenance"]["command"] == "clew bench decoding --mazes 4 --size tiny"
    assert run(["bench", "decoding", "--mazes", "0"]) == 1
    assert "use 1 or more" in capsys.readouterr().err
