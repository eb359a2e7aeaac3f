"""evaluate_model with models whose answers are known; leakage; embedding."""

import numpy as np
import pytest
import torch

from clew.data.dataset import open_dataset
from clew.data.settings import DatasetSettings
from clew.data.writer import write_dataset
from clew.decoding.registry import decoder_named
from clew.decoding.script import Script
from clew.errors import UserError
from clew.evaluation.embed import embed
from clew.evaluation.evaluate import evaluate_model
from clew.evaluation.leakage import check_leakage, training_layouts
from clew.evaluation.scores import scores_of
from clew.mazes.checks import check_batch
from clew.mazes.generate import generate
from clew.mazes.layout import is_held_out, layout_hashes
from clew.mazes.maze import EAST, SOUTH
from clew.mazes.solve import num_shortest


def tasks_of(count=6, side=5, family="dfs", which="test"):
    return generate(family, side, side, seed=0, first=0, count=count, side=which, workers=1)


SCRIPT = Script.of("grid", 6, 6)


class Knows:
    """Says the true path of each maze, which it knows by its prompt; of some mazes it says the end at once."""

    def __init__(self, tasks, nonsense=()):
        prompt, (truth_BR, length_B) = SCRIPT.canvas(tasks).prompt, SCRIPT.truth(tasks)
        self.responses = {
            tuple(prompt.tokens_BT[i].tolist()): truth_BR[i, : int(length_B[i])].tolist()
            for i in range(len(tasks))
            if i not in nonsense
        }

    def __call__(self, batch, rank_BT, ask_BT):
        end = SCRIPT.end(6, 6)
        prompt_B = (batch.valid_BT & ~batch.response_BT).sum(1).tolist()
        logits = torch.zeros(int(ask_BT.sum()), SCRIPT.vocabulary.size)
        for q, (b, position) in enumerate(ask_BT.nonzero().tolist()):
            prompt = tuple(batch.tokens_BT[b, : prompt_B[b]].tolist())
            response = [*self.responses.get(prompt, [end]), *[end] * 400]
            logits[q, response[position - prompt_B[b]]] = 9.0
        return logits


@pytest.mark.parametrize("decoder", ["left-to-right", "threshold", "repair"])
@pytest.mark.parametrize("batch_size", [2, 100])
def test_what_a_model_knows_is_what_it_scores(decoder, batch_size):
    tasks = tasks_of()
    evaluation = evaluate_model(
        Knows(tasks, nonsense=(1, 4)), SCRIPT, tasks, decoder_named(decoder), batch_size
    )
    assert [outcome.exact for outcome in evaluation.outcomes] == [True, False, True, True, False, True]
    assert evaluation.outcomes[1].failure == "unparsable"
    assert evaluation.outcomes[1].problem.startswith("token 1 is '<PATH_END>'")
    scores = scores_of(evaluation)
    right = sum(int(n) + 1 for i, n in enumerate(tasks.length_N) if i not in (1, 4))
    assert scores.per_token.hits == right
    assert scores.per_token.count == int(tasks.length_N.sum()) + 6
    assert scores.valid.hits == scores.shortest.hits == 4
    assert evaluation.seconds > 0


def test_mazes_of_several_shapes_in_one_evaluation():
    groups = [tasks_of(2, 4), tasks_of(3, 6)]
    both = Knows(groups[0])
    both.responses |= Knows(groups[1]).responses
    done = []
    evaluation = evaluate_model(
        both, SCRIPT, groups, decoder_named("certainty"), batch_size=2, progress=done.append
    )
    assert all(outcome.exact for outcome in evaluation.outcomes)
    assert done == [2, 4, 5]


def test_a_batch_size_of_zero_is_refused():
    with pytest.raises(UserError, match="batch size of 0"):
        evaluate_model(Knows(tasks_of()), SCRIPT, tasks_of(), decoder_named("certainty"), 0)


def test_held_out_mazes_do_not_leak_and_training_mazes_do():
    assert check_leakage([tasks_of(50)]).perhaps_trained == 0
    leak = check_leakage([tasks_of(20), tasks_of(30, which="train")])
    assert (leak.mazes, leak.perhaps_trained, leak.exact) == (50, 30, False)
    assert "may be too good" in str(leak)
    assert str(check_leakage([tasks_of(3)])) == "none of the 3 mazes has a layout that was trained on."


def test_leakage_against_a_training_set(tmp_path):
    write_dataset(DatasetSettings("dfs", 5, 5, 0, {"train": 40, "test": 5}), tmp_path / "set")
    dataset = open_dataset(tmp_path / "set")
    layouts = training_layouts(dataset)
    trained = dataset.split("train").slice(0, 7)
    assert check_leakage([trained], layouts).perhaps_trained == 7
    assert check_leakage([dataset.split("test").slice(0, 5)], layouts).perhaps_trained == 0
    assert check_leakage([tasks_of(5, which="train")], layouts[:0]).perhaps_trained == 0


@pytest.mark.parametrize(("height", "width"), [(8, 8), (5, 9), (9, 5)])
def test_embedded_mazes_keep_their_path_and_stay_perfect(height, width):
    tasks = tasks_of(5)
    larger = embed(tasks, height, width, seed=3)
    assert larger.cells_NHW.shape == (5, height, width)
    valid, shortest = check_batch(larger)
    assert valid.all()
    assert shortest.all()
    edges = ((larger.cells_NHW & EAST) != 0).sum((1, 2)) + ((larger.cells_NHW & SOUTH) != 0).sum((1, 2))
    assert edges.tolist() == [height * width - 1] * 5
    for i in range(5):
        assert larger[i][1] == tasks[i][1]
        assert num_shortest(larger[i][0]) == 1
        inside = larger.cells_NHW[i, :5, :5].copy()
        assert (inside & ~tasks.cells_NHW[i]).astype(bool).sum() == 1, "one passage leads out"
        assert not (tasks.cells_NHW[i] & ~inside).any()
    assert is_held_out(layout_hashes(larger.cells_NHW)).all()
    assert np.array_equal(larger.cells_NHW, embed(tasks, height, width, seed=3).cells_NHW)
    assert not np.array_equal(larger.cells_NHW, embed(tasks, height, width, seed=4).cells_NHW)


@pytest.mark.parametrize("shape", [(5, 5), (4, 9)])
def test_a_size_that_is_not_larger_is_refused(shape):
    with pytest.raises(UserError, match="give a larger size"):
        embed(tasks_of(), *shape, seed=0)
