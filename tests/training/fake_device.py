"""A device for tests of code that runs on GPUs: tensors that compute on the CPU and say that they are elsewhere.

    with fake_device():
        train(config, run, world=World(device=FAKE))

An operation on tensors of both devices fails, as with a GPU, and so does a tensor that is made on the CPU by mistake as
soon as it meets one of the device. The device calls itself "meta", a name that torch knows without any hardware.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

FAKE = torch.device("meta")
COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
# A GPU takes indices of the CPU.
INDEXING = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default)


class FakeTensor(Tensor):
    """A tensor of the CPU under another device's name."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> FakeTensor:
        fake: FakeTensor = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=FAKE,
        )
        fake.inner = inner
        return fake

    __torch_function__ = torch._C._disabled_torch_function_impl

    def tolist(self) -> Any:
        return self.inner.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


@contextmanager
def fake_device() -> Iterator[None]:
    """Within, the device exists."""
    autocast, tensor = torch.autocast, torch.tensor

    def new_tensor(*args: Any, device: Any = None, **how: Any) -> Tensor:
        made = tensor(*args, **how)
        return made if device is None else made.to(device)

    with (
        patch.object(torch, "autocast", lambda kind, **how: autocast("cpu" if kind == FAKE.type else kind, **how)),
        patch.object(torch, "tensor", new_tensor),
        FakeDevice(),
    ):
        yield


class FakeDevice(TorchDispatchMode):
    """Lets the device compute what has no argument on it, such as torch.zeros(3, device=FAKE)."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


def compute(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Do an operation on the CPU; the result is where the arguments are, or on the device that is named."""
    tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, Tensor)]
    fakes = [value for value in tensors if isinstance(value, FakeTensor)]
    others = [value for value in tensors if not isinstance(value, FakeTensor) and value.dim() > 0]
    if func in INDEXING and isinstance(args[0], FakeTensor):
        others = []
    if fakes and others and func not in COPIES:
        raise RuntimeError(f"Expected all tensors to be on the same device, but {func} got some of the CPU.")
    wanted = kwargs.get("device")
    inner_kwargs = kwargs | ({"device": torch.device("cpu")} if wanted is not None else {})
    inner_args, inner_kwargs = tree_map(_unwrap, (args, inner_kwargs))
    result = func(*inner_args, **inner_kwargs)
    wrapped = {id(fake.inner): fake for fake in fakes}  # what an operation in place gives back is its argument
    on_device = isinstance(args[0], FakeTensor) if func is COPIES[1] else bool(fakes)
    if wanted is not None:
        on_device = torch.device(wanted) == FAKE
    if not on_device:
        return result

    def wrap(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return wrapped[id(value)] if id(value) in wrapped else FakeTensor(value)

    return tree_map(wrap, result)


def _unwrap(value: Any) -> Any:
    return value.inner if isinstance(value, FakeTensor) else value
