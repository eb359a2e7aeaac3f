"""Recurrent message passing on a CPU: forward and backward kernels for clew.models.cell_network.

    x_MD = recurrent_loops(x_MD, embedding_MD, neighbour_M4, loops_G, size_G, weights)

computes what `plain_loops` in clew.models.cell_network computes, for float32 and float64 tensors. The matrix products
are torch's; numba computes what lies between them in one pass over memory, where plain torch needs a dozen.

Mazes exchange no messages, so a group of mazes runs through all of its loops before the next group starts: its state
stays in the cache, and groups are distributed over threads (kernels and products release the interpreter lock).

Shape suffixes: M cells of all mazes, G mazes, K message steps of a loop, D width, F hidden units, S of them sums,
R rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from clew.jit import njit

NORM_EPS = 1e-5
# Cells of a group of mazes. Larger groups leave the cache; smaller ones spend more time on calls.
GROUP_CELLS = 1300

Array: TypeAlias = np.ndarray
_jit = njit(nogil=True, fastmath=True, error_model="numpy")


class Weights(NamedTuple):
    """Parameters of the message steps; clew.models.cell_network documents them."""

    both_K2FD: Tensor  # of a cell itself, then of its neighbours
    self_bias_KS: Tensor
    side_bias_K4F: Tensor
    out_KDF: Tensor


class _Session(NamedTuple):
    """What groups of mazes share within `threads_for_groups`."""

    threads: int
    # Free blocks of memory. What a thread frees goes back to the system: with two threads, page faults would take a
    # tenth of a training step.
    blocks: list[Tensor]


_session: ContextVar[_Session | None] = ContextVar("_session", default=None)


@contextmanager
def threads_for_groups() -> Iterator[None]:
    """Give torch's threads to the groups of mazes, and one thread to each operation of torch; keep their memory.

    OpenMP's threads spin for some milliseconds after an operation, on the cores that the groups need.
    """
    if _session.get() is not None:
        yield
        return
    threads = torch.get_num_threads()
    token = _session.set(_Session(threads, []))
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _session.reset(token)


def map_groups(function: Callable[[int], Any], count: int) -> list[Any]:
    """Return the function's results for 0 .. count - 1, computed on several threads."""
    threads = min(_threads(), count)
    if threads <= 1:
        return [function(i) for i in range(count)]

    def call(i: int) -> Any:
        with torch.no_grad():  # the mode is per thread
            return function(i)

    return list(_pool(threads).map(call, range(count)))


def _threads() -> int:
    session = _session.get()
    return session.threads if session else torch.get_num_threads()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    # One torch thread in each: the groups are the parallel work.
    return ThreadPoolExecutor(threads, "clew-kernels", initializer=torch.set_num_threads, initargs=(1,))


class _Workspace:
    """Uninitialized tensors of a group, cut from one block of memory."""

    def __init__(self, blocks: list[Tensor], like: Tensor, shapes: Sequence[tuple[int, int]]) -> None:
        size = sum(_aligned(rows * columns) for rows, columns in shapes)
        self._blocks, self.begin = blocks, 0
        try:
            self._block = blocks.pop()
        except IndexError:
            self._block = like.new_empty(size)
        if len(self._block) < size or self._block.dtype != like.dtype:  # a larger block takes its place
            self._block = like.new_empty(size)

    def tensor(self, rows: int, columns: int) -> Tensor:
        begin, self.begin = self.begin, self.begin + _aligned(rows * columns)
        return self._block[begin : begin + rows * columns].view(rows, columns)

    def release(self) -> None:
        """Give the memory to other groups; the tensors must not be used any more."""
        self._blocks.append(self._block)


