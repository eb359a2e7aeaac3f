"""Attention of short packed sequences on a CPU: forward and backward kernels for clew.models.blocks.

    segments = Segments(query_start, key_start, visible_N, cos_NP, sin_NP, cos_MP, sin_MP)
    mixed_ND = packed_attention(segments, heads, query_key_value_NX)               # self-attention
    mixed_ND = packed_attention(segments, heads, query_ND, key_value_MX)           # cross-attention

computes RoPE, the scores, the softmax and the weighted sum of the values, for float32 and float64 tensors. The rows of
all sequences lie one after another without padding: sequence b has the queries `query_start[b] : query_start[b + 1]`
and the keys `key_start[b] : key_start[b + 1]`. A query attends to the first `visible_N` keys of its sequence, at least
one. The backward pass computes the weights again from the logarithm of each query's sum.

Everything of one head of one sequence stays in the first cache; threads take different sequences. The matrix products
are made of `_add_product`, a tile whose sums stay in registers; what loops of numba compile to is a third as fast.

Shape suffixes: N queries, M keys, D width, X one to three widths, E head width, P pairs (E / 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils
from torch import Tensor

from clew.jit import intrinsic, njit
from clew.models.cpu_kernels.message_passing import group_threads, map_groups

HEAD_WIDTH_FACTOR = 8  # divides the width of a head
ROWS = 4  # of a tile
BLOCK = 16  # queries whose scores are computed together
LOG2_E = math.log2(math.e)
MASKED = -1e30

_jit = njit(nogil=True, fastmath=True, error_model="numpy")


class Segments(NamedTuple):
    """Where the sequences of a batch lie, which keys their queries attend to, and RoPE's rotations."""

    query_start: Tensor  # int64, one more than sequences
    key_start: Tensor
    visible_N: Tensor  # int64
    cos_NP: Tensor
    sin_NP: Tensor
    cos_MP: Tensor
    sin_MP: Tensor


