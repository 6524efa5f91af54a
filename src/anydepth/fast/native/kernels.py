"""The kernels: a program carried through all steps for a few rows of the batch, and exactly back.

Rows of the batch are worked on in blocks, so that weights and one block's values stay in the nearest cache. A record
holds all registers of one evaluation for one block, one after another, each (rows, padded width). In training there is
a record for every evaluation, which the backward pass reads; where these would not fit into caches, the state before
every step instead, from which the backward pass makes a step's records again, to the bit. Otherwise there is one for
every stage. A task is one group of blocks of one net; its gradients are summed block by block, and the groups' sums in
their order, so that no bit depends on threads.
"""

import numpy as np
from numba import carray, njit  # pyright: ignore[reportPrivateImportUsage]

from anydepth.fast.native.codes import Col, Dim, Job, Keep, Slot
from anydepth.fast.native.elementwise import add, copy, fill, scale
from anydepth.fast.native.intrinsics import atomic_add, get, peek, pointer, put
from anydepth.fast.native.jit import OPTIONS, kept
from anydepth.fast.native.unit_kernel import evaluate, evaluate_back

_jit = njit(**OPTIONS)
_ROWS, _WIDTH, _PADDED, _GROUPS = int(Dim.ROWS), int(Dim.WIDTH), int(Dim.PADDED), int(Dim.GROUPS)
_PER_GROUP, _BLOCK, _STAGES, _STEPS = int(Dim.PER_GROUP), int(Dim.BLOCK), int(Dim.STAGES), int(Dim.STEPS)
_RECORD, _RESULT, _THETA, _KEPT = int(Dim.RECORD), int(Dim.RESULT), int(Dim.THETA), int(Dim.KEPT)
_RECORDS, _STATES = int(Keep.RECORDS), int(Keep.STATES)
_HAS_FIRST, _BACK_THETA, _GRADIENT = int(Dim.HAS_FIRST), int(Dim.BACK_THETA), int(Dim.GRADIENT)
_NETS, _UNIT, _SCRATCH = int(Dim.NETS), int(Dim.UNIT), int(Dim.SCRATCH)
_S_FORWARD, _S_BACK, _S_GRADIENT = int(Slot.FORWARD), int(Slot.BACK), int(Slot.GRADIENT)
_S_OUT, _S_IN, _S_ROWS, _S_WANTED, _S_FLAT = map(int, (Slot.OUT, Slot.IN, Slot.ROWS, Slot.IS_WANTED, Slot.FLAT))

_JOB, _DIMS, _COLUMNS, _SLOT_COLUMNS = int(Job.COUNT), int(Dim.COUNT), int(Col.COUNT), int(Slot.COUNT)
_TASKS, _NEXT, _THREAD, _OPS_COUNT = int(Job.TASKS), int(Job.NEXT), int(Job.THREAD), int(Job.OPS_COUNT)
_SLOTS_COUNT, _SCRATCH_START, _J_SCRATCH = int(Job.SLOTS_COUNT), int(Job.SCRATCH_START), int(Job.SCRATCH)
_J_DIMS, _J_OPS, _J_NUMBERS, _J_SLOTS = int(Job.DIMS), int(Job.OPS), int(Job.NUMBERS), int(Job.SLOTS)
_J_INDEX, _J_COEFFICIENTS, _J_THETA, _AHEAD = int(Job.INDEX), int(Job.COEFFICIENTS), int(Job.THETA), int(Job.AHEAD)
_IN, _IN_SLOPE, _OUT, _OUT_SLOPE = int(Job.IN), int(Job.IN_SLOPE), int(Job.OUT), int(Job.OUT_SLOPE)
_ERROR, _J_RECORDS, _GRADS = int(Job.ERROR), int(Job.RECORDS), int(Job.GRADS)