def _aligned(numbers: int) -> int:
    return -(-numbers // 16) * 16  # every tensor begins on a cache line


def recurrent_loops(
    x_MD: Tensor, embedding_MD: Tensor, neighbour_M4: Tensor, loops_G: list[int], size_G: list[int], weights: Weights
) -> Tensor:
    """Run the loops of each maze; the mazes lie one after another in the rows, the one with the most loops first."""
    assert loops_G == sorted(loops_G, reverse=True)
    keep = torch.is_grad_enabled() and any(t.requires_grad for t in (x_MD, embedding_MD, *weights))
    out_MD: Tensor = _Loops.apply(  # type: ignore[no-untyped-call]
        x_MD, embedding_MD, neighbour_M4, loops_G, size_G, keep, *weights
    )
    return out_MD


class _Loops(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_MD: Tensor,
        embedding_MD: Tensor,
        neighbour_M4: Tensor,
        loops_G: list[int],
        size_G: list[int],
        keep: bool,
        *weights: Tensor,
    ) -> Tensor:
        x_MD = x_MD.clone(memory_format=torch.contiguous_format)
        embedding_MD, session = embedding_MD.contiguous(), _session.get()
        parameters = Weights(*(weight.detach() for weight in weights))
        both_KD2F, out_KFD = parameters.both_K2FD.mT.contiguous(), parameters.out_KDF.mT.contiguous()
        kernels = _message_kernels(out_KFD.shape[1], parameters.self_bias_KS.shape[1])
        groups = [
            _Group(rows, active, neighbour.numpy(), kernels, keep, session.blocks if session else [])
            for rows, active, neighbour in _groups(neighbour_M4.contiguous(), loops_G, size_G)
        ]
        map_groups(lambda i: groups[i].forward(x_MD, embedding_MD, parameters, both_KD2F, out_KFD), len(groups))
        if keep:
            ctx.save_for_backward(*weights)
            ctx.groups = groups
        return x_MD

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        grad_MD = grads[0].clone(memory_format=torch.contiguous_format)
        grad_embedding_MD, weights = torch.zeros_like(grad_MD), Weights(*ctx.saved_tensors)

        def run(i: int) -> tuple[Tensor, ...]:
            group, ctx.groups[i] = ctx.groups[i], None  # memory is freed as soon as it is used
            found: tuple[Tensor, ...] = group.backward(grad_MD, grad_embedding_MD, weights)
            return found

        # Summed in the order of the groups, so that the result does not depend on which thread is first.
        parts = map_groups(run, len(ctx.groups))
        flat = [torch.stack(tensors).sum(0) if len(tensors) > 1 else tensors[0] for tensors in zip(*parts, strict=True)]
        return grad_MD, grad_embedding_MD, None, None, None, None, *flat


def _groups(neighbour_M4: Tensor, loops_G: list[int], size_G: list[int]) -> Iterator[tuple[slice, list[int], Tensor]]:
    """Yield the rows of each group of mazes, its numbers of active rows in each loop, and its neighbours."""
    # Groups fit the cache. Threads get equally many of equal work: mazes differ in loops, so equal numbers of cells
    # would leave all but one of them waiting.
    threads = _threads()
    work_G = [loops * size for loops, size in zip(loops_G, size_G, strict=True)]
    work_limit = sum(work_G) / (threads * -(-sum(size_G) // (threads * GROUP_CELLS))) if threads > 1 else math.inf
    first, row = 0, 0
    while first < len(size_G):
        last, cells, work = first, 0, 0.0
        while last < len(size_G) and (
            last == first or (cells + size_G[last] <= GROUP_CELLS and work + work_G[last] / 2 <= work_limit)
        ):
            cells, work = cells + size_G[last], work + work_G[last]
            last += 1
        ends, loops = np.cumsum(size_G[first:last]), np.asarray(loops_G[first:last])
        active = [int(ends[(loops > loop).sum() - 1]) for loop in range(loops_G[first])]
        local_M4 = neighbour_M4[row : row + cells]
        yield slice(row, row + cells), active, torch.where(local_M4 < 0, local_M4, local_M4 - row)
        first, row = last, row + cells


@dataclass
class _Group:
    """A group of mazes, and what its forward pass keeps for the backward pass."""

    rows: slice
    active: list[int]  # rows in each loop
    neighbour_M4: Array
    kernels: tuple[Callable[..., None], Callable[..., None]]
    keep: bool
    blocks: list[Tensor]
    tape: list[Any] = field(default_factory=list)  # norms and products, in the order of their computation

    def forward(self, x_MD: Tensor, embedding_MD: Tensor, weights: Weights, both_KD2F: Tensor, out_KFD: Tensor) -> None:
        """Update the rows of the group in place."""
        x_MD, embedding_MD = x_MD[self.rows], embedding_MD[self.rows]
        (cells, width), (steps, hidden) = x_MD.shape, out_KFD.shape[:2]
        shapes = [(cells, hidden), (cells, hidden), (cells, 2 * hidden), (cells, width)]  # two passes need these
        for active in self.active if self.keep else [cells]:
            shapes += [(active, width), (active, 1)] * (steps + 1) + [(active, 2 * hidden)] * steps
        self.workspace = _Workspace(self.blocks, x_MD, shapes)
        self.buffers = [self.workspace.tensor(*shape) for shape in shapes[:4]]
        begin = self.workspace.begin

        def normed(x: Tensor) -> Tensor:
            if not self.keep:
                self.workspace.begin = begin  # the same memory again
            norm, scale = self.workspace.tensor(*x.shape), self.workspace.tensor(len(x), 1)[:, 0]
            _norm(x.numpy(), norm.numpy(), scale.numpy())
            self.tape.append((norm, scale))
            return norm

        for active in self.active:
            x, message = x_MD[:active], self.buffers[0][:active]
            torch.add(normed(x), embedding_MD[:active], out=x)
            for k in range(steps):
                norm = normed(x)
                both = self.workspace.tensor(active, 2 * hidden)
                torch.mm(norm, both_KD2F[k], out=both)
                biases = weights.self_bias_KS[k].numpy(), weights.side_bias_K4F[k].numpy()
                self.kernels[0](self.neighbour_M4, both.numpy(), biases, message.numpy())
                x.addmm_(message, out_KFD[k])
                self.tape.append(both)
            if not self.keep:
                self.tape.clear()
        if not self.keep:
            self.workspace.release()

    def backward(self, grad_MD: Tensor, grad_embedding_MD: Tensor, weights: Weights) -> tuple[Tensor, ...]:
        """Replace the gradient of the last state by that of the first in place; return the gradients of the weights."""
        grad_MD, grad_embedding_MD = grad_MD[self.rows], grad_embedding_MD[self.rows]
        grad_both_KD2F = torch.zeros_like(weights.both_K2FD.mT, memory_format=torch.contiguous_format)
        grad_self_bias_KS, grad_side_bias_K4F, grad_out_KDF = (torch.zeros_like(weight) for weight in weights[1:])
        for active in reversed(self.active):
            grad = grad_MD[:active]
            message, grad_message, grad_both, grad_normed = (buffer[:active] for buffer in self.buffers)
            for k in reversed(range(len(grad_out_KDF))):
                both, (norm, scale) = self.tape.pop(), self.tape.pop()
                torch.mm(grad, weights.out_KDF[k], out=grad_message)
                biases = weights.self_bias_KS[k].numpy(), weights.side_bias_K4F[k].numpy()
                grad_biases = grad_self_bias_KS[k].numpy(), grad_side_bias_K4F[k].numpy()
                arrays = (tensor.numpy() for tensor in (grad_message, message, grad_both))
                self.kernels[1](self.neighbour_M4, both.numpy(), biases, *arrays, grad_biases)
                grad_out_KDF[k].addmm_(grad.T, message)
                grad_both_KD2F[k].addmm_(norm.T, grad_both)
                torch.mm(grad_both, weights.both_K2FD[k], out=grad_normed)
                _add_norm_backward(norm.numpy(), scale.numpy(), grad_normed.numpy(), grad.numpy())
            grad_embedding_MD[:active] += grad
            norm, scale = self.tape.pop()
            grad_normed.copy_(grad)
            _add_norm_backward(norm.numpy(), scale.numpy(), grad_normed.numpy(), grad.zero_().numpy())
        self.workspace.release()
        return grad_both_KD2F.mT, grad_self_bias_KS, grad_side_bias_K4F, grad_out_KDF


@_jit
def _norm(x_RD: Array, normed_RD: Array, scale_R: Array) -> None:
    """Compute the RMS norm without weights; `scale` is the factor of each row."""
    rows, width = x_RD.shape
    number = x_RD.dtype.type
    for r in range(rows):
        squares = number(0)
        for d in range(width):
            squares += x_RD[r, d] * x_RD[r, d]
        scale_R[r] = scale = number(1) / np.sqrt(squares / number(width) + number(NORM_EPS))
        for d in range(width):
            normed_RD[r, d] = x_RD[r, d] * scale


@_jit
def _add_norm_backward(normed_RD: Array, scale_R: Array, grad_RD: Array, grad_x_RD: Array) -> None:
    """Add the gradient through the norm."""
    rows, width = normed_RD.shape
    for r in range(rows):
        along = normed_RD.dtype.type(0)
        for d in range(width):
            along += grad_RD[r, d] * normed_RD[r, d]
        along /= normed_RD.dtype.type(width)
        scale = scale_R[r]
        for d in range(width):
            grad_x_RD[r, d] += scale * (grad_RD[r, d] - along * normed_RD[r, d])


@cache
def _message_kernels(hidden: int, sums: int) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return the kernels of the message of every cell and its gradient for these numbers of hidden and sum units.

    Constants known at compile time let the compiler vectorize without remainders.
    """

    @_jit
    def message(neighbour_M4: Array, both_M2F: Array, biases: tuple[Array, Array], out_MF: Array) -> None:
        number = out_MF.dtype.type
        highest = np.empty(hidden, out_MF.dtype)
        for i in range(len(out_MF)):
            out = out_MF[i]
            _one_message(neighbour_M4[i], both_M2F[i], both_M2F, biases, highest, out)
            squares = number(0)
            for f in range(hidden):
                squares += out[f] * out[f]
            scale = number(1) / np.sqrt(squares / number(hidden) + number(1))
            for f in range(hidden):
                out[f] *= scale

    @_jit
    def _one_message(
        neighbour_4: Array, own: Array, both_M2F: Array, biases: tuple[Array, Array], highest: Array, out: Array
    ) -> None:
        """Compute the message before its norm, and the maxima of max units."""
        self_bias_S, side_bias_4F = biases
        number = out.dtype.type
        zero = number(0)
        for f in range(sums):
            v = max(own[f] + self_bias_S[f], zero)
            out[f] = v * v
        for f in range(sums, hidden):
            highest[f] = number(-1e30)
        for s in range(4):
            j = neighbour_4[s]
            if j >= 0:
                for f in range(sums):
                    v = max(own[f] + both_M2F[j, hidden + f] + side_bias_4F[s, f], zero)
                    out[f] += v * v
                for f in range(sums, hidden):
                    highest[f] = max(highest[f], both_M2F[j, hidden + f] + side_bias_4F[s, f])
        for f in range(sums, hidden):
            v = max(own[f] + highest[f], zero)
            out[f] = v * v

    @_jit
    def message_backward(
        neighbour_M4: Array,
        both_M2F: Array,
        biases: tuple[Array, Array],
        grad_MF: Array,
        out_MF: Array,
        grad_both_M2F: Array,
        grad_biases: tuple[Array, Array],
    ) -> None:
        (self_bias_S, side_bias_4F), (grad_self_bias_S, grad_side_bias_4F) = biases, grad_biases
        number = out_MF.dtype.type
        zero, two = number(0), number(2)
        highest, grad_message = np.empty(hidden, out_MF.dtype), np.empty(hidden, out_MF.dtype)
        for i in range(len(out_MF)):
            for f in range(hidden):
                grad_both_M2F[i, hidden + f] = zero
        for i in range(len(out_MF)):
            own, out, grad, grad_own = both_M2F[i], out_MF[i], grad_MF[i], grad_both_M2F[i]
            _one_message(neighbour_M4[i], own, both_M2F, biases, highest, out)
            squares, along = zero, zero
            for f in range(hidden):
                squares += out[f] * out[f]
                along += out[f] * grad[f]
            scale = number(1) / np.sqrt(squares / number(hidden) + number(1))
            along *= scale * scale / number(hidden)
            for f in range(sums):
                grad_message[f] = two * scale * (grad[f] - along * out[f])
                grad_own[f] = max(own[f] + self_bias_S[f], zero) * grad_message[f]
                grad_self_bias_S[f] += grad_own[f]
                out[f] *= scale
            for f in range(sums, hidden):
                # Twice the root of the message is the derivative of the square.
                grad_message[f] = two * np.sqrt(out[f]) * scale * (grad[f] - along * out[f])
                grad_own[f] = grad_message[f]
                out[f] *= scale
            for s in range(4):
                j = neighbour_M4[i, s]
                if j >= 0:
                    for f in range(sums):
                        v = max(own[f] + both_M2F[j, hidden + f] + side_bias_4F[s, f], zero) * grad_message[f]
                        grad_own[f] += v
                        grad_both_M2F[j, hidden + f] += v
                        grad_side_bias_4F[s, f] += v
                    for f in range(sums, hidden):
                        v = grad_message[f] if both_M2F[j, hidden + f] + side_bias_4F[s, f] >= highest[f] else zero
                        grad_both_M2F[j, hidden + f] += v
                        grad_side_bias_4F[s, f] += v

    return message, message_backward
