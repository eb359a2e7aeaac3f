"""Several processes: ranks, collective operations, DDP and FSDP2, and tensors by name whether sharded or not.

    with joined_world("auto") as world:            # alone, or one of torchrun's; gloo on CPU, nccl on GPU
        forward = parallelize(model, "ddp", world)
        total = world.sum(tensor)

All of it is a no-op for one process. A UserError that all processes raise is printed by the main one alone.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from clew.errors import UserError
from clew.models.build import check_tensors

Parallel = Literal["ddp", "fsdp"]
T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """This process among all processes of the run."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    meshes: list[DeviceMesh] = field(default_factory=list, repr=False, compare=False)  # of the sharded models

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum over all processes, on each of them; the tensor itself is not changed."""
        return self._reduce(tensor, dist.ReduceOp.SUM)

    def max(self, tensor: Tensor) -> Tensor:
        """Return the maximum over all processes, on each of them."""
        return self._reduce(tensor, dist.ReduceOp.MAX)

    def _reduce(self, tensor: Tensor, operation: Any) -> Tensor:
        if self.size > 1:
            tensor = tensor.to(self.device, copy=True)
            dist.all_reduce(tensor, op=operation)
        return tensor

    def from_main(self, value: Any) -> Any:
        """Return the main process's value on all of them; plain Python values."""
        if self.size == 1:
            return value
        held = [value]
        dist.broadcast_object_list(held, src=0, device=self.device)
        return held[0]

    def on_main(self, work: Callable[[], T]) -> T:
        """Do the work on the main process; return its result, or raise its UserError or OSError, on all of them."""
        result: T | None = None
        error: Exception | None = None
        if self.is_main:
            try:
                result = work()
            except (UserError, OSError) as raised:  # the others wait for an answer, so it is sent before it is raised
                error = raised
        result, error = self.from_main((result, error))
        if error is not None:
            raise error
        return result

    def wait_for_all(self) -> None:
        if self.size > 1:
            dist.barrier()


