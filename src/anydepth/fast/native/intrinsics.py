"""Explicit vector code for matrix products: what a compiler's own vectoriser does not find reliably.

A tile is C[r, :] (+)= sum_k A[r, k] B[k, :] for a few rows r and a few vectors of columns, all in registers.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import binding, ir
from numba import extending
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature

intrinsic: Any = extending.intrinsic
"""What it makes takes other arguments than the function it is given; type checkers cannot know that."""
_HAS_WIDE = bool(binding.get_host_cpu_features().get("avx512f"))
VECTOR_BYTES = 64 if _HAS_WIDE else 32
"""A full vector of this machine; half of it is the unit to which widths are padded."""

Number = ir.NamedValue | ir.Constant

GIVEN, ADDED = "given", "added"
"""What a tile begins with: one row for all of its rows, or what is there."""


def make_tile(rows: int, halves: int, begin: str) -> Callable[..., None]:
    """A tile of so many rows and half vectors; A by strides of a row and of k, B and C by their rows' strides."""

    @intrinsic
    def tile(
        _context: object,
        c: types.Array,
        c0: types.Type,
        ldc: types.Type,
        a: types.Array,
        a0: types.Type,
        sar: types.Type,
        sak: types.Type,
        b: types.Array,
        b0: types.Type,
        ldb: types.Type,
        k: types.Type,
        g: types.Array,
        g0: types.Type,
    ):
        n = types.int64
        signature = types.void(c, n, n, a, n, n, n, b, n, n, n, g, n)

        def codegen(context: BaseContext, builder: Any, signature: Signature, args: Sequence[Number]) -> Number:
            kinds = signature.args
            number = context.get_value_type(kinds[0].dtype)
            bits = 32 if kinds[0].dtype == types.float32 else 64
            half = VECTOR_BYTES * 4 // bits
            lanes = half if halves == 1 else 2 * half
            vectors = 1 if halves == 1 else halves // 2
            vector = ir.VectorType(number, lanes)
            data = {i: context.make_array(kinds[i])(context, builder, args[i]).data for i in (0, 3, 7, 11)}
            integers = {i: args[i] for i in (1, 2, 4, 5, 6, 8, 9, 10, 12)}

            def at(base: int, offset: Number) -> Number:
                return builder.gep(data[base], [offset])

            def wide(pointer: Number) -> Number:
                return builder.bitcast(pointer, vector.as_pointer())

            def load(pointer: Number) -> Number:
                return builder.load(wide(pointer), align=bits // 8, typ=vector)

            def plus(x: Number, y: Number) -> Number:
                return builder.add(x, y)

            def times(x: Number, n: int) -> Number:
                return builder.mul(x, ir.Constant(x.type, n))

            def place(r: int, v: int) -> Number:
                offset = plus(integers[1], times(integers[2], r))
                return at(0, plus(offset, ir.Constant(offset.type, v * lanes)))

            name = f"llvm.fmuladd.v{lanes}f{bits}"
            fuse = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3), name)
            lane = ir.IntType(32)
            everywhere = ir.Constant(ir.VectorType(lane, lanes), [0] * lanes)
            sums = [[cgutils.alloca_once(builder, vector) for _ in range(vectors)] for _ in range(rows)]
            start = ir.Constant(vector, [0.0] * lanes)
            for v in range(vectors):
                if begin == GIVEN:
                    start = load(at(11, plus(integers[12], ir.Constant(integers[12].type, v * lanes))))
                for r in range(rows):
                    if begin == ADDED:
                        start = load(place(r, v))
                    builder.store(start, sums[r][v])
            with cgutils.for_range(builder, integers[10]) as loop:
                row = plus(integers[8], builder.mul(loop.index, integers[9]))
                right = [load(at(7, plus(row, ir.Constant(row.type, v * lanes)))) for v in range(vectors)]
                column = plus(integers[4], builder.mul(loop.index, integers[6]))
                for r in range(rows):
                    value = builder.load(at(3, plus(column, times(integers[5], r))), typ=number)
                    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(lane, 0))
                    spread = builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), everywhere)
                    for v in range(vectors):
                        total = builder.load(sums[r][v], typ=vector)
                        builder.store(builder.call(fuse, [spread, right[v], total]), sums[r][v])
            for r in range(rows):
                for v in range(vectors):
                    done = builder.load(sums[r][v], typ=vector)
                    builder.store(done, wide(place(r, v)), align=bits // 8)
            return context.get_dummy_value()

        return signature, codegen

    return tile


@intrinsic
def atomic_add(_context: object, array: types.Array, place: types.Type, value: types.Type):
    """array[place] += value for all threads at once; what was there before."""
    signature = types.int64(array, place, types.int64)

    def codegen(context: BaseContext, builder: Any, signature: Signature, args: Sequence[Number]) -> Number:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.atomic_rmw("add", builder.gep(data, [args[1]]), args[2], "seq_cst")

    return signature, codegen


@intrinsic
def scale_of(_context: object, moved: types.Type, magic: types.Type):
    """2^n, given n + magic and magic = 1.5 * 2^digits: the last bits of that sum are n."""
    signature = moved(moved, moved)

    def codegen(context: BaseContext, builder: Any, signature: Signature, args: Sequence[Number]) -> Number:
        bits, digits, bias = (32, 23, 127) if signature.args[0] == types.float32 else (64, 52, 1023)
        whole = ir.IntType(bits)
        n = builder.sub(builder.bitcast(args[0], whole), builder.bitcast(args[1], whole))
        exponent = builder.shl(builder.add(n, ir.Constant(whole, bias)), ir.Constant(whole, digits))
        return builder.bitcast(exponent, args[0].type)

    return signature, codegen


@intrinsic
def sign_of(_context: object, moved: types.Type):
    """(-1)^n, given n + 1.5 * 2^digits."""
    signature = moved(moved)

    def codegen(context: BaseContext, builder: Any, signature: Signature, args: Sequence[Number]) -> Number:
        bits, one = (32, 0x3F800000) if signature.args[0] == types.float32 else (64, 0x3FF0000000000000)
        whole = ir.IntType(bits)
        top = builder.shl(builder.bitcast(args[0], whole), ir.Constant(whole, bits - 1))
        return builder.bitcast(builder.or_(top, ir.Constant(whole, one)), args[0].type)

    return signature, codegen


@intrinsic
def get(_context: object, array: types.Array, place: types.Type):
    """array[place], without the check for negative places that keeps loops from becoming vector code."""
    signature = array.dtype(array, types.int64)

    def codegen(context: BaseContext, builder: Any, signature: Signature, args: Sequence[Number]) -> Number:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load(builder.gep(data, [args[1]]), typ=context.get_value_type(signature.return_type))

    return signature, codegen


@intrinsic
def put(_context: object, array: types.Array, place: types.Type, value: types.Type):
    """array[place] = value, in the same way."""
    signature = types.void(array, types.int64, array.dtype)

    def codegen(context: BaseContext, builder: Any, signature: Signature, args: Sequence[Number]) -> Number:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        builder.store(args[2], builder.gep(data, [args[1]]))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def peek(_context: object, like: types.Array, address: types.Type, place: types.Type):
    """The number at a place of the array that begins at an address; its precision is that of `like`."""
    signature = like.dtype(like, types.int64, types.int64)

    def codegen(context: BaseContext, builder: Any, signature: Signature, args: Sequence[Number]) -> Number:
        number = context.get_value_type(signature.return_type)
        start = builder.inttoptr(args[1], number.as_pointer())
        return builder.load(builder.gep(start, [args[2]]), typ=number)

    return signature, codegen


@intrinsic
def pointer(_context: Any, like: Any, address: Any):
    """An address as a pointer to numbers like that given."""
    signature = types.CPointer(like)(like, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[1], context.get_value_type(signature.return_type))

    return signature, codegen
