"""The benchmark of decoding, on mazes small enough for a test."""

import decoding
import pytest

from clew.errors import UserError
from clew.files import read_json


def test_both_forms_give_the_same_tokens_of_the_true_lengths(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(decoding, "SIDE", 3)
    decoding.main(mazes=4, size="tiny", out=tmp_path / "x.json")
    found = read_json(tmp_path / "x.json")
    assert found["same_tokens"] is True
    assert found["ratio"] == found["naive_seconds"] / found["fast_seconds"] > 0
    assert found["tokens"] > 4
    assert "the same tokens." in capsys.readouterr().out
    with pytest.raises(UserError, match="use 1 or more"):
        decoding.main(mazes=0)
