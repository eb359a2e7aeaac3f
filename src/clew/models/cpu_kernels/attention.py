"""Attention of short packed sequences on a CPU: forward and backward kernels for clew.models.blocks.

    segments = Segments(query_start, key_start, visible_N, cos_NP, sin_NP, cos_MP, sin_MP)
    mixed_ND = packed_attention(segments, heads, query_key_value_NX)               # self-attention
    mixed_ND = packed_attention(segments, heads, query_ND, key_value_MX)           # cross-attention

computes RoPE, the scores, the softmax and the weighted sum of the values, for float32 and float64 tensors. The rows of
all sequences lie one after another without padding: sequence b has the queries `query_start[b] : query_start[b + 1]`
and the keys `key_start[b] : key_start[b + 1]`. A query attends to the first `visible_N` keys of its sequence, at least
one. The backward pass computes the weights again from the logarithm of each query's sum.

Everything of one head of one sequence stays in the first cache. The matrix products are made of `_add_product`, a tile
whose sums stay in registers; what loops of numba compile to is a third as fast. Tiles have ROWS rows, so they read up
to ROWS - 1 queries past a sequence, and nobody reads what they make of them.

Shape suffixes: N queries, M keys, D width, X one to three widths, E head width, P pairs (E / 2), K keys of a sequence,
R queries of a block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from llvmlite import ir
from numba import types
from numba.core import cgutils
from torch import Tensor

from clew.jit import intrinsic, njit

HEAD_WIDTH_FACTOR = 8  # divides the width of a head
ROWS = 4  # of a tile
BLOCK = 16  # queries whose scores are computed together
MASKED = -1e30

Array: TypeAlias = np.ndarray
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
        width = query_NX.shape[1] // (3 if key_value_MX is None else 1)
        mixed_ND = query_NX.new_empty(len(query_NX), width)
        log_sum_NH = query_NX.new_empty(len(query_NX), heads)
        ctx.kernels = _kernels(width // heads, query_NX.dtype == torch.float32)
        rotations = (tensor.to(query_NX.dtype) for tensor in segments[3:])
        ctx.segments = tuple(tensor.numpy() for tensor in (*segments[:3], *rotations))
        # In self-attention the keys stand beside the queries, from column `width` on.
        joined = [x.contiguous() for x in (query_NX, query_NX if key_value_MX is None else key_value_MX)]
        ctx.key_column = width if key_value_MX is None else 0
        ctx.save_for_backward(*joined, mixed_ND, log_sum_NH)
        saved = tuple(x.detach().numpy() for x in (*joined, mixed_ND, log_sum_NH))
        ctx.kernels[0](ctx.segments, ctx.key_column, saved)
        return mixed_ND

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        query_NX, key_MX, *_ = ctx.saved_tensors
        grad_query_NX = torch.empty_like(query_NX)
        grad_key_MX = grad_query_NX if ctx.key_column else torch.empty_like(key_MX)
        grad_ND = F.pad(grads[0], (0, 0, 0, ROWS))  # a tile may read ROWS - 1 rows past the end
        saved, own = tuple(x.numpy() for x in ctx.saved_tensors), (grad_query_NX.numpy(), grad_key_MX.numpy())
        ctx.kernels[1](ctx.segments, ctx.key_column, saved, grad_ND.numpy(), own)
        return None, None, grad_query_NX, None if ctx.key_column else grad_key_MX


@cache
def _kernels(head_width: int, single: bool) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return the forward and backward kernels for a head width, a multiple of 8, in float32 or float64."""
    half, lanes = head_width // 2, 16 if head_width % 16 == 0 else 8
    root = math.sqrt(head_width)
    scale = math.log2(math.e) / root  # scores are logarithms to base 2

    @_jit
    def forward(segments: tuple[Array, ...], key_column: int, saved: tuple[Array, ...]) -> None:
        query_start, key_start, visible_N, cos_NP, sin_NP, cos_MP, sin_MP = segments
        query_NX, key_MX, mixed_ND, log_sum_NH = saved
        dtype, width = mixed_ND.dtype, mixed_ND.shape[1]
        number = dtype.type
        most = _padded(np.max(np.diff(key_start)))
        key_EK, weight_RK = np.empty((head_width, most), dtype), np.empty((BLOCK, most), dtype)
        query_RE, out_RE = np.empty((BLOCK, head_width), dtype), np.empty((BLOCK, head_width), dtype)
        for b in range(len(key_start) - 1):
            first, end = key_start[b], key_start[b + 1]
            own_KX = key_MX[first:end]
            for column in range(0, width, head_width):
                _load_keys(own_KX, key_column + column, cos_MP[first:end], sin_MP[first:end], key_EK)
                for row in range(query_start[b], query_start[b + 1], BLOCK):
                    rows = min(BLOCK, query_start[b + 1] - row)
                    _rotate(query_NX[row:], column, rows, cos_NP[row:], sin_NP[row:], 1.0, query_RE, 0)
                    keys = _mask(visible_N[row : row + rows], weight_RK)
                    _add_scores(query_RE, 0, rows, key_EK, keys, weight_RK)
                    for r in range(rows):
                        highest = number(MASKED)
                        for k in range(keys):
                            highest = _larger(highest, weight_RK[r, k])
                        log_sum_NH[row + r, column // head_width] = highest
                        for k in range(keys):
                            weight_RK[r, k] = _power_of_2(weight_RK[r, k] - highest)
                    out_RE[:] = number(0)
                    keys = min(keys, len(own_KX))
                    for r in range(0, rows, ROWS):
                        for e in range(0, head_width, lanes):
                            at = key_column + width + column + e
                            _add_product(out_RE, r, e, weight_RK, r * most, most, 1, own_KX, at, keys, lanes)
                    for r in range(rows):
                        total = number(0)
                        for k in range(keys):
                            total += weight_RK[r, k]
                        log_sum_NH[row + r, column // head_width] += np.log2(total)
                        share = number(1) / total
                        for e in range(head_width):
                            mixed_ND[row + r, column + e] = out_RE[r, e] * share

    @_jit
    def backward(
        segments: tuple[Array, ...], key_column: int, saved: tuple[Array, ...], grad_ND: Array, grads: tuple[Array, ...]
    ) -> None:
        query_start, key_start, visible_N, cos_NP, sin_NP, cos_MP, sin_MP = segments
        query_NX, key_MX, mixed_ND, log_sum_NH = saved
        grad_query_NX, grad_key_MX = grads
        dtype, width = mixed_ND.dtype, mixed_ND.shape[1]
        number = dtype.type
        most = _padded(np.max(np.diff(key_start)))
        key_EK, value_EK = np.empty((head_width, most), dtype), np.empty((head_width, most), dtype)
        key_KE = np.empty((most, head_width), dtype)
        weight_RK, grad_score_RK = np.empty((BLOCK, most), dtype), np.empty((BLOCK, most), dtype)
        query_RE, grad_query_RE = np.empty((BLOCK, head_width), dtype), np.empty((BLOCK, head_width), dtype)
        grad_key_KE, grad_value_KE = np.empty((most, head_width), dtype), np.empty((most, head_width), dtype)
        back = number(1 / root)
        for b in range(len(key_start) - 1):
            first, end = key_start[b], key_start[b + 1]
            count, own_KX = end - first, key_MX[first:end]
            own_cos_KP, own_sin_KP = cos_MP[first:end], sin_MP[first:end]
            for column in range(0, width, head_width):
                own_column, value_column = key_column + column, key_column + width + column
                _load_keys(own_KX, own_column, own_cos_KP, own_sin_KP, key_EK)
                _rotate(own_KX, own_column, count, own_cos_KP, own_sin_KP, 1.0, key_KE, 0)
                _load_transposed(own_KX, value_column, value_EK)
                grad_key_KE[:] = number(0)
                grad_value_KE[:] = number(0)
                for row in range(query_start[b], query_start[b + 1], BLOCK):
                    rows = min(BLOCK, query_start[b + 1] - row)
                    grad_RD, own_cos_RP, own_sin_RP = grad_ND[row:], cos_NP[row:], sin_NP[row:]
                    _rotate(query_NX[row:], column, rows, own_cos_RP, own_sin_RP, 1.0, query_RE, 0)
                    keys = _mask(visible_N[row : row + rows], weight_RK)
                    _add_scores(query_RE, 0, rows, key_EK, keys, weight_RK)
                    for r in range(rows):
                        log_sum, along = log_sum_NH[row + r, column // head_width], number(0)
                        for e in range(head_width):
                            along += mixed_ND[row + r, column + e] * grad_RD[r, column + e]
                        for k in range(keys):
                            weight_RK[r, k] = _power_of_2(weight_RK[r, k] - log_sum)
                            grad_score_RK[r, k] = -along
                    _add_scores(grad_RD, column, rows, value_EK, keys, grad_score_RK)
                    for r in range(rows):
                        for k in range(keys):
                            grad_score_RK[r, k] *= weight_RK[r, k] * back
                    grad_query_RE[:] = number(0)
                    for e in range(0, head_width, lanes):
                        seen, at = min(keys, count), column + e
                        for r in range(0, rows, ROWS):
                            _add_product(grad_query_RE, r, e, grad_score_RK, r * most, most, 1, key_KE, e, seen, lanes)
                        for k in range(0, keys, ROWS):
                            _add_product(grad_key_KE, k, e, grad_score_RK, k, 1, most, query_RE, e, rows, lanes)
                            _add_product(grad_value_KE, k, e, weight_RK, k, 1, most, grad_RD, at, rows, lanes)
                    _rotate(grad_query_RE, 0, rows, own_cos_RP, own_sin_RP, -1.0, grad_query_NX[row:], column)
                _rotate(grad_key_KE, 0, count, own_cos_KP, own_sin_KP, -1.0, grad_key_MX[first:], own_column)
                for k in range(count):
                    for e in range(head_width):
                        grad_key_MX[first + k, value_column + e] = grad_value_KE[k, e]

    @_jit
    def _add_scores(a_RX: Array, column: int, rows: int, b_EK: Array, keys: int, score_RK: Array) -> None:
        """Add the products of rows of a, from a column on, and columns of b."""
        width = a_RX.shape[1]
        for r in range(0, rows, ROWS):
            for k in range(0, keys, lanes):
                _add_product(score_RK, r, k, a_RX, r * width + column, width, 1, b_EK, k, head_width, lanes)

    @_jit
    def _load_transposed(x_KX: Array, column: int, out_EK: Array) -> None:
        for e in range(head_width):
            for k in range(len(x_KX)):
                out_EK[e, k] = x_KX[k, column + e]
            out_EK[e, len(x_KX) :] = out_EK.dtype.type(0)

    @_jit
    def _load_keys(x_KX: Array, column: int, cos_KP: Array, sin_KP: Array, out_EK: Array) -> None:
        """Load the keys of a head rotated, scaled and transposed."""
        number = out_EK.dtype.type
        for p in range(half):
            for k in range(len(x_KX)):
                x, y = x_KX[k, column + p] * number(scale), x_KX[k, column + half + p] * number(scale)
                out_EK[p, k] = x * cos_KP[k, p] - y * sin_KP[k, p]
                out_EK[half + p, k] = y * cos_KP[k, p] + x * sin_KP[k, p]
        out_EK[:, len(x_KX) :] = number(0)

    @_jit
    def _rotate(
        x_RX: Array, x_column: int, rows: int, cos_RP: Array, sin_RP: Array, sign: float, out_RX: Array, column: int
    ) -> None:
        """Rotate some rows of a head in one array into another array."""
        sign_ = out_RX.dtype.type(sign)
        for r in range(rows):
            for p in range(half):
                x, y = x_RX[r, x_column + p], x_RX[r, x_column + half + p]
                c, s = cos_RP[r, p], sin_RP[r, p] * sign_
                out_RX[r, column + p] = x * c - y * s
                out_RX[r, column + half + p] = y * c + x * s

    @_jit
    def _power_of_2(x: Any) -> Any:
        return _single_power_of_2(x) if single else np.exp2(x)

    return forward, backward


@_jit
def _padded(count: int) -> int:
    return -(-count // BLOCK) * BLOCK


@_jit
def _mask(visible_R: Array, score_RK: Array) -> int:
    """Set visible scores to 0 and the others far below; return how many columns are needed."""
    number = score_RK.dtype.type
    keys = _padded(np.max(visible_R))
    for r in range(len(visible_R)):
        visible = visible_R[r]
        for k in range(keys):
            score_RK[r, k] = number(0) if k < visible else number(MASKED)
    return keys


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
