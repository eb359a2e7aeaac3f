"""CPU kernels compiled by numba, each behind one function and with a plain PyTorch version that the tests compare
it with.
"""
