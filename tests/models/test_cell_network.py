"""The cell network: its CPU kernels against plain torch, what a prediction may depend on, and when its loops end."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from clew.data.batch import CellBatch, cell_batch
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.models import cell_network
from clew.models.build import build_model
from clew.models.cell_network import CellNetwork, Stop
from clew.models.config import CellNetworkConfig, from_json, to_json
from clew.models.cpu_kernels import message_passing
from clew.objectives.builtin import build_objective
from clew.objectives.config import ObjectiveConfig

SMALL = CellNetworkConfig(width=8, hidden=16, base_loops=2, loops_per_side=0.5)


def mazes(family: str = "astar", height: int = 5, width: int = 6, count: int = 5) -> CellBatch:
    tasks = generate(family, height, width, seed=0, first=0, count=count, split="any")
    return cell_batch(tasks, np.arange(count))


def random_model(config: CellNetworkConfig = SMALL, seed: int = 0) -> CellNetwork:
    """A float64 model without zero weights, so that every path through it counts."""
    model = build_model(config, seed).double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4, generator=generator)
    assert isinstance(model, CellNetwork)
    return model


def all_hidden(batch: CellBatch) -> tuple[Tensor, Tensor]:
    return torch.where(batch.valid_BT, 1, -1), batch.valid_BT


def loss_and_gradients(model: CellNetwork, batch: CellBatch) -> tuple[float, dict[str, Tensor]]:
    logits = model(batch, *all_hidden(batch))
    loss = nn.functional.cross_entropy(logits, batch.tokens_BT[batch.valid_BT])
    model.zero_grad()
    loss.backward()
    return float(loss.detach()), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("family", ["dfs", "astar", "percolation"])
@pytest.mark.parametrize(("max_units", "threads"), [(0.75, 1), (0.5, 2), (0.0, 1), (1.0, 1)])
def test_kernels_equal_plain_torch(
    family: str, max_units: float, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loss and gradients, with loops that differ from maze to maze, warm starts and several groups."""
    monkeypatch.setattr(message_passing, "GROUP_CELLS", 40)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    batch, model = mazes(family), random_model(dataclasses.replace(SMALL, max_units=max_units))
    try:
        fast = loss_and_gradients(model, batch)
    finally:
        torch.set_num_threads(before)
    monkeypatch.setattr(cell_network, "use_cpu_kernel", lambda x: False)
    plain = loss_and_gradients(model, batch)
    assert fast[0] == pytest.approx(plain[0], rel=1e-12)
    assert fast[1].keys() == plain[1].keys() == dict(model.named_parameters()).keys()
    for name, gradient in plain[1].items():
        torch.testing.assert_close(fast[1][name], gradient, rtol=1e-9, atol=1e-12)


