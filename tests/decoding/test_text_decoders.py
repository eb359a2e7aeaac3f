"""Decoders for text models: tokens of a perfect model, numbers of passes, choices, fast forms against naive ones."""

import json
from pathlib import Path

import pytest
import torch
from decoding import LeftToRightNaive
from decoding_fakes import FORMS, Oracle, random_models, steps_of, tasks_for
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from clew.data.batch import TokenBatch
from clew.decoding.codec import Codec, DecodingState
from clew.decoding.decode import DECODERS, decode, decoder_named
from clew.decoding.text_decoders import LeftToRight, Parallel, Predictions
from clew.models.published import load_published

GOLDEN = Path(__file__).parents[1] / "golden"
KINDS = {
    "edge-list": ["encoder-decoder", "causal", "published-causal", "decoder-only", "published-decoder-only"],
    "wall-list": ["encoder-decoder", "decoder-only"],
    "grid": ["encoder-decoder"],
}


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("form", FORMS)
def test_every_decoder_decodes_a_perfect_model(form, name):
    tasks = tasks_for(form)
    codec = Codec.of(form, 5, 5)
    decoded = decode(Oracle(codec, tasks), codec.decoding_state(tasks), decoder_named(name))
    truth_BR, length_B = codec.truth(tasks)
    assert decoded.length_B.tolist() == length_B.tolist()
    assert torch.equal(decoded.token_BR[:, : truth_BR.shape[1]], truth_BR)


@pytest.mark.parametrize("name", DECODERS)
def test_every_decoder_ends_with_an_untrained_model(name):
    tasks = tasks_for("grid", count=4, side=4)
    codec = Codec.of("grid", 4, 4)
    model = random_models(codec)["encoder-decoder"]
    decoded = decode(model, codec.decoding_state(tasks), decoder_named(name))
    position_R = torch.arange(17)
    assert bool((decoded.token_BR >= 0).eq(position_R < decoded.length_B[:, None]).all()), "no holes before the end"
    again = decode(model, codec.decoding_state(tasks), decoder_named(name))
    assert torch.equal(decoded.token_BR, again.token_BR)


