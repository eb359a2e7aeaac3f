"""What every model is: a function from a batch and what may be seen of it to logits at the asked positions.

`rank_BT` says who may look at whom: position q is predicted from the positions k with 0 <= rank[k] < rank[q], and
rank -1 is padding, seen by nobody. What stands in the batch at positions that a query may not see never changes its
logits.

Shape suffixes: B mazes, T positions, Q asked positions of the whole batch in row-major order, V vocabulary.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from clew.data.batch import Batch

Precision = Literal["fp32", "bf16", "fp16"]
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Model(Protocol):
    """Tokens in, logits out; never a loss."""

    def __call__(self, batch: Batch, rank_BT: Tensor, ask_BT: Tensor) -> Tensor:
        """Logits [Q, V] for the True positions of `ask_BT`, in the order of `ask_BT.nonzero()`."""
        ...


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[Any]:
    """Within, matrix products run in the precision; does nothing for fp32."""
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, dtype=_DTYPES[precision])