@_jit
def _advance(to, t0, size, y, y0, coefficients, n, row, count, buf, slope0, apart):
    """to = y + sum of coefficient * slope, both in one array; slopes are so far apart. t0 may be y0."""
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
    record, steps, kept_too = dims[_RECORD] * block, dims[_STEPS], dims[_KEPT]
    begin = group * dims[_PER_GROUP]
    end = min(begin + dims[_PER_GROUP], dims[_ROWS])
    theta0, result = net * dims[_THETA], dims[_RESULT] * block
    of_net = (dims[_ROWS] + block - 1) // block * net
    state = s0 if kept_too == _RECORDS else s0 + stages * record
    for start in range(begin, end, block):
        real = min(block, end - start)
        rows = (real + 3) // 4 * 4
        size, at = rows * padded, (net * dims[_ROWS] + start) * width
        _load(buf, state, rows, real, width, padded, y, at)
        for n in range(steps):
            records = s0
            if kept_too == _RECORDS:
                records = ((of_net + start // block) * steps + n) * stages * record
            elif kept_too == _STATES:
                copy(buf, ((of_net + start // block) * steps + n) * block * padded, size, buf, state)
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
def _step_again(
    n, rows, size, record, state, dims, ops, numbers, slots, index, coefficients, theta, theta0, buf, to, records
):
    """The records of a step, from the state before it."""
    block, stages = dims[_BLOCK], dims[_STAGES]
    slope0 = records + dims[_RESULT] * block
    for s in range(stages):
        base = records + s * record
        copy(to, base, size, buf, state)
        _advance(to, base, size, to, base, coefficients, n, s, s, to, slope0, record)
        evaluate(n * stages + s, rows, block, ops, numbers, slots, index, theta, theta0, to, base)


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
    ahead,
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
    apart, has_states = block * padded, dims[_KEPT] == _STATES
    now, of_slopes = s0 + record, s0 + record + apart
    again = s0 + dims[_SCRATCH] - stages * record
    held = scratch if has_states else buf
    for start in range(begin, end, block):
        real = min(block, end - start)
        rows = (real + 3) // 4 * 4
        size, at = rows * padded, (net * dims[_ROWS] + start) * width
        beyond = (rows - real) * padded
        _load(scratch, now, rows, real, width, padded, grad, at)
        fill(scratch, now + real * padded, beyond, one - one)
        for n in range(steps - 1, -1, -1):
            records, at_step = again, (of_net + start // block) * steps + n
            if has_states:
                _step_again(
                    n, rows, size, record, at_step * apart,
                    dims, ops, numbers, slots, index, coefficients, ahead, net * dims[_THETA], buf, scratch, again,
                )  # fmt: skip
            else:
                records = at_step * stages * record
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
                    held, records + s * record, scratch, s0, grads, grads0,
                )  # fmt: skip
                add(scratch, now, size, one, scratch, s0)
                for j in range(s):
                    if coefficients[n, s, j] != 0:
                        add(scratch, of_slopes + j * apart, size, coefficients[n, s, j], scratch, s0)
        _store(of_y, at, scratch, now, real, width, padded)


@_jit
def _tables(job, one):
    """The tables of a job, whose numbers are of the precision of `one`."""
    count = job[_TASKS]
    dims = carray(pointer(count, job[_J_DIMS]), (_DIMS,))
    evaluations = dims[_STEPS] * dims[_STAGES]
    ops = carray(pointer(count, job[_J_OPS]), (job[_OPS_COUNT], _COLUMNS))
    slots = carray(pointer(count, job[_J_SLOTS]), (job[_SLOTS_COUNT], _SLOT_COLUMNS))
    index = carray(pointer(count, job[_J_INDEX]), (job[_SLOTS_COUNT], evaluations))
    numbers = carray(pointer(one, job[_J_NUMBERS]), (job[_OPS_COUNT], 4))
    shape = (dims[_STEPS], dims[_STAGES] + 2, dims[_STAGES])
    coefficients = carray(pointer(one, job[_J_COEFFICIENTS]), shape)
    return dims, ops, numbers, slots, index, coefficients


@_jit
def _array(job, which, one):
    """An array of a job; its end is not known here."""
    return carray(pointer(one, job[which]), (1,))


@_jit
def _scratch(job, dims):
    """Where the calling thread's own memory begins."""
    return job[_SCRATCH_START] + atomic_add(job, _THREAD, 1) * dims[_SCRATCH]


@_jit
def _forward(job, one):
    dims, ops, numbers, slots, index, coefficients = _tables(job, one)
    theta, y, out, buf = (
        _array(job, _J_THETA, one),
        _array(job, _IN, one),
        _array(job, _OUT, one),
        _array(job, _J_RECORDS, one),
    )
    first, last, error = _array(job, _IN_SLOPE, one), _array(job, _OUT_SLOPE, one), _array(job, _ERROR, one)
    task = atomic_add(job, _NEXT, 1)
    s0 = 0 if task >= job[_TASKS] else _scratch(job, dims)
    while task < job[_TASKS]:
        _forward_task(task, dims, ops, numbers, slots, index, coefficients, theta, y, out, buf, first, last, error, s0)
        task = atomic_add(job, _NEXT, 1)


@_jit
def _backward(job, one):
    dims, ops, numbers, slots, index, coefficients = _tables(job, one)
    theta, ahead, buf = _array(job, _J_THETA, one), _array(job, _AHEAD, one), _array(job, _J_RECORDS, one)
    grad, grad_last = _array(job, _IN, one), _array(job, _IN_SLOPE, one)
    of_y, of_first, grads = _array(job, _OUT, one), _array(job, _OUT_SLOPE, one), _array(job, _GRADS, one)
    scratch = _array(job, _J_SCRATCH, one)
    task = atomic_add(job, _NEXT, 1)
    s0 = 0 if task >= job[_TASKS] else _scratch(job, dims)
    while task < job[_TASKS]:
        _backward_task(
            task, dims, ops, numbers, slots, index, coefficients, theta, ahead,
            buf, grad, grad_last, of_y, of_first, grads, scratch, s0,
        )  # fmt: skip
        task = atomic_add(job, _NEXT, 1)


def forward32(job):
    """Tasks until there are none left, of a job at an address; several threads may be at it."""
    _forward(carray(job, (_JOB,)), np.float32(1))


def forward64(job):
    """The same in double precision."""
    _forward(carray(job, (_JOB,)), np.float64(1))


def backward32(job):
    """The same backward; theta is packed for that."""
    _backward(carray(job, (_JOB,)), np.float32(1))


def backward64(job):
    """The same in double precision."""
    _backward(carray(job, (_JOB,)), np.float64(1))


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
