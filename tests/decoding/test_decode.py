"""Choosing a decoder by name, running it, stopping it, and splitting its steps by maze."""

from dataclasses import dataclass

import pytest
import torch
from decoding_fakes import Oracle, WithEnds, random_models, tasks_for

import clew.registry
from clew.decoding.codec import Codec
from clew.decoding.decode import (
    CELL_DECODERS,
    DECODERS,
    decode,
    decoder_named,
    decoders_for,
    default_decoder,
    parse_decoder,
    split_steps,
)
from clew.decoding.text_decoders import LeftToRight, Parallel
from clew.errors import UserError
from clew.models.cell_network import CellNetwork
from clew.models.config import CellNetworkConfig


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch):
    monkeypatch.setitem(clew.registry._components, "decoder", {})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sideways", "there is no decoder 'sideways'; choose one of left-to-right"),
        ("certainty:count=many", "count of the decoder certainty cannot be 'many'; it must be a whole number"),
        ("certainty:count=0", "use a count of 1 or more"),
        ("certainty:speed=3", "no field 'speed'; its fields are count, by"),
        ("certainty:count", "write options as certainty:option=value"),
        ("left-to-right:count=2", "has no options"),
        ("threshold:probability=2", "use 0 to 1"),
        ("threshold:probability=nan", "use 0 to 1"),
        ("entropy-bound:bound=-1", "use 0 or more"),
        ("certainty:by=luck", "cannot be 'luck'; it must be one of probability, margin, entropy"),
        ("repair:inner=repair", "cannot repair a repair"),
        ("repair:inner=nothing", "there is no decoder 'nothing'"),
        ("repair:rounds=0", "1 or more rounds"),
    ],
)
def test_wrong_names_and_options_are_refused(text, problem):
    with pytest.raises(UserError, match=problem):
        parse_decoder(text)


def test_decoders_for_a_model_are_those_that_suit_it():
    codec = Codec.of("edge-list", 4, 4)
    models = random_models(codec)
    for kind in ("decoder-only", "causal"):
        assert list(decoders_for(models[kind], codec)) == ["left-to-right"]
    assert set(decoders_for(models["encoder-decoder"], codec)) == set(DECODERS)
    model = CellNetwork(CellNetworkConfig(width=4, hidden=4))
    assert decoders_for(model, Codec.of("cell-labels", 4, 4)) == list(CELL_DECODERS)
    assert default_decoder(Codec.of("grid", 4, 4)) == "left-to-right"
    assert default_decoder(Codec.of("cell-labels", 4, 4)) == "walk-repair"


def test_options_are_read_from_text():
    assert parse_decoder("certainty-margin:count=4") == Parallel(4, "margin")
    assert parse_decoder("threshold:probability=0.5") == decoder_named("threshold", probability=0.5)
    assert parse_decoder("threshold:probability=0.5") == Parallel(probability=0.5)
    assert parse_decoder("one-pass:rounds=3") == parse_decoder("walk:query=never,rounds=3")
    assert parse_decoder("repair:inner=both-ends,rounds=2") == decoder_named("repair", inner="both-ends", rounds=2)


@pytest.mark.parametrize("kind", ["decoder-only", "causal"])
@pytest.mark.parametrize("name", [name for name in DECODERS if not name.startswith("left-to-right")])
def test_a_next_token_model_refuses_other_orders(kind, name):
    tasks = tasks_for("edge-list", count=2, side=4)
    codec = Codec.of("edge-list", 4, 4)
    with pytest.raises(UserError, match="can only be decoded left-to-right"):
        decode(random_models(codec)[kind], codec.decoding_state(tasks), decoder_named(name))


