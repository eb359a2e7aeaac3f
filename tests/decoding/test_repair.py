"""Repair: wrong positions are hidden with a margin and queried again; the others stay."""

import pytest
import torch
from decoding_fakes import Oracle, steps_of, tasks_for

from clew.decoding.codec import Codec
from clew.decoding.decode import decode
from clew.decoding.text_decoders import Parallel, Repair, wrong_positions
from clew.errors import UserError
from clew.mazes.generate import generate
from clew.mazes.maze import Maze, PathStar, Task

# S . .
# v # .     the only way goes down, right, up
TASK = Task(Maze.from_edges(3, 3, [((0, 0), (1, 0)), ((1, 0), (2, 0)), ((2, 0), (2, 1))]), (0, 0), (2, 1))
GRID = Codec.of("grid", 3, 3)
END = 9
# The token of each cell, in reading order, and of the end.
TOKENS = GRID.vocabulary.encode([f"({row},{col})" for row in range(3) for col in range(3)] + ["<PATH_END>"]).tolist()


@pytest.mark.parametrize(
    ("response", "wrong"),
    [
        ([0, 3, 6, 7, END], []),
        ([0, 1, 6, 7, END], [0, 1, 2]),  # through a wall, then diagonal
        ([0, 6, 7, END], [0, 1]),  # a gap
        ([3, 6, 7, END], [0]),  # begins elsewhere
        ([0, 3, 6, END], [2, 3]),  # ends short of the goal
        ([0, 3, 3, 6, 7, END], [1, 2]),  # stands still
        ([0, 3, 6, 7], [3]),  # no end
        ([END], [0]),  # nothing but the end
    ],
)
def test_wrong_places_of_grid_responses(response, wrong):
    assert wrong_positions(GRID, TASK, [TOKENS[i] for i in response]) == wrong


def test_wrong_places_of_texts():
    task = Task(Maze.from_walls(3, 3, [(1, 1)]), (0, 0), (1, 2))
    codec = Codec.of("wall-list", 3, 3)

    def wrong(text):
        return wrong_positions(codec, task, codec.vocabulary.encode(text.split()).tolist())

    assert wrong("bos plan 0 0 plan 1 0 plan 2 0 plan 2 1 eos") == []
    assert wrong("bos plan 0 0 plan 1 0 plan plan 0 plan 2 1 eos") == [7, 8, 9]
    assert wrong("bos plan 0 0 plan 1 0 plan 1 1 plan 2 1 eos") == [4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert wrong("plan plan 0 0 plan 1 0 plan 2 0 plan 2 1 eos") == [0]
    edge = Codec.of("edge-list", 3, 3)
    tokens = edge.vocabulary.encode(["(0,0)", ";", "(2,0)", "(2,1)", "<PATH_END>"]).tolist()
    assert wrong_positions(edge, TASK, tokens) == [1]


class WrongOnce(Oracle):
    """Predicts a wrong token at position 2 in its first pass, and the true ones afterwards."""

    def __call__(self, batch, order_BT, query_BT):
        logits = super().__call__(batch, order_BT, query_BT)
        if self.passes == 1:
            row, column = query_BT.nonzero(as_tuple=True)
            position = column - self.first_B[batch.index_B[row]]
            logits[position == 2] = 0.0
            logits[position == 2, Codec.of("grid", 5, 5).vocabulary.id_of["(2,2)"]] = 9.0
        return logits


def test_a_wrong_position_is_hidden_with_its_margin_and_queried_again():
    tasks = tasks_for("grid")
    tasks = tasks.select((tasks.length_N > 6).nonzero()[0])
    codec = Codec.of("grid", 5, 5)
    decoder = Repair(Parallel(probability=0.5), rounds=2, margin=1)
    broken = decode(WrongOnce(codec, tasks), codec.decoding_state(tasks), Parallel(probability=0.5))
    truth_BR, _ = codec.truth(tasks)
    wrong_B = (broken.token_BR[:, : truth_BR.shape[1]] != truth_BR).any(1)
    assert wrong_B.any()
    steps = steps_of(WrongOnce(codec, tasks), codec, tasks, decoder)
    assert [step.hidden for step in steps] == [False, True, False]
    # Only the mazes that are wrong, positions 0 to 4: 1 to 3 are to blame (the steps into 2 and out of it), 1 around.
    assert set(steps[1].row_F.tolist()) == set(wrong_B.nonzero()[:, 0].tolist())
    assert set(steps[1].position_F.tolist()) <= {0, 1, 2, 3, 4}
    repaired = decode(WrongOnce(codec, tasks), codec.decoding_state(tasks), decoder)
    assert torch.equal(repaired.token_BR[:, : truth_BR.shape[1]], truth_BR)
    assert repaired.passes_B.tolist() == [2 if wrong else 1 for wrong in wrong_B.tolist()]


def test_repair_ends_after_its_rounds():
    tasks = tasks_for("grid", count=2)
    codec = Codec.of("grid", 5, 5)

    class Hopeless(Oracle):
        def __call__(self, batch, order_BT, query_BT):
            return super().__call__(batch, order_BT, query_BT).roll(1, dims=1)

    steps = steps_of(Hopeless(codec, tasks), codec, tasks, Repair(Parallel(probability=0.5), rounds=3))
    assert sum(step.hidden for step in steps) == 3


@pytest.mark.parametrize(("form", "family"), [("wall-list-trace", "astar"), ("path-star-reversed", "path-star-2x3")])
def test_traces_and_reversed_paths_are_not_repaired(form, family):
    shape = (1, 5) if family.startswith("path-star") else (4, 4)
    tasks = generate(family, *shape, seed=0, count=1, split="test")
    with pytest.raises(UserError, match=f"the format {form} cannot be repaired"):
        decode(lambda *_: torch.zeros(0), Codec.of(form, *shape).decoding_state(tasks), Repair())


def test_wrong_places_of_path_star_responses():
    task = Task(PathStar.from_pairs(8, [(3, 5), (5, 1), (3, 2), (2, 6)]), (0, 3), (0, 6))
    codec = Codec.of("path-star", 1, 8)

    def wrong(text):
        return wrong_positions(codec, task, codec.vocabulary.encode(text.split()).tolist())

    assert wrong("3 2 6 <PATH_END>") == []
    assert wrong("3 5 6 <PATH_END>") == [1, 2]
    assert wrong("3 | 6 <PATH_END>") == [1]
