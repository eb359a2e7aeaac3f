"""Vectors in kernels: the same numbers as one after the other."""

import numba
import numpy as np
import pytest

from clew.models.vectors import load, relu, store, zeros


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("lanes", [4, 16])
def test_arithmetic_is_that_of_single_numbers(lanes: int, kind: type) -> None:
    @numba.njit
    def kernel(a, b, out):
        for i in range(0, len(a), lanes):
            x, y = load(a, i, lanes), load(b, i, lanes)
            store(out, i, relu(x + y) * y + zeros(a, lanes))

    # One number in, so that nothing lies at a round address.
    a, b, out = (np.random.default_rng(seed).normal(size=33).astype(kind)[1:] for seed in range(3))
    kernel(a, b, out)
    np.testing.assert_allclose(out, np.maximum(a + b, 0) * b, rtol=1e-5)
