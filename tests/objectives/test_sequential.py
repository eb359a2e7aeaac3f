"""The ranks of next token and of any-order next token."""

import pytest
import torch
from objective_batches import token_batch

from clew.objectives.config import ObjectiveConfig, build_objective


def test_next_token_by_hand():
    batch = token_batch([3, 2], prompt=2, padding=1)
    for name in ("next-token", "trace"):
        targets = build_objective(ObjectiveConfig(name))(batch, torch.Generator())
        assert targets.order_BT.tolist() == [[0, 0, 1, 2, 3, -1], [0, 0, 1, 2, -1, -1]]
        assert torch.equal(targets.query_BT, batch.response_BT)
        assert torch.equal(targets.target_BT, batch.tokens_BT)
        assert torch.equal(targets.weight_BT, batch.response_BT.float())


@pytest.mark.parametrize("prompt", [3, 0])
def test_any_order_ranks_are_a_permutation(prompt):
    lengths = [9, 4, 1, 12]
    batch = token_batch(lengths, prompt)
    targets = build_objective(ObjectiveConfig("any-order"))(batch, torch.Generator().manual_seed(0))
    for rank_T, response_T, length in zip(targets.order_BT, batch.response_BT, lengths, strict=True):
        assert sorted(rank_T[response_T].tolist()) == list(range(1, length + 1))
    assert (targets.order_BT[batch.valid_BT & ~batch.response_BT] == 0).all()
    assert (targets.order_BT[~batch.valid_BT] == -1).all()
    assert torch.equal(targets.query_BT, batch.response_BT)


def test_any_order_draws_every_order_alike():
    rows = 6000
    targets = build_objective(ObjectiveConfig("any-order"))(
        token_batch([3] * rows, prompt=1, padding=0), torch.Generator().manual_seed(0)
    )
    code_B = (targets.order_BT[:, 1:] * torch.tensor([100, 10, 1])).sum(1)
    codes, count = code_B.unique(return_counts=True)
    assert codes.tolist() == [123, 132, 213, 231, 312, 321]
    chi2 = float(((count - rows / 6) ** 2 / (rows / 6)).sum())
    assert chi2 < 20  # 5 degrees of freedom: p about 0.001


def test_only_sequential_objectives_say_so():
    for name, sequential in (("next-token", True), ("trace", True), ("any-order", True), ("mlm-u", False)):
        assert build_objective(ObjectiveConfig(name)).sequential is sequential
    assert not build_objective(ObjectiveConfig("ordered")).sequential
