"""The norm by hand is torch's, forward and backward, however the vectors lie in memory."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.models.grid_layers import norm, plain_norm


@given(st.integers(0, 5), st.integers(1, 4), st.sampled_from([1, 2, 7, 16, 64]), st.integers(1, 2))
@settings(max_examples=30, deadline=None)
def test_the_norm_by_hand_is_torchs(rows: int, columns: int, width: int, threads: int) -> None:
    generator = torch.Generator().manual_seed(rows * columns + width)
    x = torch.randn(rows, columns, width, generator=generator, dtype=torch.float64).mul(3).add(1).requires_grad_()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        answers = [(y, *torch.autograd.grad(y.sin().sum(), x)) for y in (norm(x), plain_norm(x))]
    finally:
        torch.set_num_threads(before)
    for by_hand, plain in zip(*answers, strict=True):
        torch.testing.assert_close(by_hand, plain)


def test_the_norm_takes_vectors_that_lie_anyhow_in_memory() -> None:
    x = torch.randn(8, 5, 3).permute(2, 1, 0)
    assert not x.is_contiguous()
    torch.testing.assert_close(norm(x), plain_norm(x))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_torchs_own(dtype: torch.dtype) -> None:
    x = torch.randn(4, 8).to(dtype)
    assert torch.equal(norm(x), plain_norm(x))
