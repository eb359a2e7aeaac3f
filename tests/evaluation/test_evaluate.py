"""evaluate_tasks with models whose state are known; leakage; embedding."""

import numpy as np
import pytest
import torch

from clew.data.config import DatasetSettings
from clew.data.dataset import open_dataset
from clew.data.verify import _first_problem
from clew.data.writer import write_dataset
from clew.decoding.codec import Codec
from clew.decoding.decode import decoder_named
from clew.errors import UserError
from clew.evaluation.evaluate import CPU_BUDGET, MAX_BATCH, default_batch_size, evaluate_tasks
from clew.evaluation.tasks import check_leakage, embed, training_layouts
from clew.mazes.checks import check_batch
from clew.mazes.generate import generate
from clew.mazes.layouts import is_held_out, layout_hashes
from clew.mazes.maze import EAST, SOUTH, Maze
from clew.mazes.solvers import num_shortest
from clew.models.build import build_model
from clew.models.config import DecoderOnlyConfig
from clew.tokenization.format import format_named


def tasks_of(count=6, side=5, family="dfs", which="test"):
    return generate(family, side, side, seed=0, first=0, count=count, split=which, workers=1)


CODEC = Codec.of("grid", 6, 6)


class Knows:
    """Says the true path of each maze, which it knows by its prompt; of some mazes it says the end at once."""

    def __init__(self, tasks, nonsense=()):
        prompt, (truth_BR, length_B) = CODEC.decoding_state(tasks).prompt, CODEC.truth(tasks)
        self.responses = {
            tuple(prompt.tokens_BT[i].tolist()): truth_BR[i, : int(length_B[i])].tolist()
            for i in range(len(tasks))
            if i not in nonsense
        }

    def __call__(self, batch, order_BT, query_BT):
        end = CODEC.end(6, 6)
        prompt_B = (batch.valid_BT & ~batch.response_BT).sum(1).tolist()
        logits = torch.zeros(int(query_BT.sum()), CODEC.vocabulary.size)
        for q, (b, position) in enumerate(query_BT.nonzero().tolist()):
            prompt = tuple(batch.tokens_BT[b, : prompt_B[b]].tolist())
            response = [*self.responses.get(prompt, [end]), *[end] * 400]
            logits[q, response[position - prompt_B[b]]] = 9.0
        return logits


@pytest.mark.parametrize("decoder", ["left-to-right", "threshold", "repair"])
@pytest.mark.parametrize("batch_size", [2, 100])
def test_what_a_model_knows_is_what_it_scores(decoder, batch_size):
    tasks = tasks_of()
    evaluation = evaluate_tasks(Knows(tasks, nonsense=(1, 4)), CODEC, tasks, decoder_named(decoder), batch_size)
    assert [outcome.exact for outcome in evaluation.outcomes] == [True, False, True, True, False, True]
    assert evaluation.outcomes[1].failure == "unparsable"
    assert evaluation.outcomes[1].problem.startswith("token 1 is '<PATH_END>'")
    scores = evaluation.scores
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
    evaluation = evaluate_tasks(both, CODEC, groups, decoder_named("certainty"), batch_size=2, progress=done.append)
    assert all(outcome.exact for outcome in evaluation.outcomes)
    assert done == [2, 4, 5]


def test_a_batch_size_of_zero_is_refused():
    with pytest.raises(UserError, match="batch size of 0"):
        evaluate_tasks(Knows(tasks_of()), CODEC, tasks_of(), decoder_named("certainty"), 0)


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", None), ("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_the_model_computes_in_the_precision_that_is_asked_for(precision, dtype):
    class Notes(Knows):
        def __call__(self, batch, order_BT, query_BT):
            found.add(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None)
            return super().__call__(batch, order_BT, query_BT)

    found = set()
    decoder = decoder_named("left-to-right")
    evaluation = evaluate_tasks(Notes(tasks_of()), CODEC, tasks_of(), decoder, precision=precision)
    assert found == {dtype}
    assert evaluation.precision == evaluation.to_json()["precision"] == precision


class Small(Knows):
    """Has room for a few mazes at once."""

    def __init__(self, tasks, most, error):
        super().__init__(tasks)
        self.most, self.error, self.asked = most, error, []

    def __call__(self, batch, order_BT, query_BT):
        self.asked.append(len(batch))
        if len(batch) > self.most:
            raise self.error
        return super().__call__(batch, order_BT, query_BT)


