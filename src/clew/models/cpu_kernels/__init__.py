"""CPU kernels compiled by numba, each behind one function; the tests compare them with plain PyTorch."""

import torch
from torch import Tensor


def use_cpu_kernel(x: Tensor) -> bool:
    """Return whether the CPU kernels can take this tensor."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled("cpu")
