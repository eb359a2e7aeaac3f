"""Muon: its updates are orthogonal, batching changes nothing, and it learns."""

import math

import pytest
import torch
from torch import nn

from clew.training.optimizers import muon_step, orthogonalize


def spread_matrices(count: int, rows: int, columns: int) -> torch.Tensor:
    """Random matrices whose singular values lie between 0.1 and 1."""
    generator = torch.Generator().manual_seed(0)
    u, _, v = torch.linalg.svd(torch.randn(count, rows, columns, generator=generator), full_matrices=False)
    return u @ torch.diag_embed(torch.linspace(1, 0.1, min(rows, columns)).expand(count, -1)) @ v


@pytest.mark.parametrize(("rows", "columns"), [(32, 32), (16, 64), (96, 32)])
def test_orthogonal(rows, columns):
    x = spread_matrices(3, rows, columns)
    out = orthogonalize(1e-3 * x)
    values = torch.linalg.svdvals(out)
    assert float(values.min()) > 0.65
    assert float(values.max()) < 1.25
    # The same singular vectors: U^T out V is diagonal.
    u, _, v = torch.linalg.svd(x, full_matrices=False)
    inner = u.mT @ out @ v.mT
    assert float((inner - torch.diag_embed(inner.diagonal(dim1=-2, dim2=-1))).abs().max()) < 1e-3


def test_more_steps_are_not_needed_and_zero_stays_zero():
    assert (orthogonalize(torch.zeros(2, 4, 6)) == 0).all()
    assert orthogonalize(torch.randn(1, 4, 6, dtype=torch.float64)).dtype == torch.float64


def make_matrices(shapes: list[tuple[int, int]]) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


def test_batched_is_one_by_one():
    shapes = [(8, 8), (16, 8), (8, 8), (8, 16), (16, 8), (8, 8)]
    together, alone = make_matrices(shapes), make_matrices(shapes)
    momenta, momenta_alone = ([torch.zeros(shape) for shape in shapes] for _ in range(2))
    generator = torch.Generator().manual_seed(2)
    for _ in range(3):
        for a, b in zip(together, alone, strict=True):
            a.grad = torch.randn(a.shape, generator=generator)
            b.grad = a.grad.clone()
        muon_step(together, momenta, 0.02, 0.95, 0.1, 5)
        for matrix, momentum in zip(alone, momenta_alone, strict=True):
            muon_step([matrix], [momentum], 0.02, 0.95, 0.1, 5)
    for a, b in zip([*together, *momenta], [*alone, *momenta_alone], strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_the_formula():
    """Two steps by hand: momentum, look-ahead, scale and decay."""
    lr, mu, decay = 0.1, 0.9, 0.5
    (weight,) = make_matrices([(12, 3)])
    expected, momentum, found = weight.detach().clone(), torch.zeros(12, 3), torch.zeros(12, 3)
    for seed in range(2):
        grad = torch.randn(12, 3, generator=torch.Generator().manual_seed(seed))
        weight.grad = grad.clone()
        muon_step([weight], [found], lr, mu, decay, 5)
        momentum = mu * momentum + (1 - mu) * grad
        ahead = mu * momentum + (1 - mu) * grad
        expected = expected * (1 - lr * decay) - lr * math.sqrt(12 / 3) * orthogonalize(ahead[None])[0]
    torch.testing.assert_close(weight.detach(), expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(found, momentum, atol=1e-6, rtol=1e-5)


def test_a_matrix_without_gradient_stays():
    still, moved = make_matrices([(4, 4), (4, 4)])
    before = still.detach().clone()
    moved.grad = torch.randn(4, 4)
    muon_step([still, moved], [torch.zeros(4, 4), torch.zeros(4, 4)], 0.02, 0.95, 0.1, 5)
    assert torch.equal(still.detach(), before)


def test_learns_a_badly_scaled_toy():
    """A linear map whose inputs differ a thousandfold in variance, in 100 steps."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(256, 16, generator=generator) * torch.logspace(0, -1.5, 16)
    y = x @ torch.randn(16, 16, generator=generator).T
    weight, momentum = nn.Parameter(torch.zeros(16, 16)), torch.zeros(16, 16)
    for step in range(100):
        weight.grad = None
        loss = (x @ weight.T - y).square().mean()
        loss.backward()
        muon_step([weight], [momentum], 0.2 * (1 - step / 100), 0.95, 0.0, 5)
    assert float(loss.detach()) < 0.01 * float(y.square().mean())
