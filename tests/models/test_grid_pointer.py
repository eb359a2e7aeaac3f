"""The grid-pointer model: what it may see, that its fast loops are right, that one set of weights fits every size."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from clew.data.batch import GridBatch
from clew.data.batches import grid_batch
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.models import grid_pointer
from clew.models.build import build_model, from_json, to_json, training_flops
from clew.models.grid_pointer import GridPointer, GridPointerConfig
from clew.objectives.config import ObjectiveConfig, build_objective

SMALL = GridPointerConfig(width=16, heads=2, hops=2, query_blocks=1)


def mazes(family: str = "dfs", height: int = 4, width: int = 5, count: int = 3) -> GridBatch:
    tasks = generate(family, height, width, seed=0, first=0, count=count, side="any")
    return grid_batch(tasks, np.arange(count), tail=2)


def awake(config: GridPointerConfig, seed: int = 0) -> GridPointer:
    """A model whose zero-initialised projections are not zero, so that every path through it counts."""
    model = build_model(config, seed)
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    assert isinstance(model, GridPointer)
    return model.eval()


def test_a_turned_maze_is_the_same_maze() -> None:
    """Without attention nothing tells one direction from another but the code of a cell's open sides."""
    batch = mazes(height=4, width=4)
    model = awake(SMALL)
    nn.init.zeros_(model.side_embedding.weight)
    task_cells = batch.cells_BHW.numpy()
    north, south, west, east = ((task_cells >> bit) & 1 for bit in range(4))
    # Mirrored along the diagonal: rows become columns, north becomes west.
    turned = (west + 2 * east + 4 * north + 8 * south).transpose(0, 2, 1)

    def turn(cell: torch.Tensor) -> torch.Tensor:
        return torch.where(cell < 16, cell % 4 * 4 + cell // 4, cell)

    other = dataclasses.replace(
        batch,
        cells_BHW=torch.from_numpy(np.ascontiguousarray(turned).astype(np.uint8)),
        start_B=turn(batch.start_B),
        goal_B=turn(batch.goal_B),
        tokens_BT=turn(batch.tokens_BT),
    )
    rank = torch.where(batch.valid_BT, 1, -1)
    rank[:, 1] = 0
    ask = rank == 1
    order = turn(torch.arange(17))
    torch.testing.assert_close(model(other, rank, ask)[:, order], model(batch, rank, ask), rtol=1e-4, atol=1e-4)


def test_a_closed_side_lets_nothing_through() -> None:
    """Cells that no passage joins hear nothing of each other along the passages."""
    batch = mazes()
    model = awake(dataclasses.replace(SMALL, attention=False))
    closed = dataclasses.replace(batch, cells_BHW=torch.zeros_like(batch.cells_BHW))
    nothing_seen = torch.zeros_like(batch.valid_BT)
    first = model.encode(closed, nothing_seen)
    goal_moved = dataclasses.replace(closed, goal_B=(closed.goal_B + 1) % 20)
    second = model.encode(goal_moved, nothing_seen)
    for row in range(len(batch)):
        changed = {int(closed.goal_B[row]), int(goal_moved.goal_B[row])}
        for cell in range(20):
            assert torch.equal(first[row, cell], second[row, cell]) == (cell not in changed)


@pytest.mark.parametrize("name", ["mlm-u", "ordered", "ordered-reverse", "fixed-rate"])
def test_hidden_steps_and_padding_do_not_leak(name: str) -> None:
    batch = mazes()
    model = awake(SMALL)
    question = build_objective(ObjectiveConfig(name))(batch, torch.Generator().manual_seed(1))
    logits = model(batch, question.rank_BT, question.ask_BT)
    assert logits.shape == (int(question.ask_BT.sum()), 21)
    scrambled = torch.where(question.rank_BT == 0, batch.tokens_BT, 7)
    torch.testing.assert_close(
        model(dataclasses.replace(batch, tokens_BT=scrambled), question.rank_BT, question.ask_BT), logits
    )


def test_visible_steps_count() -> None:
    batch = mazes()
    model = awake(SMALL)
    rank = torch.ones_like(batch.tokens_BT)
    blind = model(batch, rank, batch.valid_BT)
    rank[:, 0] = 0
    seeing = model(batch, rank, batch.valid_BT)
    assert not torch.allclose(blind, seeing)


def test_a_query_is_answered_as_if_alone() -> None:
    batch = mazes()
    model = awake(SMALL)
    rank = torch.where(batch.valid_BT, 1, -1)
    together = model(batch, rank, batch.valid_BT)
    for number, (row, step) in enumerate(batch.valid_BT.nonzero().tolist()):
        alone = torch.zeros_like(batch.valid_BT)
        alone[row, step] = True
        torch.testing.assert_close(model(batch, rank, alone)[0], together[number], rtol=1e-4, atol=1e-4)


def test_nothing_asked_gives_nothing() -> None:
    batch = mazes()
    assert awake(SMALL)(batch, torch.zeros_like(batch.tokens_BT), torch.zeros_like(batch.valid_BT)).shape == (0, 21)


def test_one_set_of_weights_for_every_shape_and_family() -> None:
    model = awake(SMALL)
    for family, height, width in (("dfs", 2, 2), ("walls", 6, 5), ("wilson", 3, 7), ("percolation", 5, 5)):
        batch = mazes(family, height, width)
        logits = model(batch, torch.where(batch.valid_BT, 1, -1), batch.valid_BT)
        assert logits.shape[1] == height * width + 1
        assert logits.isfinite().all()


def test_larger_mazes_get_more_loops() -> None:
    config = GridPointerConfig(loops_per_cell=0.2)
    assert [config.loops(side, side) for side in (2, 5, 10, 20, 30)] == [3, 7, 22, 82, 182]
    assert config.loops(5, 20) == 22


def test_in_training_each_maze_is_read_after_a_late_loop_of_its_own() -> None:
    batch = mazes(count=8)
    model = awake(SMALL).train()
    nothing_seen = torch.zeros_like(batch.valid_BT)
    with torch.no_grad():
        together = model.encode(batch, nothing_seen)
        for row in range(8):
            torch.testing.assert_close(
                model.encode(batch.rows(slice(row, row + 1)), nothing_seen[:1])[0], together[row], rtol=1e-4, atol=1e-4
            )
        at_the_end = model.eval().encode(batch, nothing_seen)
    same_B = [torch.allclose(a, b) for a, b in zip(together, at_the_end, strict=True)]
    assert any(same_B)
    assert not all(same_B)


@pytest.mark.parametrize("blocks", [1, 2])
def test_the_fast_loops_are_the_plain_ones(blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers and gradients, in training, where each maze has loops of its own."""
    batch, model = mazes(count=6), awake(dataclasses.replace(SMALL, blocks=blocks)).train()
    rank = torch.where(batch.valid_BT, 1, -1)
    rank[:, 1] = 0
    answers = []
    for fast in (True, False):
        monkeypatch.setattr(grid_pointer, "by_hand", lambda x, fast=fast: fast)
        model.zero_grad()
        logits = model(batch, rank, rank == 1)
        logits.sin().sum().backward()
        answers.append([logits, *(parameter.grad for parameter in model.parameters())])
    for fast_one, plain_one in zip(*answers, strict=True):
        torch.testing.assert_close(fast_one, plain_one, rtol=1e-3, atol=1e-4)


def test_fresh_mazes_are_answered_as_always_and_others_go_on() -> None:
    """Fresh ones whatever stands in their state; and each maze as if it were alone."""
    batch, model = mazes(height=10, width=10, count=4), awake(SMALL)
    rank = torch.where(batch.valid_BT, 1, -1)
    ask = torch.zeros_like(batch.valid_BT)
    ask[:, :2] = True
    garbage = torch.full((4, 100, SMALL.width), 7.0)
    with torch.no_grad():
        fresh, state = model.go_on(batch, rank, ask, garbage, torch.ones(4, dtype=torch.bool))
        torch.testing.assert_close(fresh, model(batch, rank, ask))
        mixed, _ = model.go_on(batch, rank, ask, state, torch.tensor([True, False, True, False]))
        torch.testing.assert_close(mixed[[0, 1, 4, 5]], fresh[[0, 1, 4, 5]], rtol=1e-4, atol=1e-4)
        for row in (1, 3):
            some = slice(row, row + 1)
            alone, after = model.go_on(batch.rows(some), rank[some], ask[some], state[some], torch.tensor([False]))
            torch.testing.assert_close(mixed[2 * row : 2 * row + 2], alone, rtol=1e-4, atol=1e-4)
            assert not torch.allclose(after, state[some])


@pytest.mark.parametrize(("side", "loops"), [(10, [22, 8, 8]), (9, [19, 8, 8]), (8, [15, 15, 15]), (5, [7, 7, 7])])
def test_who_goes_on_loops_less(side: int, loops: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    batch, model = mazes(height=side, width=side), awake(SMALL)
    rank, seen = torch.where(batch.valid_BT, 1, -1), []
    think = model.think
    monkeypatch.setattr(model, "think", lambda *given: (seen.append(given[3].tolist()), think(*given))[1])
    state = torch.zeros(3, side**2, SMALL.width)
    with torch.no_grad():
        model.go_on(batch, rank, batch.valid_BT, state, torch.tensor([True, False, False]))
    assert seen == [loops]


def test_on_small_mazes_it_thinks_afresh() -> None:
    """Going on would not save half of the loops there, and runs the model for longer than it was trained."""
    batch, model = mazes(height=5, width=5, count=2), awake(SMALL)
    rank = torch.where(batch.valid_BT, 1, -1)
    garbage = torch.full((2, 25, SMALL.width), 7.0)
    with torch.no_grad():
        answered, _ = model.go_on(batch, rank, batch.valid_BT, garbage, torch.zeros(2, dtype=torch.bool))
        torch.testing.assert_close(answered, model(batch, rank, batch.valid_BT))


def test_flops_of_the_products_are_those_torch_counts() -> None:
    batch = mazes(height=4, width=4)
    model = awake(SMALL).train()
    rank = torch.where(batch.valid_BT, 1, -1)
    # The counter sees attention only where it is written out as products.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        # every maze asks the same number of steps, so that packing pads nothing
        ask = torch.zeros_like(batch.valid_BT)
        ask[:, :2] = True
        model(batch, rank, ask)
    counted = SMALL.forward_flops(batch, rank, ask)
    assert counted == counter.get_total_flops()
    assert training_flops(SMALL, batch, rank, ask) == 3 * counted


def test_config_round_trip_and_errors() -> None:
    assert from_json(to_json(SMALL)) == SMALL
    with pytest.raises(UserError, match="multiple of 4"):
        GridPointerConfig(width=20, heads=4)
    with pytest.raises(UserError, match="does nothing"):
        GridPointerConfig(hops=0, attention=False)
    with pytest.raises(UserError, match="loops_per_cell"):
        GridPointerConfig(loops_per_cell=-1)


def test_a_few_steps_learn() -> None:
    """Two mazes can be learnt by heart: gradients reach every weight."""
    torch.manual_seed(0)
    model = build_model(SMALL, seed=0)
    batch = mazes(count=2)
    rank = torch.where(batch.valid_BT, 1, -1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(60):
        loss = nn.functional.cross_entropy(model(batch, rank, batch.valid_BT), batch.tokens_BT[batch.valid_BT])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.5 * losses[0]
    # step_in had nothing to do, as no step was visible
    assert all(p.grad is not None for name, p in model.named_parameters() if name != "step_in.weight")
