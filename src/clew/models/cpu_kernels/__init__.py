"""CPU kernels compiled by numba, each behind one function; the tests compare them with plain PyTorch."""
