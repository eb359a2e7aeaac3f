"""Recurrent message passing on a CPU: forward and backward kernels for clew.models.cell_network.

    x_MD = recurrent_loops(x_MD, embedding_MD, neighbour_M4, loops_G, size_G, steps, sum_units)

computes what `plain_loops` in clew.models.cell_network computes, for float32 and float64 tensors. The matrix products
are torch's; numba computes what lies between them in one pass over memory, where plain torch needs a dozen.

Mazes exchange no messages, so a group of mazes runs through all of its loops before the next group starts: its state
stays in the cache, and groups are distributed over threads (kernels and products release the interpreter lock).

Shape suffixes: M cells of all mazes, G mazes, D width, F hidden units, R rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from clew.jit import njit

NORM_EPS = 1e-5
# Cells of a group of mazes. Larger groups leave the cache; smaller ones spend more time on calls.
GROUP_CELLS = 1300
# The threads of the groups, and their memory, within `threads_for_groups`, in the thread that entered it.
_group_threads: ContextVar[int | None] = ContextVar("_group_threads", default=None)
_memory: ContextVar[_Memory | None] = ContextVar("_memory", default=None)

_jit = njit(nogil=True, fastmath=True, error_model="numpy")


@contextmanager
def threads_for_groups() -> Iterator[None]:
    """Give torch's threads to the groups of mazes, and one thread to each operation of torch; keep their memory.

    OpenMP's threads spin for some milliseconds after an operation, on the cores that the groups need.
    """
    if _group_threads.get() is not None:
        yield
        return
    threads = torch.get_num_threads()
    threads_token, memory_token = _group_threads.set(threads), _memory.set(_Memory())
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _group_threads.reset(threads_token)
        _memory.reset(memory_token)


class _Memory:
    """Blocks of memory that groups use one after another.

    What a thread frees goes back to the system: with two threads, page faults would take a tenth of a training step.
    """

    def __init__(self) -> None:
        self._free: list[Tensor] = []
        self._lock = Lock()

    def take(self, like: Tensor, size: int) -> Tensor:
        """Return a block of at least `size` numbers of the type of `like`."""
        with self._lock:
            known = [i for i, block in enumerate(self._free) if block.dtype == like.dtype]
            fitting = [i for i in known if len(self._free[i]) >= size]
            if fitting:
                return self._free.pop(min(fitting, key=lambda i: len(self._free[i])))
            if known:  # a larger block takes its place
                del self._free[known[0]]
        return like.new_empty(size)

    def give(self, block: Tensor) -> None:
        with self._lock:
            self._free.append(block)


class _Workspace:
    """Uninitialized tensors of a group, cut from one block of memory."""

    def __init__(self, memory: _Memory | None, like: Tensor, shapes: Sequence[tuple[int, int]]) -> None:
        size = sum(map(self._padded, shapes))
        self._memory, self._begin = memory, 0
        self._block = like.new_empty(size) if memory is None else memory.take(like, size)

    @staticmethod
    def _padded(shape: tuple[int, int]) -> int:
        return -(-shape[0] * shape[1] // 16) * 16  # every tensor begins on a cache line

    def tensor(self, rows: int, columns: int) -> Tensor:
        begin, self._begin = self._begin, self._begin + self._padded((rows, columns))
        return self._block[begin : begin + rows * columns].view(rows, columns)

    def release(self) -> None:
        """Give the memory to other groups; the tensors must not be used any more."""
        if self._memory is not None:
            self._memory.give(self._block)


class StepWeights(NamedTuple):
    """Parameters of a message step; clew.models.cell_network documents them."""

    self_FD: Tensor
    neighbour_FD: Tensor
    self_bias_S: Tensor
    side_bias_4F: Tensor
    out_DF: Tensor


def recurrent_loops(
    x_MD: Tensor,
    embedding_MD: Tensor,
    neighbour_M4: Tensor,
    loops_G: Sequence[int],
    size_G: Sequence[int],
    steps: Sequence[StepWeights],
    sum_units: int,
) -> Tensor:
    """Run the loops of each maze; the mazes lie one after another in the rows, the one with the most loops first."""
    assert list(loops_G) == sorted(loops_G, reverse=True)
    flat = [tensor for step in steps for tensor in step]
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in (x_MD, embedding_MD, *flat))
    out_MD: Tensor = _Loops.apply(  # type: ignore[no-untyped-call]
        x_MD, embedding_MD, neighbour_M4, list(loops_G), list(size_G), sum_units, keep, *flat
    )
    return out_MD


class _Group(NamedTuple):
    """A group of mazes: its rows, the number of rows that are active in each loop, and its neighbour indices."""

    rows: slice
    active: list[int]
    neighbour_M4: Tensor


class _Saved(NamedTuple):
    """What the forward pass of a group keeps for the backward pass."""

    loop_norms: list[tuple[Tensor, Tensor]]
    step_norms: list[tuple[Tensor, Tensor]]
    products: list[Tensor]
    workspace: _Workspace


def _groups(neighbour_M4: Tensor, loops_G: list[int], size_G: list[int]) -> list[_Group]:
    # Groups fit the cache. Threads get equally many of equal work: mazes differ in loops, so equal numbers of cells
    # would leave all but one of them waiting.
    threads = group_threads()
    work_G = [loops * size for loops, size in zip(loops_G, size_G, strict=True)]
    work_limit = sum(work_G) / (threads * -(-sum(size_G) // (threads * GROUP_CELLS))) if threads > 1 else math.inf
    groups, first, row = [], 0, 0
    while first < len(size_G):
        last, cells, work = first, 0, 0.0
        while last < len(size_G) and (
            last == first or (cells + size_G[last] <= GROUP_CELLS and work + work_G[last] / 2 <= work_limit)
        ):
            cells, work = cells + size_G[last], work + work_G[last]
            last += 1
        ends = np.cumsum(size_G[first:last])
        loops = np.asarray(loops_G[first:last])
        active = [int(ends[(loops > loop).sum() - 1]) for loop in range(loops_G[first])]
        local_M4 = neighbour_M4[row : row + cells]
        groups.append(_Group(slice(row, row + cells), active, torch.where(local_M4 < 0, local_M4, local_M4 - row)))
        first, row = last, row + cells
    return groups


def group_threads() -> int:
    """Return how many threads groups of mazes are distributed over."""
    return _group_threads.get() or torch.get_num_threads()


def map_groups(function: Callable[[int], Any], count: int) -> list[Any]:
    """Return the function's results for 0 .. count - 1, computed on several threads."""
    threads = min(group_threads(), count)
    if threads <= 1:
        return [function(i) for i in range(count)]

    def call(i: int) -> Any:
        with torch.no_grad():  # the mode is per thread
            return function(i)

    return list(_pool(threads).map(call, range(count)))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    # One torch thread in each: the groups are the parallel work.
    return ThreadPoolExecutor(threads, "clew-kernels", initializer=torch.set_num_threads, initargs=(1,))


