"""Next token on the grid: that it never looks ahead, that its encoder is the grid-pointer's, and that fast is right."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from clew.data.batch import GridBatch
from clew.data.batches import grid_batch
from clew.decoding.canvas import blank_canvas
from clew.decoding.decode import decode
from clew.decoding.left_to_right import LeftToRight, LeftToRightNaive
from clew.decoding.registry import decoder_named
from clew.decoding.script import Script
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.models.build import build_model, count_parameters, from_json, kind_of, to_json, training_flops
from clew.models.grid_next_token import GridNextToken, GridNextTokenConfig
from clew.models.grid_pointer import GridPointerConfig
from clew.objectives.config import ObjectiveConfig, build_objective
from clew.training.config import Budget, DataConfig, TrainConfig

SMALL = GridNextTokenConfig(width=16, heads=2, hops=2, query_blocks=2)


def mazes(family: str = "dfs", height: int = 4, width: int = 5, count: int = 3, tail: int = 2) -> GridBatch:
    tasks = generate(family, height, width, seed=0, first=0, count=count, side="any")
    return grid_batch(tasks, np.arange(count), tail=tail)


def awake(config: GridNextTokenConfig = SMALL, seed: int = 0) -> GridNextToken:
    """A model whose zero-initialised projections are not zero, so that every path through it counts."""
    model = build_model(config, seed)
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    assert isinstance(model, GridNextToken)
    return model.eval()


def next_token(batch: GridBatch):
    return build_objective(ObjectiveConfig("next-token"))(batch, torch.Generator().manual_seed(0))


def test_as_many_parameters_as_the_grid_pointer() -> None:
    ours, pointer = (count_parameters(build_model(c, 0)) for c in (GridNextTokenConfig(), GridPointerConfig()))
    assert abs(ours / pointer - 1) < 0.01


def test_its_cells_are_encoded_as_the_grid_pointers() -> None:
    batch = mazes()
    model = awake()
    shared = {field.name for field in dataclasses.fields(GridPointerConfig)}
    pointer = build_model(GridPointerConfig(**{name: getattr(SMALL, name) for name in shared}), seed=1).eval()
    own = {n: w for n, w in model.state_dict().items() if not n.startswith("query_blocks")}
    assert not pointer.load_state_dict(own, strict=False).unexpected_keys
    cells_BND = pointer.encode(batch, torch.zeros_like(batch.valid_BT))
    assert torch.equal(model.begin(batch).vectors_BCD[:, :-1], cells_BND)
    # and they do not know the path
    other = dataclasses.replace(batch, tokens_BT=batch.tokens_BT.roll(1, 0))
    assert torch.equal(model.begin(other).vectors_BCD, model.begin(batch).vectors_BCD)


def test_a_step_is_predicted_from_the_steps_before_it_and_from_nothing_else() -> None:
    batch = mazes()
    model, question = awake(), next_token(batch)
    logits = model(batch, question.rank_BT, question.ask_BT)
    assert logits.shape == (int(batch.valid_BT.sum()), 21)
    places = batch.valid_BT.nonzero()
    for step in range(batch.tokens_BT.shape[1]):
        changed = batch.tokens_BT.clone()
        changed[:, step] = (changed[:, step] + 7) % 20
        new = model(dataclasses.replace(batch, tokens_BT=changed), question.rank_BT, question.ask_BT)
        for (row, place), before, after in zip(places.tolist(), logits, new, strict=True):
            # The step that is changed is padding in rows that are over.
            sees = place > step and bool(batch.valid_BT[row, step])
            assert torch.equal(before, after) != sees, (row, place, step)


def test_padding_may_hold_anything() -> None:
    batch = mazes()
    model, question = awake(), next_token(batch)
    wild = dataclasses.replace(batch, tokens_BT=batch.tokens_BT.masked_fill(~batch.valid_BT, -12345))
    assert (~batch.valid_BT).any()
    answers = [model(b, question.rank_BT, question.ask_BT) for b in (batch, wild)]
    assert torch.equal(*answers)


def test_every_earlier_step_counts() -> None:
    """Not only the cell before: the decoder really looks back."""
    batch = mazes(count=1)
    model, question = awake(), next_token(batch)
    last = int(batch.valid_BT.sum()) - 1
    before = model(batch, question.rank_BT, question.ask_BT)[last]
    changed = batch.tokens_BT.clone()
    changed[0, 0] = (changed[0, 0] + 7) % 20
    after = model(dataclasses.replace(batch, tokens_BT=changed), question.rank_BT, question.ask_BT)[last]
    assert not torch.allclose(before, after)


@pytest.mark.parametrize("name", ["mlm-u", "ordered", "ordered-reverse", "any-order"])
def test_other_orders_are_refused(name: str) -> None:
    batch = mazes()
    question = build_objective(ObjectiveConfig(name))(batch, torch.Generator().manual_seed(3))
    with pytest.raises(UserError, match="only be asked from left to right"):
        awake()(batch, question.rank_BT, question.ask_BT)


def test_one_step_at_a_time_gives_the_same_logits() -> None:
    batch = mazes()
    model, question = awake(), next_token(batch)
    logits_BTC = torch.zeros(*batch.tokens_BT.shape, 21)
    logits_BTC[question.ask_BT] = model(batch, question.rank_BT, question.ask_BT)
    reading = model.begin(batch)
    for step in range(batch.tokens_BT.shape[1]):
        before_B = batch.tokens_BT[:, step - 1] if step else torch.full((len(batch),), 20)
        now_BC = model.extend(reading, before_B[:, None])[:, 0]
        real_B = batch.valid_BT[:, step]
        torch.testing.assert_close(now_BC[real_B], logits_BTC[real_B, step], rtol=1e-4, atol=1e-4)


def first_places(said_BR: torch.Tensor, token: int) -> set[int]:
    return {row.index(token) for row in said_BR.tolist() if token in row}


@pytest.mark.parametrize(("family", "height", "width"), [("dfs", 4, 4), ("dfs", 3, 6), ("walls", 6, 5)])
def test_fast_decoding_equals_naive_token_for_token(family: str, height: int, width: int) -> None:
    tasks = generate(family, height, width, seed=0, first=0, count=6, side="any")
    prompt = Script.of("grid", height, width).canvas(tasks).prompt
    model, room = awake(seed=2), 12
    # A random model may never say the end: something that it says at different places serves as the end instead.
    said_BR = decode(model, blank_canvas(prompt, end=-2, room=room), LeftToRightNaive()).token_BR
    token = max(said_BR.unique().tolist(), key=lambda token: len(first_places(said_BR, token)))
    canvas = blank_canvas(prompt, end=token, room=room)
    naive, fast = decode(model, canvas, LeftToRightNaive()), decode(model, canvas, LeftToRight())
    assert torch.equal(naive.token_BR, fast.token_BR)
    assert torch.equal(naive.passes_B, fast.passes_B)
    torch.testing.assert_close(naive.confidence_BR, fast.confidence_BR, rtol=1e-4, atol=1e-4)
    assert len(naive.length_B.unique()) > 1, "lengths must differ for the test to mean something"


def test_the_fast_decoder_encodes_the_cells_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, calls, encode = awake(), [], GridNextToken.encode
    monkeypatch.setattr(GridNextToken, "encode", lambda *args: calls.append(1) or encode(*args))
    tasks = generate("dfs", 4, 4, seed=0, first=0, count=3, side="any")
    decode(model, Script.of("grid", 4, 4).canvas(tasks), LeftToRight())
    assert len(calls) == 1


def test_decoders_of_other_orders_are_refused() -> None:
    tasks = generate("dfs", 4, 4, seed=0, first=0, count=3, side="any")
    with pytest.raises(UserError, match="only be decoded left-to-right"):
        decode(awake(), Script.of("grid", 4, 4).canvas(tasks), decoder_named("threshold"))


def test_one_set_of_weights_for_every_shape_and_family() -> None:
    model = awake()
    for family, height, width in (("dfs", 2, 2), ("walls", 6, 5), ("wilson", 3, 7), ("percolation", 5, 5)):
        batch = mazes(family, height, width)
        question = next_token(batch)
        logits = model(batch, question.rank_BT, question.ask_BT)
        assert logits.shape[1] == height * width + 1
        assert logits.isfinite().all()


def test_flops_of_the_products_are_those_torch_counts() -> None:
    batch = mazes(height=4, width=4)
    model, steps = awake().train(), 3
    rank = next_token(batch).rank_BT
    ask = torch.zeros_like(batch.valid_BT)
    ask[:, :steps] = True
    # The counter sees attention only where it is written out as products.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        model(batch, rank, ask)
    # Torch computes a square where a triangle is needed.
    above = len(batch) * SMALL.query_blocks * 4 * SMALL.width * steps * (steps - 1) / 2
    counted = SMALL.forward_flops(batch, rank, ask)
    assert counted + above == counter.get_total_flops()
    assert training_flops(SMALL, batch, rank, ask) == 3 * counted


def test_nothing_asked_gives_nothing_and_zero_gradients() -> None:
    batch, model = mazes(), awake()
    logits = model(batch, next_token(batch).rank_BT, torch.zeros_like(batch.valid_BT))
    assert logits.shape == (0, 21)
    logits.sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in model.parameters())


def test_a_few_steps_learn() -> None:
    """Two mazes can be learnt by heart: gradients reach every weight."""
    model, batch = build_model(SMALL, seed=0), mazes(count=2, tail=1)
    question = next_token(batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(40):
        logits = model(batch, question.rank_BT, question.ask_BT)
        loss = nn.functional.cross_entropy(logits, batch.tokens_BT[question.ask_BT])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    assert all(p.grad is not None and p.grad.any() for name, p in model.named_parameters() if "embedding" not in name)


def test_config_round_trip_and_errors() -> None:
    assert from_json(to_json(SMALL)) == SMALL
    assert kind_of(SMALL) == "grid-next-token"
    with pytest.raises(UserError, match="decoder_expansion must be at least 1"):
        GridNextTokenConfig(decoder_expansion=0)


@pytest.mark.parametrize("name", ["mlm-u", "any-order", "ordered"])
def test_a_run_needs_next_token(name: str) -> None:
    data = DataConfig(sizes=(4,), format="grid")
    run = TrainConfig(data, SMALL, Budget(steps=1), ObjectiveConfig("next-token"))
    assert TrainConfig.from_json(run.to_json()) == run
    with pytest.raises(UserError, match="use next-token, or a grid-pointer model"):
        TrainConfig(data, SMALL, Budget(steps=1), ObjectiveConfig(name))
