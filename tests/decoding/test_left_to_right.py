"""Left to right: the naive form, the fast one and the cached one give the same tokens."""

import json
from pathlib import Path

import pytest
import torch
from decoding_fakes import FORMS, Oracle, WithEnds, random_models, tasks_for
from safetensors.torch import load_file

from clew.data.batch import TokenBatch
from clew.decoding.codec import Codec
from clew.decoding.decode import decode, decode_steps
from clew.decoding.state import DecodingState
from clew.decoding.text_decoders import LeftToRight, LeftToRightNaive
from clew.models.published import load_published

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS = {
    "edge-list": ["encoder-decoder", "causal", "published-causal", "decoder-only", "published-decoder-only"],
    "wall-list": ["encoder-decoder", "decoder-only"],
    "grid": ["encoder-decoder"],
}


def first_places(said_BR, token) -> set[int]:
    """Return the positions at which responses first have this token."""
    return {row.index(token) for row in said_BR.tolist() if token in row}


@pytest.mark.parametrize(("form", "kind"), [(form, kind) for form, kinds in KINDS.items() for kind in kinds])
def test_fast_equals_naive_token_for_token(form, kind):
    tasks = tasks_for(form, count=5, side=4)
    codec = Codec.of(form, 4, 4)
    model, prompt, length = (
        random_models(codec)[kind],
        codec.decoding_state(tasks).prompt,
        codec.max_response_length(4, 4),
    )

    def run(decoder, end):
        return decode(model, DecodingState(prompt, end=end, max_response_length=length), decoder)

    # A random model may never predict the end: a token that occurs at different positions serves as the end instead.
    said_BR = run(LeftToRightNaive(), -2).token_BR
    end = max(said_BR.unique().tolist(), key=lambda token: len(first_places(said_BR, token)))
    naive, fast = run(LeftToRightNaive(), end), run(LeftToRight(), end)
    assert torch.equal(naive.token_BR, fast.token_BR)
    assert torch.equal(naive.length_B, fast.length_B)
    assert torch.equal(naive.passes_B, fast.passes_B)
    torch.testing.assert_close(naive.probability_BR, fast.probability_BR, atol=1e-4, rtol=1e-4)
    assert fast.ended_B.any()
    assert len(naive.length_B.unique()) > 1, "lengths must differ for the test to mean something"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("decoder", [LeftToRight(), LeftToRightNaive()])
def test_a_perfect_model_is_read_perfectly(form, decoder):
    tasks = tasks_for(form)
    codec = Codec.of(form, 5, 5)
    oracle = Oracle(codec, tasks)
    decoded = decode(oracle, codec.decoding_state(tasks), decoder)
    for i in range(len(tasks)):
        assert codec.read(decoded.response(i), 5, 5) == tasks[i][1]
    assert torch.equal(decoded.passes_B, oracle.length_B)
    assert oracle.passes == int(oracle.length_B.max())
    assert bool(decoded.ended_B.all())


def test_finished_mazes_are_dropped_and_one_place_is_asked_of_each():
    tasks = tasks_for("grid")
    codec = Codec.of("grid", 5, 5)
    oracle = Oracle(codec, tasks)
    decode(oracle, codec.decoding_state(tasks), LeftToRight())
    assert oracle.asked == [int((oracle.length_B > place).sum()) for place in range(int(oracle.length_B.max()))]


@pytest.mark.parametrize("decoder", [LeftToRight(), LeftToRightNaive()])
def test_the_greedy_tokens_of_the_published_implementation(decoder):
    golden = load_file(GOLDEN / "mlmu-tiny.safetensors")
    vocabulary = json.loads((GOLDEN / "mlmu-tiny.json").read_text())["vocab"]
    path = golden["path_mask"].bool()
    batch = TokenBatch(golden["input_ids"], torch.ones_like(path), path, torch.arange(len(path)))
    state = DecodingState(batch, end=vocabulary.index("<PATH_END>"), max_response_length=int(path.sum(1).max()))
    decoded = decode(load_published(GOLDEN / "mlmu-tiny.safetensors"), state, decoder)
    for row in range(len(path)):
        theirs = golden["greedy"][row, int(path[row].int().argmax()) :].tolist()
        ours = decoded.response(row)
        assert len(ours) >= min(len(theirs), 1)
        assert ours[: len(theirs)] == theirs[: len(ours)]


def test_the_canvas_says_nothing_about_the_path():
    """Tasks that differ in their stored paths alone make the same state."""
    tasks = tasks_for("edge-list")
    codec = Codec.of("edge-list", 5, 5)
    other = tasks.from_tasks([tasks[i][0] for i in range(len(tasks))], [[(0, 0)]] * len(tasks))
    one, two = codec.decoding_state(tasks), codec.decoding_state(other)
    assert torch.equal(one.prompt.tokens_BT, two.prompt.tokens_BT)
    assert one.max_response_length == two.max_response_length == 26


def test_a_room_that_is_too_small_leaves_the_answer_without_end():
    tasks = tasks_for("grid")
    codec = Codec.of("grid", 5, 5)
    oracle = Oracle(codec, tasks)
    decoded = decode(oracle, codec.decoding_state(tasks, max_response_length=2), LeftToRight())
    assert not decoded.ended_B.any()
    assert decoded.length_B.tolist() == [2] * len(tasks)


def test_the_model_is_in_evaluation_mode_while_it_works_and_afterwards_as_before():
    tasks = tasks_for("grid", side=4)
    codec = Codec.of("grid", 4, 4)
    model = WithEnds(random_models(codec)["encoder-decoder"], end=codec.end(4, 4), bonus=50.0).train()
    for _ in decode_steps(model, codec.decoding_state(tasks), LeftToRight()):
        assert model.training
        assert torch.is_grad_enabled()
    seen = []
    model.register_forward_hook(lambda *_: seen.append((model.training, torch.is_grad_enabled())))
    decode(model, codec.decoding_state(tasks), LeftToRight())
    assert set(seen) == {(False, False)}
    assert model.training