class _Loops(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_MD: Tensor,
        embedding_MD: Tensor,
        neighbour_M4: Tensor,
        loops_G: list[int],
        size_G: list[int],
        sum_units: int,
        keep: bool,
        *flat: Tensor,
    ) -> Tensor:
        x_MD = x_MD.clone(memory_format=torch.contiguous_format)
        embedding_MD = embedding_MD.contiguous()
        groups = _groups(neighbour_M4.contiguous(), loops_G, size_G)
        steps, memory = _steps([tensor.detach() for tensor in flat]), _memory.get()

        def run(i: int) -> _Saved:
            return _forward_group(x_MD, embedding_MD, groups[i], steps, sum_units, keep, memory)

        saved = map_groups(run, len(groups))
        if keep:
            ctx.save_for_backward(*flat)
            ctx.groups, ctx.saved, ctx.sum_units, ctx.memory = groups, saved, sum_units, memory
        return x_MD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        steps = _steps(ctx.saved_tensors)
        grad_MD = grads[0].clone(memory_format=torch.contiguous_format)
        grad_embedding_MD = torch.zeros_like(grad_MD)

        def run(i: int) -> list[Tensor]:
            saved, ctx.saved[i] = ctx.saved[i], None  # memory is freed as soon as it is used
            return _backward_group(grad_MD, grad_embedding_MD, ctx.groups[i], saved, steps, ctx.sum_units, ctx.memory)

        # Summed in the order of the groups, so that the result does not depend on which thread is first.
        parts = map_groups(run, len(ctx.groups))
        flat = [torch.stack(tensors).sum(0) if len(tensors) > 1 else tensors[0] for tensors in zip(*parts, strict=True)]
        return grad_MD, grad_embedding_MD, None, None, None, None, None, *flat


