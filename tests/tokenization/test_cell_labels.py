"""The cell-label format: round trips, and what it refuses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.errors import UserError
from clew.mazes.generate import FAMILIES, generate
from clew.mazes.maze import Maze, Task
from clew.tokenization.format import format_named

FORM = format_named("cell-labels")


@settings(deadline=None)  # the first example may compile
@given(st.sampled_from(sorted(FAMILIES)), st.integers(3, 7), st.integers(3, 7), st.integers(0, 99))
def test_round_trip(family: str, height: int, width: int, index: int) -> None:
    task, path = generate(family, height, width, seed=0, first=index, count=1, split="any")[0]
    written = FORM.encode(task, path)
    parsed = FORM.parse(written.tokens)
    assert (parsed.task, parsed.path) == (task, path)
    assert set(written.tokens) <= set(FORM.vocabulary(height, width).tokens)
    assert FORM.parse_response(written.response, height=height, width=width) == sorted(path)
    assert FORM.parse(written.prompt).path is None


SQUARE = Task(Maze.from_walls(2, 2, []), (0, 0), (1, 0))


def test_a_path_that_touches_itself_is_refused() -> None:
    with pytest.raises(UserError, match="touches itself"):
        FORM.encode(SQUARE, [(0, 0), (0, 1), (1, 1), (1, 0)])


@pytest.mark.parametrize(
    ("change", "match"),
    [(("off", 9), "token 10"), (("maybe", 9), "token 10"), (("on", 13), "token 14")],
)
def test_a_wrong_label_is_named(change: tuple[str, int], match: str) -> None:
    tokens = FORM.encode(SQUARE, [(0, 0), (1, 0)]).tokens
    assert tokens[8:13] == ["on", "off", "on", "off", "<PATH_END>"]
    word, at = change
    bad = [*tokens[:at], word, *tokens[at + 1 :]] if word != "off" else [*tokens[:9], *tokens[10:]]
    with pytest.raises(UserError):
        FORM.parse(bad)