def packed_attention(segments: Segments, heads: int, query_NX: Tensor, key_value_MX: Tensor | None = None) -> Tensor:
    """Return the attention's output [N, D]; without `key_value_MX`, `query_NX` holds queries, keys and values."""
    mixed_ND: Tensor = _Attention.apply(segments, heads, query_NX, key_value_MX)  # type: ignore[no-untyped-call]
    return mixed_ND


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, segments: Segments, heads: int, query_NX: Tensor, key_value_MX: Tensor | None) -> Tensor:
        query_NX = query_NX.contiguous()
        key_value_MX = None if key_value_MX is None else key_value_MX.contiguous()
        width = query_NX.shape[1] // (3 if key_value_MX is None else 1)
        mixed_ND = query_NX.new_empty(len(query_NX), width)
        log_sum_NH = query_NX.new_empty(len(query_NX), heads)
        ctx.segments, ctx.heads = segments, heads
        forward, _ = _kernels(width // heads, query_NX.dtype == torch.float32)
        arguments = _arguments(segments, query_NX, key_value_MX, width)
        _run(forward, segments, *arguments, mixed_ND.numpy(), log_sum_NH.numpy())
        ctx.save_for_backward(query_NX, key_value_MX, mixed_ND, log_sum_NH)
        return mixed_ND

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        query_NX, key_value_MX, mixed_ND, log_sum_NH = ctx.saved_tensors
        grad_query_NX = torch.empty_like(query_NX)
        grad_key_value_MX = None if key_value_MX is None else torch.empty_like(key_value_MX)
        _, backward = _kernels(mixed_ND.shape[1] // ctx.heads, query_NX.dtype == torch.float32)
        _run(
            backward,
            ctx.segments,
            *_arguments(ctx.segments, query_NX, key_value_MX, mixed_ND.shape[1]),
            mixed_ND.numpy(),
            log_sum_NH.numpy(),
            grads[0].contiguous().numpy(),
            grad_query_NX.numpy(),
            (grad_query_NX if grad_key_value_MX is None else grad_key_value_MX).numpy(),
        )
        return None, None, grad_query_NX, grad_key_value_MX


def _arguments(segments: Segments, query_NX: Tensor, key_value_MX: Tensor | None, width: int) -> tuple[Any, ...]:
    """Return the arguments of both kernels from RoPE's rotations up to the column of the first key."""
    rotations = (tensor.to(query_NX.dtype).numpy() for tensor in segments[3:])
    query, key_column = query_NX.detach().numpy(), width if key_value_MX is None else 0
    return *rotations, query, query if key_value_MX is None else key_value_MX.detach().numpy(), key_column


def _run(kernel: Callable[..., None], segments: Segments, *arguments: Any) -> None:
    """Run a kernel; with several threads, each takes as many sequences."""
    query_start, key_start, visible_N = (tensor.numpy() for tensor in segments[:3])
    count = len(key_start) - 1
    parts = min(group_threads(), max(count, 1))

    def run(part: int) -> None:
        own = slice(part * count // parts, (part + 1) * count // parts + 1)
        kernel(query_start[own], key_start[own], visible_N, *arguments)

    map_groups(run, parts)


@cache
def _kernels(head_width: int, single: bool) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return the forward and backward kernels for a head width, a multiple of 8, in float32 or float64."""
    half, lanes = head_width // 2, 16 if head_width % 16 == 0 else 8
    scale = LOG2_E / math.sqrt(head_width)  # scores are logarithms to base 2

    @_jit
    def forward(
        query_start: np.ndarray,
        key_start: np.ndarray,
        visible_N: np.ndarray,
        cos_NP: np.ndarray,
        sin_NP: np.ndarray,
        cos_MP: np.ndarray,
        sin_MP: np.ndarray,
        query_NX: np.ndarray,
        key_MX: np.ndarray,
        key_column: int,
        mixed_ND: np.ndarray,
        log_sum_NH: np.ndarray,
    ) -> None:
        dtype = mixed_ND.dtype
        number = dtype.type
        width = mixed_ND.shape[1]
        most = _padded(np.max(np.diff(key_start)))
        key_EK, value_KE = np.empty((head_width, most), dtype), np.empty((most, head_width), dtype)
        query_RE, out_RE = np.empty((BLOCK, head_width), dtype), np.empty((BLOCK, head_width), dtype)
        score_RK = np.empty((BLOCK, most), dtype)
        for b in range(len(key_start) - 1):
            first, keys = key_start[b], key_start[b + 1] - key_start[b]
            for column in range(0, width, head_width):
                _load_rotated_transposed(key_MX, first, keys, key_column + column, cos_MP, sin_MP, scale, key_EK)
                _load(key_MX, first, keys, key_column + width + column, value_KE)
                for row in range(query_start[b], query_start[b + 1], BLOCK):
                    rows = min(BLOCK, query_start[b + 1] - row)
                    _load_rotated(query_NX, row, rows, column, cos_NP, sin_NP, query_RE)
                    columns = _mask(visible_N, row, rows, score_RK)
                    _scores(query_RE, rows, key_EK, columns, score_RK)
                    out_RE[:] = number(0)
                    for r in range(rows):
                        highest = number(MASKED)
                        for k in range(columns):
                            highest = _larger(highest, score_RK[r, k])
                        log_sum_NH[row + r, column // head_width] = highest
                        for k in range(columns):
                            score_RK[r, k] = _power_of_2(score_RK[r, k] - highest)
                    for r in range(0, rows, ROWS):
                        for e in range(0, head_width, lanes):
                            _add_product(out_RE, r, e, score_RK, r * most, most, 1, value_KE, e, columns, lanes)
                    for r in range(rows):
                        total = number(0)
                        for k in range(columns):
                            total += score_RK[r, k]
                        log_sum_NH[row + r, column // head_width] += np.log2(total)
                        share = number(1) / total
                        for e in range(head_width):
                            mixed_ND[row + r, column + e] = out_RE[r, e] * share

    @_jit
    def backward(
        query_start: np.ndarray,
        key_start: np.ndarray,
        visible_N: np.ndarray,
        cos_NP: np.ndarray,
        sin_NP: np.ndarray,
        cos_MP: np.ndarray,
        sin_MP: np.ndarray,
        query_NX: np.ndarray,
        key_MX: np.ndarray,
        key_column: int,
        mixed_ND: np.ndarray,
        log_sum_NH: np.ndarray,
        grad_ND: np.ndarray,
        grad_query_NX: np.ndarray,
        grad_key_MX: np.ndarray,
    ) -> None:
        dtype = mixed_ND.dtype
        number = dtype.type
        width = mixed_ND.shape[1]
        most = _padded(np.max(np.diff(key_start)))
        key_EK, value_EK = np.empty((head_width, most), dtype), np.empty((head_width, most), dtype)
        key_KE = np.empty((most, head_width), dtype)
        grad_key_KE, grad_value_KE = np.empty((most, head_width), dtype), np.empty((most, head_width), dtype)
        query_RE, grad_query_RE = np.empty((BLOCK, head_width), dtype), np.empty((BLOCK, head_width), dtype)
        grad_RE = np.empty((BLOCK, head_width), dtype)
        weight_RK, grad_score_RK = np.empty((BLOCK, most), dtype), np.empty((BLOCK, most), dtype)
        back = number(1 / math.sqrt(head_width))
        for b in range(len(key_start) - 1):
            first, keys = key_start[b], key_start[b + 1] - key_start[b]
            for column in range(0, width, head_width):
                _load_rotated_transposed(key_MX, first, keys, key_column + column, cos_MP, sin_MP, scale, key_EK)
                _load_transposed(key_MX, first, keys, key_column + width + column, value_EK)
                _load_rotated(key_MX, first, keys, key_column + column, cos_MP, sin_MP, key_KE)
                grad_key_KE[:] = number(0)
                grad_value_KE[:] = number(0)
                for row in range(query_start[b], query_start[b + 1], BLOCK):
                    rows = min(BLOCK, query_start[b + 1] - row)
                    _load_rotated(query_NX, row, rows, column, cos_NP, sin_NP, query_RE)
                    _load(grad_ND, row, rows, column, grad_RE)
                    columns = _mask(visible_N, row, rows, weight_RK)
                    _scores(query_RE, rows, key_EK, columns, weight_RK)
                    for r in range(rows):
                        log_sum, along = log_sum_NH[row + r, column // head_width], number(0)
                        for e in range(head_width):
                            along += mixed_ND[row + r, column + e] * grad_RE[r, e]
                        for k in range(columns):
                            weight_RK[r, k] = _power_of_2(weight_RK[r, k] - log_sum)
                            grad_score_RK[r, k] = -along
                    for r in range(rows, BLOCK):
                        for k in range(columns):
                            weight_RK[r, k] = number(0)
                            grad_score_RK[r, k] = number(0)
                    _scores(grad_RE, rows, value_EK, columns, grad_score_RK)
                    for r in range(rows):
                        for k in range(columns):
                            grad_score_RK[r, k] *= weight_RK[r, k] * back
                    grad_query_RE[:] = number(0)
                    for r in range(0, rows, ROWS):
                        for e in range(0, head_width, lanes):
                            _add_product(
                                grad_query_RE, r, e, grad_score_RK, r * most, most, 1, key_KE, e, columns, lanes
                            )
                    for k in range(0, columns, ROWS):
                        for e in range(0, head_width, lanes):
                            _add_product(grad_key_KE, k, e, grad_score_RK, k, 1, most, query_RE, e, BLOCK, lanes)
                            _add_product(grad_value_KE, k, e, weight_RK, k, 1, most, grad_RE, e, BLOCK, lanes)
                    _store_rotated(grad_query_RE, row, rows, column, cos_NP, sin_NP, grad_query_NX)
                _store_rotated(grad_key_KE, first, keys, key_column + column, cos_MP, sin_MP, grad_key_MX)
                for k in range(keys):
                    for e in range(head_width):
                        grad_key_MX[first + k, key_column + width + column + e] = grad_value_KE[k, e]

    @_jit
    def _power_of_2(x: Any) -> Any:
        return _single_power_of_2(x) if single else np.exp2(x)

    @_jit
    def _scores(a_RE: np.ndarray, rows: int, b_EK: np.ndarray, columns: int, score_RK: np.ndarray) -> None:
        """Add the products of rows of a and columns of b."""
        for r in range(0, rows, ROWS):
            for k in range(0, columns, lanes):
                _add_product(score_RK, r, k, a_RE, r * head_width, head_width, 1, b_EK, k, head_width, lanes)

    @_jit
    def _load(x_NX: np.ndarray, first: int, rows: int, column: int, out_RE: np.ndarray) -> None:
        number = out_RE.dtype.type
        for r in range(rows):
            for e in range(head_width):
                out_RE[r, e] = x_NX[first + r, column + e]
        for r in range(rows, len(out_RE)):
            for e in range(head_width):
                out_RE[r, e] = number(0)

    @_jit
    def _load_transposed(x_NX: np.ndarray, first: int, rows: int, column: int, out_ER: np.ndarray) -> None:
        number = out_ER.dtype.type
        for e in range(head_width):
            for r in range(rows):
                out_ER[e, r] = x_NX[first + r, column + e]
            for r in range(rows, out_ER.shape[1]):
                out_ER[e, r] = number(0)

    @_jit
    def _load_rotated(
        x_NX: np.ndarray, first: int, rows: int, column: int, cos: np.ndarray, sin: np.ndarray, out_RE: np.ndarray
    ) -> None:
        number = out_RE.dtype.type
        for r in range(rows):
            for p in range(half):
                x, y = x_NX[first + r, column + p], x_NX[first + r, column + half + p]
                c, s = cos[first + r, p], sin[first + r, p]
                out_RE[r, p] = x * c - y * s
                out_RE[r, half + p] = y * c + x * s
        for r in range(rows, len(out_RE)):
            for e in range(head_width):
                out_RE[r, e] = number(0)

    @_jit
    def _load_rotated_transposed(
        x_NX: np.ndarray,
        first: int,
        rows: int,
        column: int,
        cos: np.ndarray,
        sin: np.ndarray,
        factor: float,
        out_ER: np.ndarray,
    ) -> None:
        number = out_ER.dtype.type
        factor_ = number(factor)
        for p in range(half):
            for r in range(rows):
                x, y = x_NX[first + r, column + p] * factor_, x_NX[first + r, column + half + p] * factor_
                c, s = cos[first + r, p], sin[first + r, p]
                out_ER[p, r] = x * c - y * s
                out_ER[half + p, r] = y * c + x * s
            for r in range(rows, out_ER.shape[1]):
                out_ER[p, r] = number(0)
                out_ER[half + p, r] = number(0)

    @_jit
    def _store_rotated(
        x_RE: np.ndarray, first: int, rows: int, column: int, cos: np.ndarray, sin: np.ndarray, out_NX: np.ndarray
    ) -> None:
        """Store with the opposite rotation."""
        for r in range(rows):
            for p in range(half):
                x, y = x_RE[r, p], x_RE[r, half + p]
                c, s = cos[first + r, p], sin[first + r, p]
                out_NX[first + r, column + p] = x * c + y * s
                out_NX[first + r, column + half + p] = y * c - x * s

    return forward, backward


@_jit
def _padded(count: int) -> int:
    return -(-count // BLOCK) * BLOCK


@_jit
def _mask(visible_N: np.ndarray, row: int, rows: int, score_RK: np.ndarray) -> int:
    """Set visible scores to 0 and the others far below; return how many columns are needed."""
    number = score_RK.dtype.type
    most = 0
    for r in range(rows):
        most = max(most, visible_N[row + r])
    columns = _padded(most)
    for r in range(rows):
        visible = visible_N[row + r]
        for k in range(columns):
            score_RK[r, k] = number(0) if k < visible else number(MASKED)
    for r in range(rows, BLOCK):
        for k in range(columns):
            score_RK[r, k] = number(0)
    return columns


@_jit
def _single_power_of_2(x: Any) -> Any:
    """Return 2 ** x in float32, for x <= 0; 0 for masked scores."""
    low = max(x, np.float32(-126))
    whole = np.int32(low - np.float32(0.5))  # rounds, as casts go towards 0
    rest = low - np.float32(whole)
    # A minimax polynomial over [-0.5, 0.5]; the relative error is below 1e-7.
    power = np.float32(1.535336188319500e-4)
    power = power * rest + np.float32(1.339887440266574e-3)
    power = power * rest + np.float32(9.618437357674640e-3)
    power = power * rest + np.float32(5.550332471162809e-2)
    power = power * rest + np.float32(2.402264791363012e-1)
    power = power * rest + np.float32(6.931472028550421e-1)
    power = power * rest + np.float32(1.0)
    scale = np.int32((whole + np.int32(127)) << np.int32(23)).view(np.float32)
    return power * scale if x > np.float32(MASKED / 2) else np.float32(0)


@intrinsic
def _larger(typing_context: Any, a: Any, b: Any) -> Any:
    """Return the larger number; loops with Python's `max` are not vectorized."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        a, b = arguments
        return builder.select(builder.fcmp_ordered(">", a, b, flags=("fast",)), a, b, flags=("fast",))

    return a(a, a), generate


@intrinsic
def _add_product(
    typing_context: Any,
    c: Any,
    row: Any,
    column: Any,
    a: Any,
    a_first: Any,
    a_row: Any,
    a_step: Any,
    b: Any,
    b_column: Any,
    count: Any,
    lanes: Any,
) -> Any:
    """Add a product of matrices to c[row : row + ROWS, column : column + lanes].

    Row r of the first factor begins at element `a_first + r * a_row` of a, and its `count` elements lie `a_step` apart.
    The second factor is b[:count, b_column : b_column + lanes].
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        c_type, a_type, b_type = (signature.args[i] for i in (0, 3, 7))
        c, row, column, a, a_first, a_row, a_step, b, b_column, count, _ = arguments
        number = context.get_value_type(c_type.dtype)
        vector, size = ir.VectorType(number, lanes.literal_value), 4 if isinstance(number, ir.FloatType) else 8
        c, a, b = (
            cgutils.create_struct_proxy(kind)(context, builder, value=value)  # type: ignore[no-untyped-call]
            for kind, value in ((c_type, c), (a_type, a), (b_type, b))
        )
        c_width, b_width = (builder.extract_value(array.shape, 1) for array in (c, b))

        def at(array: Any, index: ir.Value) -> ir.Value:
            return builder.gep(array.data, [index])

        def vector_at(array: Any, index: ir.Value) -> ir.Value:
            return builder.bitcast(at(array, index), vector.as_pointer())

        rows = [ir.Constant(row.type, r) for r in range(ROWS)]
        targets = [vector_at(c, builder.add(builder.mul(builder.add(row, r), c_width), column)) for r in rows]
        sums = [cgutils.alloca_once(builder, vector) for _ in rows]  # type: ignore[no-untyped-call]
        for total, target in zip(sums, targets, strict=True):
            builder.store(builder.load(target, align=size), total)
        starts = [builder.add(a_first, builder.mul(r, a_row)) for r in rows]
        with cgutils.for_range(builder, count, intp=count.type) as loop:
            right = builder.load(vector_at(b, builder.add(builder.mul(loop.index, b_width), b_column)), align=size)
            step = builder.mul(loop.index, a_step)
            for total, start in zip(sums, starts, strict=True):
                left = builder.load(at(a, builder.add(start, step)), align=size)
                one = builder.insert_element(ir.Constant(vector, ir.Undefined), left, ir.Constant(ir.IntType(32), 0))
                same = ir.Constant(ir.VectorType(ir.IntType(32), lanes.literal_value), None)
                left = builder.shuffle_vector(one, one, same)
                product = builder.fmul(left, right, flags=("fast",))
                builder.store(builder.fadd(builder.load(total), product, flags=("fast",)), total)
        for total, target in zip(sums, targets, strict=True):
            builder.store(builder.load(total), target, align=size)
        return context.get_dummy_value()

    integers = [types.intp] * 2
    return types.void(c, *integers, a, *[types.intp] * 3, b, *integers, lanes), generate
