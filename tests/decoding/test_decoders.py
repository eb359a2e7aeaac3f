"""Every decoder: read from a perfect model, in fewer passes where it promises that, and never told the length."""

import pytest
import torch
from decoding_fakes import FORMS, Oracle, random_models, tasks_for
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.decoding.codec import Codec
from clew.decoding.decode import (
    CELL_DECODERS,
    DECODERS,
    decode,
    decode_steps,
    decoder_named,
    decoders_for,
    default_decoder,
    parse_decoder,
)
from clew.decoding.text_decoders import Certainty, EntropyBound, Predictions, Threshold
from clew.errors import UserError
from clew.models.cell_network import CellNetwork, CellNetworkConfig

TEXT_DECODERS = [name for name in DECODERS if name not in CELL_DECODERS]


@pytest.mark.parametrize("name", TEXT_DECODERS)
@pytest.mark.parametrize("form", FORMS)
def test_every_decoder_reads_a_perfect_model_perfectly(form, name):
    tasks = tasks_for(form)
    codec = Codec.of(form, 5, 5)
    decoded = decode(Oracle(codec, tasks), codec.decoding_state(tasks), decoder_named(name))
    truth_BR, length_B = codec.truth(tasks)
    assert decoded.length_B.tolist() == length_B.tolist()
    assert torch.equal(decoded.token_BR[:, : truth_BR.shape[1]], truth_BR)


@pytest.mark.parametrize("name", TEXT_DECODERS)
def test_every_decoder_ends_on_a_model_that_knows_nothing(name):
    tasks = tasks_for("grid", count=4, side=4)
    codec = Codec.of("grid", 4, 4)
    model = random_models(codec)["encoder-decoder"]
    decoded = decode(model, codec.decoding_state(tasks), decoder_named(name))
    places = torch.arange(17)
    assert bool((decoded.token_BR >= 0).eq(places < decoded.length_B[:, None]).all()), "no holes before the end"
    again = decode(model, codec.decoding_state(tasks), decoder_named(name))
    assert torch.equal(decoded.token_BR, again.token_BR)


def test_passes_of_each_decoder():
    tasks = tasks_for("grid")
    codec = Codec.of("grid", 5, 5)
    length_B = codec.truth(tasks)[1]

    def passes(name, **options):
        return decode(
            Oracle(codec, tasks, sure=8.0), codec.decoding_state(tasks), decoder_named(name, **options)
        ).passes_B

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
        order = [
            int(step.position_F) for step in decode_steps(oracle, codec.decoding_state(tasks), decoder_named(name))
        ]
        assert order == oracle.sure_BR[0, :length].argsort(descending=True).tolist()


def test_right_to_left_goes_from_right_to_left():
    tasks = tasks_for("grid", count=1)
    codec = Codec.of("grid", 5, 5)
    steps = list(decode_steps(Oracle(codec, tasks), codec.decoding_state(tasks), decoder_named("right-to-left")))
    assert [int(step.position_F) for step in steps] == list(range(len(steps)))[::-1]


def predictions_of(entropies):
    entropy_NR = torch.tensor([entropies])
    zeros = torch.zeros_like(entropy_NR)
    candidate = torch.ones_like(entropy_NR, dtype=torch.bool)
    return Predictions(candidate, zeros.long(), torch.exp(-entropy_NR), zeros, entropy_NR, zeros)


@given(st.lists(st.floats(0, 3, width=32, allow_subnormal=False), min_size=1, max_size=8), st.floats(0, 4))
@settings(max_examples=60, deadline=None)
def test_the_entropy_bound_holds_and_no_further_place_would_fit(entropies, bound):
    chosen = EntropyBound(bound).choose(predictions_of(entropies))[0]
    taken = sorted(e for e, c in zip(entropies, chosen.tolist(), strict=True) if c)
    left = sorted(e for e, c in zip(entropies, chosen.tolist(), strict=True) if not c)
    assert taken
    assert sum(taken[:-1]) <= bound + 1e-4
    if left:
        assert left[0] >= taken[-1]
        assert sum(taken) >= bound - 1e-4


def test_threshold_and_certainty_choose_as_they_say():
    predictions = predictions_of([0.1, 2.0, 0.05, 1.0])
    assert Threshold(0.9).choose(predictions).tolist() == [[True, False, True, False]]
    assert Threshold(0.99).choose(predictions).tolist() == [[False, False, True, False]]
    assert Certainty("entropy", 2).choose(predictions).tolist() == [[True, False, True, False]]


