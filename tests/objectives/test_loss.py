"""The loss as sums: its value, its gradient, and what must not become NaN."""

import math

import pytest
import torch
import torch.nn.functional as F
from objective_batches import token_batch

from clew.objectives.builtin import build_objective
from clew.objectives.config import ObjectiveConfig
from clew.objectives.targets import Targets, cross_entropy_sum, row_losses


def make_case(lengths: list[int], vocabulary: int = 50, **settings: object) -> Targets:
    batch = token_batch(lengths)
    batch = type(batch)(batch.tokens_BT % vocabulary, batch.valid_BT, batch.response_BT, batch.index_B)
    return build_objective(ObjectiveConfig(**settings))(batch, torch.Generator().manual_seed(4))


def logits_for(targets: Targets, vocabulary: int = 50) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(int(targets.query_BT.sum()), vocabulary, generator=generator, requires_grad=True)


def test_sums_by_hand():
    targets = make_case([5, 8, 3])
    logits_QV = logits_for(targets)
    sums = cross_entropy_sum(logits_QV, targets)
    target_Q = targets.target_BT[targets.query_BT]
    expected = -torch.log_softmax(logits_QV, -1)[torch.arange(len(target_Q)), target_Q].sum()
    torch.testing.assert_close(sums.loss, expected)
    assert int(sums.count) == len(target_Q) == int(sums.weight)
    assert int(sums.correct) == int((logits_QV.argmax(-1) == target_Q).sum())
    assert sums.totals().dtype == torch.float64
    assert sums.totals()[1:].tolist() == [float(sums.weight), float(sums.count), float(sums.correct)]


def test_correct_counts_the_right_ones():
    targets = make_case([5, 8])
    target_Q = targets.target_BT[targets.query_BT]
    logits_QV = F.one_hot(target_Q, 50).float()
    logits_QV[0] = -logits_QV[0]
    assert int(cross_entropy_sum(logits_QV, targets).correct) == len(target_Q) - 1


def test_weights_count():
    targets = make_case([5, 8, 3], weighting="rate")
    logits_QV = logits_for(targets)
    sums = cross_entropy_sum(logits_QV, targets)
    weight_Q = targets.weight_BT[targets.query_BT]
    assert len(weight_Q.unique()) > 1
    torch.testing.assert_close(sums.loss, (sums.token_loss_Q * weight_Q).sum())
    torch.testing.assert_close(sums.weight, weight_Q.sum())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_float32_whatever_the_logits(dtype):
    targets = make_case([5, 8, 3])
    logits_QV = (logits_for(targets) * 30).to(dtype)
    sums = cross_entropy_sum(logits_QV, targets)
    assert sums.loss.dtype == torch.float32
    torch.testing.assert_close(sums.loss, cross_entropy_sum(logits_QV.float(), targets).loss)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert cross_entropy_sum(logits_QV, targets).loss == sums.loss


def test_entries_ruled_out_give_no_nan():
    """Logits of -inf, as a pointer over walls has, or a vocabulary that is larger than what occurs."""
    targets = make_case([5, 8, 3])
    logits_QV = logits_for(targets)
    wide_QV = F.pad(logits_QV, (0, 14), value=-math.inf)
    sums = cross_entropy_sum(wide_QV, targets)
    torch.testing.assert_close(sums.loss, cross_entropy_sum(logits_QV, targets).loss)
    sums.loss.backward()
    assert logits_QV.grad is not None
    assert logits_QV.grad.isfinite().all()


def test_a_target_ruled_out_is_infinite_unless_it_does_not_count():
    targets = make_case([5, 8, 3])
    logits_QV = logits_for(targets).detach()
    logits_QV[0, targets.target_BT[targets.query_BT][0]] = -math.inf
    assert cross_entropy_sum(logits_QV, targets).loss == math.inf
    first = targets.query_BT.nonzero()[0]
    targets.weight_BT[first[0], first[1]] = 0
    assert cross_entropy_sum(logits_QV, targets).loss.isfinite()


def test_no_query_is_zero_with_a_gradient():
    targets = make_case([5])
    targets = Targets(targets.order_BT * 0, targets.query_BT & False, targets.target_BT, targets.weight_BT * 0)
    logits_QV = logits_for(targets)
    sums = cross_entropy_sum(logits_QV, targets)
    assert sums.totals().tolist() == [0, 0, 0, 0]
    sums.loss.backward()
    assert row_losses(sums, targets).isnan().all()


def test_row_losses():
    targets = make_case([5, 8, 3])
    sums = cross_entropy_sum(logits_for(targets), targets)
    row_Q = targets.query_BT.nonzero()[:, 0]
    for row, loss in enumerate(row_losses(sums, targets)):
        mine = sums.token_loss_Q[row_Q == row]
        torch.testing.assert_close(loss, mine.mean(), equal_nan=True)


def test_sums_of_halves_are_the_sum():
    targets = make_case([5, 8, 3, 9])
    logits_QV = logits_for(targets).detach()
    whole = cross_entropy_sum(logits_QV, targets).totals()
    first = int(targets.query_BT[:2].sum())
    halves = [
        cross_entropy_sum(
            part,
            Targets(targets.order_BT[rows], targets.query_BT[rows], targets.target_BT[rows], targets.weight_BT[rows]),
        ).totals()
        for part, rows in ((logits_QV[:first], slice(0, 2)), (logits_QV[first:], slice(2, 4)))
    ]
    torch.testing.assert_close(sum(halves), whole)
