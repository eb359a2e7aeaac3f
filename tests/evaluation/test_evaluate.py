"""evaluate_tasks with models whose state are known; leakage; embedding."""

import pytest
import torch

from clew.decoding.codec import Codec
from clew.decoding.decode import decoder_named
from clew.errors import UserError
from clew.evaluation.evaluate import CPU_BUDGET, MAX_BATCH, evaluate_tasks, fitting_batch_size
from clew.mazes.generate import generate
from clew.models.build import build_model
from clew.models.config import DecoderOnlyConfig
from clew.tokenization.format import format_named


def tasks_of(count=6, side=5, family="dfs", which="test"):
    return generate(family, side, side, seed=0, first=0, count=count, split=which, workers=1)


CODEC = Codec.of("grid", 6, 6)


class KnownResponses:
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
def test_scores_count_known_responses(decoder, batch_size):
    tasks = tasks_of()
    model = KnownResponses(tasks, nonsense=(1, 4))
    evaluation = evaluate_tasks(model, CODEC, tasks, decoder_named(decoder), batch_size)
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
    both = KnownResponses(groups[0])
    both.responses |= KnownResponses(groups[1]).responses
    done = []
    evaluation = evaluate_tasks(both, CODEC, groups, decoder_named("certainty"), batch_size=2, progress=done.append)
    assert all(outcome.exact for outcome in evaluation.outcomes)
    assert done == [2, 4, 5]


def test_a_batch_size_of_zero_is_refused():
    with pytest.raises(UserError, match="batch size of 0"):
        evaluate_tasks(KnownResponses(tasks_of()), CODEC, tasks_of(), decoder_named("certainty"), 0)


@pytest.mark.parametrize(("precision", "dtype"), [("fp32", None), ("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_the_model_computes_in_the_precision_that_is_asked_for(precision, dtype):
    class Notes(KnownResponses):
        def __call__(self, batch, order_BT, query_BT):
            found.add(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None)
            return super().__call__(batch, order_BT, query_BT)

    found = set()
    decoder = decoder_named("left-to-right")
    evaluation = evaluate_tasks(Notes(tasks_of()), CODEC, tasks_of(), decoder, precision=precision)
    assert found == {dtype}
    assert evaluation.precision == evaluation.to_json()["precision"] == precision


class LittleMemory(KnownResponses):
    """Runs out of memory with more than a few mazes at once."""

    def __init__(self, tasks, most, error):
        super().__init__(tasks)
        self.most, self.error, self.batch_sizes = most, error, []

    def __call__(self, batch, order_BT, query_BT):
        self.batch_sizes.append(len(batch))
        if len(batch) > self.most:
            raise self.error
        return super().__call__(batch, order_BT, query_BT)


CPU_ERROR = RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes.")


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory."), CPU_ERROR, MemoryError()])
def test_batches_are_halved_until_they_fit_into_memory(error):
    tasks, codec, decoder = tasks_of(10), CODEC, decoder_named("left-to-right")
    small = LittleMemory(tasks, 3, error)
    evaluation = evaluate_tasks(small, codec, tasks, decoder)
    assert [outcome.exact for outcome in evaluation.outcomes] == [True] * 10
    assert small.batch_sizes[:3] == [10, 5, 2]
    at_most_five = LittleMemory(tasks, 3, error)
    evaluate_tasks(at_most_five, codec, tasks, decoder, batch_size=5)
    assert at_most_five.batch_sizes[:2] == [5, 2]
    with pytest.raises(UserError, match="decoding a single maze ran out of memory"):
        evaluate_tasks(LittleMemory(tasks, 0, error), codec, tasks, decoder)


def test_other_runtime_errors_are_raised():
    tasks = tasks_of(2)
    broken = LittleMemory(tasks, 0, RuntimeError("shapes differ"))
    with pytest.raises(RuntimeError, match="shapes differ"):
        evaluate_tasks(broken, CODEC, tasks, decoder_named("left-to-right"))


def test_batch_size_follows_from_the_size_of_the_cache():
    codec, tasks = Codec.of("edge-list", 30, 30), tasks_of(2, 30)
    large = build_model(DecoderOnlyConfig(1024, 128, 4, depth=40), seed=0)
    longest = len(format_named("edge-list").encode(*tasks[0]).prompt) + codec.max_response_length(30, 30)
    assert longest <= codec.max_length(tasks) < 1.2 * longest
    cache = 2 * 40 * 128 * 4 * codec.max_length(tasks)  # keys and values of 40 blocks, in float32
    assert large.config.cache_bytes(codec.max_length(tasks)) == cache
    assert 1 < fitting_batch_size(large, codec, tasks) <= CPU_BUDGET // cache
    assert fitting_batch_size(large, codec, tasks, 10**9) <= CPU_BUDGET // cache
    assert fitting_batch_size(large, codec, tasks, 2) == 2
    shallow = build_model(DecoderOnlyConfig(1024, 128, 4, depth=2), seed=0)
    assert fitting_batch_size(shallow, codec, tasks) > 2 * fitting_batch_size(large, codec, tasks)
    small = build_model(DecoderOnlyConfig(128, 16, 2, depth=1), seed=0)
    assert fitting_batch_size(small, Codec.of("edge-list", 5, 5), tasks_of(2)) == MAX_BATCH
