"""Memory that is used again: a training step keeps megabytes, which are costly to take from the system."""

import os
import threading
import weakref

import numpy as np
from numpy.typing import DTypeLike

MOST_BYTES = 256 * 2**20
"""How much may lie idle."""

_LINE = 64
"""Bytes of a line of the cache; a vector that lies across two lines is read twice."""

_lock = threading.Lock()
_idle: list[np.ndarray] = []


def _unlock() -> None:
    """In a forked process the thread that held the lock is gone."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)


def take(size: int, dtype: DTypeLike) -> np.ndarray:
    """An array of so many numbers, with anything in it; it comes back by itself when nobody holds it any more."""
    needed = size * np.dtype(dtype).itemsize
    with _lock:
        fitting = [i for i, base in enumerate(_idle) if needed <= base.nbytes <= 4 * needed + 4096]
        base = _idle.pop(min(fitting, key=lambda i: _idle[i].nbytes)) if fitting else None
    if base is None:
        base = aligned(needed, np.uint8)
    array = base[:needed].view(dtype)
    lent = np.frombuffer(memoryview(array), dtype)  # pyright: ignore[reportArgumentType]
    weakref.finalize(lent, _give_back, base).atexit = False
    return lent


def aligned(size: int, dtype: DTypeLike) -> np.ndarray:
    """A new array that begins where a line of the cache does."""
    needed = size * np.dtype(dtype).itemsize
    room = np.empty(needed + _LINE, np.uint8)
    start = -room.ctypes.data % _LINE
    return room[start : start + needed].view(dtype)


def _give_back(base: np.ndarray) -> None:
    if not _lock.acquire(blocking=False):  # the collector may run anywhere, also in this thread inside `take`
        return
    try:
        _idle.append(base)
        while sum(part.nbytes for part in _idle) > MOST_BYTES:
            _idle.pop(0)
    finally:
        _lock.release()
