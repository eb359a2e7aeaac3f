"""Several processes that train one model: each has all weights and its own rows of a batch; gradients are summed.

    with joined_world("auto") as world:            # alone, or one of torchrun's; gloo on CPU, nccl on GPU
        world.sum_gradients(model)

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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypeVar

import torch
import torch.distributed as dist
import torch.distributed.nn  # here: imported later, its functions would keep the group as a default argument
from torch import Tensor, nn

from clew.errors import UserError, report_error

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """This process among all processes of the run."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def sum(self, tensor: Tensor, operation: Any = dist.ReduceOp.SUM) -> Tensor:
        """Return the sum over all processes, on each of them, as a new tensor."""
        if self.size > 1:
            tensor = tensor.to(self.device, copy=True)
            dist.all_reduce(tensor, op=operation)
        return tensor

    def max(self, value: int) -> int:
        return int(self.sum(torch.tensor(value), dist.ReduceOp.MAX))

    def sum_gradients(self, model: nn.Module) -> None:
        """Replace every gradient by its sum over all processes, in one operation; a missing one counts as zero."""
        if self.size > 1:
            parameters = [p for p in model.parameters() if p.requires_grad]
            gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
            flat = self.sum(torch.cat([gradient.flatten() for gradient in gradients]))
            for p, gradient in zip(parameters, torch.split(flat, [p.numel() for p in parameters]), strict=True):
                p.grad = gradient.view_as(p)

    def from_main(self, value: Any) -> Any:
        """Return the main process's value on all of them; plain Python values."""
        held = [value]
        if self.size > 1:
            dist.broadcast_object_list(held, src=0, device=self.device)
        return held[0]

    def on_main(self, work: Callable[[], T]) -> T:
        """Do the work on the main process; return its result, or raise its UserError or OSError, on all of them."""
        answer: tuple[Any, Exception | None] = (None, None)
        try:
            answer = (work() if self.is_main else None, None)
        except (UserError, OSError) as raised:  # the others wait for an answer, so it is sent before it is raised
            answer = (None, raised)
        result, error = self.from_main(answer)
        if error is not None:
            raise error
        done: T = result
        return done

    def wait_for_all(self) -> None:
        if self.size > 1:
            dist.barrier()


@contextmanager
def joined_world(device: Literal["auto", "cpu", "cuda"] = "auto", timeout_hours: float = 4.0) -> Iterator[World]:
    """Join the processes that torchrun has started, or be alone; leave them at the end.

    A process waits `timeout_hours` for the others: they decode different mazes, and one of them makes the dataset.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("there is no CUDA device here; use --device cpu, or auto.")
    on_gpu = device != "cpu" and torch.cuda.is_available()
    rank, size, local_rank = (int(os.environ.get(name, 0)) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    here = torch.device("cuda", local_rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(here)
    if size <= 1:
        yield World(device=here)
        return
    lost = False
    try:
        timeout = timedelta(hours=timeout_hours)
        dist.init_process_group("nccl" if on_gpu else "gloo", rank=rank, world_size=size, timeout=timeout)
        yield World(rank, size, here)
    except UserError:
        if rank:
            sys.exit(1)  # the main process prints it
        raise
    except RuntimeError as error:
        lost = isinstance(error, dist.DistError) or "gloo/transport" in str(error)
        if not lost:
            raise
        traceback.clear_frames(error.__traceback__)  # they refer to tensors of the group
        reason = str(error).splitlines()[0].rpartition(".cc:")[2].rpartition("] ")[2].partition(". ")[0]
        raise UserError(
            f"rank {rank} of {size} has lost another process ({reason}) and stops; the reason is in the messages of "
            "the lost one, and the same command resumes from the last checkpoint."
        ) from None
    finally:
        if dist.is_initialized() and not (lost and on_gpu):  # NCCL would wait for the lost process
            gc.collect()  # gloo's threads end with the last reference; at the interpreter's end they may abort it
            dist.destroy_process_group()


def launch(processes: int, arguments: Sequence[str]) -> int:
    """Run `clew ARGUMENTS` in so many processes of this machine; return the exit code.

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
        return report_error(
            f"rank {rank} of {processes} was ended by {name} (the system does that when memory is short), so the "
            "others were stopped; the same command resumes from the last checkpoint.",
            code=128 - int(failure.exitcode),
        )
    finally:
        logging.disable(logging.NOTSET)
    return 0
