"""One evaluation of a program on the registers of a record, and its gradient."""

from numba import njit

from anydepth.fast.native import elementwise as ew
from anydepth.fast.native.codes import Col, Op, Slot
from anydepth.fast.native.intrinsics import get, put
from anydepth.fast.native.jit import OPTIONS
from anydepth.fast.native.layer_norms import normalize, normalize_back
from anydepth.fast.native.products import product, product_added, row_sum

_jit = njit(**OPTIONS)
fill, add, scale, activate, activate_back = ew.fill, ew.add, ew.scale, ew.activate, ew.activate_back
add_product, multiply, combine = ew.add_product, ew.multiply, ew.combine

_LINEAR, _LEAKY, _SUM, _PRODUCT = int(Op.LINEAR), int(Op.LEAKY), int(Op.SUM), int(Op.PRODUCT)
_TIMES_ROW, _COPY, _NORM = int(Op.TIMES_ROW), int(Op.COPY), int(Op.NORM)
_CODE, _TO, _X, _Y, _TO_WIDTH, _X_WIDTH = map(int, (Col.CODE, Col.TO, Col.X, Col.Y, Col.TO_WIDTH, Col.X_WIDTH))
_OUT, _IN, _WEIGHT, _BIAS, _ADD_X, _ADD_Y = map(int, (Col.OUT, Col.IN, Col.WEIGHT, Col.BIAS, Col.ADD_X, Col.ADD_Y))
_TO_COLUMN, _X_COLUMN = int(Col.TO_COLUMN), int(Col.X_COLUMN)
_FORWARD, _BACK, _GRADIENT, _IS_WANTED = map(int, (Slot.FORWARD, Slot.BACK, Slot.GRADIENT, Slot.IS_WANTED))


@_jit
def _row(slots, index, slot, which, e):
    """Where an evaluation finds its row of a slot: packed for forward, for backward, or the gradient."""
    return slots[slot, which] + index[slot, e] * slots[slot, which + 1]


@_jit
def evaluate(e, rows, block, ops, numbers, slots, index, theta, theta0, buf, base):
    """One evaluation of the unit on the registers of a record; x is there already."""
    for o in range(ops.shape[0]):
        code, width, x_width = ops[o, _CODE], ops[o, _TO_WIDTH], ops[o, _X_WIDTH]
        to, x, size = base + ops[o, _TO] * block, base + ops[o, _X] * block, rows * width
        y = x if ops[o, _Y] < 0 else base + ops[o, _Y] * block
        if code == _LINEAR:
            w0 = theta0 + _row(slots, index, ops[o, _WEIGHT], _FORWARD, e)
            b0 = theta0 + _row(slots, index, ops[o, _BIAS], _FORWARD, e)
            product(buf, to, width, rows, width, buf, x, x_width, 1, theta, w0, width, ops[o, _IN], theta, b0)
        elif code <= _LEAKY:
            activate(code, buf, to, x, size, numbers[o, 0])
        elif code == _SUM:
            combine(buf, to, size, numbers[o, 0], buf, x, numbers[o, 1], buf, y, numbers[o, 2])
        elif code == _PRODUCT:
            multiply(buf, to, size, buf, x, buf, y)
        elif code == _COPY:
            for r in range(rows):
                source, target = x + r * x_width + ops[o, _X_COLUMN], to + r * width + ops[o, _TO_COLUMN]
                for i in range(ops[o, _OUT]):
                    put(buf, target + i, get(buf, source + i))
        elif code == _NORM:
            for r in range(rows):
                normalize(buf, to + r * width, x + r * x_width, ops[o, _OUT], width, numbers[o, 0])
        else:
            v0 = theta0 + _row(slots, index, ops[o, _WEIGHT], _FORWARD, e)
            for r in range(rows):
                if code == _TIMES_ROW:
                    multiply(buf, to + r * width, width, buf, x + r * width, theta, v0)
                else:
                    a, b, c = numbers[o, 0], numbers[o, 1], numbers[o, 2]
                    combine(buf, to + r * width, width, a, buf, x + r * width, b, theta, v0, c)


