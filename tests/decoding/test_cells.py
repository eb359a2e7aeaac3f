"""Decoders for labels of cells: the paths they give, the passes they take, and the steps they yield."""

import numpy as np
import pytest
import torch
from torch import Tensor

from clew.data.batch import CellBatch
from clew.decoding.cells import loop_probabilities
from clew.decoding.codec import Codec, Step
from clew.decoding.decode import decode, parse_decoder
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.maze import Maze, Task, TaskBatch
from clew.models.build import build_model
from clew.models.cell_network import CellNetwork, Stop
from clew.models.config import CellNetworkConfig

DECODERS = ("one-pass", "walk", "walk:origin=goal", "walk:query=cell", "walk-repair")
CODEC = Codec.of("cell-labels", 5, 5)


class KnownLabels(CellNetwork):
    """A model that gives each cell the logit of a table, whatever is visible."""

    def __init__(self, on_BC: Tensor) -> None:
        super().__init__(CellNetworkConfig(width=4, hidden=4))
        self.on_BC, self.visible_counts = on_BC, []

    def forward(self, batch: CellBatch, order_BT: Tensor, query_BT: Tensor, stop: Stop | None = None) -> Tensor:
        self.visible_counts.append((order_BT == 0).sum(1).tolist())
        on_Q = self.on_BC[batch.index_B][query_BT]
        return torch.stack([torch.zeros_like(on_Q), on_Q], dim=1)


def truth(tasks: TaskBatch) -> Tensor:
    on_BC = torch.full((len(tasks), tasks.height * tasks.width), -4.0)
    for i in range(len(tasks)):
        on_BC[i, tasks.path_of(i)] = 4.0
    return on_BC


@pytest.mark.parametrize("family", ["dfs", "astar", "percolation"])
@pytest.mark.parametrize("name", DECODERS)
def test_right_labels_give_the_path(name: str, family: str) -> None:
    tasks = generate(family, 6, 5, seed=0, first=0, count=8, split="any")
    decoded = decode(KnownLabels(truth(tasks)), CODEC.decoding_state(tasks), parse_decoder(name))
    for i in range(len(tasks)):
        assert decoded.response(i) == [*tasks.path_of(i).tolist(), 30]
    passes = tasks.length_N - 1 if name == "walk:query=cell" else np.ones(8)
    assert decoded.passes_B.tolist() == passes.tolist()


# S is cell 0, the goal is cell 2, and a dead end of three cells leaves from cell 1 downwards.
FORK = Maze.from_edges(4, 3, [((0, 0), (0, 1)), ((0, 1), (0, 2)), ((0, 1), (1, 1)), ((1, 1), (2, 1)), ((2, 1), (3, 1))])


def fork() -> TaskBatch:
    return TaskBatch.from_tasks([Task(FORK, (0, 0), (0, 2))], [[(0, 0), (0, 1), (0, 2)]])


def labels(**on: float) -> Tensor:
    """Logits of the fork: low but for the given cells."""
    table = torch.full((1, 12), -4.0)
    for name, value in on.items():
        table[0, int(name[1:])] = value
    return table


def test_one_pass_that_prefers_the_dead_end_misses() -> None:
    model = KnownLabels(labels(c0=4, c1=4, c2=1, c4=2, c7=3, c10=1))
    decoded = decode(model, CODEC.decoding_state(fork()), parse_decoder("one-pass"))
    assert decoded.response(0) == [0, 1, 4, 7, 10, 12]


def test_repair_labels_the_dead_end_off_and_tries_again() -> None:
    model, steps = KnownLabels(labels(c0=4, c1=4, c2=1, c4=2, c7=3, c10=0.5)), []
    decoded = decode(model, CODEC.decoding_state(fork()), parse_decoder("walk-repair"), on_step=steps.append)
    assert decoded.response(0) == [0, 1, 2, 12]
    assert [(s.position_F.tolist(), s.hidden) for s in steps[-2:]] == [([4, 7, 10], True), ([2], False)]
    # A doubt at cell 1, the dead end, and the way back.
    assert decoded.passes_B.tolist() == [3]
    assert model.visible_counts == [[0], [3], [5]], "first the walk is visible, then its dead end too"


