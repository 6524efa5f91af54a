"""The kernels: a program carried through all steps for a few rows of the batch, and exactly back.

Rows of the batch are worked on in blocks, so that weights and one block's values stay in the nearest cache. A record
holds all registers of one evaluation for one block, one after another, each (rows, padded width). In training there is
a record for every evaluation, which the backward pass reads; otherwise one for every stage. A task is one group of
blocks of one net; its gradients are summed block by block, and the groups' sums in their order, so that no bit depends
on threads.
"""

from numba import njit

from anydepth.fast.native.codes import Dim, Slot
from anydepth.fast.native.elementwise import add, copy, fill, scale
from anydepth.fast.native.intrinsics import atomic_add, get, peek, put
from anydepth.fast.native.jit import OPTIONS, kept
from anydepth.fast.native.unit_kernel import evaluate, evaluate_back

_jit = njit(**OPTIONS)
_ROWS, _WIDTH, _PADDED, _GROUPS = int(Dim.ROWS), int(Dim.WIDTH), int(Dim.PADDED), int(Dim.GROUPS)
_PER_GROUP, _BLOCK, _STAGES, _STEPS = int(Dim.PER_GROUP), int(Dim.BLOCK), int(Dim.STAGES), int(Dim.STEPS)
_RECORD, _RESULT, _THETA, _IS_KEPT = int(Dim.RECORD), int(Dim.RESULT), int(Dim.THETA), int(Dim.IS_KEPT)
_HAS_FIRST, _BACK_THETA, _GRADIENT = int(Dim.HAS_FIRST), int(Dim.BACK_THETA), int(Dim.GRADIENT)
_NETS, _UNIT, _SCRATCH = int(Dim.NETS), int(Dim.UNIT), int(Dim.SCRATCH)
_S_FORWARD, _S_BACK, _S_GRADIENT = int(Slot.FORWARD), int(Slot.BACK), int(Slot.GRADIENT)
_S_OUT, _S_IN, _S_ROWS, _S_WANTED, _S_FLAT = map(int, (Slot.OUT, Slot.IN, Slot.ROWS, Slot.IS_WANTED, Slot.FLAT))


@_jit
def _advance(to, t0, size, y, y0, coefficients, n, row, count, buf, slope0, apart):
    """to = y + sum of coefficient * slope; slopes are so far apart. `to` may be y."""
    if t0 != y0:
        copy(to, t0, size, y, y0)
    for j in range(count):
        if coefficients[n, row, j] != 0:
            add(to, t0, size, coefficients[n, row, j], buf, slope0 + j * apart)


@_jit
def _load(to, t0, rows, real, width, padded, source, at):
    """Rows of the batch, padded; beyond the last, the last once more, so that nothing new can go wrong there."""
    for r in range(rows):
        row, place = at + min(r, real - 1) * width, t0 + r * padded
        for i in range(width):
            put(to, place + i, get(source, row + i))
        for i in range(width, padded):
            put(to, place + i, source.dtype.type(0))


@_jit
def _store(to, at, source, s0, real, width, padded):
    for r in range(real):
        for i in range(width):
            put(to, at + r * width + i, get(source, s0 + r * padded + i))