def test_the_model_is_in_evaluation_mode_while_it_works_and_afterwards_as_before():
    tasks = tasks_for("grid", side=4)
    codec = Codec.of("grid", 4, 4)
    model = WithEnds(random_models(codec)["encoder-decoder"], end=codec.end(4, 4), bonus=50.0).train()
    modes = []
    model.register_forward_hook(lambda *_: modes.append((model.training, torch.is_grad_enabled())))
    decode(model, codec.decoding_state(tasks), LeftToRight())
    assert set(modes) == {(False, False)}
    assert model.training


class Stop(Exception):
    pass


def test_an_exception_of_on_step_stops_the_decoding():
    tasks = tasks_for("grid", side=4)
    codec = Codec.of("grid", 4, 4)
    oracle, steps = Oracle(codec, tasks), []

    def stop_at_two(step):
        steps.append(step)
        if len(steps) == 2:
            raise Stop

    with pytest.raises(Stop):
        decode(oracle, codec.decoding_state(tasks), LeftToRight(), on_step=stop_at_two)
    assert oracle.passes == 2


@pytest.mark.parametrize("name", ["left-to-right", "certainty:count=3", "repair:inner=threshold"])
def test_the_steps_of_a_maze_rebuild_its_response(name):
    tasks = tasks_for("grid")
    codec = Codec.of("grid", 5, 5)
    model, steps = random_models(codec)["encoder-decoder"], []
    decoded = decode(model, codec.decoding_state(tasks), parse_decoder(name), on_step=steps.append)
    for row, own in enumerate(split_steps(codec, tasks, steps)):
        response = {}
        for step in own:
            assert len(step.positions) == len(step.tokens) == len(step.probabilities) == len(step.cells)
            assert step.cell_probabilities is None
            for position, token, cell in zip(step.positions, step.tokens, step.cells, strict=True):
                assert cell == (tuple(map(int, token.strip("()").split(","))) if token[0] == "(" else None)
                response[position] = None if step.hidden else token
        length = int(decoded.length_B[row])
        assert [response[i] for i in range(length)] == [codec.token_text(t) for t in decoded.response(row)]
        passes = [step.number for step in own if not step.hidden]
        assert passes == list(range(1, int(decoded.passes_B[row]) + 1))


@pytest.fixture
def plugin():
    """A decoder from outside, in a module without `from __future__ import annotations`."""

    @clew.registry.register("decoder", "every-nth")
    @dataclass(frozen=True)
    class EveryNth:
        """Fill every n-th hidden position in a pass."""

        n: int = 2
        temperature: float = 1.0

        any_order = True

        def steps(self, model, state, row_N):
            while len(row_N := state.unfinished(row_N)):
                hidden_NR = state.hidden(row_N)
                want_NR = hidden_NR & ((hidden_NR.cumsum(1) - 1) % self.n == 0)
                probability_F, token_F = (state.query(model, row_N, want_NR) / self.temperature).softmax(-1).max(-1)
                n, position_F = want_NR.nonzero(as_tuple=True)
                yield state.fill(row_N[n], position_F, token_F, probability_F)

    return EveryNth


def test_a_registered_decoder_is_chosen_by_name_with_its_options(plugin):
    assert parse_decoder("every-nth:n=3,temperature=0.5") == plugin(3, 0.5)
    with pytest.raises(UserError, match="cannot be 'x'; it must be a whole number"):
        parse_decoder("every-nth:n=x")
    tasks = tasks_for("grid")
    codec = Codec.of("grid", 5, 5)
    decoded = decode(Oracle(codec, tasks), codec.decoding_state(tasks), parse_decoder("every-nth:n=1"))
    truth_BR, _ = codec.truth(tasks)
    assert torch.equal(decoded.token_BR[:, : truth_BR.shape[1]], truth_BR)
    models = random_models(codec)
    assert "every-nth" in decoders_for(models["encoder-decoder"], codec)
    assert "every-nth" not in decoders_for(models["decoder-only"], codec), "it fills in any order"
    with pytest.raises(UserError, match=r"walk-repair, every-nth, or give --plugin with the module that registers it"):
        parse_decoder("every-mth")
