"""Some numbers at once, for kernels that numba compiles: a vector is loaded, added, multiplied and stored as a whole.

    @numba.njit
    def squares(x, out):
        for i in range(0, len(x), 4):
            v = load(x, i, 4)
            store(out, i, v * v)

The compiler makes vectors of plain loops by itself only where it can prove that no number is read after it was written,
and it cannot where a cell reads its neighbours. Here it has nothing to prove. Numbers of lanes must be constants.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, overload, register_model
from numba.np.arrayobj import make_array


def in_kernels(definition: Callable[..., Any]) -> Any:
    """What the compiler puts in the place of a call; the type checker must not see the arguments that it adds."""
    return intrinsic(prefer_literal=True)(definition)


class Vector(types.Type):
    """So many numbers of a kind."""

    def __init__(self, number: types.Float, lanes: int) -> None:
        self.number, self.lanes = number, lanes
        super().__init__(name=f"Vector({number}, {lanes})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """How the compiler holds it."""

    def __init__(self, manager: Any, vector: Vector) -> None:
        number = ir.FloatType() if vector.number == types.float32 else ir.DoubleType()
        super().__init__(manager, vector, ir.VectorType(number, vector.lanes))


def _place(context: Any, builder: Any, array_type: types.Array, array: Any, index: Any, vector: Any) -> Any:
    data = make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


@in_kernels
def load(typing_context: Any, array: Any, index: Any, lanes: Any) -> Any:
    """The numbers of a flat array from an index on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        loaded = builder.load(_place(context, builder, signature.args[0], arguments[0], arguments[1], vector))
        loaded.align = array.dtype.bitwidth // 8
        return loaded

    return Vector(array.dtype, lanes.literal_value)(array, types.uint64, lanes), generate


@in_kernels
def store(typing_context: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write them to a flat array from an index on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature.args[0], arguments[0], arguments[1], arguments[2].type)
        builder.store(arguments[2], place).align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(array, types.uint64, vector), generate


@in_kernels
def zeros(typing_context: Any, array: Any, lanes: Any) -> Any:
    """As many zeros of the array's kind."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(context.get_value_type(signature.return_type), [0.0] * lanes.literal_value)

    return Vector(array.dtype, lanes.literal_value)(array, lanes), generate


@in_kernels
def relu(typing_context: Any, vector: Any) -> Any:
    """The numbers above zero, and zero for the others."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zero = ir.Constant(arguments[0].type, [0.0] * vector.lanes)
        return builder.select(builder.fcmp_ordered(">", arguments[0], zero), arguments[0], zero)

    return vector(vector), generate


def _arithmetic(instruction: str) -> Callable[..., Any]:
    """An operation on two vectors; "contract" lets a product and a sum become one instruction."""

    @in_kernels
    def operation(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, instruction)(*arguments, flags=("contract",))

        return a(a, b), generate

    def typed(a: Any, b: Any) -> Any:
        if isinstance(a, Vector) and a == b:
            return lambda a, b: operation(a, b)
        return None

    return typed


overload(operator.add, strict=False, inline="always")(_arithmetic("fadd"))
overload(operator.mul, strict=False, inline="always")(_arithmetic("fmul"))