def test_passes_of_each_decoder():
    tasks = tasks_for("grid")
    codec = Codec.of("grid", 5, 5)
    length_B = codec.truth(tasks)[1]

    def passes(name, **options):
        oracle = Oracle(codec, tasks, sure=8.0)
        return decode(oracle, codec.decoding_state(tasks), decoder_named(name, **options)).passes_B

    assert torch.equal(passes("left-to-right"), length_B)
    assert torch.equal(passes("right-to-left"), length_B)
    assert torch.equal(passes("certainty"), length_B)
    assert torch.equal(passes("certainty", count=3), -(-length_B // 3))
    assert torch.equal(passes("both-ends"), 1 + length_B // 2)
    assert torch.equal(passes("threshold", probability=0.5), torch.ones_like(length_B))
    assert torch.equal(passes("threshold", probability=1.0), length_B)
    assert torch.equal(passes("entropy-bound", bound=100.0), torch.ones_like(length_B))
    assert torch.equal(passes("entropy-bound", bound=0.0), length_B)


def test_certainty_takes_the_surest_first():
    tasks = tasks_for("grid", count=1)
    codec = Codec.of("grid", 5, 5)
    oracle = Oracle(codec, tasks)
    length = int(oracle.length_B)
    for name in ("certainty", "certainty-margin", "certainty-entropy"):
        order = [int(step.position_F) for step in steps_of(oracle, codec, tasks, decoder_named(name))]
        assert order == oracle.sure_BR[0, :length].argsort(descending=True).tolist()


def test_right_to_left_goes_from_right_to_left():
    tasks = tasks_for("grid", count=1)
    codec = Codec.of("grid", 5, 5)
    steps = steps_of(Oracle(codec, tasks), codec, tasks, decoder_named("right-to-left"))
    assert [int(step.position_F) for step in steps] == list(range(len(steps)))[::-1]


def predictions_of(entropies):
    entropy_NR = torch.tensor([entropies])
    zeros = torch.zeros_like(entropy_NR)
    candidate = torch.ones_like(entropy_NR, dtype=torch.bool)
    return Predictions(candidate, zeros.long(), torch.exp(-entropy_NR), zeros, entropy_NR, zeros)


@example([1.0, 1e-20, 1e-20], 0.0)
@given(st.lists(st.floats(0, 3, width=32, allow_subnormal=False), min_size=1, max_size=8), st.floats(0, 4))
@settings(max_examples=60, deadline=None)
def test_the_entropy_bound_holds_and_no_further_position_would_fit(entropies, bound):
    chosen = Parallel(by="entropy", bound=bound).choose(predictions_of(entropies))[0]
    taken = sorted(e for e, c in zip(entropies, chosen.tolist(), strict=True) if c)
    left = sorted(e for e, c in zip(entropies, chosen.tolist(), strict=True) if not c)
    assert taken
    assert sum(taken[:-1]) <= bound + 1e-4
    if left:
        assert left[0] >= taken[-1]
        assert sum(taken) >= bound - 1e-4


def test_threshold_and_certainty_choose_the_best_positions():
    predictions = predictions_of([0.1, 2.0, 0.05, 1.0])
    assert Parallel(probability=0.9).choose(predictions).tolist() == [[True, False, True, False]]
    assert Parallel(probability=0.99).choose(predictions).tolist() == [[False, False, True, False]]
    assert Parallel(2, "entropy").choose(predictions).tolist() == [[True, False, True, False]]


class PredictsTheEndEverywhere(Oracle):
    """Is a little surer of the end than of the true token wherever nothing further right is known."""

    def __call__(self, batch, order_BT, query_BT):
        logits = super().__call__(batch, order_BT, query_BT)
        logits[:, self.end] = 7.5
        return logits


def test_the_end_token_is_not_predicted_before_a_known_position():
    tasks = tasks_for("grid", count=1)
    codec = Codec.of("grid", 5, 5)
    state = codec.decoding_state(tasks)
    model = PredictsTheEndEverywhere(codec, tasks)
    model.end = state.end
    row = torch.tensor([0])
    state.fill(row, torch.tensor([4]), model.truth_BR[:, 4], torch.ones(1))
    list(decoder_named("certainty").steps(model, state, row))
    assert int(state.length_B) >= 5
    assert state.token_BR[0, :4].tolist() == model.truth_BR[0, :4].tolist()


def first_positions(said_BR, token) -> set[int]:
    """Return the positions at which responses first have this token."""
    return {row.index(token) for row in said_BR.tolist() if token in row}


@pytest.mark.parametrize(("form", "kind"), [(form, kind) for form, kinds in KINDS.items() for kind in kinds])
def test_fast_equals_naive_token_for_token(form, kind):
    tasks = tasks_for(form, count=5, side=4)
    codec = Codec.of(form, 4, 4)
    model, prompt = random_models(codec)[kind], codec.decoding_state(tasks).prompt
    length = codec.max_response_length(4, 4)

    def run(decoder, end):
        return decode(model, DecodingState(prompt, end, length, None, None), decoder)

    # A random model may never predict the end: a token that occurs at different positions serves as the end instead.
    said_BR = run(LeftToRightNaive(), -2).token_BR
    end = max(said_BR.unique().tolist(), key=lambda token: len(first_positions(said_BR, token)))
    naive, fast = run(LeftToRightNaive(), end), run(LeftToRight(), end)
    assert torch.equal(naive.token_BR, fast.token_BR)
    assert torch.equal(naive.length_B, fast.length_B)
    assert torch.equal(naive.passes_B, fast.passes_B)
    torch.testing.assert_close(naive.probability_BR, fast.probability_BR, atol=1e-4, rtol=1e-4)
    assert bool((fast.length_B < length).any()), "some response must end"
    assert len(naive.length_B.unique()) > 1, "lengths must differ for the test to mean something"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("decoder", [LeftToRight(), LeftToRightNaive()])
def test_left_to_right_decodes_a_perfect_model_in_one_pass_per_token(form, decoder):
    tasks = tasks_for(form)
    codec = Codec.of(form, 5, 5)
    oracle = Oracle(codec, tasks)
    decoded = decode(oracle, codec.decoding_state(tasks), decoder)
    for i in range(len(tasks)):
        assert codec.read(decoded.response(i), 5, 5) == tasks[i][1]
    assert torch.equal(decoded.passes_B, oracle.length_B)
    assert oracle.passes == int(oracle.length_B.max())


def test_finished_mazes_are_dropped_and_one_position_of_each_is_queried():
    tasks = tasks_for("grid")
    codec = Codec.of("grid", 5, 5)
    oracle = Oracle(codec, tasks)
    decode(oracle, codec.decoding_state(tasks), LeftToRight())
    assert oracle.queried == [int((oracle.length_B > i).sum()) for i in range(int(oracle.length_B.max()))]


@pytest.mark.parametrize("decoder", [LeftToRight(), LeftToRightNaive()])
def test_the_greedy_tokens_of_the_published_implementation(decoder):
    golden = load_file(GOLDEN / "mlmu-tiny.safetensors")
    vocabulary = json.loads((GOLDEN / "mlmu-tiny.json").read_text())["vocab"]
    path = golden["path_mask"].bool()
    prompt = TokenBatch(golden["input_ids"], ~path, torch.zeros_like(path), torch.arange(len(path)))
    state = DecodingState(prompt, vocabulary.index("<PATH_END>"), int(path.sum(1).max()), None, None)
    decoded = decode(load_published(GOLDEN / "mlmu-tiny.safetensors"), state, decoder)
    for row in range(len(path)):
        theirs = golden["greedy"][row, int(path[row].int().argmax()) :].tolist()
        ours = decoded.response(row)
        assert len(ours) >= min(len(theirs), 1)
        assert ours[: len(theirs)] == theirs[: len(ours)]