class SaysTheEndEverywhere(Oracle):
    """Is a little surer of the end than of the true token wherever nothing further right is known."""

    def __call__(self, batch, order_BT, query_BT):
        logits = super().__call__(batch, order_BT, query_BT)
        logits[:, self.end] = 7.5
        return logits


def test_the_end_cannot_stand_before_something_known():
    tasks = tasks_for("grid", count=1)
    codec = Codec.of("grid", 5, 5)
    state = codec.decoding_state(tasks)
    model = SaysTheEndEverywhere(codec, tasks)
    model.end = state.end
    row = torch.tensor([0])
    state.fill(row, torch.tensor([4]), model.truth_BR[:, 4], torch.ones(1))
    list(decoder_named("certainty").steps(model, state, row))
    assert int(state.length_B) >= 5
    assert state.token_BR[0, :4].tolist() == model.truth_BR[0, :4].tolist()


def test_a_filled_end_drops_what_stands_after_it():
    codec, tasks = Codec.of("grid", 5, 5), tasks_for("grid", count=2)
    state = codec.decoding_state(tasks)
    state.fill(torch.tensor([0, 1]), torch.tensor([7, 7]), torch.tensor([3, 3]), torch.ones(2))
    state.fill(torch.tensor([0]), torch.tensor([2]), torch.tensor([state.end]), torch.ones(1))
    assert state.length_B.tolist() == [3, 26]
    assert state.known_BR.sum(1).tolist() == [1, 1]
    assert state.hide(torch.tensor([0]), torch.tensor([2])).token_F.tolist() == [state.end]
    assert state.length_B.tolist() == [26, 26]


@pytest.mark.parametrize("kind", ["decoder-only", "causal"])
@pytest.mark.parametrize("name", [name for name in TEXT_DECODERS if not name.startswith("left-to-right")])
def test_a_next_token_model_refuses_other_orders(kind, name):
    tasks = tasks_for("edge-list", count=2, side=4)
    codec = Codec.of("edge-list", 4, 4)
    with pytest.raises(UserError, match="can only be decoded left-to-right"):
        decode(random_models(codec)[kind], codec.decoding_state(tasks), decoder_named(name))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sideways", "there is no decoder 'sideways'; choose one of left-to-right"),
        ("certainty:count=many", "the option count of the decoder certainty cannot be 'many'; give a whole number"),
        ("certainty:count=0", "use a count of 1 or more"),
        ("certainty:speed=3", "no option 'speed'; its options: count"),
        ("certainty:count", "write options as certainty:option=value"),
        ("left-to-right:count=2", "its options: none"),
        ("threshold:probability=2", "use 0 to 1"),
        ("threshold:probability=nan", "use 0 to 1"),
        ("entropy-bound:bound=-1", "use 0 or more"),
        ("repair:inner=repair", "cannot repair a repair"),
        ("repair:inner=nothing", "there is no decoder 'nothing'"),
        ("repair:rounds=0", "1 or more rounds"),
    ],
)
def test_a_wrong_name_or_option_is_told_in_one_sentence(text, problem):
    with pytest.raises(UserError, match=problem):
        parse_decoder(text)


def test_a_model_has_the_decoders_that_it_can_use():
    codec = Codec.of("edge-list", 4, 4)
    models = random_models(codec)
    assert list(decoders_for(models["decoder-only"])) == list(decoders_for(models["causal"])) == ["left-to-right"]
    assert set(decoders_for(models["encoder-decoder"])) == set(TEXT_DECODERS) - {"left-to-right-naive"}
    assert decoders_for(CellNetwork(CellNetworkConfig(width=4, hidden=4))) == CELL_DECODERS
    assert default_decoder(Codec.of("grid", 4, 4)) == "left-to-right"
    assert default_decoder(Codec.of("cell-labels", 4, 4)) == "walk-repair"


def test_options_are_read_from_text():
    assert parse_decoder("certainty-margin:count=4") == Certainty("margin", 4)
    assert parse_decoder("threshold:probability=0.5") == decoder_named("threshold", probability=0.5) == Threshold(0.5)
    assert parse_decoder("repair:inner=both-ends,rounds=2") == decoder_named("repair", inner="both-ends", rounds=2)