def test_steps_that_share_memory_equal_plain_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of several sizes take the blocks of earlier steps; two batches are in flight at once."""
    monkeypatch.setattr(message_passing, "GROUP_CELLS", 40)
    model = random_model()
    sides = model.sides.weight
    batches = [mazes("astar", height, 6, count) for height, count in ((5, 5), (7, 8), (4, 3), (7, 8))]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with message_passing.threads_for_groups():
            fast = [loss_and_gradients(model, batch) for batch in batches]
            first, second = (model(batch, *all_hidden(batch)).square().sum() for batch in batches[:2])
            interleaved = torch.autograd.grad(first, sides), torch.autograd.grad(second, sides)
    finally:
        torch.set_num_threads(before)
    monkeypatch.setattr(cell_network, "use_cpu_kernel", lambda x: False)
    for (_, gradients), batch in zip(fast, batches, strict=True):
        for name, gradient in loss_and_gradients(model, batch)[1].items():
            torch.testing.assert_close(gradients[name], gradient, rtol=1e-9, atol=1e-12)
    for (gradient,), batch in zip(interleaved, batches, strict=False):
        [plain] = torch.autograd.grad(model(batch, *all_hidden(batch)).square().sum(), sides)
        torch.testing.assert_close(gradient, plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("mazes", "least"), [(11, 1.85), (24, 1.85), (96, 1.95)])
def test_two_threads_get_equal_work(mazes: int, least: float) -> None:
    """Groups go to the thread that is free first; mazes of 10x10 have 1 to 22 loops."""
    loops = np.sort(np.random.default_rng(0).integers(1, 23, mazes))[::-1].tolist()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        groups = list(message_passing._groups(torch.zeros(100 * mazes, 4, dtype=torch.int32), loops, [100] * mazes))
    finally:
        torch.set_num_threads(before)
    busy = [0, 0]
    for rows, active, _ in groups:
        assert rows.stop - rows.start <= message_passing.GROUP_CELLS
        busy[busy.index(min(busy))] += sum(active)
    assert sum(busy) == 100 * sum(loops)
    assert sum(busy) / max(busy) >= least


def test_hidden_labels_do_not_change_the_logits() -> None:
    batch, model = mazes(), random_model().eval()
    targets = build_objective(ObjectiveConfig())(batch, torch.Generator().manual_seed(0))
    hidden = targets.query_BT
    flipped = dataclasses.replace(batch, tokens_BT=torch.where(hidden, 1 - batch.tokens_BT, batch.tokens_BT))
    shown = dataclasses.replace(batch, tokens_BT=torch.where(hidden, batch.tokens_BT, 1 - batch.tokens_BT))
    logits = model(batch, targets.order_BT, hidden)
    torch.testing.assert_close(model(flipped, targets.order_BT, hidden), logits, rtol=0, atol=0)
    assert not torch.equal(model(shown, targets.order_BT, hidden), logits)


@pytest.mark.parametrize("training", [True, False])
def test_a_maze_does_not_depend_on_its_batch(training: bool) -> None:
    batch, model = mazes(count=4), random_model().train(training)
    order, query = all_hidden(batch)
    together = model(batch, order, query).split(query.sum(1).tolist())
    for i in range(4):
        alone = model(batch.rows(slice(i, i + 1)), order[i : i + 1], query[i : i + 1])
        torch.testing.assert_close(alone, together[i])


def test_one_set_of_weights_takes_every_shape() -> None:
    model = random_model(dataclasses.replace(SMALL, offsets=False)).eval()
    for height, width in ((2, 2), (3, 7), (9, 4)):
        batch = mazes("dfs", height, width, 2)
        logits = model(batch, *all_hidden(batch))
        assert logits.shape == (2 * height * width, 2)
        assert bool(logits.isfinite().all())


def test_flops_are_those_of_the_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_network, "use_cpu_kernel", lambda x: False)
    config = dataclasses.replace(SMALL, offsets=False, warm_start=0.0)
    batch, model = mazes(), random_model(config)
    with FlopCounterMode(display=False) as counter:
        model(batch, *all_hidden(batch))
    assert config.forward_flops(batch, *all_hidden(batch)) == pytest.approx(counter.get_total_flops(), rel=1e-6)


def test_loops_end_when_every_label_is_sure() -> None:
    """With a huge tolerance all labels are sure when they are first read."""
    batch, model = mazes("dfs", 6, 6, 3), random_model().eval()
    order, query = all_hidden(batch)
    early = model(batch, order, query, Stop(loops=20, tolerance=0.999, every=2))
    usual = SMALL.loops(6, 6)
    torch.testing.assert_close(early, model(batch, order, query, Stop(loops=(usual // 2) / usual)))
    assert not torch.allclose(early, model(batch, order, query))


def test_loops_end_when_no_label_changes() -> None:
    """A head of zeros gives the probability 0.5 forever: a doubt that does not change, as the second reading shows."""
    batch, model = mazes("dfs", 6, 6, 3), random_model().eval()
    torch.nn.init.zeros_(model.head.weight)
    torch.nn.init.zeros_(model.head.bias)
    with torch.no_grad():
        embedding = model.embed(batch, torch.zeros_like(batch.valid_BT))
        zeros = torch.zeros_like(embedding)
        early = model.run_to_stop(batch, embedding, zeros, Stop(loops=20, tolerance=0.1, every=2))
        loops_B = torch.full_like(batch.start_B, SMALL.loops(6, 6) // 2 + 2)
        torch.testing.assert_close(early, model.run_loops(batch, embedding, zeros, loops_B))


def test_settled_mazes_are_left_as_they_are() -> None:
    """A maze stops on its own: what it gives does not depend on others that still run."""
    batch, model = mazes("astar", 7, 7, 6), random_model().eval()
    order, query = all_hidden(batch)
    stop = Stop(loops=10, tolerance=0.05, every=2)
    together = model(batch, order, query, stop).split(query.sum(1).tolist())
    for i in range(6):
        alone = model(batch.rows(slice(i, i + 1)), order[i : i + 1], query[i : i + 1], stop)
        torch.testing.assert_close(alone, together[i])


def test_training_loops_are_a_function_of_the_maze() -> None:
    batch = mazes(count=200)
    free_B, loops_B = SMALL.training_loops(batch)
    again = SMALL.training_loops(batch.rows(slice(50, 60)))
    assert torch.equal(free_B[50:60], again[0])
    assert torch.equal(loops_B[50:60], again[1])
    assert 0.4 < float((free_B == 0).double().mean()) < 0.75
    cold_B = loops_B[(free_B == 0)]
    assert int(cold_B.min()) >= 1
    assert bool((loops_B <= torch.maximum(batch.tokens_BT.sum(1), torch.tensor(SMALL.loops(5, 6)))).all())


def test_autocast_runs_in_plain_torch() -> None:
    batch, model = mazes(), random_model().float().eval()
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(batch, *all_hidden(batch))
    whole = model(batch, *all_hidden(batch))
    assert float((logits.float() - whole).abs().max()) < 0.5 * float(whole.abs().max()) + 0.1


def test_config_is_checked_and_survives_json() -> None:
    config = CellNetworkConfig(width=32, max_units=0.5)
    assert from_json(to_json(config)) == config
    for name, value in (("width", 0), ("max_units", 1.5), ("warm_start", -1), ("loops_per_side", 1e9)):
        with pytest.raises(UserError, match=name):
            CellNetworkConfig(**{name: value})
