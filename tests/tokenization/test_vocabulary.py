"""Tokens and their numbers."""

from __future__ import annotations

import json

import pytest

from clew.errors import UserError
from clew.tokenization.format import FORMATS, format_named
from clew.tokenization.tokens import SPECIAL_TOKENS, Vocabulary


@pytest.mark.parametrize("name", FORMATS)
def test_every_vocabulary_survives_json_and_is_rounded_up(name: str) -> None:
    vocabulary = format_named(name).vocabulary(1 if name.startswith("path-star") else 3, 12)
    assert Vocabulary(tuple(json.loads(json.dumps(vocabulary.tokens)))) == vocabulary
    assert list(vocabulary.tokens) == sorted(vocabulary.tokens)
    assert set(SPECIAL_TOKENS) < set(vocabulary.tokens)
    assert vocabulary.size % 128 == 0
    assert 0 <= vocabulary.size - len(vocabulary.tokens) < 128


def test_the_wall_list_vocabulary_grows_with_the_size() -> None:
    tokens = format_named("wall-list").vocabulary(3, 12).tokens
    assert "11" in tokens
    assert "12" not in tokens
    assert "c0" not in tokens
    traced = format_named("wall-list-trace").vocabulary(3, 12).tokens
    assert "c36" in traced
    assert "c37" not in traced
    assert format_named("wall-list-trace").vocabulary(30, 30).size == 1024


def test_an_unknown_token_is_named_with_its_place() -> None:
    with pytest.raises(UserError, match=r"token 3 is '\(9,9\)'"):
        format_named("edge-list").vocabulary(2, 2).encode(["(0,0)", ";", "(9,9)", "(8,8)"])


def test_an_id_without_token_reads_unknown() -> None:
    vocabulary = Vocabulary.of(["a"])
    assert vocabulary.decode([vocabulary.id_of["a"], 100, -1]) == ["a", "[UNK]", "[UNK]"]
    assert vocabulary.decode([vocabulary.pad_id]) == ["[PAD]"]


@pytest.mark.parametrize("token", ["a b", "", " a", "a\n"])
def test_a_token_has_no_spaces(token: str) -> None:
    with pytest.raises(UserError, match="use texts without spaces"):
        Vocabulary.of(["a", token])
