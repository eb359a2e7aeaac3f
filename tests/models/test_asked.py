"""Asked steps side by side: each has a place of its own, and few places are empty."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from clew.models.asked import pack


@given(st.lists(st.lists(st.booleans(), min_size=7, max_size=7), min_size=1, max_size=9))
def test_every_asked_step_has_its_place(rows: list[list[bool]]) -> None:
    ask_BT = torch.tensor(rows)
    packed = pack(ask_BT)
    row_Q, step_Q = ask_BT.nonzero(as_tuple=True)
    assert torch.equal(packed.step_P[packed.place_Q], step_Q)
    assert len(set(packed.place_Q.tolist())) == len(step_Q)
    # By pack, a maze's asked steps stand where its own places are.
    maze_P = torch.full_like(packed.step_P, -1)
    maze_P[packed.place_Q] = row_Q
    for maze_bq, maze_b in zip(packed.places(maze_P), packed.mazes(packed.order_A), strict=True):
        assert ((maze_bq == maze_b[:, None]) | (maze_bq == -1)).all()
    # No maze has more than twice the places that it needs.
    assert len(packed.step_P) <= 2 * len(step_Q)


def test_mazes_that_ask_nothing_have_no_place() -> None:
    packed = pack(torch.tensor([[False, False], [True, True], [False, True]]))
    assert packed.order_A.tolist() == [1, 2]
    assert packed.packs == [(2, 2)]


def test_a_pack_ends_where_less_than_half_is_asked() -> None:
    ask_BT = torch.arange(8) < torch.tensor([1, 8, 4, 3, 2, 0])[:, None]
    assert pack(ask_BT).packs == [(2, 8), (2, 3), (1, 1)]


def test_where_nothing_is_asked_there_are_no_places() -> None:
    packed = pack(torch.zeros(3, 4, dtype=torch.bool))
    assert len(packed.step_P) == len(packed.place_Q) == 0
    assert [tuple(part.shape) for part in packed.places(torch.zeros(0, 5))] == [(1, 0, 5)]