def test_walk_asks_again_at_a_doubt_with_its_cells_visible() -> None:
    # Both neighbours of cell 1 look like the path.
    model = KnownLabels(labels(c0=4, c1=4, c2=3, c4=2))
    decoded = decode(model, CODEC.decoding_state(fork()), parse_decoder("walk"))
    assert decoded.response(0) == [0, 1, 2, 12]
    assert model.visible_counts == [[0]]
    model = KnownLabels(labels(c0=4, c1=4, c2=2, c4=3))
    decode(model, CODEC.decoding_state(fork()), parse_decoder("walk"))
    assert model.visible_counts[1] == [3]


@pytest.mark.parametrize("name", DECODERS)
def test_steps_label_the_cells_of_the_path(name: str) -> None:
    tasks = generate("astar", 6, 6, seed=3, first=0, count=4, split="any")
    steps: list[Step] = []
    decoded = decode(KnownLabels(truth(tasks)), CODEC.decoding_state(tasks), parse_decoder(name), on_step=steps.append)
    for row in range(4):
        cells = [int(c) for s in steps for r, c in zip(s.row_F, s.position_F, strict=True) if r == row]
        assert sorted(cells) == sorted(tasks.path_of(row).tolist())
    for step in steps:
        assert bool((step.token_F == 1).all())
        assert bool((step.probability_F > 0.9).all() or name == "walk:query=cell")
    assert decoded.seconds > 0


def test_a_decoder_of_another_kind_is_refused() -> None:
    tasks = generate("dfs", 3, 3, seed=0, first=0, count=1, split="any")
    with pytest.raises(UserError, match="use one-pass, walk or walk-repair"):
        decode(KnownLabels(truth(tasks)), CODEC.decoding_state(tasks), parse_decoder("left-to-right"))
    for bad in ("walk:origin=middle", "walk:query=always", "walk:rounds=-1", "one-pass:loops=0", "walk:tolerance=1.5"):
        with pytest.raises(UserError):
            parse_decoder(bad)


def test_loop_probabilities_end_with_those_of_a_pass() -> None:
    model = build_model(CellNetworkConfig(width=8, hidden=8, offsets=True), seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    task, path = generate("percolation", 5, 4, seed=0, first=0, count=1, split="any")[0]
    on_LHW = loop_probabilities(model, task)
    assert on_LHW.shape == (model.config.loops(5, 4), 5, 4)
    assert len(np.unique(on_LHW, axis=0)) == len(on_LHW), "every loop changes the prediction"
    steps: list[Step] = []
    state = CODEC.decoding_state(TaskBatch.from_tasks([task], [path]))
    decode(model.eval(), state, parse_decoder("one-pass"), on_step=steps.append)
    assert steps[0].cell_probabilities is not None
    np.testing.assert_allclose(on_LHW[-1].ravel(), steps[0].cell_probabilities[0], rtol=1e-4, atol=1e-6)
    assert loop_probabilities(model, task, loops=3).shape == (3, 5, 4)
    with pytest.raises(UserError, match="only cell networks predict in loops"):
        loop_probabilities(lambda *_: torch.zeros(0), task)


@pytest.mark.parametrize("name", DECODERS)
def test_a_model_from_outside_that_labels_cells_is_decoded(name: str) -> None:
    tasks = generate("dfs", 5, 5, seed=0, first=0, count=3, split="any")
    on_BC = truth(tasks)

    def model(batch: CellBatch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        on_Q = on_BC[batch.index_B][query_BT]
        return torch.stack([torch.zeros_like(on_Q), on_Q], dim=1)

    decoded = decode(model, CODEC.decoding_state(tasks), parse_decoder(name))
    assert [decoded.response(i)[:-1] for i in range(3)] == [tasks.path_of(i).tolist() for i in range(3)]