def _steps(flat: Sequence[Tensor]) -> list[StepWeights]:
    return [StepWeights(*flat[i : i + 5]) for i in range(0, len(flat), 5)]


def _forward_group(
    x_MD: Tensor,
    embedding_MD: Tensor,
    group: _Group,
    steps: list[StepWeights],
    sum_units: int,
    keep: bool,
    memory: _Memory | None,
) -> _Saved:
    """Update the rows of a group in place."""
    x_MD, embedding_MD = x_MD[group.rows], embedding_MD[group.rows]
    cells, width = x_MD.shape
    hidden = steps[0].out_DF.shape[1]
    norms = len(steps) + 1 if keep else 1
    products = len(steps) if keep else 1
    shapes = [(cells, hidden)]
    for active in group.active if keep else [cells]:
        shapes += [(active, width), (active, 1)] * norms + [(active, 2 * hidden)] * products
    workspace = _Workspace(memory, x_MD, shapes)

    def empty_norm(rows: int) -> tuple[Tensor, Tensor]:
        return workspace.tensor(rows, width), workspace.tensor(rows, 1)[:, 0]

    message_MF = workspace.tensor(cells, hidden)
    weights = [
        (
            torch.cat([s.self_FD, s.neighbour_FD]).T.contiguous(),
            _copied(s.self_bias_S),
            _copied(s.side_bias_4F),
            s.out_DF.T.contiguous(),
        )
        for s in steps
    ]
    forward, _ = _message_kernels(hidden, sum_units)
    neighbour = group.neighbour_M4.numpy()
    saved = _Saved([], [], [], workspace)
    if not keep:
        norm, product = empty_norm(cells), workspace.tensor(cells, 2 * hidden)
    for active in group.active:
        x, message = x_MD[:active], message_MF[:active]
        normed, scale = empty_norm(active) if keep else (norm[0][:active], norm[1][:active])
        _add_norm(x.numpy(), embedding_MD.numpy(), normed.numpy(), scale.numpy())
        if keep:
            saved.loop_norms.append((normed, scale))
        for both_D2F, self_bias, side_bias, out_FD in weights:
            normed, scale = empty_norm(active) if keep else (norm[0][:active], norm[1][:active])
            _norm(x.numpy(), normed.numpy(), scale.numpy())
            both = workspace.tensor(active, 2 * hidden) if keep else product[:active]
            torch.mm(normed, both_D2F, out=both)
            forward(neighbour, both.numpy(), self_bias, side_bias, message.numpy())
            x.addmm_(message, out_FD)
            if keep:
                saved.step_norms.append((normed, scale))
                saved.products.append(both)
    if not keep:
        workspace.release()
    return saved


