"""DecodingState: filling, hiding, and what it reveals."""

import torch
from decoding_fakes import Oracle, tasks_for

from clew.decoding.codec import Codec
from clew.decoding.decode import decode
from clew.decoding.text_decoders import LeftToRight


def test_filling_the_end_token_drops_later_positions():
    codec, tasks = Codec.of("grid", 5, 5), tasks_for("grid", count=2)
    state = codec.decoding_state(tasks)
    state.fill(torch.tensor([0, 1]), torch.tensor([7, 7]), torch.tensor([3, 3]), torch.ones(2))
    state.fill(torch.tensor([0]), torch.tensor([2]), torch.tensor([state.end]), torch.ones(1))
    assert state.length_B.tolist() == [3, 26]
    assert state.known_BR.sum(1).tolist() == [1, 1]
    assert state.hide(torch.tensor([0]), torch.tensor([2])).token_F.tolist() == [state.end]
    assert state.length_B.tolist() == [26, 26]


def test_the_state_does_not_depend_on_the_stored_path():
    """Tasks that differ in their stored paths alone make the same state."""
    tasks = tasks_for("edge-list")
    codec = Codec.of("edge-list", 5, 5)
    other = tasks.from_tasks([tasks[i][0] for i in range(len(tasks))], [[(0, 0)]] * len(tasks))
    one, two = codec.decoding_state(tasks), codec.decoding_state(other)
    assert torch.equal(one.prompt.tokens_BT, two.prompt.tokens_BT)
    assert one.max_response_length == two.max_response_length == 26


def test_a_response_that_is_cut_has_no_end_token():
    tasks = tasks_for("grid")
    codec = Codec.of("grid", 5, 5)
    oracle = Oracle(codec, tasks)
    decoded = decode(oracle, codec.decoding_state(tasks, max_response_length=2), LeftToRight())
    assert not (decoded.token_BR == codec.end(5, 5)).any()
    assert decoded.length_B.tolist() == [2] * len(tasks)
