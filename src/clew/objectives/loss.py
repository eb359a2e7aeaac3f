"""Cross-entropy as sums, so that the training loop can normalise over the global batch.

    sums = cross_entropy_sum(model(batch, targets.order_BT, targets.query_BT), targets)
    (sums.loss / global_weight).backward()    # global_weight: sums.weight summed over processes and micro-batches

Processes hide different numbers of tokens, so a mean of means would weigh tokens unequally; sums do not.

Shape suffixes: B mazes, T positions, Q queries of the whole batch in row-major order, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from clew.objectives.targets import Targets


@dataclass(frozen=True)
class LossSum:
    """Sums over the queries of a batch."""

    loss: Tensor  # float32 []; the weighted sum of cross-entropies, to differentiate
    weight: Tensor  # float32 []; the sum of weights
    count: Tensor  # int64 []; the number of queries
    correct: Tensor  # int64 []; the queries whose target has the highest logit
    token_loss_Q: Tensor  # float32, detached; each query's cross-entropy without its weight

    def totals(self) -> Tensor:
        """Return (loss, weight, count, correct) as float64 [4], detached, to sum over processes for the metrics."""
        return torch.stack([x.detach().double() for x in (self.loss, self.weight, self.count, self.correct)])


def cross_entropy_sum(logits_QV: Tensor, targets: Targets) -> LossSum:
    """Return sums of -log softmax(logits)[target] over the queries, in float32 for logits of any precision.

    A logit of -inf leaves its entry out of the softmax. If it is the target's, the loss is infinite and the loop
    stops. A weight of 0 leaves a token out.
    """
    target_Q = targets.target_BT[targets.query_BT]
    weight_Q = targets.weight_BT[targets.query_BT]
    assert len(logits_QV) == len(target_Q), "one row of logits for each query"
    with torch.autocast(logits_QV.device.type, enabled=False):
        token_loss_Q = F.cross_entropy(logits_QV.float(), target_Q, reduction="none")
    # 0 times infinity is NaN, so tokens without weight are replaced and not multiplied.
    loss = (token_loss_Q * weight_Q).masked_fill(weight_Q == 0, 0.0).sum()
    correct = (logits_QV.detach().argmax(-1) == target_Q).sum()
    count = torch.tensor(len(target_Q), device=logits_QV.device)
    return LossSum(loss, weight_Q.sum(), count, correct, token_loss_Q.detach())


def row_losses(sums: LossSum, targets: Targets) -> Tensor:
    """Return each maze's mean cross-entropy per query, float32 [B]; NaN where there is none."""
    row_Q = targets.query_BT.nonzero()[:, 0]
    count_B = targets.query_BT.sum(1)
    total_B = torch.zeros(len(count_B), device=row_Q.device).index_add_(0, row_Q, sums.token_loss_Q)
    return total_B / count_B