def _backward_group(
    grad_MD: Tensor,
    grad_embedding_MD: Tensor,
    group: _Group,
    saved: _Saved,
    steps: list[StepWeights],
    sum_units: int,
    memory: _Memory | None,
) -> list[Tensor]:
    """Replace the gradient of the last state by that of the first in place; return the gradients of the weights."""
    grad_MD, grad_embedding_MD = grad_MD[group.rows], grad_embedding_MD[group.rows]
    cells, width = grad_MD.shape
    hidden = steps[0].out_DF.shape[1]
    shapes = [(cells, hidden), (cells, hidden), (cells, 2 * hidden), (cells, width)]
    workspace = _Workspace(memory, grad_MD, shapes)
    grad_message_MF, message_MF, grad_both_M2F, grad_normed_MD = (workspace.tensor(*shape) for shape in shapes)
    both_2FD = [torch.cat([s.self_FD, s.neighbour_FD]) for s in steps]
    grad_both_D2F = [grad_MD.new_zeros(width, 2 * hidden) for _ in steps]
    grad_self_bias = [torch.zeros_like(s.self_bias_S) for s in steps]
    grad_side_bias = [torch.zeros_like(s.side_bias_4F) for s in steps]
    grad_out = [torch.zeros_like(s.out_DF) for s in steps]
    biases = [(_copied(s.self_bias_S), _copied(s.side_bias_4F)) for s in steps]
    _, backward = _message_kernels(hidden, sum_units)
    neighbour = group.neighbour_M4.numpy()
    for active in reversed(group.active):
        grad, grad_message, message = grad_MD[:active], grad_message_MF[:active], message_MF[:active]
        grad_both, grad_normed = grad_both_M2F[:active], grad_normed_MD[:active]
        for k in reversed(range(len(steps))):
            both, (normed, scale) = saved.products.pop(), saved.step_norms.pop()
            torch.mm(grad, steps[k].out_DF, out=grad_message)
            backward(
                neighbour,
                both.numpy(),
                *biases[k],
                grad_message.numpy(),
                message.numpy(),
                grad_both.numpy(),
                grad_self_bias[k].numpy(),
                grad_side_bias[k].numpy(),
            )
            grad_out[k].addmm_(grad.T, message)
            grad_both_D2F[k].addmm_(normed.T, grad_both)
            torch.mm(grad_both, both_2FD[k], out=grad_normed)
            _norm_backward(normed.numpy(), scale.numpy(), grad_normed.numpy(), grad.numpy(), 1.0)
        grad_embedding_MD[:active] += grad
        normed, scale = saved.loop_norms.pop()
        grad_normed.copy_(grad)
        _norm_backward(normed.numpy(), scale.numpy(), grad_normed.numpy(), grad.numpy(), 0.0)
    workspace.release()
    saved.workspace.release()
    flat: list[Tensor] = []
    for k in range(len(steps)):
        grad_self_FD, grad_neighbour_FD = grad_both_D2F[k].T.chunk(2)
        flat += [grad_self_FD, grad_neighbour_FD, grad_self_bias[k], grad_side_bias[k], grad_out[k]]
    return flat


def _copied(weight: Tensor) -> np.ndarray:
    """Return a copy of a parameter: FSDP cannot free memory that a numpy array references."""
    copied: np.ndarray = weight.clone().numpy()
    return copied


@_jit
def _norm(x_RD: np.ndarray, normed_RD: np.ndarray, scale_R: np.ndarray) -> None:
    """Compute the RMS norm without weights; `scale` is the factor of each row."""
    rows, width = x_RD.shape
    number = x_RD.dtype.type
    for r in range(rows):
        squares = number(0)
        for d in range(width):
            squares += x_RD[r, d] * x_RD[r, d]
        scale = number(1) / np.sqrt(squares / number(width) + number(NORM_EPS))
        for d in range(width):
            normed_RD[r, d] = x_RD[r, d] * scale
        scale_R[r] = scale


@_jit
def _add_norm(x_RD: np.ndarray, embedding_RD: np.ndarray, normed_RD: np.ndarray, scale_R: np.ndarray) -> None:
    """Set x = norm(x) + embedding."""
    _norm(x_RD, normed_RD, scale_R)
    rows, width = x_RD.shape
    for r in range(rows):
        for d in range(width):
            x_RD[r, d] = normed_RD[r, d] + embedding_RD[r, d]


@_jit
def _norm_backward(
    normed_RD: np.ndarray, scale_R: np.ndarray, grad_RD: np.ndarray, grad_x_RD: np.ndarray, keep: float
) -> None:
    """Set grad_x = keep * grad_x + the gradient through the norm."""
    rows, width = normed_RD.shape
    number = normed_RD.dtype.type
    keep_ = number(keep)
    for r in range(rows):
        along = number(0)
        for d in range(width):
            along += grad_RD[r, d] * normed_RD[r, d]
        along /= number(width)
        scale = scale_R[r]
        for d in range(width):
            grad_x_RD[r, d] = keep_ * grad_x_RD[r, d] + scale * (grad_RD[r, d] - along * normed_RD[r, d])