@_jit
def evaluate_back(e, rows, real, block, ops, numbers, slots, index, theta, theta0, buf, base, g, g0, grads, grads0):
    """The gradients of all registers at g0, where that of the result is; those of theta are added to `grads`."""
    for o in range(ops.shape[0] - 1, -1, -1):
        code, width, x_width = ops[o, _CODE], ops[o, _TO_WIDTH], ops[o, _X_WIDTH]
        to, x, size = ops[o, _TO] * block, ops[o, _X] * block, rows * width
        y = max(ops[o, _Y], 0) * block
        g_to, g_x, g_y = g0 + to, g0 + x, g0 + y
        one = numbers[o, 3]
        if code == _LINEAR:
            weight, bias = ops[o, _WEIGHT], ops[o, _BIAS]
            if slots[weight, _IS_WANTED]:
                at, outs = grads0 + _row(slots, index, weight, _GRADIENT, e), (ops[o, _OUT] + 3) // 4 * 4
                product_added(grads, at, x_width, outs, x_width, g, g_to, 1, width, buf, base + x, x_width, real)
            if slots[bias, _IS_WANTED]:
                at = grads0 + _row(slots, index, bias, _GRADIENT, e)
                row_sum(grads, at, width, g, g_to, width, real, numbers, 4 * o + 3)
            w0, outs = theta0 + _row(slots, index, weight, _BACK, e), ops[o, _OUT]
            if ops[o, _ADD_X]:
                product_added(g, g_x, x_width, rows, x_width, g, g_to, width, 1, theta, w0, x_width, outs)
            else:
                zeros = theta0 + slots[slots.shape[0] - 1, _BACK]
                product(g, g_x, x_width, rows, x_width, g, g_to, width, 1, theta, w0, x_width, outs, theta, zeros)
        elif code <= _LEAKY:
            activate_back(code, g, g_to, buf, base + to, base + x, size, numbers[o, 0])
            if to != x:
                _pass_on(g, g_x, size, one, g_to, ops[o, _ADD_X])
        elif code == _SUM:
            if ops[o, _Y] >= 0:
                _pass_on(g, g_y, size, numbers[o, 1], g_to, ops[o, _ADD_Y])
            _pass_on(g, g_x, size, numbers[o, 0], g_to, ops[o, _ADD_X])
        elif code == _PRODUCT:
            _pass_on_product(g, g_y, size, g_to, buf, base + x, ops[o, _ADD_Y])
            _pass_on_product(g, g_x, size, g_to, buf, base + y, ops[o, _ADD_X])
        elif code == _COPY:
            if not ops[o, _ADD_X]:
                fill(g, g_x, rows * x_width, one - one)
            for r in range(rows):
                source, target = g_to + r * width + ops[o, _TO_COLUMN], g_x + r * x_width + ops[o, _X_COLUMN]
                add(g, target, ops[o, _OUT], one, g, source)
        elif code == _NORM:
            for r in range(rows):
                from_x, add_x, eps = base + x + r * x_width, ops[o, _ADD_X], numbers[o, 0]
                normalize_back(g, g_x + r * x_width, g_to + r * width, buf, from_x, ops[o, _OUT], x_width, eps, add_x)
        else:
            slot, is_times = ops[o, _WEIGHT], code == _TIMES_ROW
            if slots[slot, _IS_WANTED]:
                at = grads0 + _row(slots, index, slot, _GRADIENT, e)
                for r in range(real):
                    if is_times:
                        add_product(grads, at, width, g, g_to + r * width, buf, base + x + r * width)
                    else:
                        add(grads, at, width, numbers[o, 1], g, g_to + r * width)
            v0 = theta0 + _row(slots, index, slot, _BACK, e)
            if not is_times:
                _pass_on(g, g_x, size, numbers[o, 0], g_to, ops[o, _ADD_X])
            else:
                for r in range(rows):
                    _pass_on_product(g, g_x + r * width, width, g_to + r * width, theta, v0, ops[o, _ADD_X])


@_jit
def _pass_on(g, to, size, factor, source, is_added):
    if is_added:
        add(g, to, size, factor, g, source)
    else:
        scale(g, to, size, factor, g, source)


@_jit
def _pass_on_product(g, to, size, source, other, other0, is_added):
    if is_added:
        add_product(g, to, size, g, source, other, other0)
    else:
        multiply(g, to, size, g, source, other, other0)