CPU_ERROR = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes.")


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory."), CPU_ERROR, MemoryError()])
def test_batches_are_halved_until_they_fit_into_memory(error):
    tasks, codec, decoder = tasks_of(10), CODEC, decoder_named("left-to-right")
    small = Small(tasks, 3, error)
    evaluation = evaluate_tasks(small, codec, tasks, decoder)
    assert [outcome.exact for outcome in evaluation.outcomes] == [True] * 10
    assert small.asked[:3] == [10, 5, 2]
    with pytest.raises(UserError, match="decoding 5 mazes at once ran out of memory; use a smaller --batch-size"):
        evaluate_tasks(Small(tasks, 3, error), codec, tasks, decoder, batch_size=5)
    with pytest.raises(UserError, match="decoding a single maze ran out of memory"):
        evaluate_tasks(Small(tasks, 0, error), codec, tasks, decoder)


def test_another_error_is_not_taken_for_a_lack_of_memory():
    tasks = tasks_of(2)
    broken = Small(tasks, 0, RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match="shapes differ"):
        evaluate_tasks(broken, CODEC, tasks, decoder_named("left-to-right"))


def test_the_batch_follows_from_the_size_of_the_cache():
    codec, tasks = Codec.of("edge-list", 30, 30), tasks_of(2, 30)
    large = build_model(DecoderOnlyConfig(1024, 128, 4, depth=40), seed=0)
    longest = len(format_named("edge-list").encode(*tasks[0]).prompt) + codec.max_response_length(30, 30)
    assert longest <= codec.max_length(tasks) < 1.2 * longest
    cache = 2 * 40 * 128 * 4 * codec.max_length(tasks)  # keys and values of 40 blocks, in float32
    assert large.config.cache_bytes(codec.max_length(tasks)) == cache
    assert 1 < default_batch_size(large, codec, tasks) <= CPU_BUDGET // cache
    shallow = build_model(DecoderOnlyConfig(1024, 128, 4, depth=2), seed=0)
    assert default_batch_size(shallow, codec, tasks) > 2 * default_batch_size(large, codec, tasks)
    small = build_model(DecoderOnlyConfig(128, 16, 2, depth=1), seed=0)
    assert default_batch_size(small, Codec.of("edge-list", 5, 5), tasks_of(2)) == MAX_BATCH


def test_a_batch_that_cannot_fit_is_refused_before_anything_is_computed():
    codec, tasks = Codec.of("edge-list", 30, 30), tasks_of(2000, 30)
    large = build_model(DecoderOnlyConfig(1024, 128, 4, depth=40), seed=0)
    with pytest.raises(UserError, match=r"decoding 2,000 mazes at once takes about \d+ GB of memory.*--batch-size of"):
        evaluate_tasks(large, codec, tasks, decoder_named("left-to-right"), batch_size=1_000_000_000)


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


@pytest.mark.parametrize(("height", "width"), [(8, 8), (5, 9), (9, 5)])
def test_cut_off_mazes_keep_their_path_and_have_no_passage_to_the_rest(height, width):
    tasks = tasks_of(20)
    larger = embed(tasks, height, width, seed=3, embedding="cut-off")
    valid, shortest = check_batch(larger)
    assert valid.all()
    assert shortest.all()
    assert np.array_equal(larger.cells_NHW[:, :5, :5], tasks.cells_NHW)
    assert [path for _, path in larger] == [path for _, path in tasks]
    for cells in larger.cells_NHW:
        reached = bfs_reached(cells)
        assert reached == {(row, col) for row in range(5) for col in range(5)}
        assert (cells != 0).sum() > 25, "the rest is a maze too"
    assert not _first_problem(larger)
    assert is_held_out(layout_hashes(larger.cells_NHW)).all()
    assert np.array_equal(larger.cells_NHW, embed(tasks, height, width, seed=3, embedding="cut-off").cells_NHW)
    first = embed(tasks.select(np.arange(3)), height, width, seed=3, embedding="cut-off")
    assert np.array_equal(larger.cells_NHW[:3], first.cells_NHW)


def bfs_reached(cells):
    """The cells that the upper left one is connected with."""
    maze, found, todo = Maze(cells), {(0, 0)}, [(0, 0)]
    while todo:
        new = [cell for cell in maze.neighbours(todo.pop()) if cell not in found]
        found.update(new)
        todo += new
    return found


@pytest.mark.parametrize("shape", [(5, 5), (4, 9)])
def test_a_size_that_is_not_larger_is_refused(shape):
    with pytest.raises(UserError, match="give a larger size"):
        embed(tasks_of(), *shape, seed=0)
