"""Passage mixing: one step of talk between a cell and its open neighbours, with a backward pass written by hand.

    step = PassageStep(width=64, expansion=2)
    x_BND = step(x_BND, cells_BHW)                # cells_BHW holds the open sides, as in clew.mazes.maze

For a cell i with normed vector n_i, and N(i) the neighbours that it is open to:

    x_i + think( sum over j in N(i) of relu(own n_i + hear n_j)^2 )

Every side has the same ears, so what is learnt of a passage to the north is known of one to the east, and the step is
the same for a maze that is turned or mirrored. The two maps `own` and `hear` are one product over the cells; what is
left is a sum over passages, which numba does in one walk over memory. In plain torch (`plain_mixing`, for GPUs,
autocast and the tests) that sum takes a dozen walks, and most of a step's time. The norm is numba's too: torch's is
made for wider vectors, and takes five times as long.

Shape suffixes: B mazes, N cells, D width, F hidden width.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clew.mazes.maze import EAST, NORTH, SOUTH, WEST
from clew.models.grid_layers import NORM_EPS, norm

SIDES = (NORTH, SOUTH, WEST, EAST)


class PassageStep(nn.Module):
    """See the module's docstring. Begins as the identity."""

    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        self.own_and_hear = nn.Linear(width, 2 * expansion * width, bias=False)
        self.think = nn.Linear(expansion * width, width, bias=False)
        nn.init.zeros_(self.think.weight)

    def forward(self, x_BND: Tensor, cells_BHW: Tensor) -> Tensor:
        if torch.is_autocast_enabled(x_BND.device.type) or x_BND.device.type != "cpu":
            return plain_passage_step(x_BND, cells_BHW, self.own_and_hear.weight, self.think.weight)
        out_BND: Tensor = PassageStepFunction.apply(  # type: ignore[no-untyped-call]
            x_BND, cells_BHW, self.own_and_hear.weight, self.think.weight
        )
        return out_BND


def plain_passage_step(x_BND: Tensor, cells_BHW: Tensor, own_and_hear: Tensor, think_DF: Tensor) -> Tensor:
    """What PassageStepFunction computes, as a reader would write it."""
    own_BNF, hear_BNF = F.linear(norm(x_BND), own_and_hear).chunk(2, dim=-1)
    return x_BND + F.linear(plain_mixing(own_BNF, hear_BNF, cells_BHW), think_DF)


def plain_mixing(own_BNF: Tensor, hear_BNF: Tensor, cells_BHW: Tensor) -> Tensor:
    """The sum over open neighbours, in plain torch.

    Cells lie row after row, so the neighbour to a side is the same array moved by a cell or a row; what wraps around
    an edge is masked, since no border cell is open to the outside.
    """
    width = cells_BHW.shape[2]
    cells_BN1 = cells_BHW.flatten(1)[..., None]
    mixed_BNF = torch.zeros_like(own_BNF)
    for side, move in zip(SIDES, (-width, width, -1, 1), strict=True):
        open_BN1 = (cells_BN1 & side) != 0
        mixed_BNF = mixed_BNF + F.relu(own_BNF + hear_BNF.roll(-move, 1)).square() * open_BN1
    return mixed_BNF