@_jit
def _forward_task(task, dims, ops, numbers, slots, index, coefficients, theta, y, out, buf, first, last, error, s0):
    net, group = task // dims[_GROUPS], task % dims[_GROUPS]
    block, padded, width, stages = dims[_BLOCK], dims[_PADDED], dims[_WIDTH], dims[_STAGES]
    record, steps, is_kept = dims[_RECORD] * block, dims[_STEPS], dims[_IS_KEPT] == 1
    begin = group * dims[_PER_GROUP]
    end = min(begin + dims[_PER_GROUP], dims[_ROWS])
    theta0, result = net * dims[_THETA], dims[_RESULT] * block
    of_net = (dims[_ROWS] + block - 1) // block * net
    state = s0 if is_kept else s0 + stages * record
    for start in range(begin, end, block):
        real = min(block, end - start)
        rows = (real + 3) // 4 * 4
        size, at = rows * padded, (net * dims[_ROWS] + start) * width
        _load(buf, state, rows, real, width, padded, y, at)
        for n in range(steps):
            records = s0
            if is_kept:
                records = ((of_net + start // block) * steps + n) * stages * record
            slope0 = records + result
            for s in range(stages):
                base = records + s * record
                if s == 0 and n == 0 and dims[_HAS_FIRST] == 1:
                    _load(buf, slope0, rows, real, width, padded, first, at)
                else:
                    _advance(buf, base, size, buf, state, coefficients, n, s, s, buf, slope0, record)
                    evaluate(n * stages + s, rows, block, ops, numbers, slots, index, theta, theta0, buf, base)
            if n == steps - 1 and dims[_HAS_FIRST] == 1:
                _store(last, at, buf, slope0 + (stages - 1) * record, real, width, padded)
                extra = state + block * padded
                fill(buf, extra, size, y.dtype.type(0))
                _advance(buf, extra, size, buf, extra, coefficients, n, stages + 1, stages, buf, slope0, record)
                _store(error, at, buf, extra, real, width, padded)
            _advance(buf, state, size, buf, state, coefficients, n, stages, stages, buf, slope0, record)
        _store(out, at, buf, state, real, width, padded)


@_jit
def _backward_task(
    task,
    dims,
    ops,
    numbers,
    slots,
    index,
    coefficients,
    theta,
    buf,
    grad,
    grad_last,
    of_y,
    of_first,
    grads,
    scratch,
    s0,
):
    net, group = task // dims[_GROUPS], task % dims[_GROUPS]
    block, padded, width, stages = dims[_BLOCK], dims[_PADDED], dims[_WIDTH], dims[_STAGES]
    record, steps, one = dims[_RECORD] * block, dims[_STEPS], grad.dtype.type(1)
    begin = group * dims[_PER_GROUP]
    end = min(begin + dims[_PER_GROUP], dims[_ROWS])
    theta0, result, grads0 = net * dims[_BACK_THETA], dims[_RESULT] * block, task * dims[_GRADIENT]
    fill(grads, grads0, dims[_GRADIENT], one - one)
    of_net = (dims[_ROWS] + block - 1) // block * net
    apart = block * padded
    now, of_slopes = s0 + record, s0 + record + apart
    for start in range(begin, end, block):
        real = min(block, end - start)
        rows = (real + 3) // 4 * 4
        size, at = rows * padded, (net * dims[_ROWS] + start) * width
        beyond = (rows - real) * padded
        _load(scratch, now, rows, real, width, padded, grad, at)
        fill(scratch, now + real * padded, beyond, one - one)
        for n in range(steps - 1, -1, -1):
            records = ((of_net + start // block) * steps + n) * stages * record
            for s in range(stages):
                scale(scratch, of_slopes + s * apart, size, coefficients[n, stages, s], scratch, now)
            if n == steps - 1 and dims[_HAS_FIRST] == 1:
                _load(scratch, s0, rows, real, width, padded, grad_last, at)
                fill(scratch, s0 + real * padded, beyond, one - one)
                add(scratch, of_slopes + (stages - 1) * apart, size, one, scratch, s0)
            for s in range(stages - 1, -1, -1):
                if s == 0 and n == 0 and dims[_HAS_FIRST] == 1:
                    _store(of_first, at, scratch, of_slopes, real, width, padded)
                    continue
                copy(scratch, s0 + result, size, scratch, of_slopes + s * apart)
                evaluate_back(
                    n * stages + s, rows, real, block, ops, numbers, slots, index, theta, theta0,
                    buf, records + s * record, scratch, s0, grads, grads0,
                )  # fmt: skip
                add(scratch, now, size, one, scratch, s0)
                for j in range(s):
                    if coefficients[n, s, j] != 0:
                        add(scratch, of_slopes + j * apart, size, coefficients[n, s, j], scratch, s0)
        _store(of_y, at, scratch, now, real, width, padded)


@kept
def forward(
    tasks, counters, dims, ops, numbers, slots, index, coefficients, theta, y, out, buf, first, last, error, scratch0
):
    """Tasks until there are none left; several threads may be at it, each with scratch of its own in buf."""
    s0 = scratch0 + atomic_add(counters, 2, 1) * dims[_SCRATCH]
    while True:
        task = atomic_add(counters, 0, 1)
        if task >= tasks:
            return
        _forward_task(task, dims, ops, numbers, slots, index, coefficients, theta, y, out, buf, first, last, error, s0)
        atomic_add(counters, 1, 1)


@kept
def backward(
    tasks,
    counters,
    dims,
    ops,
    numbers,
    slots,
    index,
    coefficients,
    theta,
    buf,
    grad,
    grad_last,
    of_y,
    of_first,
    grads,
    scratch,
):
    """The same backward."""
    s0 = atomic_add(counters, 2, 1) * dims[_SCRATCH]
    while True:
        task = atomic_add(counters, 0, 1)
        if task >= tasks:
            return
        _backward_task(
            task,
            dims,
            ops,
            numbers,
            slots,
            index,
            coefficients,
            theta,
            buf,
            grad,
            grad_last,
            of_y,
            of_first,
            grads,
            scratch,
            s0,
        )
        atomic_add(counters, 1, 1)


@kept
def pack(addresses, dims, slots, theta, is_back):
    """All rows of all slots, padded, as products want them: (in, out) for forward, (out, in) for backward."""
    unit = dims[_UNIT]
    length, which = (dims[_BACK_THETA], _S_BACK) if is_back else (dims[_THETA], _S_FORWARD)
    fill(theta, 0, theta.size, theta.dtype.type(0))
    for k in range(slots.shape[0]):
        if addresses[k] == 0:  # no bias: zeros
            continue
        outs, ins, rows = slots[k, _S_OUT], slots[k, _S_IN], slots[k, _S_ROWS]
        far = is_back or outs == 0
        wide = ((ins if far else outs) + unit - 1) // unit * unit
        o_step, i_step = (wide, 1) if far else (1, wide)
        for net in range(dims[_NETS]):
            for row in range(rows):
                to = net * length + slots[k, which] + row * slots[k, which + 1]
                source = (net * rows + row) * max(outs, 1) * ins
                for o in range(max(outs, 1)):
                    for i in range(ins):
                        put(theta, to + o * o_step + i * i_step, peek(theta, addresses[k], source + o * ins + i))


@kept
def reduce(dims, slots, grads, flat):
    """The gradients of all groups added up in their order, without padding."""
    unit, length, groups = dims[_UNIT], dims[_GRADIENT], dims[_GROUPS]
    for k in range(slots.shape[0]):
        if not slots[k, _S_WANTED]:
            continue
        ins, outs, rows = slots[k, _S_IN], max(slots[k, _S_OUT], 1), slots[k, _S_ROWS]
        wide = (ins + unit - 1) // unit * unit
        for net in range(dims[_NETS]):
            for row in range(rows):
                into = slots[k, _S_FLAT] * dims[_NETS] + (net * rows + row) * outs * ins
                source = slots[k, _S_GRADIENT] + row * slots[k, _S_GRADIENT + 1]
                for o in range(outs):
                    at = net * groups * length + source + o * wide
                    copy(flat, into + o * ins, ins, grads, at)
                    for group in range(1, groups):
                        add(flat, into + o * ins, ins, flat.dtype.type(1), grads, at + group * length)


@kept
def wait(counters, tasks):
    """Whether all tasks are done, by whomever; looks for some microseconds."""
    for _ in range(2000):  # noqa: SIM110  # generators are not compiled
        if atomic_add(counters, 1, 0) >= tasks:
            return True
    return False