@contextmanager
def joined_world(device: Literal["auto", "cpu", "cuda"] = "auto", timeout_hours: float = 4.0) -> Iterator[World]:
    """Join the processes that torchrun has started, or be alone; leave them at the end.

    A process waits `timeout_hours` for the others: they decode different mazes in an evaluation, and one of them makes
    the dataset.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("there is no CUDA device here; use --device cpu, or auto.")
    on_gpu = device != "cpu" and torch.cuda.is_available()
    numbers = []
    for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0")):
        value = os.environ.get(name, default)
        if not value.isdecimal():
            problem = f"the environment has {name}={value!r}, which is not a number"
            raise UserError(f"{problem}; start the run with torchrun.")
        numbers.append(int(value))
    rank, size, local_rank = numbers
    world = World(rank, size, torch.device("cuda", local_rank) if on_gpu else torch.device("cpu"))
    if on_gpu:
        torch.cuda.set_device(world.device)
    if size == 1:
        yield World(device=world.device)
        return
    lost = False
    try:
        timeout = timedelta(hours=timeout_hours)
        dist.init_process_group("nccl" if on_gpu else "gloo", rank=rank, world_size=size, timeout=timeout)
        yield world
    except UserError:
        if not world.is_main:
            sys.exit(1)  # the main process prints it
        raise
    except RuntimeError as error:
        lost = is_lost_process(error)
        if not lost:
            raise
        traceback.clear_frames(error.__traceback__)  # they refer to the model, and so to the group
        raise UserError(
            f"rank {rank} of {size} has lost another process ({first_sentence(error)}) and stops; the reason is in the "
            "messages of the lost one, and the same command resumes from the last checkpoint."
        ) from None
    finally:
        if dist.is_initialized() and not (lost and on_gpu):  # NCCL would wait for the lost process
            leave_group(world)


def launch(processes: int, arguments: Sequence[str]) -> int:
    """Run `clew ARGUMENTS` in so many processes of this machine, as torchrun does; return the exit code.

    Signals reach all processes, so that they save and stop. If one is lost, the others are ended.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ.setdefault("OMP_NUM_THREADS", str(max((os.cpu_count() or 1) // processes, 1)))
    rendezvous: dict[str, Any] = {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "run_id": str(uuid.uuid4())}
    config = LaunchConfig(1, 1, processes, max_restarts=0, **rendezvous)
    logging.disable(logging.ERROR)  # torch logs a page for each lost process
    try:
        elastic_launch(config, sys.executable)("-m", "clew", *arguments)
    except SignalException as stopped:
        return 128 + int(stopped.sigval)
    except ChildFailedError as failed:
        rank, failure = failed.get_first_failure()
        if failure.exitcode >= 0:
            return int(failure.exitcode)
        name = signal.Signals(-failure.exitcode).name
        print(
            f"clew: rank {rank} of {processes} was ended by {name} (the system does that when memory is short), so "
            "the others were stopped; the same command resumes from the last checkpoint.",
            file=sys.stderr,
        )
        return 128 - int(failure.exitcode)
    finally:
        logging.disable(logging.NOTSET)
    return 0


def is_lost_process(error: RuntimeError) -> bool:
    """Return whether an operation failed because another process is gone or does not answer."""
    return isinstance(error, dist.DistError) or "gloo/transport" in str(error)


def first_sentence(error: Exception) -> str:
    """Return the first sentence of torch's message, without the position in its sources."""
    text = str(error).splitlines()[0]
    return text.rpartition(".cc:")[2].partition("] ")[2].partition(". ")[0] or text


def leave_group(world: World) -> None:
    """Destroy the process group and end its threads.

    A group ends its threads when the last reference to it is gone. A gloo thread that runs until the interpreter
    shuts down aborts the process ("terminate called without an active exception") if it has a tensor to release then.
    DDP and FSDP modules refer to the group from cycles; the mesh of FSDP does too, and torch's caches of operations on
    sharded tensors keep the mesh for ever.
    """
    gc.collect()
    for mesh in world.meshes:
        vars(mesh).get("_pg_registry", {}).clear()  # older versions of torch have none
    dist.destroy_process_group()


def parallelize(model: nn.Module, parallel: Parallel, world: World) -> nn.Module:
    """Return what to call for a forward pass: the model, DDP around it, or the model sharded in place (FSDP2)."""
    if world.size == 1:
        return model
    if parallel == "ddp":
        return DistributedDataParallel(model, device_ids=[world.device.index] if world.device.type == "cuda" else None)
    mesh = init_device_mesh(world.device.type, (world.size,))
    world.meshes.append(mesh)
    for block in _blocks(model):
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def _blocks(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the members of the outermost lists of modules: each is gathered when it is used, and freed after.

    A model with `shard_as_one` is gathered as a whole: its forward pass uses all weights over and over.
    """
    if getattr(model, "shard_as_one", False):
        return
    for child in model.children():
        if isinstance(child, nn.ModuleList):
            yield from child
        else:
            yield from _blocks(child)


@contextmanager
def gradient_sync(forward: nn.Module, sync: bool) -> Iterator[None]:
    """Add gradients up over the processes in backward passes within, if `sync`: only a step's last one must."""
    if isinstance(forward, DistributedDataParallel) and not sync:
        with forward.no_sync():
            yield
        return
    if isinstance(forward, FSDPModule):
        forward.set_requires_gradient_sync(sync)
    yield


# What DDP and torch.compile put before the names of the model that they wrap.
_WRAPPERS = {"module", "_orig_mod"}


def parameter_name(name: str) -> str:
    """Return a parameter's name without what DDP and torch.compile add, the same however a model is run."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def unwrap_model(model: nn.Module) -> nn.Module:
    """Return the model inside DDP and torch.compile."""
    while True:
        inner = next((m for name, m in model.named_children() if name in _WRAPPERS), None)
        if inner is None:
            return model
        model = inner


def named_parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the trainable parameters, each once (a tied one under its first name)."""
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            yield parameter_name(name), parameter


def full_tensor(tensor: Tensor) -> Tensor:
    """Return the full value of a tensor that may be sharded; all ranks must call this, in the same order."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def gather(named: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors, gathered if they are sharded, so that all ranks must call this; not copies."""
    return {name: full_tensor(tensor).detach() for name, tensor in named.items()}


def shard_like(full: Tensor, example: Tensor) -> Tensor:
    """Return `full`, which every rank holds, sharded as `example` is."""
    if not isinstance(example, DTensor):
        return full
    # No source rank: every rank shards its own copy, and nothing is sent.
    return distribute_tensor(full, example.device_mesh, example.placements, src_data_rank=None)


@torch.no_grad()
def copy_named(own: Mapping[str, Tensor], tensors: Mapping[str, Tensor], where: Path | str) -> None:
    """Copy tensors into those of the same names, which may be sharded; UserError if they do not fit."""
    check_tensors(own, tensors, where)
    for name, tensor in own.items():
        tensor.copy_(shard_like(tensors[name].to(tensor.device, tensor.dtype), tensor))