class PassageStepFunction(torch.autograd.Function):
    """One passage step on a CPU; keeps the normed input and one product, and makes the rest again on the way back."""

    @staticmethod
    def forward(ctx: Any, x_BND: Tensor, cells_BHW: Tensor, own_and_hear: Tensor, think_DF: Tensor) -> Tensor:
        d = x_BND.shape[-1]
        normed_BND, scale_BN = x_BND.new_empty(x_BND.shape), x_BND.new_empty(x_BND.shape[:2])
        over_mazes(_norm, x_BND, normed_BND, scale_BN)
        both_BN2F = normed_BND @ own_and_hear.T
        mixed_BNF = both_BN2F.new_empty(*both_BN2F.shape[:2], both_BN2F.shape[2] // 2)
        over_mazes(_mix, cells_BHW, both_BN2F, mixed_BNF)
        ctx.save_for_backward(normed_BND, scale_BN, cells_BHW, own_and_hear, think_DF, both_BN2F)
        return torch.addmm(x_BND.reshape(-1, d), mixed_BNF.flatten(0, 1), think_DF.T).view_as(x_BND)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        normed_BND, scale_BN, cells_BHW, own_and_hear, think_DF, both_BN2F = ctx.saved_tensors
        d = normed_BND.shape[-1]
        grad_BND = grads[0].contiguous()
        grad_mixed = grad_BND @ think_DF
        mixed, grad_both = torch.empty_like(grad_mixed), torch.empty_like(both_BN2F)
        over_mazes(_mix_back, cells_BHW, both_BN2F, grad_mixed, mixed, grad_both)
        grad_think = grad_BND.view(-1, d).T @ mixed.flatten(0, 1)
        grad_maps = grad_both.flatten(0, 1).T @ normed_BND.view(-1, d)
        grad_x_BND = torch.empty_like(grad_BND)
        over_mazes(_norm_back, normed_BND, scale_BN, grad_both @ own_and_hear, grad_BND, grad_x_BND)
        return grad_x_BND, None, grad_maps, grad_think


def over_mazes(kernel: Callable[..., None], *arrays: Tensor) -> None:
    """Run a kernel on all mazes, shared out over as many threads as torch uses.

    What it writes to must be contiguous: of anything else it gets a copy.
    """
    parts = [array.detach().contiguous().numpy() for array in arrays]
    count, threads = len(arrays[0]), torch.get_num_threads()
    if threads == 1 or count == 1:
        kernel(*parts)
        return
    bounds = [count * i // threads for i in range(threads + 1)]
    pieces = [[part[a:b] for part in parts] for a, b in pairwise(bounds)]
    # The kernels let go of the interpreter's lock; numba's own threads would not live beside torch's.
    others = [_pool(threads - 1).submit(kernel, *piece) for piece in pieces[1:]]
    kernel(*pieces[0])
    for other in others:
        other.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="clew-passages")


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _norm(x_BND: np.ndarray, normed_BND: np.ndarray, scale_BN: np.ndarray) -> None:
    """Layer norm without weights; `scale` is what a cell's vector, less its mean, is multiplied with."""
    mazes, count, width = x_BND.shape
    number = x_BND.dtype.type
    for b in range(mazes):
        for i in range(count):
            x, normed = x_BND[b, i], normed_BND[b, i]
            total, squares = number(0), number(0)
            for d in range(width):
                total += x[d]
            mean = total / number(width)
            for d in range(width):
                squares += (x[d] - mean) * (x[d] - mean)
            scale = number(1) / np.sqrt(squares / number(width) + number(NORM_EPS))
            for d in range(width):
                normed[d] = (x[d] - mean) * scale
            scale_BN[b, i] = scale


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _norm_back(
    normed_BND: np.ndarray, scale_BN: np.ndarray, grad_BND: np.ndarray, around_BND: np.ndarray, grad_x_BND: np.ndarray
) -> None:
    """The gradient that comes back through the norm, and `around`, the one that went around it."""
    mazes, count, width = normed_BND.shape
    number = normed_BND.dtype.type
    for b in range(mazes):
        for i in range(count):
            normed, grad, around, grad_x = normed_BND[b, i], grad_BND[b, i], around_BND[b, i], grad_x_BND[b, i]
            total, along = number(0), number(0)
            for d in range(width):
                total += grad[d]
                along += grad[d] * normed[d]
            total /= number(width)
            along /= number(width)
            scale = scale_BN[b, i]
            for d in range(width):
                grad_x[d] = around[d] + scale * (grad[d] - total - along * normed[d])


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _mix(cells_BHW: np.ndarray, both_BN2F: np.ndarray, mixed_BNF: np.ndarray) -> None:
    mazes, height, width = cells_BHW.shape
    count = height * width
    cells_BN = cells_BHW.reshape(mazes, count)
    half = mixed_BNF.shape[2]
    zero = both_BN2F.dtype.type(0)
    for b in range(mazes):
        for i in range(count):
            mixed, own = mixed_BNF[b, i], both_BN2F[b, i, :half]
            mixed[:] = zero
            for side, move in ((NORTH, -width), (SOUTH, width), (WEST, -1), (EAST, 1)):
                if cells_BN[b, i] & side:
                    hear = both_BN2F[b, i + move, half:]
                    for f in range(half):
                        s = max(own[f] + hear[f], zero)
                        mixed[f] += s * s


@numba.njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _mix_back(
    cells_BHW: np.ndarray,
    both_BN2F: np.ndarray,
    grad_BNF: np.ndarray,
    mixed_BNF: np.ndarray,
    grad_both_BN2F: np.ndarray,
) -> None:
    mazes, height, width = cells_BHW.shape
    count = height * width
    cells_BN = cells_BHW.reshape(mazes, count)
    half = mixed_BNF.shape[2]
    zero = both_BN2F.dtype.type(0)
    for b in range(mazes):
        grad_both_BN2F[b, :, half:] = zero
        for i in range(count):
            mixed, own, grad = mixed_BNF[b, i], both_BN2F[b, i, :half], grad_BNF[b, i]
            grad_own = grad_both_BN2F[b, i, :half]
            mixed[:] = zero
            grad_own[:] = zero
            for side, move in ((NORTH, -width), (SOUTH, width), (WEST, -1), (EAST, 1)):
                if cells_BN[b, i] & side:
                    hear, grad_hear = both_BN2F[b, i + move, half:], grad_both_BN2F[b, i + move, half:]
                    for f in range(half):
                        s = max(own[f] + hear[f], zero)
                        mixed[f] += s * s
                        d = (s + s) * grad[f]
                        grad_own[f] += d
                        grad_hear[f] += d
