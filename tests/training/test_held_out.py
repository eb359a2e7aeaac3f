"""Scores while training are those of greedy decoding from left to right."""

from __future__ import annotations

import os
import signal

import pytest
import torch
from torch import Tensor, nn

from clew.data.batch import Batch
from clew.data.config import DataConfig
from clew.data.loader import held_out_tasks
from clew.decoding.codec import Codec
from clew.decoding.decode import decoder_named
from clew.evaluation.evaluate import evaluate_tasks
from clew.mazes.generate import generate
from clew.models.config import DecoderOnlyConfig, EncoderDecoderConfig
from clew.objectives.config import ObjectiveConfig
from clew.tokenization.format import format_named
from clew.training.config import Budget, TrainConfig
from clew.training.distributed import World
from clew.training.signals import handle_stop_signals
from clew.training.train import evaluator_on, held_out_evaluator

DATA = DataConfig(sizes=(3,))
CONFIG = TrainConfig(
    data=DATA,
    model=EncoderDecoderConfig(DATA.vocabulary, 16, 2, encoder_depth=1, decoder_depth=1),
    budget=Budget(steps=1),
    held_out=20,
)


class Oracle(nn.Module):
    """Knows the true paths by their prompts, and gets the last token of some of them wrong."""

    def __init__(self, wrong: int) -> None:
        super().__init__()
        vocabulary = format_named("edge-list").vocabulary(3, 3)
        (tasks,) = held_out_tasks(DATA, 20)
        self.known = {}
        for number in range(20):
            (_, path) = tasks[number]
            answer = [*(vocabulary.id_of[f"({r},{c})"] for r, c in path), vocabulary.id_of["<PATH_END>"]]
            self.known[number] = [*answer[:-1], vocabulary.id_of["[UNK]"]] if number < wrong else answer

    def forward(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        first_B = (~batch.response_BT & batch.valid_BT).sum(1)
        row_Q, position_Q = query_BT.nonzero(as_tuple=True)
        logits_QV = torch.zeros(len(row_Q), DATA.vocabulary)
        for q, (row, position) in enumerate(zip(row_Q.tolist(), position_Q.tolist(), strict=True)):
            answer = self.known[int(batch.index_B[row])]
            logits_QV[q, answer[min(position - int(first_B[row]), len(answer) - 1)]] = 1.0
        return logits_QV


@pytest.mark.parametrize("wrong", [0, 5])
def test_the_share_of_exact_answers(wrong: int) -> None:
    evaluate = held_out_evaluator(CONFIG, World())
    assert evaluate is not None
    scores = evaluate(Oracle(wrong))
    assert scores["exact"] == (20 - wrong) / 20
    assert (scores["token"] == 1) == (wrong == 0)


def test_a_signal_stops_the_decoding_after_its_step() -> None:
    class Signalled(Oracle):
        calls = 0

        def forward(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
            self.calls += 1
            if self.calls == 2:
                os.kill(os.getpid(), signal.SIGUSR2)
            return super().forward(batch, order_BT, query_BT)

    evaluate, model = held_out_evaluator(CONFIG, World()), Signalled(0)
    assert evaluate is not None
    with handle_stop_signals() as stop:
        assert evaluate(model) == {}
    assert (stop.signal, model.calls) == (signal.SIGUSR2, 2)


def test_nothing_held_out_is_nothing_to_evaluate() -> None:
    import dataclasses

    assert held_out_evaluator(dataclasses.replace(CONFIG, held_out=0), World()) is None


class Recites(nn.Module):
    """Answers each maze with a given response."""

    def __init__(self, answers: list[list[int]], vocabulary: int) -> None:
        super().__init__()
        self.answers, self.vocabulary = answers, vocabulary

    def forward(self, batch: Batch, order_BT: Tensor, query_BT: Tensor) -> Tensor:
        first_B = (~batch.response_BT & batch.valid_BT).sum(1)
        row_Q, position_Q = query_BT.nonzero(as_tuple=True)
        answers = [self.answers[int(batch.index_B[row])] for row in row_Q]
        places = (position_Q - first_B[row_Q]).tolist()
        token_Q = [answer[min(place, len(answer) - 1)] for answer, place in zip(answers, places, strict=True)]
        return nn.functional.one_hot(torch.tensor(token_Q), self.vocabulary).float()


def test_of_a_search_trace_only_the_plan_is_compared_in_training_and_in_the_exam() -> None:
    data = DataConfig(family="astar", sizes=(4,), format="wall-list-trace")
    tasks = generate("astar", 4, 4, seed=0, first=0, count=4, split="test")
    codec = Codec.of(data.format, 4, 4)
    truth_BR, length_B = codec.truth(tasks)
    answers = [row[:length].tolist() for row, length in zip(truth_BR, length_B.tolist(), strict=True)]
    assert codec.vocabulary is not None
    create, plan, end = (codec.vocabulary.id_of[word] for word in ("create", "plan", "eos"))
    assert answers[0][1] == answers[1][1] == answers[2][1] == create
    answers[0] = answers[0][:1] + answers[0][6:]  # another trace, the right plan
    answers[1] = answers[1][:1] + answers[1][answers[1].index(plan) :]  # no trace, the right plan
    answers[2] = [*answers[2][:-4], end]  # the right trace, a plan that lacks the last cell
    model = Recites(answers, data.vocabulary)
    config = TrainConfig(
        data=data,
        model=DecoderOnlyConfig(data.vocabulary, 16, 2, depth=1),
        budget=Budget(steps=1),
        objective=ObjectiveConfig("trace"),
    )
    assert evaluator_on([tasks], "test", config, World())(model)["exact"] == 3 / 4
    evaluation = evaluate_tasks(model, codec, tasks, decoder_named("left-to-right"))
    assert evaluation.scores.exact.share == 3 / 4