@cache
def _message_kernels(hidden: int, sums: int) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return the kernels of the message of every cell and its gradient for these numbers of hidden and sum units.

    Constants known at compile time let the compiler vectorize without remainders.
    """

    @_jit
    def message(
        neighbour_M4: np.ndarray,
        both_M2F: np.ndarray,
        self_bias_S: np.ndarray,
        side_bias_4F: np.ndarray,
        out_MF: np.ndarray,
    ) -> None:
        cells = out_MF.shape[0]
        number = out_MF.dtype.type
        for i in range(cells):
            center, out = both_M2F[i, :hidden], out_MF[i]
            _one_message(neighbour_M4[i], center, both_M2F, self_bias_S, side_bias_4F, out)
            squares = number(0)
            for f in range(hidden):
                squares += out[f] * out[f]
            scale = number(1) / np.sqrt(squares / number(hidden) + number(1))
            for f in range(hidden):
                out[f] *= scale

    @_jit
    def _one_message(
        neighbour_4: np.ndarray,
        center: np.ndarray,
        both_M2F: np.ndarray,
        self_bias_S: np.ndarray,
        side_bias_4F: np.ndarray,
        out: np.ndarray,
    ) -> None:
        """Compute the message before its norm; `out` holds the maxima of max units until the last loop."""
        number = out.dtype.type
        zero = number(0)
        for f in range(sums):
            v = max(center[f] + self_bias_S[f], zero)
            out[f] = v * v
        for f in range(sums, hidden):
            out[f] = number(-1e30)
        for s in range(4):
            j = neighbour_4[s]
            if j >= 0:
                for f in range(sums):
                    v = max(center[f] + both_M2F[j, hidden + f] + side_bias_4F[s, f], zero)
                    out[f] += v * v
                for f in range(sums, hidden):
                    out[f] = max(out[f], both_M2F[j, hidden + f] + side_bias_4F[s, f])
        for f in range(sums, hidden):
            v = max(center[f] + out[f], zero)
            out[f] = v * v

    @_jit
    def message_backward(
        neighbour_M4: np.ndarray,
        both_M2F: np.ndarray,
        self_bias_S: np.ndarray,
        side_bias_4F: np.ndarray,
        grad_MF: np.ndarray,
        out_MF: np.ndarray,
        grad_both_M2F: np.ndarray,
        grad_self_bias_S: np.ndarray,
        grad_side_bias_4F: np.ndarray,
    ) -> None:
        cells = out_MF.shape[0]
        number = out_MF.dtype.type
        zero, two = number(0), number(2)
        maximum = np.empty(hidden, out_MF.dtype)
        grad_message = np.empty(hidden, out_MF.dtype)
        for i in range(cells):
            for f in range(hidden):
                grad_both_M2F[i, hidden + f] = zero
        for i in range(cells):
            center, out, grad, grad_center = both_M2F[i, :hidden], out_MF[i], grad_MF[i], grad_both_M2F[i, :hidden]
            _one_message(neighbour_M4[i], center, both_M2F, self_bias_S, side_bias_4F, out)
            squares, along = zero, zero
            for f in range(hidden):
                squares += out[f] * out[f]
                along += out[f] * grad[f]
            scale = number(1) / np.sqrt(squares / number(hidden) + number(1))
            along *= scale * scale / number(hidden)
            for f in range(hidden):
                # Twice the root of the message is the derivative of the square.
                grad_message[f] = two * np.sqrt(out[f]) * scale * (grad[f] - along * out[f])
                out[f] *= scale
            for f in range(sums):
                v = max(center[f] + self_bias_S[f], zero)
                # The root above was that of the sum; here each term has its own derivative.
                grad_message[f] = two * scale * (grad[f] - along * out[f] / scale)
                grad_center[f] = v * grad_message[f]
                grad_self_bias_S[f] += grad_center[f]
            for f in range(sums, hidden):
                grad_center[f] = grad_message[f]
                maximum[f] = number(-1e30)
            for s in range(4):
                j = neighbour_M4[i, s]
                if j >= 0:
                    for f in range(sums):
                        v = max(center[f] + both_M2F[j, hidden + f] + side_bias_4F[s, f], zero) * grad_message[f]
                        grad_center[f] += v
                        grad_both_M2F[j, hidden + f] += v
                        grad_side_bias_4F[s, f] += v
                    for f in range(sums, hidden):
                        maximum[f] = max(maximum[f], both_M2F[j, hidden + f] + side_bias_4F[s, f])
            for s in range(4):
                j = neighbour_M4[i, s]
                if j >= 0:
                    for f in range(sums, hidden):
                        v = grad_message[f] if both_M2F[j, hidden + f] + side_bias_4F[s, f] >= maximum[f] else zero
                        grad_both_M2F[j, hidden + f] += v
                        grad_side_bias_4F[s, f] += v

    return message, message_backward
